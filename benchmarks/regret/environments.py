"""Environments: small gaps, hidden offsets, sparse crosses, heavy tails and a flip."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from glbandits.common.arrays import Floats
from glbandits.lab.environments import NOISES, Noise, Synthetic
from glbandits.lab.environments.rounds import Rounds, chunk_lengths, stream
from glbandits.lab.environments.synthetic import NOISE, THETA
from glbandits.maths.links import find_link

CONTEXTS = 4
"""The stream of the contexts; `Synthetic` has those below."""

STUDENT_T = Noise(
    name="student-t",
    draw=lambda rng, rounds: 0.3 * rng.standard_t(3.0, rounds),
    reward=NOISES["gaussian"].reward,
)
"""Student's t noise with 3 degrees of freedom and standard deviation 0.52."""


@dataclass(frozen=True, kw_only=True)
class OneHotArms:
    """Independent Bernoulli arms, each with its own one-hot feature.

    One arm is better; the seed draws which.
    """

    arms: int
    best_mean: float
    other_mean: float

    @property
    def dim(self) -> int:
        """One feature for each arm."""
        return self.arms

    @property
    def noise(self) -> Noise:
        """Bernoulli."""
        return NOISES["bernoulli"]

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """The same arms in every round."""
        means = np.full(self.arms, self.other_mean)
        means[stream(seed, THETA).integers(self.arms)] = self.best_mean
        noises = stream(seed, NOISE)
        for length in chunk_lengths(horizon, self.arms * (self.dim + 2)):
            arms = np.repeat(np.eye(self.arms)[np.newaxis], length, axis=0)
            yield _rounds(arms, np.tile(means, (length, 1)), self.noise.draw(noises, length))


@dataclass(frozen=True, kw_only=True)
class HiddenOffset:
    """Fixed arms of mean link(offset + x'theta*).

    No feature is constant, so no score can express the offset.

    Features are uniform with norm at most 1; theta* has norm theta_norm.
    """

    dim: int
    arms: int
    theta_norm: float
    offset: float
    link: str = "logistic"
    rewards: Noise = NOISES["bernoulli"]

    @property
    def noise(self) -> Noise:
        """The reward distribution."""
        return self.rewards

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """The same arms in every round."""
        scores = Synthetic(
            dim=self.dim, arms=self.arms, fixed_arms=True, theta_norm=self.theta_norm, link="identity"
        )  # its expected rewards are the scores x'theta*
        noises, mean = stream(seed, NOISE), np.vectorize(find_link(self.link).mean)
        for block in scores.rounds(horizon, seed):
            means = np.tile(mean(self.offset + block.expected[0]), (len(block), 1))
            yield replace(block, expected=means, payoffs=means, noise=self.noise.draw(noises, len(block)))


@dataclass(frozen=True, kw_only=True)
class SparseCrosses:
    """Each round draws one of several contexts.

    An arm shows the context, the arm and their cross, all one-hot.

    So d = contexts + arms + contexts * arms, and three features of an arm are 1. The score is a constant plus normal
    weights of deviation `main_deviation` for contexts and arms, and `cross_deviation` for crosses.
    """

    contexts: int
    arms: int
    constant: float = -1.0
    main_deviation: float = 0.7
    cross_deviation: float = 0.7

    @property
    def dim(self) -> int:
        """Main effects and crosses."""
        return self.contexts + self.arms + self.contexts * self.arms

    @property
    def noise(self) -> Noise:
        """Bernoulli."""
        return NOISES["bernoulli"]

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """Rounds of one context each."""
        means, contexts, noises = self.means(seed), stream(seed, CONTEXTS), stream(seed, NOISE)
        each = np.arange(self.arms)
        for length in chunk_lengths(horizon, self.arms * (self.dim + 2)):
            shown = contexts.integers(self.contexts, size=length)
            arms, t = np.zeros((length, self.arms, self.dim)), np.arange(length)[:, np.newaxis]
            arms[t, each, shown[:, np.newaxis]] = 1.0
            arms[t, each, self.contexts + each] = 1.0
            arms[t, each, self.contexts + self.arms + shown[:, np.newaxis] * self.arms + each] = 1.0
            yield _rounds(arms, means[shown], self.noise.draw(noises, length))

    def means(self, seed: int) -> Floats:
        """The mean of each arm in each context, (contexts, arms)."""
        weights = stream(seed, THETA)
        context = weights.normal(0.0, self.main_deviation, (self.contexts, 1))
        arm = weights.normal(0.0, self.main_deviation, self.arms)
        cross = weights.normal(0.0, self.cross_deviation, (self.contexts, self.arms))
        means: Floats = expit(self.constant + context + arm + cross)
        return means


@dataclass(frozen=True, kw_only=True)
class Flip:
    """The paper's simulation with the logistic link.

    From round `flip_after` on, theta* is -theta*.
    """

    dim: int
    arms: int
    theta_norm: float
    flip_after: int

    @property
    def noise(self) -> Noise:
        """Bernoulli."""
        return NOISES["bernoulli"]

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """The rounds of `Synthetic`; after the flip a mean p becomes 1 - p."""
        start = 0
        for block in Synthetic(dim=self.dim, arms=self.arms, theta_norm=self.theta_norm).rounds(horizon, seed):
            is_flipped = (np.arange(start, start + len(block)) >= self.flip_after)[:, np.newaxis]
            means = np.where(is_flipped, 1.0 - block.expected, block.expected)
            yield replace(block, expected=means, payoffs=means)
            start += len(block)


def _rounds(arms: Floats, means: Floats, noise: Floats) -> Rounds:
    return Rounds(arms=arms, counts=np.full(len(arms), arms.shape[1]), expected=means, noise=noise, payoffs=means)
