"""A covariance P kept whole: the inverse of a diagonal prior plus the curvature of all that was observed.

It follows each observation by a rank-one step of O(d^2). The prior may be changed, and the past made to fade, by
`renew`, in O(d^3). The last of its coordinates is the intercept, a feature that is 1 in every arm.
"""

import math

import numpy as np

from glbandits.compiled import borrowed, jittable
from glbandits.maths.vectors import copy_to, dot
from glbandits.records import Floats

LANES = 128
"""Arms whose widths are computed side by side."""
RESOLUTION = 1e-15
"""The least share of a variance that is left of it and not rounding."""


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
    """For each arm x'theta and the width sqrt(v'Pv), where v is its features and a 1. O(K d^2).

    Arms lie side by side, a feature of LANES arms in one row, so that one instruction serves several of them.
    """
    arms, P = borrowed(arms), borrowed(P)
    K, dim = arms.shape
    lanes, product = np.empty((dim, LANES)), np.empty(LANES)
    for first in range(0, K, LANES):
        level, squared = levels[first:], widths[first:]
        count = min(LANES, K - first)
        for a in range(count):
            level[a], squared[a] = 0.0, P[dim, dim]
        for i in range(dim):
            own, twice, weight = P[i, i], 2.0 * P[dim, i], theta[i]
            for a in range(count):
                lanes[i, a] = arms[first + a, i]
                level[a] += lanes[i, a] * weight
                product[a] = twice + own * lanes[i, a]
            fours = i - i % 4
            for j in range(0, fours, 4):
                p0, p1, p2, p3 = 2.0 * P[i, j], 2.0 * P[i, j + 1], 2.0 * P[i, j + 2], 2.0 * P[i, j + 3]
                for a in range(count):
                    product[a] += p0 * lanes[j, a] + p1 * lanes[j + 1, a] + p2 * lanes[j + 2, a] + p3 * lanes[j + 3, a]
            for j in range(fours, i):
                p0 = 2.0 * P[i, j]
                for a in range(count):
                    product[a] += p0 * lanes[j, a]
            for a in range(count):
                squared[a] += lanes[i, a] * product[a]
        for a in range(count):
            squared[a] = math.sqrt(max(squared[a], 0.0))


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
