"""Low-rank bounds of changed covariance matrices, which hold despite rounding errors."""

from typing import NamedTuple

import numpy as np

from glbandits.records import Floats

NOISE = 1e-12
"""Entries of a difference below this, relative to the entries of the old matrix, are rounding errors."""


class Change(NamedTuple):
    """An upper bound of variances after a change of the covariance matrix C.

    With the old variance v = x'Cx, the bound is growth v + remainder |x|^2 - the sum of (c'x)^2 over columns c.
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


def decrease(before: Floats, after: Floats, largest_rank: int) -> Change | None:
    """The change if before - after is positive semidefinite and of low rank, or None.

    Both properties hold up to rounding.

    Uses a pivoted Cholesky decomposition. The growth is 1, and the bound is tight.
    """
    remainder, diagonal = before - after, np.diagonal(before)
    tolerance = NOISE * np.sqrt(np.outer(diagonal, diagonal))
    columns: list[Floats] = []
    while (np.abs(remainder) > tolerance).any():
        pivot = int(np.argmax(np.diagonal(remainder) / diagonal))
        if len(columns) == largest_rank or remainder[pivot, pivot] <= tolerance[pivot, pivot]:
            return None
        column = remainder[:, pivot] / np.sqrt(remainder[pivot, pivot])
        columns.append(column)
        remainder = remainder - np.outer(column, column)
    return Change(1.0, float(np.linalg.norm(remainder)), np.array(columns).reshape(len(columns), len(diagonal)))


def any_change(before: Floats, after: Floats, rank: int, ridge: float) -> Change:
    """The change between any two covariance matrices, with `rank` columns.

    The growth is the largest ratio of variances. The columns are the directions that grew least, relative to it. A
    ridge, relative to the mean variance, is added to `before`. It makes the bound tighter if few directions with a
    small variance grew, and looser otherwise.
    """
    size = len(before)
    added = ridge * float(np.trace(before)) / size
    factor = factor_of_bound(before + added * np.eye(size))
    ratios, directions = np.linalg.eigh(np.linalg.solve(factor, np.linalg.solve(factor, after).T))
    growth = float(ratios[-1])
    columns = (factor @ directions[:, :rank] * np.sqrt(growth - ratios[:rank])).T
    remainder = growth * (before + added * np.eye(size)) - columns.T @ columns - after
    # The steps above need not be exact, because negative eigenvalues of the remainder are added to the bound.
    missing = max(-float(np.linalg.eigvalsh(remainder)[0]), 0.0) + NOISE * float(np.trace(growth * before + after))
    return Change(growth, growth * added + missing, columns)


def factor_of_bound(covariance: Floats) -> Floats:
    """A lower triangular L such that LL' - covariance is positive semidefinite.

    The difference is as small as rounding allows.
    """
    scale = np.sqrt(np.diagonal(covariance))
    correlation, added = covariance / np.outer(scale, scale), NOISE
    while True:
        try:
            factor = np.linalg.cholesky(correlation + added * np.eye(len(scale)))
        except np.linalg.LinAlgError:
            added *= 100.0  # terminates, because the diagonal dominates eventually
        else:
            return scale[:, np.newaxis] * factor
