"""The standard normal distribution."""

import math

from glbandits.compilation.numba_support import jittable


@jittable
def normal_cdf(z: float) -> float:
    """The probability of a standard normal number below z."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@jittable
def interval_probability(low: float, high: float) -> float:
    """The probability of a standard normal number in [low, high].

    The relative error is small in both tails.
    """
    if low >= 0.0:
        return 0.5 * (math.erfc(low / math.sqrt(2.0)) - math.erfc(high / math.sqrt(2.0)))
    if high <= 0.0:
        return 0.5 * (math.erfc(-high / math.sqrt(2.0)) - math.erfc(-low / math.sqrt(2.0)))
    return 0.5 * (math.erf(high / math.sqrt(2.0)) - math.erf(low / math.sqrt(2.0)))


@jittable
def normal_density(z: float) -> float:
    """The density of the standard normal distribution at z."""
    return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
