"""Generalized linear bandits: learn online from partial feedback, at constant cost and memory per decision.

>>> import numpy as np
>>> from glbandits import Bandit, Optimist
>>> bandit = Bandit(Optimist(link="logistic"), dim=6, seed=7)
>>> arms = np.random.default_rng(0).uniform(-0.4, 0.4, size=(10, 6))
>>> arm = bandit.choose(arms)
>>> bandit.learn(arms[arm], reward=1.0)
"""

from glbandits.bandit import Bandit
from glbandits.errors import GlbanditsError, InvalidInput, ModelFileError, UnknownName
from glbandits.maths.links import LINKS, Link
from glbandits.policies import *  # noqa: F403  (a new policy is listed there, and nowhere else)
from glbandits.policies import __all__ as _policies
from glbandits.policy import Coefficients
from glbandits.version import __version__

__all__ = [
    "LINKS",
    "Bandit",
    "Coefficients",
    "GlbanditsError",
    "InvalidInput",
    "Link",
    "ModelFileError",
    "UnknownName",
    "__version__",
]
__all__ += _policies
