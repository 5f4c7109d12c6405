"""Bandit problems for experiments: rounds of arms, their expected rewards, and the noise."""

from glbandits.environments.classification import ClassificationTable
from glbandits.environments.environment import Environment, SparseEnvironment
from glbandits.environments.forest_cover import ForestCover
from glbandits.environments.news import News
from glbandits.environments.noise import NOISES, Noise, gaussian
from glbandits.environments.r6a import is_simulated, read_events
from glbandits.environments.r6a_events import Events, Pool, ReadCounts
from glbandits.environments.sampled_contexts import SampledContexts
from glbandits.environments.simulated_news import write_simulated_news
from glbandits.environments.sparse_hashed import SparseHashed
from glbandits.environments.sparse_rounds import SparseRounds
from glbandits.environments.synthetic import Synthetic
from glbandits.environments.synthetic_variants import SyntheticVariant

__all__ = [
    "NOISES",
    "ClassificationTable",
    "Environment",
    "Events",
    "ForestCover",
    "News",
    "Noise",
    "Pool",
    "ReadCounts",
    "SparseEnvironment",
    "SparseHashed",
    "SparseRounds",
    "Synthetic",
    "SyntheticVariant",
    "gaussian",
    "is_simulated",
    "read_events",
    "write_simulated_news",
]
