"""A covariance matrix P = U D U', kept as its factors, which stay valid whatever is learned.

U is upper triangular with ones on its diagonal; D is diagonal and positive. Both are in one matrix F:
F[j, j] = D_j, and F[j, i] = U_ij for i < j. The numbers above the diagonal of F are not used. A variance is a sum of
squares, and an update multiplies D by positive numbers, so rounding never makes a variance negative (Bierman,
"Factorization Methods for Discrete Sequential Estimation", 1977). Because F holds U by columns, inner loops run along
the start of a row of F.
"""

import numpy as np
from numba import types
from scipy.linalg import solve_triangular

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import MATRIX, jittable
from glbandits.compilation.shared_functions import shared
from glbandits.maths.cholesky import eliminate

LEAST_VARIANCE = 1e-280
"""Lower limit of the elements of D, so that none is rounded to 0."""


@jittable
def project(F: Floats, x: Floats, f: Floats) -> float:
    """Write U'x to f, and return the variance x'Px, which is the sum of D_j f_j^2. O(n^2).

    Computes four elements of f at a time: no sum then waits for its previous term.
    """
    n = F.shape[0]
    fours = n - n % 4
    for j in range(0, fours, 4):
        f0, f1, f2, f3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for i in range(j):
            f0 += F[j, i] * x[i]
            f1 += F[j + 1, i] * x[i]
            f2 += F[j + 2, i] * x[i]
            f3 += F[j + 3, i] * x[i]
        f1 += F[j + 1, j] * x[j]
        f2 += F[j + 2, j] * x[j] + F[j + 2, j + 1] * x[j + 1]
        f3 += F[j + 3, j] * x[j] + F[j + 3, j + 1] * x[j + 1] + F[j + 3, j + 2] * x[j + 2]
        f[j], f[j + 1], f[j + 2], f[j + 3] = f0, f1, f2, f3
    for j in range(fours, n):
        f0 = x[j]
        for i in range(j):
            f0 += F[j, i] * x[i]
        f[j] = f0
    variance = 0.0
    for j in range(n):
        variance += F[j, j] * f[j] * f[j]
    return variance


@jittable
def condition(F: Floats, f: Floats, curvature: float) -> float:
    """Update F for a precision that grows by curvature xx', where f is U'x, by Bierman's method. O(n^2).

    Overwrites f with Px, where P is the covariance before the update, and returns 1 + curvature x'Px.
    """
    growth = 1.0
    for j in range(F.shape[0]):
        weighted, step, before = F[j, j] * f[j], -curvature * f[j] / growth, growth
        growth += curvature * f[j] * weighted
        F[j, j] = max(F[j, j] * (before / growth), LEAST_VARIANCE)
        for i in range(j):
            old = F[j, i]
            F[j, i] = old + step * f[i]
            f[i] += old * weighted
        f[j] = weighted
    return growth


@jittable
def separate(F: Floats, k: int, variance: float) -> None:
    """Make feature k independent of all others, with this variance. Their covariance stays as it is. O(n + k^2)."""
    rest, weight = np.empty(k), F[k, k]
    for i in range(k):
        rest[i] = F[k, i]
        F[k, i] = 0.0
    for j in range(k + 1, F.shape[0]):
        F[j, k] = 0.0
    F[k, k] = variance
    # Column k of U was a part of the covariance of the features before it: add weight rest rest' to theirs.
    for j in range(k - 1, -1, -1):
        before, element = F[j, j], rest[j]
        F[j, j] = before + weight * element * element
        share = weight * element / F[j, j]
        weight *= before / F[j, j]
        for i in range(j):
            rest[i] -= element * F[j, i]
            F[j, i] += share * rest[i]


@jittable
def invert_triangle(F: Floats) -> None:
    """Invert the lower triangular matrix that has ones in place of the diagonal of F. O(n^3)."""
    n = F.shape[0]
    row = np.empty(n)
    for j in range(n):
        for m in range(j):
            row[m] = F[j, m]
            F[j, m] = 0.0
        for m in range(j):
            for i in range(m):
                F[j, i] -= row[m] * F[m, i]
            F[j, m] -= row[m]


@shared(types.void(MATRIX, types.float64))
def to_precision(F: Floats, weight: float) -> None:
    """Overwrite the upper triangle of F with weight times the inverse of P. O(n^3)."""
    n = F.shape[0]
    invert_triangle(F)  # now P^-1 = L D^-1 L', where L is below the diagonal of F
    row, diagonal = np.empty(n), np.empty(n)
    for j in range(n):
        total = weight / F[j, j]
        for k in range(j):
            row[k] = F[j, k] * (weight / F[k, k])
            total += row[k] * F[j, k]
        row[j] = weight / F[j, j]
        diagonal[j] = total
        for m in range(j + 1, n):
            total = 0.0
            for k in range(j + 1):
                total += row[k] * F[m, k]
            F[j, m] = total
    for j in range(n):
        F[j, j] = diagonal[j]


@jittable
def factorise_precision(A: Floats, least: Floats) -> None:
    """Overwrite the upper triangle of a precision matrix with its Cholesky factor R, so that A = R'R. O(n^3).

    A is a positive semidefinite matrix plus the diagonal matrix of `least`, so its exact pivots are at least those. A
    smaller pivot is a rounding error, and is raised. If a pivot is not larger than its rounding error, so may be the
    rest of its row, which becomes 0.
    """
    n = A.shape[0]
    rounding = np.empty(n)
    for k in range(n):
        rounding[k] = n * 2.2e-16 * A[k, k]
    for k in range(n):
        eliminate(A, k, max(A[k, k], least[k]), A[k, k] > rounding[k])


@shared(types.void(MATRIX))
def from_cholesky(R: Floats) -> None:
    """Overwrite R, the Cholesky factor of a precision matrix, with the factor F of its inverse. O(n^3)."""
    n = R.shape[0]
    for j in range(n):
        for i in range(j):
            R[j, i] = R[i, j] / R[i, i]
    invert_triangle(R)
    for j in range(n):
        R[j, j] = max(1.0 / (R[j, j] * R[j, j]), LEAST_VARIANCE)


def factor_of_inverse(H: Floats, scales: Floats) -> Floats:
    """Return the factor of P = S H^-1 S, where S is the diagonal matrix of scales. Not for compiled code."""
    R = np.linalg.cholesky(H).T
    pivots = np.diagonal(R)
    U = solve_triangular(R / pivots[:, np.newaxis], np.eye(len(H)), unit_diagonal=True)
    F: Floats = (U * scales[:, np.newaxis] / scales).T
    np.fill_diagonal(F, np.square(scales / pivots))
    return F
