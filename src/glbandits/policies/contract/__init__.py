"""The base class of policies, and tools to declare settings and state.

See docs/write-a-policy.md.
"""

from glbandits.compilation.numba_support import jittable
from glbandits.policies.contract.base import Grid, Policy, PolicyInfo
from glbandits.policies.contract.compiled_calls import unpacker
from glbandits.policies.contract.model_facts import Coefficients, Outliers, OutlierWarning
from glbandits.policies.contract.plain_settings import grid_points, rebuild, settings_of
from glbandits.policies.contract.settings import (
    AnyLink,
    Bounds,
    NonNegative,
    NonNegativeInt,
    Positive,
    PositiveInt,
    Probability,
    declared_settings,
)
from glbandits.policies.contract.state_layout import StateLayout

__all__ = [
    "AnyLink",
    "Bounds",
    "Coefficients",
    "Grid",
    "NonNegative",
    "NonNegativeInt",
    "OutlierWarning",
    "Outliers",
    "Policy",
    "PolicyInfo",
    "Positive",
    "PositiveInt",
    "Probability",
    "StateLayout",
    "declared_settings",
    "grid_points",
    "jittable",
    "rebuild",
    "settings_of",
    "unpacker",
]
