"""The online API: Bandit chooses arms and learns rewards; Catalogue stores arms; Budget limits costs."""

from glbandits.bandit.bandit import Bandit
from glbandits.bandit.budget import Budget
from glbandits.bandit.catalogue import Catalogue, cross_features
from glbandits.bandit.decider import Ranking
from glbandits.bandit.inputs import policy_jobs
from glbandits.bandit.policy_laws import check_policy
from glbandits.bandit.predictions import Prediction

__all__ = ["Bandit", "Budget", "Catalogue", "Prediction", "Ranking", "check_policy", "cross_features", "policy_jobs"]
