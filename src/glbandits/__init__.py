"""Generalized linear bandits.

Policies learn online from partial feedback. The default policy has constant cost and memory per decision.

>>> import numpy as np
>>> from glbandits import Bandit, Optimist
>>> bandit = Bandit(Optimist(link="logistic"), dim=6, seed=7)
>>> arms = np.random.default_rng(0).uniform(-0.4, 0.4, size=(10, 6))
>>> arm = bandit.choose(arms)
>>> bandit.learn(arms[arm], reward=1.0)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from glbandits.common.version import __version__ as __version__

if TYPE_CHECKING:
    from glbandits.bandit import Bandit as Bandit
    from glbandits.bandit import Budget as Budget
    from glbandits.bandit import Prediction as Prediction
    from glbandits.bandit import Ranking as Ranking
    from glbandits.bandit import check_policy as check_policy
    from glbandits.common.errors import GlbanditsError as GlbanditsError
    from glbandits.common.errors import InvalidInput as InvalidInput
    from glbandits.common.errors import MissingExtra as MissingExtra
    from glbandits.common.errors import ModelFileError as ModelFileError
    from glbandits.common.errors import UnknownName as UnknownName
    from glbandits.features import FeatureMap as FeatureMap
    from glbandits.maths.links import Link as Link
    from glbandits.maths.sparse_rows import SparseRows as SparseRows
    from glbandits.policies import EpsilonGreedy as EpsilonGreedy
    from glbandits.policies import LinUcb as LinUcb
    from glbandits.policies import Optimist as Optimist
    from glbandits.policies import Policy as Policy
    from glbandits.policies import SgdTs as SgdTs
    from glbandits.policies import Uniform as Uniform
    from glbandits.policies.agents import Agent as Agent
    from glbandits.policies.contract import OutlierWarning as OutlierWarning
else:
    _NAMES = {
        "bandit": ["Bandit", "Budget", "Prediction", "Ranking", "check_policy"],
        "common.errors": ["GlbanditsError", "InvalidInput", "MissingExtra", "ModelFileError", "UnknownName"],
        "features": ["FeatureMap"],
        "maths.links": ["Link"],
        "maths.sparse_rows": ["SparseRows"],
        "policies": ["EpsilonGreedy", "LinUcb", "Optimist", "Policy", "SgdTs", "Uniform"],
        "policies.agents": ["Agent"],
        "policies.contract": ["OutlierWarning"],
    }

    def __getattr__(name: str) -> Any:
        """Import the public names on first use.

        Importing NumPy, SciPy and Numba takes a second, and `glb` prints its first line before that.
        """
        if name == "__all__" or not name.startswith("_"):
            names = {each: module for module, listed in _NAMES.items() for each in listed}
            globals().update({each: getattr(import_module(f"glbandits.{home}"), each) for each, home in names.items()})
            globals()["__all__"] = ["__version__", *names]
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
