"""The rule of a policy that adds a bonus to a linear score, by which a catalogue finds the arms that can win."""

from typing import NamedTuple

from glbandits.records import Floats


class BonusRule(NamedTuple):
    """Play the arm with the largest x'theta + Z sqrt(v log(1 + information v)), where v is the variance of its score.

    One Z for all arms is uniform in [low, high]. With the probability `floor` any arm is played instead, decided by the
    first random number of the decision.
    """

    theta: Floats
    """(dim,)"""
    covariance: Floats
    """Of theta and the intercept, in this order: (dim + 1, dim + 1). v = (x, 1)' covariance (x, 1)."""
    information: float
    low: float
    high: float
    floor: float
