"""A covariance kept as a diagonal and a few directions, for many features: memory O(m d), and time O(m d) amortised.

The curvature of what was observed is B'B + diag(rest). An observation adds a row to B. When 2m rows are there, the m
directions that say most, measured against the diagonal, stay as they are, and of the others only the diagonal is kept.
So nothing that was observed is lost from the diagonal, and what is strong is kept whole.

With G = prior + rest, the covariance is P = G^-1 - F'F, where F has as many rows as B. An observation adds one row to F
too, by the same rank-one step that the whole covariance takes.
"""

import math
from typing import NamedTuple

import numpy as np

from glbandits.numba_support import jittable
from glbandits.maths.cholesky import factorise
from glbandits.maths.vectors import add_scaled, copy_to, dot
from glbandits.records import Floats


class Sketch(NamedTuple):
    """The parts of a sketch of n coordinates, slices of a state."""

    used: Floats
    """One number: the rows of B and F that are in use."""
    rest: Floats
    """(n) The diagonal of what B has dropped."""
    variances: Floats
    """(n) G^-1."""
    B: Floats
    """(2m, n) Rows of curvature."""
    F: Floats
    """(2m, n) Rows that shrink the covariance."""


def sketch_size(rank: int, n: int) -> int:
    """How many numbers a sketch takes."""
    return 1 + 2 * n + 4 * rank * n


@jittable
def as_sketch(numbers: Floats, rank: int, n: int) -> Sketch:
    """Name the parts."""
    rows = 2 * rank
    start = 1 + 2 * n
    return Sketch(
        numbers[:1],
        numbers[1 : 1 + n],
        numbers[1 + n : start],
        numbers[start : start + rows * n].reshape(rows, n),
        numbers[start + rows * n : start + 2 * rows * n].reshape(rows, n),
    )


@jittable
def spread_sketched(sketch: Sketch, x: Floats, out: Floats) -> None:
    """Do out = Pv, where v is x and a 1."""
    dim = x.shape[0]
    for i in range(dim):
        out[i] = sketch.variances[i] * x[i]
    out[dim] = sketch.variances[dim]
    for k in range(int(sketch.used[0])):
        row = sketch.F[k]
        add_scaled(out, -(dot(x, row) + row[dim]), row)


@jittable
def levels_and_widths_sketched(arms: Floats, theta: Floats, sketch: Sketch, levels: Floats, widths: Floats) -> None:
    """For each arm x'theta and the width sqrt(v'Pv), where v is its features and a 1. O(K m d)."""
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
        levels[a], widths[a] = level, math.sqrt(max(squared, 0.0))


@jittable
def absorb_sketched(sketch: Sketch, slope: float, x: Floats, shrinkage: float, direction: Floats) -> None:
    """Add slope vv' to the curvature, where v is x and a 1; P loses shrinkage times the outer product of Pv.

    There must be room for a row: `make_room`.
    """
    used, dim, root = int(sketch.used[0]), x.shape[0], math.sqrt(slope)
    for i in range(dim):
        sketch.B[used, i] = root * x[i]
    sketch.B[used, dim] = root
    root = math.sqrt(shrinkage)
    for i in range(dim + 1):
        sketch.F[used, i] = root * direction[i]
    sketch.used[0] += 1.0


@jittable
def make_room(sketch: Sketch, prior: Floats) -> None:
    """If all rows are in use, free half of them."""
    if sketch.used[0] == sketch.B.shape[0]:
        compress(sketch, prior)


@jittable
def renew_sketched(sketch: Sketch, theta: Floats, prior: Floats, new_prior: Floats, fade: float) -> None:
    """Put another prior under what was observed, and multiply the weight of that by fade; theta follows. O(m^2 d)."""
    n, used, root = prior.shape[0], int(sketch.used[0]), math.sqrt(fade)
    wanted = np.empty(n)
    for i in range(n):
        wanted[i] = fade * (prior[i] + sketch.rest[i]) * theta[i]
    for k in range(used):
        row = sketch.B[k]
        add_scaled(wanted, fade * dot(row, theta), row)
        for i in range(n):
            row[i] *= root
    for i in range(n):
        sketch.rest[i] *= fade
    copy_to(prior, new_prior)
    follow(sketch, prior)
    for i in range(n):
        theta[i] = sketch.variances[i] * wanted[i]
    for k in range(used):
        row = sketch.F[k]
        add_scaled(theta, -dot(row, wanted), row)


