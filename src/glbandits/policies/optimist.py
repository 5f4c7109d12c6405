"""Optimist: the default policy. One pass, full curvature, a random bonus in a share of decisions, nothing to tune."""

import math
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from glbandits.maths.covariance import (
    argmax_with_bonus,
    arm_variance,
    bound_variances,
    levels_and_lengths,
    replace_prior,
    score_lines,
    subtract_outer,
)  # fmt: skip
from glbandits.maths.links import LinkFunctions, find_link
from glbandits.maths.philox import any_index, uniform, uniform_pair
from glbandits.maths.sketch import (
    append_observation,
    as_sketch,
    compress,
    discount_curvature,
    multiply_sketched,
    rebuild_covariance,
    score_lines_sketched,
    sketch_size,
)  # fmt: skip
from glbandits.maths.upper_envelope import half_normal_probabilities
from glbandits.maths.vectors import best_arm, copy_to
from glbandits.numba_support import jittable
from glbandits.policy import AnyLink, Bounds, Policy, PolicyInfo, Probability, StateLayout, derived
from glbandits.policy_bases.half_life_selection import are_valid_copies, initial_copies, selects_half_life
from glbandits.policy_bases.self_scaling_posterior import (
    COUNT,
    NEXT,
    OFFSET,
    SKETCHED_LAYOUT,
    WEIGHT,
    WHOLE_LAYOUT,
    assumed_noise,
    covariance_of,
    discount_sums,
    dispersion,
    init_feature_prior,
    mean_of,
    move_mean,
    prior_of,
    rescaled_prior,
    tail_at,
    update_feature_stats,
)  # fmt: skip
from glbandits.records import Floats, Generator

EXPLORATION, LEAST_SHARE = 24.0, 1 / 16
"""After t rewards a decision has a bonus with probability EXPLORATION sqrt(d + 1) / t, but at least LEAST_SHARE. All
other decisions are greedy, which costs no more than scoring the arms."""
BONUS = 1.5
"""The scale of the bonus, in standard deviations of the score."""
WHOLE_UP_TO = 128
"""Up to this many features the covariance is a full matrix."""
RANK = 8
"""Directions that the sketch keeps beyond that. The setting may be at most 64, because the time grows with its cube."""


class Optimist(Policy):
    """Score arms by the posterior mean, and in a share of decisions add a random bonus for uncertainty.

    1. With probability min(1, 24 sqrt(d + 1) / t), but at least 1/16, draw Z from N(0, 1), once for all arms, and play
       the arm with the largest x'theta + 1.5 |Z| sigma ||x|| in H^-1.
    2. Else play the arm with the largest x'theta.
    3. Move theta by the exact step of the reward, and add its curvature to H.

    The policy finds an intercept, the units of the features and the size sigma of the noise itself, so only the link
    has to be chosen. The probability of every arm is exact, because each arm's score is a line in |Z|. A decision with
    a bonus takes O(K d^2), a greedy one O(K d), learning O(d^2). With more than 128 features H is a diagonal and 8
    directions, and all of these are O(d). docs/theory/optimist.md gives the reasons.

    Args:
        link: mu, any link.
        half_life: rewards after which an observation counts half, for a world that changes; None forgets nothing.
            Forgetting takes O(d^3) every half_life / 8 rewards; O(d) with a sketch. "auto" learns with four half-lives
            and finds out which one to use: a round takes 3 to 7 times as long.
        floor: play a random arm with this probability, so that no arm has less than floor/K.
        rank: directions of curvature that are kept beside the diagonal; 0 keeps all. None decides by the dimension.

    >>> from glbandits import Bandit, Optimist
    >>> bandit = Bandit(Optimist(), dim=2, seed=1)
    >>> bandit.learn([1.0, 0.0], 0.0)
    >>> bandit.probabilities([[1.0, 0.0], [0.0, 1.0]])
    array([0., 1.])
    """

    name: ClassVar[str] = "optimist"
    layout: ClassVar[StateLayout] = SKETCHED_LAYOUT
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d; K d^2 for the exploration share (d > 128: K d)",
        learn="d^2 (d > 128: d)", memory="d^2 (d > 128: d)",
        guarantee="none known", use_when="the default: nothing to tune, exact probabilities",
    )  # fmt: skip

    link: AnyLink = "logistic"
    half_life: Annotated[float, Bounds(at_least=1)] | Literal["auto"] | None = None
    floor: Probability = 0.0
    rank: Annotated[int, Bounds(at_least=0, at_most=64)] | None = None

    @derived
    def directions(self, dim: int) -> int:
        """How many directions are kept beside the diagonal; 0 is all of them."""
        if self.rank is not None:
            return self.rank
        return 0 if dim <= WHOLE_UP_TO else RANK

    @derived
    def memory(self, dim: int) -> float:
        """The half-life; infinite if nothing is forgotten, or if copies have half-lives of their own."""
        return math.inf if self.half_life is None or self.half_life == "auto" else self.half_life

    @derived
    def noise(self, dim: int) -> float:
        """The variance of rewards that counts as already observed."""
        return assumed_noise(find_link(self.link))

    def implementation(self, dim: int) -> type[Policy]:
        """One class for each form of the covariance: only the code of that form is compiled."""
        if self.half_life == "auto":
            return AdaptiveWholeOptimist if self.directions(dim) == 0 else AdaptiveSketchedOptimist
        return WholeOptimist if self.directions(dim) == 0 else SketchedOptimist

    def init(self, dim: int) -> Floats:
        """A state that has learned nothing. Any prior will do, because the first reward rescales it."""
        if self.half_life == "auto":
            return initial_copies(replace(self, half_life=None).init(dim))
        rank = self.directions(dim)
        if rank == 0:
            return WHOLE_LAYOUT.allocate(dim, prior=1.0, covariance=1.0)
        state = SKETCHED_LAYOUT.allocate(dim, tail=sketch_size(rank, dim + 1), prior=1.0)
        as_sketch(state, tail_at(dim), rank, dim + 1).variances[:] = 1.0
        return state

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        """Whether this can be a state of this dimension and rank."""
        if self.half_life == "auto":
            return are_valid_copies(state, dim, replace(self, half_life=None))
        rank = self.directions(dim)
        if rank == 0:
            return WHOLE_LAYOUT.is_valid(state, dim) and state[OFFSET] in (0.0, 1.0)
        if not SKETCHED_LAYOUT.is_valid(state, dim, tail=sketch_size(rank, dim + 1)):
            return False
        sketch = as_sketch(state, tail_at(dim), rank, dim + 1)
        used = float(sketch.used[0])
        valid_sketch = used.is_integer() and 0 <= used <= 2 * rank and (sketch.variances > 0.0).all()
        return bool(valid_sketch and state[OFFSET] in (0.0, 1.0))


