"""A curve with a confidence band, independent of the plotting library."""

from dataclasses import dataclass

import numpy as np

from glbandits.common.arrays import Floats, Ints


@dataclass(frozen=True)
class Curve:
    """The mean of a quantity over rounds or rows, and the half-width of its confidence band."""

    label: str
    rounds: Ints
    mean: Floats
    half_width: Floats
    """Of a 95 % confidence interval; NaN where there is none."""
    is_extra: bool = False
    """Whether the policy is not in the paper."""

    @property
    def has_band(self) -> bool:
        """Whether every point has an interval. A single seed gives none."""
        return bool(np.isfinite(self.half_width).all())

    @property
    def legend_name(self) -> str:
        """The label, with a remark if the policy is not in the paper."""
        return legend_name(self.label, self.is_extra)


def legend_name(label: str, is_extra: bool) -> str:
    """Return the name of a policy in a legend."""
    return f"{label} (not in the paper)" if is_extra else label
