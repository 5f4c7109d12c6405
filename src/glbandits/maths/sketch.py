"""A posterior covariance kept as a diagonal and a few directions, for many features: O(m d) memory and amortised time.

The curvature of the observations is B'B + diag(rest). An observation adds a row to B. When all 2m rows are in use,
`compress` keeps the m strongest directions, measured relative to the diagonal, and adds the diagonal of the others to
`rest`. The diagonal of the curvature is therefore exact, and the strong directions are kept in full.

With G = prior + rest, the covariance is P = G^-1 - F'F, where F has as many rows as B. An observation adds a row to F
too, by the same rank-one update as for the full covariance. In this module v stands for the features x of an arm,
followed by a 1.
"""

import math
from typing import NamedTuple

import numpy as np

from glbandits.maths.cholesky import factorise
from glbandits.numba_support import jittable
from glbandits.records import Floats


class Sketch(NamedTuple):
    """The parts of a sketch of n coordinates, slices of a state."""

    used: Floats
    """One number: the rows of B and F that are in use."""
    rest: Floats
    """(n) The diagonal of the curvature that is not in B."""
    variances: Floats
    """(n) G^-1."""
    B: Floats
    """(2m, n) Rows of curvature."""
    F: Floats
    """(2m, n) Rows that reduce the covariance."""


def sketch_size(rank: int, n: int) -> int:
    """The number of values in a sketch."""
    return 1 + 2 * n + 4 * rank * n


@jittable
def as_sketch(values: Floats, start: int, rank: int, n: int) -> Sketch:
    """Views of the parts of the sketch that begins at `start`."""
    rest, rows = start + 1, 2 * rank
    variances, B = rest + n, rest + 2 * n
    return Sketch(
        values[start:rest],
        values[rest:variances],
        values[variances:B],
        matrix_at(values, B, rows, n),
        matrix_at(values, B + rows * n, rows, n),
    )


@jittable
def matrix_at(values: Floats, start: int, rows: int, n: int) -> Floats:
    """The (rows, n) matrix from `start` on: a view. Compiled once, because `reshape` compiles slowly."""
    return values[start : start + rows * n].reshape(rows, n)


@jittable
def multiply_sketched(sketch: Sketch, v: Floats, out: Floats) -> None:
    """Compute out = Pv."""
    n, F, variances = v.shape[0], sketch.F, sketch.variances
    for i in range(n):
        out[i] = variances[i] * v[i]
    for k in range(int(sketch.used[0])):
        weight = 0.0
        for i in range(n):
            weight += v[i] * F[k, i]
        for i in range(n):
            out[i] -= weight * F[k, i]


@jittable
def score_lines_sketched(
    arms: Floats, theta: Floats, sketch: Sketch, unit: float, levels: Floats, slopes: Floats
) -> None:
    """Write the score of each arm as a line in the bonus: level x'theta, slope unit sqrt(v'Pv). O(K m d)."""
    K, dim = arms.shape
    F, variances, used = sketch.F, sketch.variances, int(sketch.used[0])
    fours = used - used % 4
    for a in range(K):
        level, squared = 0.0, float(variances[dim])
        for i in range(dim):
            level += arms[a, i] * theta[i]
            squared += arms[a, i] * arms[a, i] * variances[i]
        for k in range(0, fours, 4):  # four sums that do not wait for each other
            s0, s1, s2, s3 = F[k, dim], F[k + 1, dim], F[k + 2, dim], F[k + 3, dim]
            for i in range(dim):
                s0 += F[k, i] * arms[a, i]
                s1 += F[k + 1, i] * arms[a, i]
                s2 += F[k + 2, i] * arms[a, i]
                s3 += F[k + 3, i] * arms[a, i]
            squared -= s0 * s0 + s1 * s1 + s2 * s2 + s3 * s3
        for k in range(fours, used):
            s0 = F[k, dim]
            for i in range(dim):
                s0 += F[k, i] * arms[a, i]
            squared -= s0 * s0
        levels[a], slopes[a] = level, unit * math.sqrt(max(squared, 0.0))


@jittable
def append_observation(sketch: Sketch, slope: float, v: Floats, shrinkage: float, direction: Floats) -> None:
    """Add slope vv' to the curvature, and subtract shrinkage times the outer product of Pv from P.

    A row must be free: call `compress` before if none is.
    """
    used, B, F, slope_root, root = int(sketch.used[0]), sketch.B, sketch.F, math.sqrt(slope), math.sqrt(shrinkage)
    for i in range(v.shape[0]):
        B[used, i] = slope_root * v[i]
        F[used, i] = root * direction[i]
    sketch.used[0] += 1.0


