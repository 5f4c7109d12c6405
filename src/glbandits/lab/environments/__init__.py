"""Bandit problems for experiments: rounds of arms, their expected rewards, and the noise."""

from glbandits.lab.environments.classification import ClassificationTable
from glbandits.lab.environments.forest_cover import ForestCover
from glbandits.lab.environments.news import News
from glbandits.lab.environments.noise import NOISES, Noise, gaussian
from glbandits.lab.environments.payoffs import Prices, WithPayoffs
from glbandits.lab.environments.rounds import Environment, Rounds, SparseRounds
from glbandits.lab.environments.simulated_news import write_simulated_news
from glbandits.lab.environments.sparse_hashed import SparseHashed
from glbandits.lab.environments.synthetic import Synthetic

__all__ = [
    "NOISES",
    "ClassificationTable",
    "Environment",
    "ForestCover",
    "News",
    "Noise",
    "Prices",
    "Rounds",
    "SparseHashed",
    "SparseRounds",
    "Synthetic",
    "WithPayoffs",
    "gaussian",
    "write_simulated_news",
]
