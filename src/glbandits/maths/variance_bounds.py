"""Upper bounds of variances x'Cx after a change of the covariance matrix C.

A bound needs the old variance and a few products with x. The new variance itself would take O(n^2) for each x. All
bounds hold despite rounding errors.
"""

from typing import NamedTuple

import numpy as np

from glbandits.common.arrays import Floats

ROUNDING = 1e-12
"""Entries of a difference below this, relative to the entries of the old matrix, count as rounding errors."""


class VarianceUpdate(NamedTuple):
    """An upper bound of the new variance of any x, given its old variance.

    With the old variance v, the bound is growth v + remainder |x|^2 - the sum of (c'x)^2 over all columns c.
    """

    growth: float
    remainder: float
    columns: Floats
    """(rank, n)"""

    def bound(self, rows: Floats, variances: Floats) -> Floats:
        """The bounds for arms with these features, (arms, n), and old variances, (arms,)."""
        grown = self.growth * variances + self.remainder * np.square(rows).sum(axis=1)
        bounds: Floats = grown - np.square(rows @ self.columns.T).sum(axis=1)
        return bounds


def low_rank_update(before: Floats, after: Floats, largest_rank: int) -> VarianceUpdate | None:
    """Return the update if before - after is positive semidefinite and of low rank, else None.

    Both conditions are tested up to rounding errors. The growth is 1, and the bound exceeds the new variance by
    rounding errors only. The columns are those of a pivoted Cholesky decomposition of before - after.
    """
    remainder, diagonal = before - after, np.diagonal(before)
    tolerance = ROUNDING * np.sqrt(np.outer(diagonal, diagonal))
    columns: list[Floats] = []
    while (np.abs(remainder) > tolerance).any():
        pivot = int(np.argmax(np.diagonal(remainder) / np.where(diagonal > 0.0, diagonal, 1.0)))
        if len(columns) == largest_rank or remainder[pivot, pivot] <= tolerance[pivot, pivot]:
            return None
        column = remainder[:, pivot] / np.sqrt(remainder[pivot, pivot])
        columns.append(column)
        remainder = remainder - np.outer(column, column)
    return VarianceUpdate(1.0, float(np.linalg.norm(remainder)), np.array(columns).reshape(len(columns), len(diagonal)))


def general_update(before: Floats, after: Floats, rank: int, ridge: float) -> VarianceUpdate:
    """Return an update with `rank` columns for any two covariance matrices.

    The growth is the largest ratio of new to old variance. The columns are the directions with the smallest ratios. A
    ridge, relative to the mean variance, is added to `before`. It makes the bound tighter if few directions with a
    small variance grew, and looser otherwise.
    """
    size = len(before)
    added = max(ridge, ROUNDING) * float(np.trace(before)) / size  # above 0, because features may have no variance
    factor = upper_bound_factor(before + added * np.eye(size))
    ratios, directions = np.linalg.eigh(np.linalg.solve(factor, np.linalg.solve(factor, after).T))
    growth = float(ratios[-1])
    columns = (factor @ directions[:, :rank] * np.sqrt(growth - ratios[:rank])).T
    remainder = growth * (before + added * np.eye(size)) - columns.T @ columns - after
    # The steps above need not be exact, because negative eigenvalues of the remainder are added to the bound.
    missing = max(-float(np.linalg.eigvalsh(remainder)[0]), 0.0) + ROUNDING * float(np.trace(growth * before + after))
    return VarianceUpdate(growth, growth * added + missing, columns)


def upper_bound_factor(covariance: Floats) -> Floats:
    """A lower triangular L such that LL' - covariance is positive semidefinite.

    The difference is as small as rounding allows. Features may have no variance.
    """
    scale: Floats = np.sqrt(np.diagonal(covariance))
    divisor = np.where(scale > 0.0, scale, 1.0)
    correlation, added = covariance / divisor / divisor[:, np.newaxis], ROUNDING
    while True:
        try:
            factor = np.linalg.cholesky(correlation + added * np.eye(len(scale)))
        except np.linalg.LinAlgError:
            added *= 100.0  # terminates, because the diagonal dominates eventually
        else:
            return scale[:, np.newaxis] * factor
