"""Cholesky factors, written out so that compiled and uncompiled agree to the last bit.

LAPACK would be faster beyond some hundred dimensions, but NumPy and Numba call different copies of it.
"""

import math

from glbandits.compiled import jittable
from glbandits.maths.vectors import dot
from glbandits.records import Floats

SINGULAR = 1e-12
"""A pivot below this share of its diagonal entry means: singular, as far as floats can tell."""


@jittable
def factorise(A: Floats, scale: Floats) -> bool:
    """Overwrite the lower triangle of a symmetric A with L, A = LL'. False if A is singular or not positive.

    Singular means next to `scale`: what the diagonal entries of A would be, or were, if A were regular.
    """
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] = (A[i, j] - dot(A[i, :j], A[j, :j])) / A[j, j]
        pivot = A[i, i] - dot(A[i, :i], A[i, :i])
        if not pivot > SINGULAR * max(scale[i], A[i, i]):
            return False
        A[i, i] = math.sqrt(pivot)
    return True


@jittable
def solve_factorised(L: Floats, b: Floats) -> None:
    """Overwrite b with the solution of LL'x = b."""
    size = b.shape[0]
    for i in range(size):
        b[i] = (b[i] - dot(L[i, :i], b[:i])) / L[i, i]
    for i in range(size - 1, -1, -1):
        for j in range(i + 1, size):
            b[i] -= L[j, i] * b[j]
        b[i] /= L[i, i]
