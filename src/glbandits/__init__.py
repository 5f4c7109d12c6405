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

from glbandits.version import __version__ as __version__

if TYPE_CHECKING:
    from glbandits.policies import *  # noqa: F403
    from glbandits.public_names import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """Import the public names on first use.

        Importing NumPy, SciPy and Numba takes a second, and `glb` prints its first line before that.
        """
        if name == "__all__" or not name.startswith("_"):
            public = import_module("glbandits.public_names")
            globals().update({each: getattr(public, each) for each in (*public.__all__, "__all__")})
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
