"""Problems to play: rounds of arms, their expected rewards, and the noise of the reward."""

from glbandits.environments.classification import ClassificationTable
from glbandits.environments.contexts import Contexts
from glbandits.environments.environment import Environment, SparseEnvironment
from glbandits.environments.forest_cover import ForestCover
from glbandits.environments.news import News
from glbandits.environments.noise import NOISES, Noise, gaussian
from glbandits.environments.r6a import is_simulated, read_events
from glbandits.environments.r6a_events import Events, Pool, ReadCounts
from glbandits.environments.shaped import Shaped
from glbandits.environments.simulated_news import write_simulated_news
from glbandits.environments.sparse_hashed import SparseHashed
from glbandits.environments.sparse_rounds import SparseRounds
from glbandits.environments.synthetic import Synthetic

__all__ = [
    "NOISES",
    "ClassificationTable",
    "Contexts",
    "Environment",
    "Events",
    "ForestCover",
    "News",
    "Noise",
    "Pool",
    "ReadCounts",
    "Shaped",
    "SparseEnvironment",
    "SparseHashed",
    "SparseRounds",
    "Synthetic",
    "gaussian",
    "is_simulated",
    "read_events",
    "write_simulated_news",
]
