"""The base class of policies, and tools to declare settings and state.

See docs/write-a-policy.md.
"""

from glbandits.numba_support import jittable
from glbandits.policy.base import Grid, Policy, PolicyInfo, unpacker
from glbandits.policy.bonus_rule import BonusRule
from glbandits.policy.coefficients import Coefficients
from glbandits.policy.outliers import Outliers, OutlierWarning
from glbandits.policy.plain_settings import grid_points, rebuild, settings_of
from glbandits.policy.settings import (
    AnyLink,
    Bounds,
    NonNegative,
    NonNegativeInt,
    Positive,
    PositiveInt,
    Probability,
    declared_settings,
    derived,
)
from glbandits.policy.state_layout import StateLayout

__all__ = [
    "AnyLink",
    "BonusRule",
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
    "derived",
    "grid_points",
    "jittable",
    "rebuild",
    "settings_of",
    "unpacker",
]
