"""Cholesky factors, written out so that compiled and uncompiled agree to the last bit.

A symmetric positive definite A is kept as the upper triangular R with A = R'R: its rows lie together in memory, and
every loop below runs along one. A factor that is updated does not drift away from its matrix, as an inverse does.
LAPACK would be faster beyond some hundred dimensions, but NumPy and Numba call different copies of it.
"""

import math

from glbandits.compiled import jittable
from glbandits.records import Floats


@jittable
def factorise(A: Floats, ridge: float, least: Floats) -> bool:
    """Overwrite the upper triangle of A, the only one that is read, with R. False if A is singular.

    A is a positive semidefinite matrix plus ridge times I. With a ridge no pivot can be below it, so a smaller one is
    rounding and is put right. Without, A is singular if its k-th pivot is not above least[k].
    """
    for k in range(A.shape[0]):
        pivot = max(A[k, k], ridge)
        if ridge == 0.0 and not pivot > least[k]:
            return False
        root = math.sqrt(pivot)
        for i in range(k, A.shape[0]):
            A[k, i] /= root
        for i in range(k + 1, A.shape[0]):
            weight = A[k, i]
            for j in range(i, A.shape[0]):
                A[i, j] -= weight * A[k, j]
    return True


@jittable
def forward(R: Floats, b: Floats) -> None:
    """Overwrite b with the solution of R'x = b; the norm of that is the norm of b in the inverse of R'R."""
    for k in range(b.shape[0]):
        b[k] /= R[k, k]
        for i in range(k + 1, b.shape[0]):
            b[i] -= b[k] * R[k, i]


@jittable
def backward(R: Floats, b: Floats) -> None:
    """Overwrite b with the solution of Rx = b; of standard normals it makes N(0, (R'R)^-1)."""
    for k in range(b.shape[0] - 1, -1, -1):
        for i in range(k + 1, b.shape[0]):
            b[k] -= R[k, i] * b[i]
        b[k] /= R[k, k]


@jittable
def solve_factorised(R: Floats, b: Floats) -> None:
    """Overwrite b with the solution of R'Rx = b."""
    forward(R, b)
    backward(R, b)
