"""A posterior covariance P kept as a full matrix: the inverse of a diagonal prior plus the observed curvature.

An observation changes P by a rank-one update, O(d^2). `replace_prior` changes the prior and discounts past
observations, O(d^3). The last coordinate is the intercept, a feature that is 1 in every arm. In this module v stands
for the features x of an arm, followed by a 1.
"""

import math

import numpy as np

from glbandits.numba_support import jittable
from glbandits.records import Floats

RESOLUTION = 1e-15
"""A pivot below this share of its diagonal element is rounding error."""
ROUNDING = 1e-9
"""Relative margin added to a computed upper bound, so that rounding cannot make it too small."""


@jittable
def arm_variance(P: Floats, features: Floats, start: int, product: Floats) -> float:
    """The variance v'Pv of the score of an arm, for a symmetric P. Overwrites `product` with Pv. O(d^2).

    The arm is features[start : start + dim]. Computes Pv row by row: no sum then waits for its previous term.
    """
    dim = P.shape[0] - 1
    for j in range(dim + 1):
        product[j] = P[dim, j]
    fours = dim - dim % 4
    for i in range(0, fours, 4):
        at = start + i
        x0, x1, x2, x3 = features[at], features[at + 1], features[at + 2], features[at + 3]
        for j in range(dim + 1):
            product[j] += x0 * P[i, j] + x1 * P[i + 1, j] + x2 * P[i + 2, j] + x3 * P[i + 3, j]
    for i in range(fours, dim):
        for j in range(dim + 1):
            product[j] += features[start + i] * P[i, j]
    variance = float(product[dim])
    for i in range(dim):
        variance += features[start + i] * product[i]
    return variance


@jittable
def subtract_outer(P: Floats, weight: float, u: Floats) -> None:
    """Compute P -= weight uu', in place."""
    for i in range(u.shape[0]):
        scaled = weight * u[i]
        for j in range(u.shape[0]):
            P[i, j] -= scaled * u[j]


@jittable
def score_lines(arms: Floats, theta: Floats, P: Floats, unit: float, levels: Floats, slopes: Floats) -> None:
    """Write the score of each arm as a line in the bonus: level x'theta, slope unit sqrt(v'Pv). O(K d^2)."""
    (K, dim), features, product = arms.shape, arms.ravel(), np.empty(P.shape[0])
    for a in range(K):
        level = 0.0
        for i in range(dim):
            level += arms[a, i] * theta[i]
        levels[a], slopes[a] = level, unit * math.sqrt(max(arm_variance(P, features, a * dim, product), 0.0))


@jittable
def bound_variances(P: Floats, unit: float, bounds: Floats) -> None:
    """Write weights with unit^2 v'Pv <= sum_i bounds[i] v_i^2 for every v. O(d^2).

    With D the diagonal of P, the largest eigenvalue of C = D^-1/2 P D^-1/2 is at most the largest (|C|w)_i / w_i, for
    any w > 0 (Collatz and Wielandt). Here w holds the row sums of |C|. The bounds are D times that number.
    """
    n = P.shape[0]
    sums, products = np.empty(n), np.empty(n)
    for i in range(n):
        bounds[i] = max(P[i, i], 1e-300)
        sums[i] = products[i] = 0.0
    for i in range(n):
        scale = 1.0 / math.sqrt(bounds[i])
        for j in range(n):
            sums[j] += abs(P[i, j]) * scale
    for i in range(n):
        scale = sums[i] / bounds[i]
        for j in range(n):
            products[j] += abs(P[i, j]) * scale
    largest = 1.0
    for j in range(n):
        largest = max(largest, products[j] / sums[j])
    scale = largest * (1.0 + ROUNDING) * unit * unit
    for i in range(n):
        bounds[i] *= scale


@jittable
def levels_and_lengths(arms: Floats, theta: Floats, weights: Floats, levels: Floats, lengths: Floats) -> None:
    """Write the score without a bonus, x'theta, and the weighted length of v for each arm. O(K d).

    Handles four arms at a time, because their sums do not wait for each other.
    """
    K, dim = arms.shape
    fours = K - K % 4
    for a in range(0, fours, 4):
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
    for a in range(fours, K):
        s0, q0 = 0.0, weights[dim]
        for i in range(dim):
            s0 += arms[a, i] * theta[i]
            q0 += arms[a, i] * arms[a, i] * weights[i]
        levels[a], lengths[a] = s0, math.sqrt(q0)


@jittable
def argmax_with_bonus(arms: Floats, P: Floats, unit: float, bonus: float, levels: Floats, slopes: Floats) -> int:
    """The arm with the largest level + bonus unit sqrt(v'Pv); the first of equal ones. Overwrites the slopes.

    A width sqrt(v'Pv) takes O(d^2). `slopes` holds upper bounds of unit sqrt(v'Pv): only for arms that could win with
    their bound is the width computed.
    """
    (K, dim), features, product = arms.shape, arms.ravel(), np.empty(P.shape[0])
    best = 0
    for a in range(1, K):
        if levels[a] + bonus * slopes[a] > levels[best] + bonus * slopes[best]:
            best = a
    best_slope = unit * math.sqrt(max(arm_variance(P, features, best * dim, product), 0.0))
    slopes[best] = -1.0  # marks the arm as done
    for a in range(K):
        # Compare differences as `probabilities` does: in a sum, the slopes of close lines are lost to rounding.
        ahead = levels[a] - levels[best]
        if slopes[a] >= 0.0 and ahead >= bonus * (best_slope - slopes[a]):
            slope = unit * math.sqrt(max(arm_variance(P, features, a * dim, product), 0.0))
            behind = bonus * (best_slope - slope)
            if ahead > behind or (ahead == behind and a < best):
                best, best_slope = a, slope
    return best


@jittable
def replace_prior(P: Floats, theta: Floats, prior: Floats, new_prior: Floats, fade: float) -> None:
    """Replace the prior precisions and multiply the weight of past observations by `fade`. O(d^3).

    With H = P^-1, the right-hand side of the normal equations is H theta, because the prior mean is 0.
    """
    dim = prior.shape[0]
    right_side = np.empty(dim)
    invert(P)
    for i in range(dim):
        total, curvature = 0.0, max(P[i, i] - prior[i], 0.0)
        for j in range(dim):
            total += P[i, j] * theta[j]
            P[i, j] *= fade
        right_side[i] = fade * total
        prior[i] = new_prior[i]
        P[i, i] = prior[i] + fade * curvature
    invert(P)
    for i in range(dim):
        total = 0.0
        for j in range(dim):
            total += P[i, j] * right_side[j]
        theta[i] = total


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
