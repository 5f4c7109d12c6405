"""The online API: Bandit chooses arms and learns rewards; Budget limits costs."""

from glbandits.bandit.bandit import Bandit
from glbandits.bandit.budget import Budget
from glbandits.bandit.decisions import Decisions
from glbandits.bandit.inputs import policy_jobs
from glbandits.bandit.law_check import check_policy
from glbandits.bandit.predictions import Prediction, Ranking

__all__ = ["Bandit", "Budget", "Decisions", "Prediction", "Ranking", "check_policy", "policy_jobs"]
