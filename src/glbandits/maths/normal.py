"""The standard normal distribution."""

import math

from glbandits.numba_support import jittable


@jittable
def normal_cdf(z: float) -> float:
    """The chance of a number below z."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@jittable
def normal_density(z: float) -> float:
    """The density at z."""
    return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
