"""Generalized linear bandits: learn online from partial feedback, at constant cost and memory per decision.

>>> import numpy as np
>>> from glbandits import Bandit, SgdTs
>>> bandit = Bandit(SgdTs(link="logistic"), dim=6, seed=7)
>>> arms = np.random.default_rng(0).uniform(-0.4, 0.4, size=(10, 6))
>>> arm = bandit.choose(arms)
>>> bandit.learn(arms[arm], reward=1.0)
"""

from glbandits.bandit import Bandit
from glbandits.errors import GlbanditsError, InvalidInput, ModelFileError, UnknownName
from glbandits.maths.links import LINKS, Link
from glbandits.policies import (
    POLICIES,
    EpsilonGreedy,
    GlmFp,
    GlmTsl,
    Gloc,
    GlocTs,
    LaplaceTs,
    LinTs,
    LinUcb,
    OnlineLaplace,
    Policy,
    SgdTs,
    TheoryConstants,
    UcbGlm,
    Uniform,
)
from glbandits.version import __version__

__all__ = [
    "LINKS",
    "POLICIES",
    "Bandit",
    "EpsilonGreedy",
    "GlbanditsError",
    "GlmFp",
    "GlmTsl",
    "Gloc",
    "GlocTs",
    "InvalidInput",
    "LaplaceTs",
    "LinTs",
    "LinUcb",
    "Link",
    "ModelFileError",
    "OnlineLaplace",
    "Policy",
    "SgdTs",
    "TheoryConstants",
    "UcbGlm",
    "Uniform",
    "UnknownName",
    "__version__",
]
