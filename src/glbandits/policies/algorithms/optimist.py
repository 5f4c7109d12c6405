"""Optimist, the default policy: a one-pass posterior and a bonus, with nothing to tune."""

import math
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numba import types

from glbandits.common.arrays import Bools, Floats, Generator, Ints
from glbandits.common.errors import InvalidInput
from glbandits.compilation.entry_point import entry_point
from glbandits.compilation.numba_support import READ_VECTOR, by_type, jittable
from glbandits.compilation.shared_functions import shared
from glbandits.maths.arm_rows import arm_count
from glbandits.maths.feature_table import entries_of, has_room
from glbandits.maths.line_order import ZRange
from glbandits.maths.links import LinkFunctions, find_link
from glbandits.maths.philox import any_index, uniform
from glbandits.maths.posteriors.block_covariance import LARGEST_BLOCK, initial_size, merge_blocks, set_initial_blocks
from glbandits.maths.sparse_rows import SparseRow, SparseRows
from glbandits.policies.contract import (
    AnyLink,
    Bounds,
    Coefficients,
    Outliers,
    Policy,
    PolicyInfo,
    Probability,
    StateLayout,
)
from glbandits.policies.contract.model_facts import row_products
from glbandits.policies.shared.half_life_selection import (
    COPIES,
    FIRST_COPY,
    add_evidence,
    are_valid_copies,
    copy_of,
    copy_settings,
    half_life_of,
    initial_copies,
    main_copy,
    replace_main_copy,
    with_copy,
)
from glbandits.policies.shared.outlier_limits import NO_LIMIT, count_features, limit_features, limited_rows
from glbandits.policies.shared.posterior_scores import moments_recipe, score_moments
from glbandits.policies.shared.posterior_state import (
    COUNT,
    CURVATURE,
    INTERCEPT,
    LAYOUT,
    NEXT,
    OUTLIERS,
    OUTLYING_REWARDS,
    WEIGHT,
    blocks_at,
    dispersion,
    is_valid_posterior,
    mean_of,
    predictive_dispersion,
    presence_at,
    surprise,
    votes_of,
)  # fmt: skip
from glbandits.policies.shared.prior_replacement import replace_prior
from glbandits.policies.shared.self_scaling_posterior import (
    FIRST_SCALE,
    assumed_noise,
    init_feature_prior,
    intercept_variance,
    is_bernoulli,
    learn_reward,
)
from glbandits.policies.shared.sparse.posterior import (
    TABLE,
    VOTES,
    count_sparse_features,
    initial_sparse_state,
    is_valid_sparse_state,
    learn_sparse_reward,
    seen_features,
    sparse_means,
)
from glbandits.policies.shared.sparse.prior import replace_sparse_prior

LEAST_BONUS, LARGEST_BONUS = 0.6, 1.1
"""The range of Z: each decision multiplies the bonuses of all arms by one uniform number from this range."""
ROUNDS_AHEAD = 1000.0
"""The shortest horizon of exploration, in rounds. See "The bonus" in docs/theory/optimist.md."""
EXPECTED_SURPRISE = 0.9
"""A smaller `surprise` shrinks the bonus. Above it, it may come from a wide prior and rare rewards alone."""

BLOCKS = 0.0
"""The packed value of covariance="blocks"."""
ROUNDING = 1e-9
"""Relative safety margin of an upper bound against rounding."""


