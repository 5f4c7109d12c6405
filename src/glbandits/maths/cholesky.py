"""Cholesky factors, as loops, so that compiled and uncompiled code give the same bits.

A symmetric positive definite matrix A is stored as the upper triangular R with A = R'R. All loops run along rows of R,
which are contiguous in memory. Unlike an updated inverse, an updated factor does not accumulate errors. LAPACK would be
faster from some hundred dimensions on, but NumPy and Numba call different builds of it.
"""

import math

import numpy as np
from numba import types

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import MATRIX, READ_VECTOR, jittable
from glbandits.compilation.shared_functions import shared
from glbandits.maths.vectors import copy_to, dot, norm

ROUNDING = 1e-6
"""The largest relative error of a sum in `solve_for_variance`."""
LARGEST_SOLUTION = 1e100
"""Solutions with larger numbers are rounding errors. Features and rewards are at most 1e50."""


@jittable
def add_outer(A: Floats, weight: float, x: Floats) -> None:
    """Compute A += weight xx' in the upper triangle."""
    for i in range(x.shape[0]):
        scaled = weight * x[i]
        for j in range(i, x.shape[0]):
            A[i, j] += scaled * x[j]


@shared(types.boolean(MATRIX, types.float64, READ_VECTOR))
def factorise(A: Floats, ridge: float, least: Floats) -> bool:
    """Overwrite the upper triangle of A with its factor R. Returns False if A is singular.

    Only the upper triangle is read. A must be a positive semidefinite matrix plus ridge times I. With a ridge, the
    exact pivots are at least the ridge. A pivot below the ridge or below the rounding error is raised to the larger of
    the two. The rest of its row is then rounding error too, and becomes 0: later rows would amplify it. Without a
    ridge, A is singular if its k-th pivot is not above least[k]. With a ridge, `least` is not read: pass any vector.
    """
    dim = A.shape[0]
    rounding = np.empty(dim)
    for k in range(dim):
        rounding[k] = dim * 2.2e-16 * A[k, k]
    for k in range(dim):
        least_pivot = max(ridge, rounding[k])
        resolved = bool(A[k, k] >= least_pivot)
        pivot = A[k, k] if resolved else least_pivot
        if ridge == 0.0 and not pivot > least[k]:
            return False
        eliminate(A, k, pivot, resolved)
    return True


@jittable
def eliminate(A: Floats, k: int, pivot: float, resolved: bool) -> None:
    """Compute row k of the factor R of A, and subtract its outer product from the rows below. O((d - k)^2).

    If the pivot is not resolved, the rest of its row becomes 0.
    """
    root = math.sqrt(pivot)
    A[k, k] = root
    for i in range(k + 1, A.shape[0]):
        A[k, i] = A[k, i] / root if resolved else 0.0
    for i in range(k + 1, A.shape[0]):
        weight = A[k, i]
        for j in range(i, A.shape[0]):
            A[i, j] -= weight * A[k, j]


@jittable
def forward(R: Floats, b: Floats) -> None:
    """Overwrite b with the solution x of R'x = b.

    The norm of x is the norm of b in the inverse of R'R.
    """
    for k in range(b.shape[0]):
        b[k] /= R[k, k]
        for i in range(k + 1, b.shape[0]):
            b[i] -= b[k] * R[k, i]


@jittable
def backward(R: Floats, b: Floats) -> None:
    """Overwrite b with the solution x of Rx = b. If b is standard normal, x is N(0, (R'R)^-1)."""
    for k in range(b.shape[0] - 1, -1, -1):
        for i in range(k + 1, b.shape[0]):
            b[k] -= R[k, i] * b[i]
        b[k] /= R[k, k]


@jittable
def solve_factorised(R: Floats, b: Floats) -> None:
    """Overwrite b with the solution of R'Rx = b."""
    forward(R, b)
    backward(R, b)


@jittable
def drop_overflow(solution: Floats) -> None:
    """Replace a solution by zeros if a number in it is above LARGEST_SOLUTION or NaN. O(d).

    Each substitution can amplify rounding errors by the ratio of the largest to the smallest number in R. In many
    dimensions this overflows if features differ by many orders of magnitude. Zeros leave the estimate unchanged.
    """
    bounded = True
    for value in solution:
        bounded &= bool(abs(value) <= LARGEST_SOLUTION)
    if not bounded:
        for i in range(solution.shape[0]):
            solution[i] = 0.0


@jittable
def solve_for_variance(R: Floats, x: Floats, direction: Floats) -> float:
    """Write (R'R)^-1 x to direction, and return x'(R'R)^-1 x, which is finite and never negative. O(d^2).

    The sum x'direction is precise unless the entries of x have very different sizes. Then rounding errors may exceed
    the result, and the sum of squares that `forward` gives replaces it.
    """
    copy_to(direction, x)
    forward(R, direction)
    squared = dot(direction, direction)
    backward(R, direction)
    product = dot(x, direction)
    if abs(product - squared) <= ROUNDING * squared <= LARGEST_SOLUTION:
        return product
    drop_overflow(direction)
    return precise_variance(dot(x, direction), squared)


@jittable
def precise_variance(product: float, squared: float) -> float:
    """Return x'direction, or the squared norm after `forward` if the two differ by more than ROUNDING.

    Returns 0 if the squared norm overflows.
    """
    if not squared <= LARGEST_SOLUTION * LARGEST_SOLUTION:
        return 0.0
    return product if abs(product - squared) <= ROUNDING * squared else squared


@shared(types.void(MATRIX, types.float64, READ_VECTOR))
def rank_one_update(R: Floats, weight: float, x: Floats) -> None:
    """Update R in place, by rotations, to the factor of R'R + weight xx'.

    The weight must be >= 0. O(d^2).
    """
    dim = x.shape[0]
    rest = np.empty(dim)
    root = math.sqrt(weight)
    for i in range(dim):
        rest[i] = root * x[i]
    for k in range(dim):
        length = math.sqrt(R[k, k] * R[k, k] + rest[k] * rest[k])  # not hypot, which differs between Python and C
        cosine, sine = R[k, k] / length, rest[k] / length
        R[k, k] = length
        for i in range(k + 1, dim):
            old = R[k, i]
            R[k, i] = cosine * old + sine * rest[i]
            rest[i] = cosine * rest[i] - sine * old


@jittable
def inverse_norm(R: Floats, x: Floats, scratch: Floats) -> float:
    """The norm of x in the inverse of R'R, sqrt(x' (R'R)^-1 x). Overwrites scratch. O(d^2)."""
    copy_to(scratch, x)
    forward(R, scratch)
    return norm(scratch)


@jittable
def log_determinant(R: Floats) -> float:
    """The logarithm of the determinant of R'R."""
    total = 0.0
    for k in range(R.shape[0]):
        total += 2.0 * math.log(R[k, k])
    return total
