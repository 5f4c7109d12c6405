"""Find the arms of a catalogue that can win under a `BonusRule`, by products of whole matrices.

The score of an arm is a line in Z: level + Z * bonus. An arm cannot win if the line of another one is higher for every
Z. The bounds of the lines include rounding errors, also those of the policy. The policy itself then decides among the
remaining arms, with the same result as among all arms.
"""

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.policies.contract import BonusRule

ROUNDING = 1e-12
"""A bound of rounding errors, relative to the largest possible terms of a sum. Far above those of float64."""
CHUNK = 2048
"""Arms of a product. Few enough to stay in the CPU cache, where BLAS does not wait for other threads."""


def contenders(rule: BonusRule, matrix: Floats, features: Floats, largest: Floats) -> Ints | None:
    """Return the rows of arms that may have the highest score for some Z, in ascending order.

    Returns None if arms within the limits of `largest` may be above the limits of the rule.

    Args:
        rule: the rule of the decision, for the features x of the policy.
        matrix: gives these by (x, 1) = matrix (z, 1).
        features: the features z of each arm.
        largest: an upper bound of the absolute value of each feature in z.
    """
    sizes = np.abs(matrix) @ np.append(largest, 1.0)
    if (sizes[:-1] > rule.limits).any():
        return None
    level_error = ROUNDING * float(np.abs(rule.theta) @ sizes[:-1])
    variance_error = ROUNDING * float(np.sqrt(np.diagonal(rule.covariance)) @ sizes) ** 2
    # The levels lack a constant that is the same for all arms.
    levels, variances = _moments(features, matrix[:-1, :-1].T @ rule.theta, matrix.T @ rule.covariance @ matrix)
    bonuses = (1.0 + ROUNDING) * rule.bonus(variances + 2.0 * variance_error)
    lowest, highest = levels + level_error + rule.low * bonuses, levels + level_error + rule.high * bonuses
    can_win = np.ones(len(features), dtype=bool)
    for scores in (lowest, highest, lowest + highest):
        best = scores.argmax()
        least = (1.0 - ROUNDING) * rule.bonus(np.maximum(variances[best] - 2.0 * variance_error, 0.0))
        level = levels[best] - level_error
        can_win &= (lowest >= level + rule.low * least) | (highest >= level + rule.high * least)
    return np.flatnonzero(can_win)


def _moments(features: Floats, theta: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """Return z'theta of each arm, and its variance (z, 1)' covariance (z, 1)."""
    levels, variances = np.empty(len(features)), np.full(len(features), covariance[-1, -1])
    for start in range(0, len(features), CHUNK):
        rows = slice(start, start + CHUNK)
        z = features[rows]
        np.dot(z, theta, out=levels[rows])
        variances[rows] += np.einsum("ij,ij->i", z @ covariance[:-1, :-1] + 2.0 * covariance[-1, :-1], z)
    return levels, variances
