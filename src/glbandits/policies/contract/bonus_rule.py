"""The decision rule "linear score plus bonus".

From it a catalogue computes bounds on scores, and skips arms that cannot win.
"""

from typing import NamedTuple, Self

import numpy as np

from glbandits.common.arrays import Floats


class BonusRule(NamedTuple):
    """Pull the arm with the largest x'theta + Z sqrt(v log(1 + information v)).

    v is the variance of the arm's score. Z is uniform in [low, high], and the same for all arms of a decision. With
    probability `floor` a random arm is pulled instead. The first random number of the decision decides on that.
    """

    theta: Floats
    """(dim,)"""
    covariance: Floats
    """The covariance of (theta, intercept), (dim + 1, dim + 1). v = (x, 1)' covariance (x, 1)."""
    information: float
    low: float
    high: float
    floor: float
    level_sizes: Floats
    """Bounds of the terms of x'theta if every feature is 1, and of the constant, (dim + 1,).

    Rounding errors of a score are bounded relative to them.
    """
    variance_sizes: Floats
    """The same for the terms of v, from the diagonal of the covariance, (dim + 1,)."""
    limits: Floats
    """The rule is that of the policy for arms with |x| <= limits, (dim of the policy,)."""

    @classmethod
    def of(
        cls,
        theta: Floats,
        covariance: Floats,
        *,
        information: float,
        low: float,
        high: float,
        floor: float,
        limits: Floats,
    ) -> Self:
        """Create the rule for the features of the policy."""
        level_sizes, variance_sizes = np.append(np.abs(theta), 0.0), np.diagonal(covariance).copy()
        return cls(theta, covariance, information, low, high, floor, level_sizes, variance_sizes, limits)

    def for_arms(self, matrix: Floats) -> Self:
        """Return the rule for arms z whose features x are given by (x, 1) = matrix (z, 1).

        The scores of the new rule lack a constant that is the same for all arms.
        """
        return self._replace(
            theta=matrix[:-1, :-1].T @ self.theta,
            covariance=matrix.T @ self.covariance @ matrix,
            level_sizes=np.abs(matrix).T @ self.level_sizes,
            variance_sizes=(matrix * matrix).T @ self.variance_sizes,
        )
