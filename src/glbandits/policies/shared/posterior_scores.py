"""Mean and variance of each arm's score under the posterior of `self_scaling_posterior`."""

from typing import Any

import numpy as np
from numba import types

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import READ_MATRIX, READ_ROWS, VECTOR, by_type
from glbandits.compilation.recipe import Recipe
from glbandits.compilation.shared_functions import shared
from glbandits.maths.arm_rows import as_arms
from glbandits.maths.posteriors.block_covariance import LARGEST_BLOCK, block_end, block_matrix, gather
from glbandits.maths.posteriors.covariance_factor import project
from glbandits.maths.sparse_rows import SparseRows
from glbandits.policies.shared.outlier_limits import limit_features
from glbandits.policies.shared.posterior_state import INTERCEPT_PRECISION, blocks_at, coupling_of, limits_of, mean_of
from glbandits.policies.shared.self_scaling_posterior import project_blocks
from glbandits.policies.shared.sparse.posterior import sparse_score_moments


@by_type(SparseRows, sparse_score_moments)
def score_moments(state: Floats, arms: Floats, levels: Floats, variances: Floats) -> None:
    """Write the posterior mean (without the intercept) and variance of the score of each arm."""
    K, dim = arms.shape
    if K >= 4 and state[blocks_at(dim)] == dim:
        has_outliers = moments_of_fours(state, arms, levels, variances)
    else:
        has_outliers = moments_of_blocks(state, arms, levels, variances)
    if has_outliers:
        correct_outlying_arms(state, arms, levels, variances)


def moments_recipe(sparse: bool) -> Recipe:
    """The recipe of `score_moments` alone, for predictions."""

    def moments(state: Floats, arms: Any, levels: Floats, variances: Floats) -> None:
        score_moments(state, as_arms(arms), levels, variances)

    signature = types.void(VECTOR, READ_ROWS if sparse else READ_MATRIX, VECTOR, VECTOR)
    return Recipe(moments, signature, "moments of sparse scores" if sparse else "moments of scores", work=_work)


def _work(state: Floats, arms: Any, *_out: Floats) -> float:
    return 16.0 * arms[1].size if isinstance(arms, tuple) else float(len(arms) * min(state.size, arms.shape[1] ** 2))


@shared(types.boolean(VECTOR, READ_MATRIX, VECTOR, VECTOR))
def moments_of_fours(state: Floats, arms: Floats, levels: Floats, variances: Floats) -> bool:
    """Compute the moments of at least four arms if P has one block. Returns whether an arm has an outlying feature.

    The processor runs the sums of four arms in parallel. The last group of four may overlap the one before. All arms
    are thereby computed in the same way, so equal arms get equal scores.
    """
    K, dim = arms.shape
    theta, g, limits = mean_of(state, dim), coupling_of(state, dim), limits_of(state, dim)
    F, variance, has_outliers = block_matrix(state, blocks_at(dim)), 1.0 / state[INTERCEPT_PRECISION], False
    for start in range(0, K, 4):
        a = min(start, K - 4)
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        r0, r1, r2, r3 = 1.0, 1.0, 1.0, 1.0
        q0, q1, q2, q3 = 0.0, 0.0, 0.0, 0.0
        for j in range(dim):
            f0, f1, f2, f3 = arms[a, j], arms[a + 1, j], arms[a + 2, j], arms[a + 3, j]
            t, c, d, limit = theta[j], g[j], F[j, j], limits[j]
            has_outliers |= (abs(f0) > limit) | (abs(f1) > limit) | (abs(f2) > limit) | (abs(f3) > limit)
            s0, s1, s2, s3 = s0 + t * f0, s1 + t * f1, s2 + t * f2, s3 + t * f3
            r0, r1, r2, r3 = r0 - c * f0, r1 - c * f1, r2 - c * f2, r3 - c * f3
            for i in range(j):
                p = F[j, i]
                f0 += p * arms[a, i]
                f1 += p * arms[a + 1, i]
                f2 += p * arms[a + 2, i]
                f3 += p * arms[a + 3, i]
            q0, q1, q2, q3 = q0 + d * f0 * f0, q1 + d * f1 * f1, q2 + d * f2 * f2, q3 + d * f3 * f3
        levels[a], levels[a + 1], levels[a + 2], levels[a + 3] = s0, s1, s2, s3
        variances[a] = q0 + r0 * r0 * variance
        variances[a + 1] = q1 + r1 * r1 * variance
        variances[a + 2] = q2 + r2 * r2 * variance
        variances[a + 3] = q3 + r3 * r3 * variance
    return has_outliers


@shared(types.boolean(VECTOR, READ_MATRIX, VECTOR, VECTOR))
def moments_of_blocks(state: Floats, arms: Floats, levels: Floats, variances: Floats) -> bool:
    """Compute the moments for any number of arms and blocks. Returns whether an arm has an outlying feature.

    O(n^2) for each arm and block with features.
    """
    K, dim = arms.shape
    theta, g, limits = mean_of(state, dim), coupling_of(state, dim), limits_of(state, dim)
    has_outliers = False
    for a in range(K):
        level, remaining = 0.0, 1.0
        for i in range(dim):
            x = arms[a, i]
            level += x * theta[i]
            remaining -= x * g[i]
            has_outliers |= abs(x) > limits[i]
        levels[a], variances[a] = level, remaining * remaining / state[INTERCEPT_PRECISION]
    side, start = min(dim, LARGEST_BLOCK), blocks_at(dim)
    features, f = np.empty(side), np.empty(side)
    while start < state.shape[0]:
        if state[start] == 1.0:
            feature, variance = int(state[start + 1]), state[start + 2]
            for a in range(K):
                variances[a] += arms[a, feature] * arms[a, feature] * variance
        else:
            F = block_matrix(state, start)
            for a in range(K):
                if gather(state, start, arms[a], features):
                    variances[a] += project(F, features, f)
        start = block_end(state, start)
    return has_outliers


@shared(types.void(VECTOR, READ_MATRIX, VECTOR, VECTOR))
def correct_outlying_arms(state: Floats, arms: Floats, levels: Floats, variances: Floats) -> None:
    """Compute the moments of arms with outlying features again, with these features limited."""
    K, dim = arms.shape
    theta, g = mean_of(state, dim), coupling_of(state, dim)
    x, projected = np.empty(dim), np.empty(dim)
    for a in range(K):
        if limit_features(state, arms[a], x):
            level, remaining = 0.0, 1.0
            for i in range(dim):
                level += x[i] * theta[i]
                remaining -= x[i] * g[i]
            variance = project_blocks(state, x, projected)[1]
            levels[a], variances[a] = level, variance + remaining * remaining / state[INTERCEPT_PRECISION]
