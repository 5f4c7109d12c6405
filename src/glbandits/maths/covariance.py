"""A covariance P kept whole: the inverse of a diagonal prior plus the curvature of all that was observed.

It follows each observation by a rank-one step of O(d^2). The prior may be changed, and the past made to fade, by
`renew`, in O(d^3). The last of its coordinates is the intercept, a feature that is 1 in every arm.
"""

import math

import numpy as np

from glbandits.numba_support import borrowed, jittable
from glbandits.maths.vectors import copy_to, dot
from glbandits.records import Floats

RESOLUTION = 1e-15
"""The least share of a variance that is left of it and not rounding."""
ROUNDING = 1e-9
"""By what share a computed bound is raised, so that no rounding makes it less than what it bounds."""


@jittable
def spread(P: Floats, x: Floats, out: Floats) -> None:
    """Do out = Pv for a symmetric P, where v is x and a 1; by rows, so that no sum waits for itself."""
    dim = x.shape[0]
    for j in range(dim + 1):
        out[j] = P[dim, j]
    fours = dim - dim % 4
    for i in range(0, fours, 4):
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(dim + 1):
            out[j] += x0 * P[i, j] + x1 * P[i + 1, j] + x2 * P[i + 2, j] + x3 * P[i + 3, j]
    for i in range(fours, dim):
        for j in range(dim + 1):
            out[j] += x[i] * P[i, j]


@jittable
def shrink(P: Floats, weight: float, direction: Floats) -> None:
    """Do P -= weight vv' for v = direction."""
    for i in range(direction.shape[0]):
        pull = weight * direction[i]
        for j in range(direction.shape[0]):
            P[i, j] -= pull * direction[j]


@jittable
def levels_and_widths(arms: Floats, theta: Floats, P: Floats, levels: Floats, widths: Floats) -> None:
    """For each arm x'theta and the width sqrt(v'Pv), where v is its features and a 1. O(K d^2)."""
    arms, P = borrowed(arms), borrowed(P)
    product = np.empty(P.shape[0])
    for a in range(arms.shape[0]):
        level = 0.0
        for i in range(arms.shape[1]):
            level += arms[a, i] * theta[i]
        levels[a], widths[a] = level, width(P, arms, a, product)


@jittable
def most_hopeful(arms: Floats, theta: Floats, P: Floats, unit: float, hope: float) -> int:
    """The arm with the largest x'theta + hope unit sqrt(v'Pv), where v is its features and a 1; the first of equals.

    The widths that take O(d^2) are computed for those arms only that could win with the largest width they can have.
    """
    arms, P = borrowed(arms), borrowed(P)
    K, n = arms.shape[0], P.shape[0]
    levels, slopes, product, variances = np.empty(K), np.empty(K), np.empty(n), np.empty(n)
    stretch = largest_stretch(P, product, variances) * (1.0 + ROUNDING) * unit * unit
    for i in range(n):
        variances[i] *= stretch
    levels_and_lengths(arms, theta, variances, levels, slopes)
    best = 0
    for a in range(1, K):
        if levels[a] + hope * slopes[a] > levels[best] + hope * slopes[best]:
            best = a
    best_slope = unit * width(P, arms, best, product)
    slopes[best] = -1.0  # it is known
    for a in range(K):
        # Differences, because a sum would drown lines that lie close: then `probabilities` would be another rule's.
        ahead = levels[a] - levels[best]
        if slopes[a] >= 0.0 and ahead >= hope * (best_slope - slopes[a]):
            slope = unit * width(P, arms, a, product)
            behind = hope * (best_slope - slope)
            if ahead > behind or (ahead == behind and a < best):
                best, best_slope = a, slope
    return best


@jittable
def largest_stretch(P: Floats, sums: Floats, variances: Floats) -> float:
    """Such a number c that v'Pv is at most c v'Dv for every v, where D is the diagonal of P. O(d^2).

    The largest eigenvalue of C = D^-1/2 P D^-1/2 is at most the largest (|C|w)_i / w_i, for any w > 0 (Collatz and
    Wielandt). Here w is the row sums of |C|, left in `sums`; D is left in `variances`.
    """
    n = P.shape[0]
    scales, products = np.empty(n), np.zeros(n)
    for i in range(n):
        variances[i] = max(P[i, i], 1e-300)
        scales[i] = 1.0 / math.sqrt(variances[i])
        sums[i] = 0.0
    for i in range(n):
        scale = scales[i]
        for j in range(n):
            sums[j] += abs(P[i, j]) * scale
    for i in range(n):
        scale = sums[i] / variances[i]
        for j in range(n):
            products[j] += abs(P[i, j]) * scale
    largest = 1.0
    for j in range(n):
        largest = max(largest, products[j] / sums[j])
    return largest


