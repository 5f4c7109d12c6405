"""The lab: bandit problems, simulated runs, comparisons of policies, and the experiments of the SGD-TS paper."""

from glbandits.common.extras import needed_for

with needed_for("glbandits.lab", "lab"):
    import joblib as _joblib  # noqa: F401
    import polars as _polars  # noqa: F401

from glbandits.lab.environments import *  # noqa: F403
from glbandits.lab.environments import __all__ as _environments
from glbandits.lab.experiments import *  # noqa: F403
from glbandits.lab.experiments import __all__ as _experiments
from glbandits.lab.simulation import *  # noqa: F403
from glbandits.lab.simulation import __all__ as _simulation

__all__ = [*_environments, *_experiments, *_simulation]
