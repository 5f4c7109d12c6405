"""Optimist: the default policy. One pass, full curvature, a bonus for what is not known, nothing to tune."""

import math
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from glbandits.maths.feature_blocks import LARGEST_BLOCK, initial_blocks, merge_blocks
from glbandits.maths.links import LinkFunctions, find_link
from glbandits.maths.philox import any_index, uniform
from glbandits.maths.upper_envelope import uniform_probabilities
from glbandits.numba_support import jittable
from glbandits.policy import (
    AnyLink,
    Bounds,
    Coefficients,
    Policy,
    PolicyInfo,
    Probability,
    StateLayout,
    derived,
)
from glbandits.policy_bases.half_life_selection import active_copy, are_valid_copies, initial_copies, selects_half_life
from glbandits.policy_bases.posterior_scores import score_moments
from glbandits.policy_bases.prior_replacement import replace_prior
from glbandits.policy_bases.self_scaling_posterior import (
    COUNT,
    CURVATURE,
    FIRST_SCALE,
    LAYOUT,
    NEXT,
    WEIGHT,
    assumed_noise,
    blocks_at,
    dispersion,
    init_feature_prior,
    intercept_variance,
    is_valid_posterior,
    learn_reward,
    presence_at,
    update_feature_stats,
)  # fmt: skip
from glbandits.records import Floats, Generator

LEAST_BONUS, LARGEST_BONUS = 0.6, 1.1
"""Each decision multiplies the bonus of all arms by one number that is uniform between these."""
ROUNDS_AHEAD = 1000.0
"""Rounds for which exploring should pay, at least. The bonus of an arm falls when it is known well for so many."""

BLOCKS = 0.0
"""What `settings.covariance` reads as for "blocks"."""
ROUNDING = 1e-9
"""Relative margin of a computed upper bound, so that rounding cannot make it too small."""


