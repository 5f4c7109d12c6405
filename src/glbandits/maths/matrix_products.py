"""Products with a matrix X (n, d), computed for four rows at a time.

The four sums of a block are independent, and a block reads and writes its result once. Every sum is in the order of its
index, so the result equals that of one row at a time, to the last bit. The loops index X instead of slicing it, because
a slice of a row takes 20 to 30 ns, longer than its product at d=6.
"""

import numpy as np
from numba import types

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import MATRIX, READ_MATRIX, READ_VECTOR, VECTOR
from glbandits.compilation.shared_functions import shared
from glbandits.maths.vectors import dot_row


@shared(types.void(VECTOR, READ_MATRIX, READ_VECTOR))
def set_scores(scores: Floats, X: Floats, theta: Floats) -> None:
    """Write X theta into scores. O(n d)."""
    n, dim = X.shape
    blocks = n - n % 4
    for s in range(0, blocks, 4):
        z0, z1, z2, z3 = 0.0, 0.0, 0.0, 0.0
        for i in range(dim):
            weight = theta[i]
            z0 += X[s, i] * weight
            z1 += X[s + 1, i] * weight
            z2 += X[s + 2, i] * weight
            z3 += X[s + 3, i] * weight
        scores[s], scores[s + 1], scores[s + 2], scores[s + 3] = z0, z1, z2, z3
    for s in range(blocks, n):
        z0 = 0.0
        for i in range(dim):
            z0 += X[s, i] * theta[i]
        scores[s] = z0


@shared(types.int64(READ_MATRIX, READ_VECTOR))
def best_arm(arms: Floats, theta: Floats) -> int:
    """The index of the arm with the largest x'theta; the first of equal arms. Stores no scores, which takes time."""
    K, dim = arms.shape
    best, best_score = 0, -np.inf
    quads = K - K % 4
    for a in range(0, quads, 4):
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for i in range(dim):
            weight = theta[i]
            s0 += arms[a, i] * weight
            s1 += arms[a + 1, i] * weight
            s2 += arms[a + 2, i] * weight
            s3 += arms[a + 3, i] * weight
        if s0 > best_score:
            best, best_score = a, s0
        if s1 > best_score:
            best, best_score = a + 1, s1
        if s2 > best_score:
            best, best_score = a + 2, s2
        if s3 > best_score:
            best, best_score = a + 3, s3
    for a in range(quads, K):
        score = dot_row(arms, a, theta)
        if score > best_score:
            best, best_score = a, score
    return best


@shared(types.void(VECTOR, READ_VECTOR, READ_MATRIX))
def add_rows(target: Floats, scales: Floats, X: Floats) -> None:
    """Compute target += X' scales, in place. O(n d)."""
    n, dim = X.shape
    blocks = n - n % 4
    for s in range(0, blocks, 4):
        c0, c1, c2, c3 = scales[s], scales[s + 1], scales[s + 2], scales[s + 3]
        for i in range(dim):
            target[i] = target[i] + c0 * X[s, i] + c1 * X[s + 1, i] + c2 * X[s + 2, i] + c3 * X[s + 3, i]
    for s in range(blocks, n):
        c0 = scales[s]
        for i in range(dim):
            target[i] += c0 * X[s, i]


@shared(types.void(MATRIX, READ_VECTOR, READ_MATRIX, types.float64))
def set_gram(A: Floats, scales: Floats, X: Floats, ridge: float) -> None:
    """Overwrite A with X' diag(scales) X + ridge I, in the upper triangle and zeros below it.

    O(n d^2). The sums are computed in the lower triangle, because Numba vectorises a loop over columns only if it
    starts at 0.
    """
    n, dim = X.shape
    blocks = n - n % 4
    for i in range(dim):
        for j in range(i + 1):
            A[i, j] = 0.0
    for s in range(0, blocks, 4):
        c0, c1, c2, c3 = scales[s], scales[s + 1], scales[s + 2], scales[s + 3]
        for i in range(dim):
            x0, x1, x2, x3 = X[s, i], X[s + 1, i], X[s + 2, i], X[s + 3, i]
            for j in range(i + 1):
                total = A[i, j] + c0 * X[s, j] * x0 + c1 * X[s + 1, j] * x1
                A[i, j] = total + c2 * X[s + 2, j] * x2 + c3 * X[s + 3, j] * x3
    for s in range(blocks, n):
        c0 = scales[s]
        for i in range(dim):
            x0 = X[s, i]
            for j in range(i + 1):
                A[i, j] += c0 * X[s, j] * x0
    for i in range(dim):
        for j in range(i):
            A[j, i] = A[i, j]
            A[i, j] = 0.0
        A[i, i] += ridge