@jittable
def discount_curvature(sketch: Sketch, theta: Floats, prior: Floats, fade: float) -> Floats:
    """Multiply the weight of past observations by `fade`. Returns the right-hand side of their normal equations.

    With H = P^-1, that is fade H theta, because the prior mean is 0. Call `rebuild_covariance` afterwards; the new mean
    is P times the right-hand side.
    """
    n, rest, B, root = prior.shape[0], sketch.rest, sketch.B, math.sqrt(fade)
    right_side = np.empty(n)
    for i in range(n):
        right_side[i] = fade * (prior[i] + rest[i]) * theta[i]
        rest[i] *= fade
    for k in range(int(sketch.used[0])):
        score = 0.0
        for i in range(n):
            score += B[k, i] * theta[i]
        for i in range(n):
            right_side[i] += fade * score * B[k, i]
            B[k, i] *= root
    return right_side


@jittable
def rebuild_covariance(sketch: Sketch, prior: Floats) -> None:
    """Compute the variances and F from the curvature: F = L^-1 B G^-1, where LL' = I + B G^-1 B'."""
    n, used, B, F, variances = prior.shape[0], int(sketch.used[0]), sketch.B, sketch.F, sketch.variances
    for i in range(n):
        variances[i] = 1.0 / (prior[i] + sketch.rest[i])
    R = products(B, variances, used)
    for k in range(used):
        R[k, k] += 1.0
    factorise(R, 1.0, variances)  # with a ridge the last argument is not read
    for k in range(used):
        for i in range(n):
            F[k, i] = B[k, i] * variances[i]
        for j in range(k):
            weight = R[j, k]
            for i in range(n):
                F[k, i] -= weight * F[j, i]
        root = R[k, k]
        for i in range(n):
            F[k, i] /= root


@jittable
def compress(sketch: Sketch) -> None:
    """Keep the stronger half of the directions, and only the diagonal of the weaker half.

    Call `rebuild_covariance` afterwards.
    """
    B, (rows, n) = sketch.B, sketch.B.shape
    half, values = rows // 2, products(B, sketch.variances, rows)
    vectors = eigenvectors(values)
    mixed = np.zeros((half, n))
    for p in range(rows):
        weaker = 0  # the number of directions that are weaker than p; of equal ones, the first counts as the weaker
        for q in range(rows):
            weaker += values[q, q] < values[p, p] or (values[q, q] == values[p, p] and q < p)
        if weaker >= half:
            for j in range(rows):
                weight = vectors[j, p]
                for i in range(n):
                    mixed[weaker - half, i] += weight * B[j, i]
    for i in range(n):
        dropped = 0.0
        for j in range(rows):
            dropped += B[j, i] * B[j, i]
        for k in range(half):
            dropped -= mixed[k, i] * mixed[k, i]
            B[k, i] = mixed[k, i]
        sketch.rest[i] += max(dropped, 0.0)
    sketch.used[0] = half


@jittable
def products(B: Floats, variances: Floats, rows: int) -> Floats:
    """The matrix B G^-1 B' of the rows in use."""
    A = np.zeros((rows, rows))
    for j in range(rows):
        for k in range(j, rows):
            product = 0.0
            for i in range(variances.shape[0]):
                product += B[j, i] * variances[i] * B[k, i]
            A[j, k] = A[k, j] = product
    return A


@jittable
def eigenvectors(A: Floats) -> Floats:
    """The eigenvectors of a small symmetric A, as columns (Jacobi rotations). A becomes diagonal."""
    size = A.shape[0]
    V = np.zeros((size, size))
    for k in range(size):
        V[k, k] = 1.0
    for _ in range(30):
        off, total = 0.0, 0.0
        for p in range(size):
            for q in range(size):
                squared = A[p, q] * A[p, q]
                total += squared
                off += squared if p != q else 0.0
        if off <= 1e-24 * total:
            break
        for p in range(size):
            for q in range(p + 1, size):
                if A[p, q] == 0.0:
                    continue
                # Rotate the coordinates p and q so that A[p, q] becomes 0. math.hypot would differ in its last digit
                # between Python and compiled code.
                ratio = (A[q, q] - A[p, p]) / (2.0 * A[p, q])
                tangent = 1.0 / (abs(ratio) + math.sqrt(ratio * ratio + 1.0))
                if ratio < 0.0:
                    tangent = -tangent
                cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
                sine = tangent * cosine
                for k in range(size):
                    kp, kq = A[k, p], A[k, q]
                    A[k, p], A[k, q] = cosine * kp - sine * kq, sine * kp + cosine * kq
                for k in range(size):
                    pk, qk = A[p, k], A[q, k]
                    A[p, k], A[q, k] = cosine * pk - sine * qk, sine * pk + cosine * qk
                    kp, kq = V[k, p], V[k, q]
                    V[k, p], V[k, q] = cosine * kp - sine * kq, sine * kp + cosine * kq
    return V