class Optimist(Policy):
    """Pull the arm with the largest posterior mean plus a bonus for its uncertainty.

    1. Draw one Z for all arms, uniform in [0.6, 1.1]. Pull the arm with the largest
       x'theta + Z sigma w sqrt(log(1 + h (1000 + t / (d + 1)) w^2)), where w is the standard deviation of its score.
       With the logistic link, sigma is reduced if rewards are more certain than predicted.
    2. Update the posterior of theta and the intercept by the reward (`shared.self_scaling_posterior`).

    The policy estimates the intercept, the units of the features, the scale of the prior and the size sigma of the
    noise. Only the link has to be chosen. h is the mean curvature of a reward. The probability of every arm is exact,
    because each arm's score is a line in Z. O(K d^2) to choose, O(d^2) to learn. With more than 128 features the
    covariance is exact in blocks of up to 128 features that occur together; choosing and learning are then linear in d
    for a given size of the blocks. docs/theory/optimist.md gives the reasons.

    Args:
        link: mu, any link.
        half_life: the number of rewards after which the weight of an observation is halved, for problems that change.
            None never forgets. Forgetting takes O(d^3) every half_life / 8 rewards. "auto" forgets when
            one of three half-lives predicts better (`shared.half_life_selection`); a round takes 3 to 7 times as long.
        floor: pull a random arm with this probability, so that every arm has probability at least floor/K.
        covariance: "blocks" as above. "diagonal" learns no correlations between features, and d in the bonus is the
            number of features seen so far. A sparse Bandit always uses "diagonal".

    >>> from glbandits import Bandit, Optimist
    >>> bandit = Bandit(Optimist(), dim=2, seed=1)
    >>> bandit.learn([1.0, 0.0], 0.0)
    >>> bandit.probabilities([[1.0, 0.0], [0.0, 1.0]])
    array([0., 1.])
    """

    name: ClassVar[str] = "optimist"
    layout: ClassVar[StateLayout] = LAYOUT
    estimate: ClassVar[str] = "mean"
    outliers_at: ClassVar[int | None] = OUTLIERS
    compiled_settings: ClassVar[tuple[str, ...] | None] = (
        "floor",
        "covariance",
        "memory",
        "noise",
        "bernoulli",
        "intercept_precision",
    )
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2 (d > 128: K d)", learn="d^2 (d > 128: d)", memory="d^2 (d > 128: d)",
        guarantee="none known", use_when="the default: nothing to tune, exact probabilities",
        sparse="K n; n; f",
    )  # fmt: skip

    link: AnyLink = "logistic"
    half_life: Annotated[float, Bounds(at_least=1)] | Literal["auto"] | None = None
    floor: Probability = 0.0
    covariance: Literal["blocks", "diagonal"] = "blocks"

    def memory(self, dim: int) -> float:
        """The half-life in rewards; infinite if the policy never forgets, or finds out itself when to forget."""
        return math.inf if self.half_life is None or self.half_life == "auto" else self.half_life

    def noise(self, dim: int) -> float:
        """The sum of squared residuals that counts as already observed."""
        return assumed_noise(find_link(self.link))

    def bernoulli(self, dim: int) -> float:
        """1 if the link implies the variance of 0/1 rewards, else 0."""
        return float(is_bernoulli(find_link(self.link)))

    def intercept_precision(self, dim: int) -> float:
        """The prior precision of the intercept."""
        return 1.0 / intercept_variance(find_link(self.link))

    def implementation(self, dim: int) -> type[Policy]:
        """A class of its own for "auto", so that other settings do not compile the selection."""
        return AdaptiveOptimist if self.half_life == "auto" else Optimist

    def init(self, dim: int) -> Floats:
        """Return the initial state. The prior is arbitrary: the first reward replaces it."""
        if self.half_life == "auto":
            return initial_copies(replace(self, half_life=None).init(dim))
        precision = self.intercept_precision(dim)
        is_diagonal = self.covariance == "diagonal"
        size = initial_size(dim, is_diagonal=is_diagonal)
        state = LAYOUT.allocate(
            dim, tail=size, prior=1.0, limits=NO_LIMIT, prior_scale=FIRST_SCALE, intercept_precision=precision
        )
        set_initial_blocks(state[blocks_at(dim) :], dim, is_diagonal=is_diagonal)
        return state

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        if self.half_life == "auto":
            return are_valid_copies(state, dim, replace(self, half_life=None))
        return is_valid_posterior(state, dim)

    def coefficients(self, state: Floats, dim: int) -> Coefficients | None:
        """Return the posterior means. With half_life="auto": those of the copy that decides."""
        return super().coefficients(main_copy(state) if self.half_life == "auto" else state, dim)

    def score_means(self, state: Floats, dim: int, arms: Any, largest: float = math.inf) -> Floats:
        """Return the posterior means of the scores, with outlying features limited as in decisions."""
        state = main_copy(state) if self.half_life == "auto" else state
        levels = row_products(limited_rows(state, arms, largest), mean_of(state, dim))
        return np.asarray(levels + state[INTERCEPT])

    def score_variances(self, state: Floats, dim: int, arms: Any) -> Floats:
        """Return the posterior variances of the scores, with outlying features limited as in decisions."""
        state = main_copy(state) if self.half_life == "auto" else state
        variances = _moments(self, state, arms)[1]
        return np.maximum(variances, 0.0) * predictive_dispersion(state, self.noise(dim))

    def outliers(self, state: Floats, dim: int) -> Outliers:
        """Return the limited rewards and features. With half_life="auto": those of the copy that decides."""
        state = main_copy(state) if self.half_life == "auto" else state
        votes, rewards = votes_of(state, dim), int(state[OUTLYING_REWARDS])
        features = {int(i): math.ceil(votes[i]) for i in np.flatnonzero(votes > 0.0)}
        return Outliers(rewards, int(state[OUTLIERS]) - rewards, features)

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Choose a random arm before the first reward; then the best with a randomly scaled bonus."""
        K = arm_count(arms)
        if state[COUNT] == 0.0 or (settings.floor > 0.0 and uniform(rng) < settings.floor):
            return any_index(rng, K)
        levels, variances = np.empty(K), np.empty(K)
        score_moments(state, arms, levels, variances)
        scale = (LEAST_BONUS + (LARGEST_BONUS - LEAST_BONUS) * uniform(rng)) * noise_scale(
            state, settings.noise, settings.bernoulli
        )
        features = features_counted(state, settings, arms)
        return argmax_with_bonus(levels, variances, information(state, features), scale)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Replace the prior if that is due, then update the posterior by the reward."""
        dim = x.shape[0]
        if dim > LARGEST_BLOCK and settings.covariance == BLOCKS:
            state = merge_blocks(state, blocks_at(dim), x)
        values = np.empty(dim)
        if count_features(state, x, values):
            init_feature_prior(state, values)
        if state[COUNT] >= state[NEXT]:
            replace_prior(state, dim, settings.memory, settings.noise, settings.intercept_precision)
        learn_reward(state, values, reward, settings.noise, link)
        return state

    @staticmethod
    def random_share(state: Floats, settings: Any) -> float:
        """1 before the first reward, then the floor."""
        return 1.0 if state[COUNT] == 0.0 else float(settings.floor)

    @staticmethod
    def lines(
        state: Floats, settings: Any, arms: Floats, link: LinkFunctions, levels: Floats, slopes: Floats
    ) -> ZRange:
        """Write the posterior mean and the bonus of the score of each arm."""
        score_moments(state, arms, levels, slopes)
        amount = information(state, features_counted(state, settings, arms))
        for a in range(slopes.shape[0]):
            slopes[a] = bonus(slopes[a], amount)
        # As in `choose`, sigma multiplies Z and not the bonuses: rounding could make the products equal.
        sigma = noise_scale(state, settings.noise, settings.bernoulli)
        return ZRange(LEAST_BONUS * sigma, LARGEST_BONUS * sigma, state[INTERCEPT])