class WholeOptimist(Optimist):
    """Optimist with the full covariance."""

    layout: ClassVar[StateLayout] = WHOLE_LAYOUT

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm before the first reward; then mostly the best arm, and sometimes the best with a bonus."""
        K, dim = arms.shape
        if state[COUNT] == 0.0 or (settings.floor > 0.0 and uniform(rng) < settings.floor):
            return any_index(rng, K)
        bonus = draw_bonus(state, dim, rng)
        if bonus < 0.0:
            return best_arm(arms, mean_of(state, dim))
        P, unit = covariance_of(state, dim), bonus_unit(state, settings)
        bounds, levels, slopes = np.empty(dim + 1), np.empty(K), np.empty(K)
        bound_variances(P, unit, bounds)
        levels_and_lengths(arms, mean_of(state, dim), bounds, levels, slopes)
        return argmax_with_bonus(arms, P, unit, bonus, levels, slopes)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Rescale the prior if it is due, then take the exact step of one observation."""
        dim = x.shape[0]
        P = covariance_of(state, dim)
        if update_feature_stats(state, x):
            init_feature_prior(state, x, tail_at(dim), dim + 2)
        if state[COUNT] >= state[NEXT]:
            new_prior = rescaled_prior(state, dim)
            fade = discount_sums(state, dim, settings.memory)
            replace_prior(P, mean_of(state, dim), prior_of(state, dim), new_prior, fade)
        direction, diagonal = np.empty(dim + 1), float(P[dim, dim])
        variance = arm_variance(P, x, 0, direction)
        for i in range(dim):
            diagonal += x[i] * x[i] * P[i, i]
        _, shrinkage = move_mean(state, x, reward, direction, variance, diagonal, link)
        subtract_outer(P, shrinkage, direction)
        return state

    @staticmethod
    def probabilities(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Exact: from the intervals of |Z| in which each arm's line is the highest, the greedy share, and the floor."""
        K, dim = arms.shape
        levels, slopes = np.empty(K), np.empty(K)
        score_lines(arms, mean_of(state, dim), covariance_of(state, dim), bonus_unit(state, settings), levels, slopes)
        half_normal_probabilities(levels, slopes, out)
        mix_probabilities(state, settings, dim, best_arm(arms, mean_of(state, dim)), out)
        return True


class SketchedOptimist(Optimist):
    """Optimist with a sketch of the covariance."""

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm before the first reward; then mostly the best arm, and sometimes the best with a bonus."""
        K, dim = arms.shape
        if state[COUNT] == 0.0 or (settings.floor > 0.0 and uniform(rng) < settings.floor):
            return any_index(rng, K)
        bonus = draw_bonus(state, dim, rng)
        if bonus < 0.0:
            return best_arm(arms, mean_of(state, dim))
        levels, slopes = np.empty(K), np.empty(K)
        sketch = as_sketch(state, tail_at(dim), int(settings.directions), dim + 1)
        score_lines_sketched(arms, mean_of(state, dim), sketch, bonus_unit(state, settings), levels, slopes)
        best = 0
        for a in range(1, K):
            # Compare differences, as `argmax_with_bonus` does.
            if levels[a] - levels[best] > bonus * (slopes[best] - slopes[a]):
                best = a
        return best

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Rescale the prior if it is due, then take the exact step of one observation."""
        dim = x.shape[0]
        prior = prior_of(state, dim)
        sketch = as_sketch(state, tail_at(dim), int(settings.directions), dim + 1)
        if update_feature_stats(state, x):
            init_feature_prior(state, x, tail_at(dim) + dim + 2, 1)
        if state[COUNT] >= state[NEXT]:
            new_prior = rescaled_prior(state, dim)
            fade = discount_sums(state, dim, settings.memory)
            mean = mean_of(state, dim)
            right_side = discount_curvature(sketch, mean, prior, fade)
            copy_to(prior, new_prior)
            rebuild_covariance(sketch, prior)
            multiply_sketched(sketch, right_side, mean)
        if sketch.used[0] == sketch.B.shape[0]:
            compress(sketch)
            rebuild_covariance(sketch, prior)
        v, direction = np.empty(dim + 1), np.empty(dim + 1)
        copy_to(v, x)
        v[dim] = 1.0
        multiply_sketched(sketch, v, direction)
        variance, diagonal = float(direction[dim]), float(sketch.variances[dim])
        for i in range(dim):
            variance += x[i] * direction[i]
            diagonal += x[i] * x[i] * sketch.variances[i]
        slope, shrinkage = move_mean(state, x, reward, direction, variance, diagonal, link)
        append_observation(sketch, slope, v, shrinkage, direction)
        return state

    @staticmethod
    def probabilities(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Exact: from the intervals of |Z| in which each arm's line is the highest, the greedy share, and the floor."""
        K, dim = arms.shape
        levels, slopes = np.empty(K), np.empty(K)
        sketch = as_sketch(state, tail_at(dim), int(settings.directions), dim + 1)
        score_lines_sketched(arms, mean_of(state, dim), sketch, bonus_unit(state, settings), levels, slopes)
        half_normal_probabilities(levels, slopes, out)
        mix_probabilities(state, settings, dim, best_arm(arms, mean_of(state, dim)), out)
        return True


@selects_half_life
class AdaptiveWholeOptimist(WholeOptimist):
    """Optimist with the full covariance that selects its half-life."""


@selects_half_life
class AdaptiveSketchedOptimist(SketchedOptimist):
    """Optimist with a sketch of the covariance that selects its half-life."""


@jittable
def exploration_share(state: Floats, dim: int) -> float:
    """The probability that a decision has a bonus."""
    rewards = max(float(state[WEIGHT]), 1.0)
    return max(LEAST_SHARE, min(1.0, EXPLORATION * math.sqrt(dim + 1.0) / rewards))


@jittable
def draw_bonus(state: Floats, dim: int, rng: Generator) -> float:
    """The |Z| of a decision with a bonus, or -1 for a greedy decision."""
    u, v = uniform_pair(rng)
    share = exploration_share(state, dim)
    if u >= share:
        return -1.0
    # A normal number (Box and Muller): below the share, u / share is uniform again.
    return math.sqrt(-2.0 * math.log(1.0 - u / share)) * abs(math.cos(2.0 * math.pi * v))


@jittable
def bonus_unit(state: Floats, settings: Any) -> float:
    """The bonus per standard deviation of the score: larger if rewards are noisier than the link says."""
    return BONUS * math.sqrt(dispersion(state, settings.noise))


@jittable
def mix_probabilities(state: Floats, settings: Any, dim: int, greedy: int, out: Floats) -> None:
    """Turn the probabilities of a decision with a bonus into those of any decision.

    Adds the greedy share and the floor; `greedy` is the arm that a greedy decision plays.
    """
    K, share = out.shape[0], exploration_share(state, dim)
    floor = 1.0 if state[COUNT] == 0.0 else settings.floor
    for a in range(K):
        mixed = share * out[a] + (1.0 - share if a == greedy else 0.0)
        out[a] = floor / K + (1.0 - floor) * mixed