@jittable
def levels_and_lengths(arms: Floats, theta: Floats, weights: Floats, levels: Floats, lengths: Floats) -> None:
    """For each arm x'theta, and the length of v with weighted squares. O(K d).

    Four arms at a time, whose sums do not wait for each other.
    """
    K, dim = arms.shape
    quads = K - K % 4
    for a in range(0, quads, 4):
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        q0, q1, q2, q3 = weights[dim], weights[dim], weights[dim], weights[dim]
        for i in range(dim):
            x0, x1, x2, x3 = arms[a, i], arms[a + 1, i], arms[a + 2, i], arms[a + 3, i]
            s0 += x0 * theta[i]
            s1 += x1 * theta[i]
            s2 += x2 * theta[i]
            s3 += x3 * theta[i]
            q0 += x0 * x0 * weights[i]
            q1 += x1 * x1 * weights[i]
            q2 += x2 * x2 * weights[i]
            q3 += x3 * x3 * weights[i]
        levels[a], levels[a + 1], levels[a + 2], levels[a + 3] = s0, s1, s2, s3
        lengths[a], lengths[a + 1] = math.sqrt(q0), math.sqrt(q1)
        lengths[a + 2], lengths[a + 3] = math.sqrt(q2), math.sqrt(q3)
    for a in range(quads, K):
        s0, q0 = 0.0, weights[dim]
        for i in range(dim):
            s0 += arms[a, i] * theta[i]
            q0 += arms[a, i] * arms[a, i] * weights[i]
        levels[a], lengths[a] = s0, math.sqrt(q0)


@jittable
def width(P: Floats, arms: Floats, a: int, product: Floats) -> float:
    """The width sqrt(v'Pv) of arm a, where v is its features and a 1. O(d^2)."""
    x, dim = arms[a], arms.shape[1]
    spread(P, x, product)
    squared = float(product[dim])
    for i in range(dim):
        squared += x[i] * product[i]
    return math.sqrt(max(squared, 0.0))


@jittable
def renew(P: Floats, theta: Floats, prior: Floats, new_prior: Floats, fade: float) -> None:
    """Put another prior under what was observed, and multiply the weight of that by fade; theta follows. O(d^3).

    With H = P^-1, what the observations asked for is H theta, because the mean of the prior is 0.
    """
    dim = prior.shape[0]
    H, wanted = P.copy(), np.empty(dim)
    invert(H)
    for i in range(dim):
        wanted[i] = fade * dot(H[i], theta)
        for j in range(dim):
            P[i, j] = fade * H[i, j]
        P[i, i] = new_prior[i] + fade * max(H[i, i] - prior[i], 0.0)
    invert(P)
    for i in range(dim):
        theta[i] = dot(P[i], wanted)
    copy_to(prior, new_prior)


@jittable
def invert(A: Floats) -> None:
    """Overwrite a symmetric positive definite A with its inverse, a pivot at a time (Gauss and Jordan).

    A pivot that rounding has made smaller than it can be told from 0 is put at that size.
    """
    dim = A.shape[0]
    pivot_row, least = np.empty(dim), np.empty(dim)
    for k in range(dim):
        least[k] = RESOLUTION * abs(A[k, k]) + 1e-300
    for k in range(dim):
        pivot = max(A[k, k], least[k])
        for j in range(dim):
            pivot_row[j] = A[k, j] / pivot
            A[k, j] = 0.0
        pivot_row[k] = 1.0 / pivot
        A[k, k] = 1.0
        for i in range(dim):
            pull = A[i, k]
            if i == k:
                for j in range(dim):
                    A[k, j] = pivot_row[j]
            else:
                A[i, k] = 0.0
                for j in range(dim):
                    A[i, j] -= pull * pivot_row[j]
    for i in range(dim):
        for j in range(i):
            A[j, i] = A[i, j]
