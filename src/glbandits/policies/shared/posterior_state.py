"""The state of `Optimist`: its parts, and whether an array can be one.

The precision matrix of theta and the intercept b is [[D, c], [c', e]]. The state contains the factors of P = D^-1 in
blocks (`block_covariance`), the coupling g = P c, and s = e - c'g, the precision of b after theta is integrated out.
The variance of the score x'theta + b is then x'Px + (1 - g'x)^2 / s.
"""

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import jittable
from glbandits.maths.posteriors.block_covariance import are_valid_blocks
from glbandits.policies.contract import StateLayout

SCALARS = StateLayout()
"""The scalars of the posterior, with which a state begins."""
COUNT = SCALARS.count("count")
"""The number of rewards learned."""
LAST, NEXT = SCALARS.scalar("last", at_least=0.0), SCALARS.scalar("next", at_least=0.0)
"""The count at the last and at the next replacement of the prior."""
WEIGHT = SCALARS.scalar("weight", at_least=0.0)
"""The number of rewards, discounted by the half-life. The sums below are discounted too."""
SQUARED_RESIDUALS = SCALARS.scalar("squared_residuals", at_least=0.0)
ALL_SQUARES = SCALARS.scalar("all_squares", at_least=0.0)
"""The sum of squared residuals for `outlier_limits`, in which early rewards have the same weight as later ones."""
EXPECTED = SCALARS.scalar("expected", at_least=0.0)
"""The expected sum of squared residuals if the dispersion is 1."""
SPREAD = SCALARS.scalar("spread", at_least=0.0)
"""The sum of y (1 - y) over rewards y in [0, 1]: what 0/1 rewards would add to the squared residuals. 0 for those."""
STANDARDISED = SCALARS.scalar("standardised", at_least=0.0)
"""The sum of squared residuals, each divided by its growth through the uncertainty of its score: for predictions."""
CURVATURE = SCALARS.scalar("curvature", at_least=0.0)
"""The sum of the link's slopes at the scores of the rewards."""
PRIOR_SCALE = SCALARS.scalar("prior_scale", at_least=0.0)
"""The common factor of all prior precisions, selected by the evidence."""
INTERCEPT = SCALARS.scalar("intercept")
"""The mean of the intercept b."""
INTERCEPT_PRECISION = SCALARS.scalar("intercept_precision", at_least=0.0)
"""s, the precision of b after theta is integrated out."""
OUTLIERS, OUTLYING_REWARDS = SCALARS.count("outliers"), SCALARS.count("outlying_rewards")
"""The number of values and rewards that were limited (`outlier_limits`), and of rewards alone."""
LAYOUT = StateLayout(SCALARS)
mean_at = LAYOUT.end()
mean_of = LAYOUT.vector("mean")
"""The mean of theta."""
coupling_at = LAYOUT.end()
coupling_of = LAYOUT.vector("coupling")
"""The coupling g of theta with the intercept."""
prior_of = LAYOUT.vector("prior", positive=True)
"""The prior precisions of theta."""
squares_at = LAYOUT.end()
squares_of = LAYOUT.vector("squares", at_least=0.0)
"""The sum of the squares of each feature."""
presence_at = LAYOUT.end()
presence_of = LAYOUT.vector("presence", at_least=0.0)
"""The number of rewards for which each feature was not 0."""
limits_at = LAYOUT.end()
limits_of = LAYOUT.vector("limits", positive=True)
"""The largest absolute value of each feature that is not an outlier."""
votes_at = LAYOUT.end()
votes_of = LAYOUT.vector("votes")
"""The number of values of each feature that were too large for its unit, minus the number of those too small."""
blocks_at = LAYOUT.end()
"""The offset of the blocks of P, the last part of the state."""


def is_valid_posterior(state: Floats, dim: int) -> bool:
    """Whether this array can be a state. For states that come from files."""
    start = blocks_at(dim)
    if state.ndim != 1 or not LAYOUT.is_valid(state[:start], dim) or not np.isfinite(state).all():
        return False
    if state[PRIOR_SCALE] == 0.0 or state[INTERCEPT_PRECISION] == 0.0:
        return False
    return are_valid_blocks(state[start:], dim)


def predictive_dispersion(state: Floats, noise: float) -> float:
    """The dispersion for intervals of predictions. Not for compiled code.

    `dispersion` is far too small after few unbounded rewards, because it expects residuals as wide as their prior.
    """
    expected = state[CURVATURE] + noise
    return float((state[STANDARDISED] + noise) / expected) if expected > 0.0 else 1.0


@jittable
def dispersion(state: Floats, noise: float) -> float:
    """The variance of rewards, relative to the variance that the link implies.

    `noise` is the value of `assumed_noise`.
    """
    observed, expected = state[SQUARED_RESIDUALS] + noise, state[EXPECTED] + noise
    return observed / expected if observed > 0.0 and expected > 0.0 else 1.0


@jittable
def surprise(state: Floats, noise: float) -> float:
    """The squared residuals relative to those of a calibrated model, at most 1. For Bernoulli links.

    Below 1, rewards are closer to 0 and 1 than predicted: the model is less certain than it could be. Rewards with
    little noise do not make it small. For 0/1 rewards it is the dispersion, limited to 1.
    """
    observed = state[SQUARED_RESIDUALS] + noise
    return float(observed / max(observed, state[EXPECTED] - state[SPREAD] + noise))