@jittable
def follow(sketch: Sketch, prior: Floats) -> None:
    """Make the variances and F anew from the curvature: F = L^-1 B G^-1, where LL' = I + B G^-1 B'."""
    n, used = prior.shape[0], int(sketch.used[0])
    for i in range(n):
        sketch.variances[i] = 1.0 / (prior[i] + sketch.rest[i])
    if used == 0:
        return
    R = products(sketch, used)
    for k in range(used):
        R[k, k] += 1.0
    factorise(R, 1.0, R[0])
    for k in range(used):
        row = sketch.F[k]
        for i in range(n):
            row[i] = sketch.B[k, i] * sketch.variances[i]
        for j in range(k):
            add_scaled(row, -R[j, k], sketch.F[j])
        for i in range(n):
            row[i] /= R[k, k]


@jittable
def compress(sketch: Sketch, prior: Floats) -> None:
    """Keep the stronger half of the directions, and of the weaker half the diagonal."""
    n, rows = prior.shape[0], sketch.B.shape[0]
    values = products(sketch, rows)
    turns = eigenvectors(values)
    order = np.empty(rows)
    for k in range(rows):
        order[k] = values[k, k]
    kept = np.argsort(order, kind="mergesort")[rows // 2 :]
    mixed = np.zeros((rows // 2, n))
    for k in range(rows // 2):
        for j in range(rows):
            add_scaled(mixed[k], turns[j, kept[k]], sketch.B[j])
    for i in range(n):
        gone = 0.0
        for j in range(rows):
            gone += sketch.B[j, i] * sketch.B[j, i]
        for k in range(rows // 2):
            gone -= mixed[k, i] * mixed[k, i]
            sketch.B[k, i] = mixed[k, i]
        sketch.rest[i] += max(gone, 0.0)
    sketch.used[0] = rows // 2
    follow(sketch, prior)


@jittable
def products(sketch: Sketch, rows: int) -> Floats:
    """The matrix B G^-1 B' of the rows in use."""
    n = sketch.variances.shape[0]
    A, scaled = np.empty((rows, rows)), np.empty(n)
    for j in range(rows):
        for i in range(n):
            scaled[i] = sketch.B[j, i] * sketch.variances[i]
        for k in range(j, rows):
            A[j, k] = A[k, j] = dot(scaled, sketch.B[k])
    return A


@jittable
def eigenvectors(A: Floats) -> Floats:
    """The eigenvectors of a small symmetric A, as columns; A becomes diagonal (Jacobi's rotations)."""
    size = A.shape[0]
    V = np.eye(size)
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
                if A[p, q] != 0.0:
                    rotate(A, V, p, q)
    return V


@jittable
def rotate(A: Floats, V: Floats, p: int, q: int) -> None:
    """Turn two coordinates so that A[p, q] becomes 0."""
    ratio = (A[q, q] - A[p, p]) / (2.0 * A[p, q])
    # math.hypot differs in its last digit between Python and compiled code.
    tangent = 1.0 / (abs(ratio) + math.sqrt(ratio * ratio + 1.0))
    if ratio < 0.0:
        tangent = -tangent
    cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
    sine = tangent * cosine
    for k in range(A.shape[0]):
        kp, kq = A[k, p], A[k, q]
        A[k, p], A[k, q] = cosine * kp - sine * kq, sine * kp + cosine * kq
    for k in range(A.shape[0]):
        pk, qk = A[p, k], A[q, k]
        A[p, k], A[q, k] = cosine * pk - sine * qk, sine * pk + cosine * qk
        kp, kq = V[k, p], V[k, q]
        V[k, p], V[k, q] = cosine * kp - sine * kq, sine * kp + cosine * kq