class Optimist(Policy):
    """Score arms by the posterior mean plus a bonus, which falls with what is known about the arm.

    1. Draw Z uniformly from [0.6, 1.1], once for all arms, and play the arm with the largest
       x'theta + Z sigma w sqrt(log(1 + h (1000 + t / (d + 1)) w^2)), where w is the standard deviation of its score.
    2. Move theta by the exact step of the reward, and add its curvature to the posterior.

    The policy finds an intercept, the units of the features, the scale of the prior and the size sigma of the noise
    itself, so only the link has to be chosen; h is the mean curvature of a reward. The probability of every arm is
    exact, because each arm's score is a line in Z. A decision takes O(K d^2), learning O(d^2). With more than 128
    features the covariance is exact in blocks of up to 128 features that occur together, and both are O(d) for a given
    size of the blocks. docs/theory/optimist.md gives the reasons.

    Args:
        link: mu, any link.
        half_life: rewards after which an observation counts half, for a world that changes; None forgets nothing.
            Forgetting takes O(d^3) every half_life / 8 rewards. "auto" learns with four half-lives and finds out which
            one to use; a round takes 3 to 7 times as long.
        floor: play a random arm with this probability, so that no arm has less than floor/K.
        covariance: "diagonal" learns no correlations between features, and counts as d the features seen so far. That
            is what a sparse Bandit plays, whatever this setting says.

    >>> from glbandits import Bandit, Optimist
    >>> bandit = Bandit(Optimist(), dim=2, seed=1)
    >>> bandit.learn([1.0, 0.0], 0.0)
    >>> bandit.probabilities([[1.0, 0.0], [0.0, 1.0]])
    array([0., 1.])
    """

    name: ClassVar[str] = "optimist"
    layout: ClassVar[StateLayout] = LAYOUT
    estimate: ClassVar[str] = "mean"
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2 (d > 128: K d)", learn="d^2 (d > 128: d)", memory="d^2 (d > 128: d)",
        guarantee="none known", use_when="the default: nothing to tune, exact probabilities",
        sparse="K n; n; f",
    )  # fmt: skip

    link: AnyLink = "logistic"
    half_life: Annotated[float, Bounds(at_least=1)] | Literal["auto"] | None = None
    floor: Probability = 0.0
    covariance: Literal["blocks", "diagonal"] = "blocks"

    @derived
    def memory(self, dim: int) -> float:
        """The half-life; infinite if nothing is forgotten, or if copies have half-lives of their own."""
        return math.inf if self.half_life is None or self.half_life == "auto" else self.half_life

    @derived
    def noise(self, dim: int) -> float:
        """The variance of rewards that counts as already observed."""
        return assumed_noise(find_link(self.link))

    @derived
    def intercept_precision(self, dim: int) -> float:
        """The prior precision of the intercept."""
        return 1.0 / intercept_variance(find_link(self.link))

    def implementation(self, dim: int) -> type[Policy]:
        """The class whose functions are compiled: selecting a half-life is compiled only if it is wanted."""
        return AdaptiveOptimist if self.half_life == "auto" else Optimist

    def init(self, dim: int) -> Floats:
        """A state that has learned nothing. Any prior of theta will do, because the first reward rescales it."""
        if self.half_life == "auto":
            return initial_copies(replace(self, half_life=None).init(dim))
        precision = self.intercept_precision(dim)
        blocks = initial_blocks(dim, is_diagonal=self.covariance == "diagonal")
        state = LAYOUT.allocate(
            dim, tail=blocks.size, prior=1.0, prior_scale=FIRST_SCALE, intercept_precision=precision
        )
        state[blocks_at(dim) :] = blocks
        return state

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        """Whether this can be a state of this dimension."""
        if self.half_life == "auto":
            return are_valid_copies(state, dim, replace(self, half_life=None))
        return is_valid_posterior(state, dim)

    def coefficients(self, state: Floats, dim: int) -> Coefficients | None:
        """The posterior means of theta and the intercept, of the copy that takes the decisions if there are several."""
        return super().coefficients(active_copy(state) if self.half_life == "auto" else state, dim)

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm before the first reward; then the best with a bonus of a random size."""
        K = arms.shape[0]
        if state[COUNT] == 0.0 or (settings.floor > 0.0 and uniform(rng) < settings.floor):
            return any_index(rng, K)
        levels, variances = np.empty(K), np.empty(K)
        score_moments(state, arms, levels, variances)
        scale = (LEAST_BONUS + (LARGEST_BONUS - LEAST_BONUS) * uniform(rng)) * noise_scale(state, settings)
        return best_with_bonus(
            levels, variances, information(state, features_counted(state, settings, arms.shape[1])), scale
        )

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Replace the prior if it is due, then take the exact step of one observation."""
        dim = x.shape[0]
        if dim > LARGEST_BLOCK and settings.covariance == BLOCKS:
            state = merge_blocks(state, blocks_at(dim), x)
        if update_feature_stats(state, x):
            init_feature_prior(state, x)
        if state[COUNT] >= state[NEXT]:
            replace_prior(state, dim, settings.memory, settings.noise, settings.intercept_precision)
        learn_reward(state, x, reward, link)
        return state

    @staticmethod
    def probabilities(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Exact: from the intervals of Z in which each arm's line is the highest, and the floor."""
        K = arms.shape[0]
        floor = 1.0 if state[COUNT] == 0.0 else settings.floor
        levels, slopes = np.empty(K), np.empty(K)
        score_moments(state, arms, levels, slopes)
        known, sigma = (
            information(state, features_counted(state, settings, arms.shape[1])),
            noise_scale(state, settings),
        )
        for a in range(K):
            slopes[a] = bonus(slopes[a], known)
        # As in `choose`, sigma is a factor of Z: in a product with sigma, different bonuses may become equal.
        uniform_probabilities(levels, slopes, LEAST_BONUS * sigma, LARGEST_BONUS * sigma, out)
        for a in range(K):
            out[a] = floor / K + (1.0 - floor) * out[a]
        return True


@selects_half_life
class AdaptiveOptimist(Optimist):
    """Optimist that selects its half-life."""


@jittable
def features_counted(state: Floats, settings: Any, dim: int) -> float:
    """D in the bonus: all features, or those seen so far if the covariance is diagonal."""
    if settings.covariance == BLOCKS:
        return float(dim)
    presence, seen = presence_at(dim), 0.0
    for i in range(dim):
        seen += 1.0 if state[presence + i] > 0.0 else 0.0
    return seen


@jittable
def information(state: Floats, features: float) -> float:
    """The curvature of as many rewards as the bonus looks ahead."""
    weight = max(float(state[WEIGHT]), 1.0)
    return (ROUNDS_AHEAD + weight / (features + 1.0)) * float(state[CURVATURE]) / weight


@jittable
def noise_scale(state: Floats, settings: Any) -> float:
    """sigma: above 1 if rewards are noisier than the link says; never 0, which tiny rewards might give by underflow."""
    return max(math.sqrt(dispersion(state, settings.noise)), 1e-300)


@jittable
def bonus(variance: float, information: float) -> float:
    """The bonus of a score of this variance: fewer standard deviations the more is known about it."""
    variance = max(variance, 0.0)
    return math.sqrt(variance * math.log(1.0 + information * variance))


@jittable
def best_with_bonus(levels: Floats, variances: Floats, information: float, scale: float) -> int:
    """The arm with the largest level + scale bonus; the first of equal ones.

    A logarithm takes as long as a score, so only arms that could win with that of the largest variance get their own.
    """
    K, best, largest = levels.shape[0], 0, 0.0
    for a in range(K):
        best = a if levels[a] > levels[best] else best
        largest = variances[a] if variances[a] > largest else largest
    best_bonus = bonus(variances[best], information)
    limit = scale * scale * math.log(1.0 + information * largest) * (1.0 + ROUNDING)
    for a in range(K):
        # Compare differences as `probabilities` does: in a sum, the bonuses of close lines are lost to rounding.
        ahead = levels[a] - levels[best]
        needed = scale * best_bonus - ahead
        if needed <= 0.0 or needed * needed <= limit * variances[a]:
            own = bonus(variances[a], information)
            behind = scale * (best_bonus - own)
            if ahead > behind or (ahead == behind and a < best):
                best, best_bonus = a, own
    return best
