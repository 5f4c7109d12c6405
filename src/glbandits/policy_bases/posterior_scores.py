"""Mean and variance of each arm's score under the posterior of `self_scaling_posterior`."""

import numpy as np

from glbandits.maths.posteriors.block_covariance import add_variances, block_end, block_matrix
from glbandits.numba_support import jittable
from glbandits.policy_bases.self_scaling_posterior import INTERCEPT_PRECISION, blocks_at, coupling_of, mean_of
from glbandits.records import Floats

SMALL = 16
"""Up to this number of features, four arms are computed together: the processor runs their sums in parallel."""


def joint_covariance(state: Floats, dim: int) -> Floats:
    """Return the covariance of (theta, intercept), (dim + 1, dim + 1)."""
    coupling = np.append(-coupling_of(state, dim), 1.0)
    covariance: Floats = np.outer(coupling, coupling) / state[INTERCEPT_PRECISION]
    start = blocks_at(dim)
    while start < state.shape[0]:
        members = state[start + 1 : start + 1 + int(state[start])].astype(np.int64)
        covariance[np.ix_(members, members)] += block_matrix(state, start)
        start = block_end(state, start)
    return covariance


@jittable
def score_moments(state: Floats, arms: Floats, levels: Floats, variances: Floats) -> None:
    """Write the posterior mean (without the intercept) and variance of the score of each arm."""
    K, dim = arms.shape
    theta, g, variance = mean_of(state, dim), coupling_of(state, dim), 1.0 / state[INTERCEPT_PRECISION]
    if dim <= SMALL and K >= 4 and state[blocks_at(dim)] == dim:
        moments_of_fours(theta, g, variance, block_matrix(state, blocks_at(dim)), arms, levels, variances)
        return
    for a in range(K):
        level, remaining = 0.0, 1.0
        for i in range(dim):
            level += arms[a, i] * theta[i]
            remaining -= arms[a, i] * g[i]
        levels[a], variances[a] = level, remaining * remaining * variance
    add_variances(state, blocks_at(dim), arms, variances)


@jittable
def moments_of_fours(
    theta: Floats, g: Floats, variance: float, P: Floats, arms: Floats, levels: Floats, variances: Floats
) -> None:
    """Compute the same for at least four arms if P has one block.

    Sums x'Px over one triangle of P. The last group of four may overlap the one before. All arms are thereby computed
    in the same way, so equal arms get equal scores.
    """
    K, dim = arms.shape
    for start in range(0, K, 4):
        a = min(start, K - 4)
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        r0, r1, r2, r3 = 1.0, 1.0, 1.0, 1.0
        q0, q1, q2, q3 = 0.0, 0.0, 0.0, 0.0
        for i in range(dim):
            x0, x1, x2, x3 = arms[a, i], arms[a + 1, i], arms[a + 2, i], arms[a + 3, i]
            t, c, half = theta[i], g[i], 0.5 * P[i, i]
            s0, s1, s2, s3 = s0 + t * x0, s1 + t * x1, s2 + t * x2, s3 + t * x3
            r0, r1, r2, r3 = r0 - c * x0, r1 - c * x1, r2 - c * x2, r3 - c * x3
            p0, p1, p2, p3 = half * x0, half * x1, half * x2, half * x3
            for j in range(i):
                p = P[i, j]
                p0 += p * arms[a, j]
                p1 += p * arms[a + 1, j]
                p2 += p * arms[a + 2, j]
                p3 += p * arms[a + 3, j]
            q0, q1, q2, q3 = q0 + x0 * p0, q1 + x1 * p1, q2 + x2 * p2, q3 + x3 * p3
        levels[a], levels[a + 1], levels[a + 2], levels[a + 3] = s0, s1, s2, s3
        variances[a] = 2.0 * q0 + r0 * r0 * variance
        variances[a + 1] = 2.0 * q1 + r1 * r1 * variance
        variances[a + 2] = 2.0 * q2 + r2 * r2 * variance
        variances[a + 3] = 2.0 * q3 + r3 * r3 * variance
