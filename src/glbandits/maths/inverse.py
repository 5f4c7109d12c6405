"""The inverse of a symmetric positive definite matrix."""

import numpy as np

from glbandits.numba_support import jittable
from glbandits.records import Floats

RESOLUTION = 1e-15
"""A pivot below this share of its diagonal element is rounding error."""


@jittable
def invert(A: Floats) -> None:
    """Overwrite a symmetric positive definite A with its inverse, by Gauss-Jordan elimination.

    A pivot that is smaller than its rounding error is raised to that size.
    """
    dim = A.shape[0]
    pivot_row, least = np.empty(dim), np.empty(dim)
    for k in range(dim):
        least[k] = RESOLUTION * abs(A[k, k]) + 1e-300
    for k in range(dim):
        pivot = max(A[k, k], least[k])
        A[k, k] = 1.0
        for j in range(dim):
            pivot_row[j] = A[k, j] / pivot
            A[k, j] = pivot_row[j]
        for i in range(dim):
            if i != k:
                factor = A[i, k]
                A[i, k] = 0.0
                for j in range(dim):
                    A[i, j] -= factor * pivot_row[j]
    for i in range(dim):
        for j in range(i):
            A[j, i] = A[i, j]