choose_once, learn_once, lines_once = Optimist.choose, Optimist.learn, Optimist.lines
share_once = Optimist.random_share
"""The functions of one copy, under names that compiled code can read."""


class AdaptiveOptimist(Optimist):
    """Optimist with half_life="auto": the state consists of copies, of which the main copy decides."""

    outliers_at: ClassVar[int | None] = FIRST_COPY + OUTLIERS

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Return the decision of the main copy."""
        return choose_once(main_copy(state), copy_settings(settings, math.inf), arms, rng, link)

    @staticmethod
    def random_share(state: Floats, settings: Any) -> float:
        """The share of random decisions of the main copy."""
        return share_once(main_copy(state), copy_settings(settings, math.inf))

    @staticmethod
    def lines(
        state: Floats, settings: Any, arms: Floats, link: LinkFunctions, levels: Floats, slopes: Floats
    ) -> ZRange:
        """Write the lines of the main copy."""
        return lines_once(main_copy(state), copy_settings(settings, math.inf), arms, link, levels, slopes)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Compare the copies, let each of them learn the reward, and replace the main copy after a change."""
        values = np.empty(x.shape[0])
        limit_features(main_copy(state), x, values)
        add_evidence(state, settings.noise, values, reward, link)
        for i in range(COPIES):
            copy = copy_of(state, i)
            learned = learn_once(copy, copy_settings(settings, half_life_of(i, x.shape[0])), x, reward, rng, link)
            if learned is not copy:
                state = with_copy(state, i, learned)
        return replace_main_copy(state)


