"""Replacement of the prior in `posterior`, by the formulas of `prior_replacement`.

A feature that is not in the table contributes the same to the evidence of every prior scale, so it is left out. A
replacement takes time linear in the number of table entries. Without a half-life it happens at the 1st, 2nd, 4th, 8th
... reward, so the amortised time per reward is proportional to the features of a reward. With a half-life it happens
every half_life / 8 rewards.
"""

import math

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.compilation.numba_support import jittable
from glbandits.maths.feature_table import EMPTY, HEADER
from glbandits.policies.shared.posterior_state import (
    COUNT,
    INTERCEPT,
    INTERCEPT_PRECISION,
    PRIOR_SCALE,
    WEIGHT,
    dispersion,
)
from glbandits.policies.shared.prior_replacement import (
    EVIDENCE_FROM,
    FORGOTTEN,
    SCALES,
    discount_scalars,
    rescaled_prior,
)
from glbandits.policies.shared.sparse.posterior import (
    COUPLING,
    MEAN,
    PRESENCE,
    PRESENCE_SUM,
    PRIOR,
    ROW,
    SEEN,
    SQUARES,
    TABLE,
    UNSEEN_PRIOR,
    VARIANCE,
    VOTES,
)

LEAST_PRECISION = 1e-300
"""Smaller precisions are replaced by this, so that no division or logarithm fails."""


@jittable
def occupied_rows(state: Floats) -> Ints:
    """Return the offsets of all occupied table rows."""
    rows, count = np.empty((state.shape[0] - TABLE) // ROW, dtype=np.int64), 0
    for row in range(TABLE + HEADER, state.shape[0], ROW):
        if state[row] != EMPTY:
            rows[count] = row
            count += 1
    return rows[:count]


@jittable
def rescaled_sparse_prior(state: Floats, rows: Ints) -> Floats:
    """Return the prior precisions of the rows, by `rescaled_prior`. The last element is that of unseen features."""
    squares, presence = np.zeros(rows.shape[0] + 1), np.zeros(rows.shape[0] + 1)
    for k in range(rows.shape[0]):
        squares[k], presence[k] = state[rows[k] + SQUARES], state[rows[k] + PRESENCE]
    return rescaled_prior(squares, presence, state[WEIGHT])


@jittable
def discount_features(state: Floats, rows: Ints, discount: float) -> None:
    """Discount the sums of all features.

    A feature with presence below FORGOTTEN becomes unseen.
    """
    state[SEEN], state[PRESENCE_SUM] = 0.0, 0.0
    for k in range(rows.shape[0]):
        row = rows[k]
        factor = discount if state[row + PRESENCE] > FORGOTTEN else 0.0
        state[row + SQUARES] *= factor
        state[row + PRESENCE] *= factor
        state[row + VOTES] *= factor
        state[SEEN] += 1.0 if state[row + PRESENCE] > 0.0 else 0.0
        state[PRESENCE_SUM] += state[row + PRESENCE]


@jittable
def replace_sparse_prior(state: Floats, half_life: float, noise: float, intercept_precision: float) -> None:
    """Replace the prior by one with the best scale, and discount old observations."""
    rows = occupied_rows(state)
    new_prior, phi = rescaled_sparse_prior(state, rows), dispersion(state, noise)
    discount = discount_scalars(state, half_life)
    discount_features(state, rows, discount)
    for k in range(rows.shape[0]):
        row = rows[k]
        state[row + VARIANCE] = discount / max(state[row + VARIANCE], LEAST_PRECISION)  # now the precision D
        state[row + PRIOR] *= discount
    state[INTERCEPT] *= discount * state[INTERCEPT_PRECISION]  # now s b
    state[INTERCEPT_PRECISION] = discount * state[INTERCEPT_PRECISION] + (1.0 - discount) * intercept_precision
    scale = float(state[PRIOR_SCALE])
    if state[COUNT] >= EVIDENCE_FROM:
        best = -np.inf
        for candidate in SCALES:
            evidence = sparse_log_evidence(state, rows, new_prior, candidate, intercept_precision, phi)
            if evidence > best:
                best, scale = evidence, candidate
    state[PRIOR_SCALE] = scale
    state[UNSEEN_PRIOR] = scale * new_prior[rows.shape[0]]
    change_sparse_prior(state, rows, new_prior, scale, intercept_precision)


@jittable
def sparse_log_evidence(
    state: Floats, rows: Ints, new_prior: Floats, scale: float, intercept_precision: float, dispersion: float
) -> float:
    """The log evidence of a prior scale, as in `prior_replacement.log_evidence`."""
    total, fitted, s, sb = 0.0, 0.0, float(state[INTERCEPT_PRECISION]), float(state[INTERCEPT])
    for k in range(rows.shape[0]):
        mean, g = state[rows[k] + MEAN], state[rows[k] + COUPLING]
        change = scale * new_prior[k] - state[rows[k] + PRIOR]
        precision = max(state[rows[k] + VARIANCE] + change, LEAST_PRECISION)
        y, z = change * mean, change * g
        fitted += y * y / precision - y * mean
        s += z * g - z * z / precision
        sb += z * mean - y * z / precision
        total -= 0.5 * math.log(precision)
    s = max(s, intercept_precision)
    total += 0.5 * rows.shape[0] * math.log(scale)
    return float(total - 0.5 * math.log(s) + 0.5 * (fitted + sb * sb / s) / dispersion)


@jittable
def change_sparse_prior(state: Floats, rows: Ints, new_prior: Floats, scale: float, intercept_precision: float) -> None:
    """Install the new prior, as `prior_replacement.change_prior`."""
    s, sb = float(state[INTERCEPT_PRECISION]), float(state[INTERCEPT])
    for k in range(rows.shape[0]):
        row = rows[k]
        change = scale * new_prior[k] - state[row + PRIOR]
        y, z = change * state[row + MEAN], change * state[row + COUPLING]
        state[row + PRIOR] = scale * new_prior[k]
        state[row + VARIANCE] = 1.0 / max(state[row + VARIANCE] + change, LEAST_PRECISION)
        state[row + MEAN] -= state[row + VARIANCE] * y
        state[row + COUPLING] -= state[row + VARIANCE] * z
        s += z * state[row + COUPLING]
        sb += z * state[row + MEAN]
    state[INTERCEPT_PRECISION] = max(s, intercept_precision)
    state[INTERCEPT] = sb / state[INTERCEPT_PRECISION]
