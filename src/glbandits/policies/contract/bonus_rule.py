"""The decision rule "linear score plus bonus", from which a catalogue rules arms out."""

from collections.abc import Callable
from typing import NamedTuple

from glbandits.common.arrays import Floats


class BonusRule(NamedTuple):
    """Pull the arm with the largest x'theta + Z bonus(v), where v is the variance of its score.

    Z is uniform in [low, high], and the same for all arms of a decision. With probability `floor` a random arm is
    pulled instead. The first random number of the decision decides on that.
    """

    theta: Floats
    """(dim,)"""
    covariance: Floats
    """The covariance of (theta, intercept), (dim + 1, dim + 1). v = (x, 1)' covariance (x, 1)."""
    bonus: Callable[[Floats], Floats]
    """The bonus of each variance. It must not fall as the variance grows."""
    low: float
    high: float
    floor: float
    limits: Floats
    """The rule is that of the policy for arms with |x| <= limits, (dim,)."""
