"""The simulation of the SGD-TS paper: uniform features, a uniform theta*, and any link; and harder variants of it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import numpy as np
from numba import types
from scipy.special import expit

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput, check_float, check_int, lookup
from glbandits.compilation.entry_point import entry_point
from glbandits.compilation.numba_support import READ_CUBE, READ_VECTOR
from glbandits.compilation.recipe import Recipe
from glbandits.lab.environments.noise import NOISES, Noise
from glbandits.lab.environments.rounds import Rounds, chunk_lengths, stream
from glbandits.maths.links import LINKS, Link, find_link, link_reader, own_link
from glbandits.maths.vectors import dot

THETA, FEATURES, NOISE, COUNTS, MIXING = 0, 1, 2, 3, 5
"""Each part of a problem has its own random stream, so that a change of one part does not change the others."""
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
class Synthetic:
    """Features and theta* with entries uniform in [-1/sqrt(d), 1/sqrt(d)], or harder variants.

    By default all norms and scores are at most 1. Each round draws new features, unless the arms are fixed. Each seed
    draws a new theta*.

    Values of `features`:

    - "uniform": uniform in [-1/sqrt(d), 1/sqrt(d)], as in the paper.
    - "heavy-tailed": Student's t with 2.5 degrees of freedom, scaled to a median norm of 0.6. A few arms have norms
      many times larger than the others.
    - "correlated": normal numbers times a random matrix, which is new for each seed. Its singular values fall from
      the largest to a thirtieth of it. The root mean square norm is 0.6.

    Values of `misspecified`, for rewards that no link explains:

    - "step": the expected reward is 0.8 if x'theta > 0.6 norm(theta) / sqrt(d), else 0.2.
    - "interaction": the expected reward is the logistic function of x'theta + 3 d x_0 x_1 - 0.5.

    Args:
        dim: d, the number of features of an arm, including the constant if there is an intercept.
        arms: K, the number of arms in a round, or the largest number if fewest_arms is given.
        fewest_arms: if given, each round has a random number of arms from fewest_arms to arms.
        fixed_arms: draw the features once for each seed, and use the same arms in every round.
        theta_norm: if given, theta* (without the intercept) is scaled to this norm.
        link: mu.
        rewards: "bernoulli", "gaussian", "poisson" or a Noise. "natural" selects by the link (`natural_noise`).
        features: "uniform", "heavy-tailed" or "correlated".
        intercept: if given, the last feature is a constant, and this number is added to every score.
        misspecified: None, "step" or "interaction". If given, expected rewards do not follow the link.
        feature_scale: all features, including the constant, are multiplied by this. The rewards stay the same.

    >>> problem = Synthetic(dim=10, arms=5, intercept=-4.6, theta_norm=3.0)
    >>> [chunk.arms.shape for chunk in problem.rounds(horizon=8, seed=1)]
    [(8, 5, 10)]
    """

    dim: int = 6
    arms: int = 100
    fewest_arms: int | None = None
    fixed_arms: bool = False
    theta_norm: float | None = None
    link: str | Link = "logistic"
    rewards: str | Noise = "natural"
    features: Literal["uniform", "heavy-tailed", "correlated"] = "uniform"
    intercept: float | None = None
    misspecified: Literal["step", "interaction"] | None = None
    feature_scale: float = 1.0

    def __post_init__(self) -> None:
        check_int("arms", self.arms, at_least=1)
        if self.fewest_arms is not None and check_int("fewest_arms", self.fewest_arms, at_least=1) > self.arms:
            raise InvalidInput(f"fewest_arms must be at most arms = {self.arms}; got {self.fewest_arms}")
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
        theta, mixing = self._theta(seed), self._mixing(seed) if self.features == CORRELATED else None
        draws, noises, counts = (stream(seed, part) for part in (FEATURES, NOISE, COUNTS))
        fewest = self.arms if self.fewest_arms is None else self.fewest_arms
        for length in chunk_lengths(horizon, self.arms * (self.dim + 2)):
            arms = self._draw(draws, 1 if self.fixed_arms else length, mixing)
            if self.fixed_arms:  # each chunk starts the stream again, so that all chunks have the same arms
                draws = stream(seed, FEATURES)
                arms = np.repeat(arms, length, axis=0)
            expected = self._expected(arms, theta)
            if self.feature_scale != 1.0:
                arms *= self.feature_scale
            yield Rounds(
                arms=arms,
                counts=counts.integers(fewest, self.arms, length, endpoint=True),
                expected=expected,
                noise=self.noise.draw(noises, length),
            )

    @property
    def _varying(self) -> int:
        """The number of features without the constant."""
        return self.dim - (self.intercept is not None)

    def _theta(self, seed: int) -> Floats:
        """Draw theta*, followed by the intercept, in the units of the unscaled features."""
        theta: Floats = stream(seed, THETA).uniform(-1.0, 1.0, self._varying) / math.sqrt(self._varying)
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
        rotation = np.linalg.qr(stream(seed, MIXING).normal(size=(d, d)))[0]
        mixing: Floats = stretch[:, np.newaxis] * rotation
        return mixing

    def _draw(self, rng: np.random.Generator, rounds: int, mixing: Floats | None) -> Floats:
        """Draw the features of this number of rounds, including the constant."""
        size = (rounds, self.arms, self._varying)
        if self.features == UNIFORM:
            arms = rng.uniform(-1.0, 1.0, size)
            arms /= math.sqrt(self._varying)
        elif self.features == HEAVY_TAILED:
            arms = rng.standard_t(TAIL, size) * (TYPICAL_NORM / median_norm(self._varying))
        else:
            assert mixing is not None
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


def noise_of(rewards: str | Noise, link: Link) -> Noise:
    """Return the noise for the setting `rewards`: a Noise, a built-in name, or "natural"."""
    if isinstance(rewards, Noise):
        return rewards
    return lookup("rewards", rewards, {"natural": NOISES[natural_noise(link)], **NOISES})


def natural_noise(link: Link) -> str:
    """Return the name of the noise for a link.

    Bernoulli for rewards in [0, 1], Poisson for other nonnegative rewards, otherwise Gaussian.
    """
    if link.lowest_reward != 0.0:
        return "gaussian"
    return "bernoulli" if link.highest_reward == 1.0 else "poisson"


def expected_rewards(link: Link) -> Callable[[Floats, Floats], Floats]:
    """Return a compiled function f(arms, theta): mu(x'theta) for arms (rounds, K, d)."""
    function: Callable[..., Floats] = entry_point(expectation_recipe, own_link(link)).compiled()
    return partial(function, np.array(link.packed))


def expectation_recipe(own: Link | None) -> Recipe:
    """Describe how to compile the function that `expected_rewards` returns. Its first argument is the packed link."""
    link_of = link_reader(own)

    def expectation(packed: Floats, arms: Floats, theta: Floats) -> Floats:
        link, expected = link_of(packed), np.empty(arms.shape[:2])
        for t in range(arms.shape[0]):
            for a in range(arms.shape[1]):
                expected[t, a] = link.mean(dot(arms[t, a], theta))
        return expected

    signature = types.float64[:, ::1](READ_VECTOR, READ_CUBE, READ_VECTOR)
    name = f"expected rewards, {own.name}" if own else "expected rewards"
    return Recipe(expectation, signature, name, check_bounds=own is not None)
