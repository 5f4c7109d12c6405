"""The rule of a policy that adds a bonus to a linear score, by which a catalogue finds the arms that can win."""

from typing import NamedTuple, Self

import numpy as np

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
    level_sizes: Floats
    """The size of a level's terms for a feature of 1 and for the constant, (dim + 1,): rounding is relative to it."""
    variance_sizes: Floats
    """The same of a variance, for a feature that is alone."""

    @classmethod
    def of(
        cls, theta: Floats, covariance: Floats, *, information: float, low: float, high: float, floor: float
    ) -> Self:
        """The rule for the features that the policy sees."""
        level_sizes, variance_sizes = np.append(np.abs(theta), 0.0), np.diagonal(covariance).copy()
        return cls(theta, covariance, information, low, high, floor, level_sizes, variance_sizes)

    def for_arms(self, matrix: Floats) -> Self:
        """The rule for arms z whose features x are given by (x, 1) = matrix (z, 1), apart from a constant level."""
        return self._replace(
            theta=matrix[:-1, :-1].T @ self.theta,
            covariance=matrix.T @ self.covariance @ matrix,
            level_sizes=np.abs(matrix).T @ self.level_sizes,
            variance_sizes=(matrix * matrix).T @ self.variance_sizes,
        )
