"""The coefficients of a model: the point estimate by which a policy scores arms."""

from dataclasses import dataclass

from glbandits.records import Floats


@dataclass(frozen=True, eq=False)
class Coefficients:
    """A point estimate of theta. The score of an arm with features x is x'theta + intercept.

    The link turns a score into an expected reward. The bonus or the draw by which a policy explores is not included.
    """

    theta: Floats
    """One number for each feature, (dim,)."""
    intercept: float = 0.0
    """0 for a policy that learns none."""
