"""Read the blocks of a state by NumPy alone, as a reference for `glbandits.maths.posteriors`."""

import numpy as np

from glbandits.common.arrays import Floats, Ints


def blocks_of(state: Floats, start: int = 0) -> list[tuple[Ints, Floats]]:
    """The features and the matrix of each block."""
    parts = []
    while start < state.size:
        n = int(state[start])
        members = state[start + 1 : start + 1 + n].astype(np.int64)
        parts.append((members, matrix_of(state[start + 1 + n : start + 1 + n + n * n].reshape(n, n))))
        start += 1 + n + n * n
    assert start == state.size
    return parts


def matrix_of(F: Floats) -> Floats:
    """The matrix U D U' with D on the diagonal of F and U' below it."""
    U = np.tril(F, -1).T + np.eye(len(F))
    P: Floats = U @ np.diag(np.diag(F)) @ U.T
    return P


def factor_of(P: Floats) -> Floats:
    """The factor of a matrix, from the Cholesky factor of the matrix with rows and columns in reverse order."""
    L = np.linalg.cholesky(P[::-1, ::-1])[::-1, ::-1]  # upper triangular, and P = LL'
    pivots = np.diag(L)
    F: Floats = (L / pivots).T
    np.fill_diagonal(F, pivots**2)
    return F


def packed(parts: list[tuple[Ints, Floats]]) -> Floats:
    """The numbers that hold these blocks."""
    numbers = [np.concatenate([[len(members)], members, factor_of(P).ravel()]) for members, P in parts]
    return np.concatenate(numbers)


def assembled(state: Floats, dim: int, start: int = 0) -> Floats:
    """The matrix of all features."""
    whole = np.zeros((dim, dim))
    for members, P in blocks_of(state, start):
        whole[np.ix_(members, members)] = P
    return whole


def positive_definite(size: int, rng: np.random.Generator) -> Floats:
    A = rng.normal(size=(size, size))
    H: Floats = A @ A.T / size + 0.1 * np.eye(size)
    return H
