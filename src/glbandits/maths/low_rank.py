"""Factors of covariance matrices and of their differences, for bounds that must hold despite rounding."""

import numpy as np

from glbandits.records import Floats

NOISE = 1e-12
"""Entries of a difference below this, relative to those of the matrix before, count as rounding errors."""


def factor_of_decrease(before: Floats, after: Floats, largest_rank: int) -> tuple[Floats, float] | None:
    """Columns c with before - after = sum of cc' + R, as rows (rank, n), and a bound of the norm of R.

    By the Cholesky decomposition with pivots. None if the rank is larger, or if the difference is not positive
    semidefinite beyond rounding.
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
    return np.array(columns).reshape(len(columns), len(diagonal)), float(np.linalg.norm(remainder))


def no_decrease(before: Floats) -> tuple[Floats, float]:
    """No columns, and a bound of the norm of NOISE times the diagonal: see `largest_growth`."""
    return np.empty((0, len(before))), 2.0 * NOISE * float(np.trace(before))


def largest_growth(before: Floats, after: Floats) -> float:
    """A number r, as small as rounding allows, with r (before + e) - after positive semidefinite.

    e is `before` at most times NOISE on its diagonal.
    """
    factor = factor_of_bound(before)
    whitened = np.linalg.solve(factor, np.linalg.solve(factor, after).T)
    return float(np.linalg.eigvalsh(whitened)[-1]) * (1.0 + 1e-6)


def factor_of_bound(covariance: Floats) -> Floats:
    """A lower triangular L with LL' - covariance positive semidefinite, and as small as rounding allows."""
    scale = np.sqrt(np.diagonal(covariance))
    correlation, added = covariance / np.outer(scale, scale), NOISE
    while True:
        try:
            factor = np.linalg.cholesky(correlation + added * np.eye(len(scale)))
        except np.linalg.LinAlgError:
            added *= 100.0  # ends at the latest when the diagonal dominates
        else:
            return scale[:, np.newaxis] * factor
