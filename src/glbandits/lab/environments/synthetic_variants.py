"""Harder variants of the synthetic problem, such as rewards that no link explains."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from scipy.special import expit

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput, check_float, check_int, lookup
from glbandits.lab.environments.noise import Noise
from glbandits.lab.environments.rounds import Rounds
from glbandits.lab.environments.synthetic import (
    CHUNK_SIZE,
    FEATURES,
    NOISE,
    ROUND_OVERHEAD,
    THETA,
    expected_rewards,
    noise_of,
)
from glbandits.maths.links import LINKS, Link, find_link

MIXING = 5
"""The random stream of the mixing matrix. `Synthetic` uses the streams below 5."""
TYPICAL_NORM = 0.6
"""The typical norm of an arm's features. Uniform features have a root mean square norm of 0.58."""
TAIL = 2.5
"""Degrees of freedom of heavy-tailed features. Their variance is finite, their fourth moment is not."""
UNEVENNESS = 30.0
"""The condition number of the mixing matrix."""
LOW, HIGH = 0.2, 0.8
"""The two expected rewards of misspecified="step"."""

UNIFORM, HEAVY_TAILED, CORRELATED = "uniform", "heavy-tailed", "correlated"
STEP, INTERACTION = "step", "interaction"


@dataclass(frozen=True, kw_only=True)
class SyntheticVariant:
    """`Synthetic` with settings that make it harder; the defaults change nothing.

    Values of `features`:

    - "uniform": uniform in [-1/sqrt(d), 1/sqrt(d)], as in `Synthetic`.
    - "heavy-tailed": Student's t with 2.5 degrees of freedom, scaled to a median norm of 0.6. A few arms have norms
      many times larger than the others.
    - "correlated": normal numbers times a random matrix, which is new for each seed. Its singular values fall from
      the largest to a thirtieth of it. The root mean square norm is 0.6.

    Values of `misspecified`, for rewards that no link explains:

    - "step": the expected reward is 0.8 if x'theta > 0.6 norm(theta) / sqrt(d), else 0.2.
    - "interaction": the expected reward is the logistic function of x'theta + 3 d x_0 x_1 - 0.5.

    Args:
        dim: the number of features of an arm, including the constant if there is an intercept.
        arms: K.
        fixed_arms: draw the features once for each seed, and use the same arms in every round.
        features: "uniform", "heavy-tailed" or "correlated".
        theta_norm: if given, theta* (without the intercept) is scaled to this norm.
        link: mu.
        intercept: if given, the last feature is a constant, and this number is added to every score.
        rewards: "bernoulli", "gaussian", "poisson" or a Noise. "natural" selects by the link (`natural_noise`).
        misspecified: None, "step" or "interaction". If given, expected rewards do not follow the link.
        feature_scale: all features, including the constant, are multiplied by this. The rewards stay the same.

    >>> problem = SyntheticVariant(dim=10, arms=5, intercept=-4.6, theta_norm=3.0)
    >>> [chunk.arms.shape for chunk in problem.rounds(horizon=8, seed=1)]
    [(8, 5, 10)]
    """

    dim: int = 6
    arms: int = 100
    fixed_arms: bool = False
    features: Literal["uniform", "heavy-tailed", "correlated"] = "uniform"
    theta_norm: float | None = None
    link: str | Link = "logistic"
    intercept: float | None = None
    rewards: str | Noise = "natural"
    misspecified: Literal["step", "interaction"] | None = None
    feature_scale: float = 1.0

    def __post_init__(self) -> None:
        check_int("arms", self.arms, at_least=1)
        lookup("features", self.features, dict.fromkeys((UNIFORM, HEAVY_TAILED, CORRELATED)))
        check_float("feature_scale", self.feature_scale, above=0)
        if self.theta_norm is not None:
            check_float("theta_norm", self.theta_norm, above=0)
        if self.intercept is not None:
            check_float("intercept", self.intercept)
        if self.misspecified is not None:
            lookup("misspecified", self.misspecified, dict.fromkeys((STEP, INTERACTION)))
        fewest = 2 if self.misspecified == INTERACTION else 1
        check_int("dim", self.dim, at_least=fewest + (self.intercept is not None))
        self._check_means()

    @property
    def noise(self) -> Noise:
        """The distribution of a reward, given its expectation."""
        return noise_of(self.rewards, find_link(self.link))

    def theta_star(self, seed: int) -> Floats:
        """The true parameter for this seed and for scaled features. The intercept is last."""
        return self._theta(seed) / self.feature_scale

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """Yield the rounds of one run, in chunks of at most 4 MB of features."""
        theta, mixing = self._theta(seed), self._mixing(seed)
        draws, noises = (_stream(seed, part) for part in (FEATURES, NOISE))
        chunk_length = max(1, CHUNK_SIZE // (self.arms * (self.dim + 2) + ROUND_OVERHEAD))
        for start in range(0, horizon, chunk_length):
            length = min(chunk_length, horizon - start)
            arms = self._draw(draws, 1 if self.fixed_arms else length, mixing)
            if self.fixed_arms:  # each chunk starts the stream again, so that all chunks have the same arms
                draws = _stream(seed, FEATURES)
                arms = np.repeat(arms, length, axis=0)
            expected = self._expected(arms, theta)
            yield Rounds(
                arms=arms * self.feature_scale,
                counts=np.full(length, self.arms),
                expected=expected,
                noise=self.noise.draw(noises, length),
                values=expected,
            )

    @property
    def _varying(self) -> int:
        """The number of features without the constant."""
        return self.dim - (self.intercept is not None)

    def _theta(self, seed: int) -> Floats:
        """Draw theta*, followed by the intercept, in the units of the unscaled features."""
        theta: Floats = _stream(seed, THETA).uniform(-1.0, 1.0, self._varying) / math.sqrt(self._varying)
        if self.theta_norm is not None:
            theta *= self.theta_norm / np.linalg.norm(theta)
        return theta if self.intercept is None else np.append(theta, self.intercept)

    def _mixing(self, seed: int) -> Floats:
        """Draw the mixing matrix: a rotation with unevenly scaled rows.

        Its squared entries sum to 0.36.
        """
        d = self._varying
        stretch = np.geomspace(1.0, 1.0 / UNEVENNESS, d) if d > 1 else np.ones(1)
        stretch *= TYPICAL_NORM / np.linalg.norm(stretch)
        rotation = np.linalg.qr(_stream(seed, MIXING).normal(size=(d, d)))[0]
        mixing: Floats = stretch[:, np.newaxis] * rotation
        return mixing

    def _draw(self, rng: np.random.Generator, rounds: int, mixing: Floats) -> Floats:
        """Draw the features of this number of rounds, including the constant."""
        size = (rounds, self.arms, self._varying)
        if self.features == UNIFORM:
            arms = rng.uniform(-1.0, 1.0, size) / math.sqrt(self._varying)
        elif self.features == HEAVY_TAILED:
            arms = rng.standard_t(TAIL, size) * (TYPICAL_NORM / median_norm(self._varying))
        else:
            arms = rng.normal(size=size) @ mixing  # one product per round, so that chunk sizes do not affect rounding
        if self.intercept is None:
            return arms
        return np.concatenate([arms, np.ones((rounds, self.arms, 1))], axis=2)

    def _expected(self, arms: Floats, theta: Floats) -> Floats:
        if self.misspecified is None:
            return expected_rewards(find_link(self.link))(arms, theta)
        scores = expected_rewards(LINKS["identity"])(arms, theta)
        if self.misspecified == INTERACTION:
            scores += 3.0 * self._varying * arms[:, :, 0] * arms[:, :, 1] - 0.5
            probabilities: Floats = expit(scores)
            return probabilities
        deviation = TYPICAL_NORM * float(np.linalg.norm(theta[: self._varying])) / math.sqrt(self._varying)
        return np.where(scores - (self.intercept or 0.0) > deviation, HIGH, LOW)

    def _check_means(self) -> None:
        """Raise InvalidInput if the rewards cannot have the expectations of this problem."""
        link, noise = find_link(self.link), self.noise
        if self.misspecified is not None:
            if noise.lowest_mean > 0.0 or noise.highest_mean < 1.0:
                raise InvalidInput(
                    f"misspecified rewards have means from 0 to 1; {noise.name} rewards cannot. Choose other rewards."
                )
            return
        if self.features != UNIFORM and link.lipschitz == math.inf:
            raise InvalidInput(
                f"{self.features} features have no largest score, so with the {link.name} link there is no largest "
                "mean. Choose uniform features or another link."
            )
        largest, shift = self.theta_norm or 1.0, self.intercept or 0.0
        low, high = link.lowest_reward, link.highest_reward
        if self.features == UNIFORM:
            low, high = link.mean(shift - largest), link.mean(shift + largest)
        if not (noise.lowest_mean <= low and high <= noise.highest_mean):
            raise InvalidInput(
                f"{noise.name} rewards need means from {noise.lowest_mean:g} to {noise.highest_mean:g}; with the "
                f"{link.name} link they are from {low:.3g} to {high:.3g}. Choose other rewards or another link."
            )


@cache
def median_norm(dim: int) -> float:
    """The median norm of a vector of `dim` Student's t numbers, estimated from a fixed sample."""
    sample = np.random.default_rng(0).standard_t(TAIL, (2001, dim))
    return float(np.median(np.linalg.norm(sample, axis=1)))


def _stream(seed: int, part: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part,)))