class SparseOptimist(Optimist, sparse=True):
    """The sparse form of `Optimist`: a diagonal posterior of the features that were learned, in a hash table.

    It inherits `choose` and `lines`. `half_life="auto"` has no sparse form.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.half_life == "auto":
            raise InvalidInput(
                'half_life="auto" has no sparse form; set it to a number of rewards, or to None to forget nothing.'
            )

    def implementation(self, dim: int) -> type[Policy]:
        return SparseOptimist

    def init(self, dim: int) -> Floats:
        return initial_sparse_state(self.intercept_precision(dim))

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        return is_valid_sparse_state(state, dim)

    def coefficients(self, state: Floats, dim: int) -> Coefficients:
        entries, intercept = entries_of(state, TABLE), float(state[INTERCEPT])
        return Coefficients(sparse_means(entries, intercept), intercept, entries[:, 0].astype(np.int64))

    def score_means(self, state: Floats, dim: int, arms: Any, largest: float = math.inf) -> Floats:
        return np.asarray(_moments(self, state, arms)[0] + state[INTERCEPT])

    def outliers(self, state: Floats, dim: int) -> Outliers:
        if state[OUTLIERS] == 0.0:
            return Outliers()  # at once, because a table may have a million rows
        entries, rewards = entries_of(state, TABLE), int(state[OUTLYING_REWARDS])
        features = {int(row[0]): math.ceil(row[VOTES]) for row in entries[entries[:, VOTES] > 0.0]}
        return Outliers(rewards, int(state[OUTLIERS]) - rewards, features)

    def has_room(self, state: Floats, dim: int, features: Ints, max_size: int) -> Bools:
        return has_room(state, TABLE, features, max_size)

    @staticmethod
    def learn(  # type: ignore[override]
        state: Floats, settings: Any, x: SparseRow, reward: float, rng: Generator, link: LinkFunctions
    ) -> Floats:
        """Replace the prior if it is due, then update the posterior by one reward."""
        rows, values = np.empty(x.indices.shape[0], dtype=np.int64), np.empty(x.indices.shape[0])
        state = count_sparse_features(state, x, rows, values)
        if state[COUNT] >= state[NEXT]:
            replace_sparse_prior(state, settings.memory, settings.noise, settings.intercept_precision)
        learn_sparse_reward(state, rows, values, reward, settings.noise, link)
        return state


def _moments(policy: Optimist, state: Floats, arms: Any) -> tuple[Floats, Floats]:
    """Return the posterior mean of each score, without the intercept, and its variance."""
    levels, variances = np.empty(arm_count(arms)), np.empty(arm_count(arms))
    packed = tuple(arms) if policy.is_sparse else arms
    entry_point(moments_recipe, policy.is_sparse).call(state, packed, levels, variances)
    return levels, variances


@by_type(SparseRows, seen_features)
def features_counted(state: Floats, settings: Any, arms: Floats) -> float:
    """The number d in the bonus.

    With a diagonal covariance it counts only features seen so far.
    """
    dim = arms.shape[1]
    if settings.covariance == BLOCKS:
        return float(dim)
    presence, seen = presence_at(dim), 0.0
    for i in range(dim):
        seen += 1.0 if state[presence + i] > 0.0 else 0.0
    return seen


@jittable
def information(state: Floats, features: float) -> float:
    """The expected curvature h (1000 + t / (d + 1)) of the rewards that the bonus looks ahead."""
    weight = max(float(state[WEIGHT]), 1.0)
    return (ROUNDS_AHEAD + weight / (features + 1.0)) * float(state[CURVATURE]) / weight


@jittable
def noise_scale(state: Floats, noise: float, bernoulli: float) -> float:
    """sigma, the noise relative to the noise that the link implies; less if the model is clearly too uncertain.

    Never 0, even for tiny rewards.
    """
    sigma = max(math.sqrt(dispersion(state, noise)), 1e-300)
    return sigma * min(surprise(state, noise) / EXPECTED_SURPRISE, 1.0) if bernoulli == 1.0 else sigma


@jittable
def bonus(variance: float, information: float) -> float:
    """The bonus of a score with this variance, before the factors Z and sigma.

    `argmax_with_bonus` bounds the same formula.
    """
    variance = max(variance, 0.0)
    return math.sqrt(variance * math.log(1.0 + information * variance))


@shared(types.int64(READ_VECTOR, READ_VECTOR, types.float64, types.float64))
def argmax_with_bonus(levels: Floats, variances: Floats, information: float, scale: float) -> int:
    """Return the arm with the largest level + scale * bonus; of equal ones the first.

    levels[a] is the posterior mean of the score of arm a, without the intercept. A logarithm takes as long as a score.
    So the exact bonus is computed only for arms that could win with an upper bound of their bonus, which uses the
    logarithm for the largest variance.
    """
    K, best, largest = levels.shape[0], 0, 0.0
    for a in range(K):
        best = a if levels[a] > levels[best] else best
        largest = variances[a] if variances[a] > largest else largest
    best_bonus = bonus(variances[best], information)
    limit = scale * scale * math.log(1.0 + information * largest) * (1.0 + ROUNDING)
    for a in range(K):
        # Compare differences as `probabilities` does: in a sum, rounding loses the difference of close bonuses.
        level_gain = levels[a] - levels[best]
        required_bonus = scale * best_bonus - level_gain
        if required_bonus <= 0.0 or required_bonus * required_bonus <= limit * variances[a]:
            arm_bonus = bonus(variances[a], information)
            bonus_loss = scale * (best_bonus - arm_bonus)
            if level_gain > bonus_loss or (level_gain == bonus_loss and a < best):
                best, best_bonus = a, arm_bonus
    return best
