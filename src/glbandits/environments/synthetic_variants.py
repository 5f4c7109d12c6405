"""Problems of other shapes than the paper's: features with tails or correlations, an intercept, a wrong model."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from scipy.special import expit

from glbandits.environments.noise import Noise
from glbandits.environments.synthetic import (
    CHUNK_SIZE,
    FEATURES,
    NOISE,
    ROUND_OVERHEAD,
    THETA,
    expected_rewards,
    noise_of,
)
from glbandits.errors import InvalidInput, check_float, check_int, lookup
from glbandits.maths.links import LINKS, Link, find_link
from glbandits.records import Floats, Rounds

MIXING = 5
"""The stream that draws how features are mixed. Below it are those of `Synthetic` and `SampledContexts`."""
TYPICAL_NORM = 0.6
"""Of the features of an arm; uniform ones have a root mean square of 0.58."""
TAIL = 2.5
"""Degrees of freedom of heavy-tailed features: their variance is finite, their fourth moment is not."""
UNEVENNESS = 30.0
"""The largest singular value of the mixing matrix over the smallest."""
LOW, HIGH = 0.2, 0.8
"""The two means of a step."""

UNIFORM, HEAVY_TAILED, CORRELATED = "uniform", "heavy-tailed", "correlated"
STEP, INTERACTION = "step", "interaction"


@dataclass(frozen=True, kw_only=True)
class SyntheticVariant:
    """`Synthetic` with one thing or another made harder; with nothing made harder, the same rounds to the last bit.

    Features, by name:
        "uniform" in [-1/sqrt(d), 1/sqrt(d)], as in `Synthetic`;
        "heavy-tailed" are Student's t with 2.5 degrees of freedom, scaled to a median norm of 0.6: most arms are
        ordinary, and a few are many times as long;
        "correlated" are normal numbers times a random matrix, new for each seed, whose singular values fall from the
        largest to a thirtieth of it; the root mean square of the norm is 0.6.

    Rewards that no link explains, by name:
        "step" has the mean 0.8 where x'theta is above 0.6 ||theta|| / sqrt(d), and 0.2 elsewhere;
        "interaction" has the logistic mean of x'theta + 3 d x_0 x_1 - 0.5.

    Args:
        dim: the number of features of an arm, the constant included if there is one.
        arms: K.
        fixed_arms: draw the features once for each seed, and show the same arms in every round.
        features: "uniform", "heavy-tailed" or "correlated".
        theta_norm: if given, theta*, without the intercept, is scaled to this length.
        link: mu.
        intercept: if given, a constant feature comes last, and adds this to every score.
        rewards: "bernoulli", "gaussian", "poisson" or a Noise; "natural" takes the one for the link's rewards.
        misspecified: None, "step" or "interaction". The link is then what a policy may believe, not what is.
        feature_scale: what is shown is multiplied by this, the constant too. Rewards stay the same: only units change.

    >>> problem = SyntheticVariant(dim=10, arms=5, intercept=-4.6, theta_norm=3.0)
    >>> [piece.arms.shape for piece in problem.rounds(horizon=8, seed=1)]
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
        """How an expected reward becomes a reward."""
        return noise_of(self.rewards, find_link(self.link))

    def theta_star(self, seed: int) -> Floats:
        """The true parameter of this seed's problem, for what is shown: the intercept last, all in the shown units."""
        return self._theta(seed) / self.feature_scale

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """The rounds of one run, in pieces of at most 4 MB of features."""
        theta, mixing = self._theta(seed), self._mixing(seed)
        draws, noises = (_stream(seed, part) for part in (FEATURES, NOISE))
        longest = max(1, CHUNK_SIZE // (self.arms * (self.dim + 2) + ROUND_OVERHEAD))
        for start in range(0, horizon, longest):
            length = min(longest, horizon - start)
            arms = self._draw(draws, 1 if self.fixed_arms else length, mixing)
            if self.fixed_arms:
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
        """Features that are not the constant."""
        return self.dim - (self.intercept is not None)

    def _theta(self, seed: int) -> Floats:
        """theta*, and after it the intercept, in the units in which features are drawn."""
        theta: Floats = _stream(seed, THETA).uniform(-1.0, 1.0, self._varying) / math.sqrt(self._varying)
        if self.theta_norm is not None:
            theta *= self.theta_norm / np.linalg.norm(theta)
        return theta if self.intercept is None else np.append(theta, self.intercept)

    def _mixing(self, seed: int) -> Floats:
        """A rotation of axes that are stretched unevenly, a row for each; the squares of all entries sum to 0.36."""
        d = self._varying
        stretch = np.geomspace(1.0, 1.0 / UNEVENNESS, d) if d > 1 else np.ones(1)
        stretch *= TYPICAL_NORM / np.linalg.norm(stretch)
        rotation = np.linalg.qr(_stream(seed, MIXING).normal(size=(d, d)))[0]
        mixing: Floats = stretch[:, np.newaxis] * rotation
        return mixing

    def _draw(self, rng: np.random.Generator, rounds: int, mixing: Floats) -> Floats:
        """Features of so many rounds, the constant included."""
        size = (rounds, self.arms, self._varying)
        if self.features == UNIFORM:
            arms = rng.uniform(-1.0, 1.0, size) / math.sqrt(self._varying)
        elif self.features == HEAVY_TAILED:
            arms = rng.standard_t(TAIL, size) * (TYPICAL_NORM / median_norm(self._varying))
        else:
            arms = rng.normal(size=size) @ mixing  # a product for each round, so that cuts change no bit
        if self.intercept is None:
            return arms
        return np.concatenate([arms, np.ones((rounds, self.arms, 1))], axis=2)

    def _expected(self, arms: Floats, theta: Floats) -> Floats:
        if self.misspecified is None:
            return expected_rewards(find_link(self.link))(arms, theta)
        scores = expected_rewards(LINKS["identity"])(arms, theta)
        if self.misspecified == INTERACTION:
            scores += 3.0 * self._varying * arms[:, :, 0] * arms[:, :, 1] - 0.5
            chances: Floats = expit(scores)
            return chances
        deviation = TYPICAL_NORM * float(np.linalg.norm(theta[: self._varying])) / math.sqrt(self._varying)
        return np.where(scores - (self.intercept or 0.0) > deviation, HIGH, LOW)

    def _check_means(self) -> None:
        """Refuse means that the rewards cannot have, before a run finds out."""
        link, noise = find_link(self.link), self.noise
        if self.misspecified is not None:
            if noise.lowest_mean > 0.0 or noise.highest_mean < 1.0:
                raise InvalidInput(f"misspecified rewards have means from 0 to 1; {noise.name} rewards cannot")
            return
        if self.features != UNIFORM and link.lipschitz == math.inf:
            raise InvalidInput(
                f"{self.features} features have no largest score, and the {link.name} link then no largest mean. "
                "Choose uniform features or another link"
            )
        largest, shift = self.theta_norm or 1.0, self.intercept or 0.0
        low, high = link.lowest_reward, link.highest_reward
        if self.features == UNIFORM:
            low, high = link.mean(shift - largest), link.mean(shift + largest)
        if not (noise.lowest_mean <= low and high <= noise.highest_mean):
            raise InvalidInput(
                f"{noise.name} rewards need means from {noise.lowest_mean:g} to {noise.highest_mean:g}; the "
                f"{link.name} link gives {low:.3g} to {high:.3g} here. Choose other rewards or another link"
            )


@cache
def median_norm(dim: int) -> float:
    """The median norm of so many of Student's t, from a sample that is always the same: it has no simple formula."""
    sample = np.random.default_rng(0).standard_t(TAIL, (2001, dim))
    return float(np.median(np.linalg.norm(sample, axis=1)))


def _stream(seed: int, part: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part,)))
