"""The simulation of the SGD-TS paper: uniform features, a uniform theta*, and any link."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numba import types

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput, check_float, check_int, lookup
from glbandits.compilation.entry_point import Recipe, entry_point
from glbandits.compilation.numba_support import READ_CUBE, READ_VECTOR
from glbandits.lab.environments.noise import NOISES, Noise
from glbandits.lab.environments.rounds import Rounds
from glbandits.maths.links import Link, find_link
from glbandits.maths.vectors import dot

CHUNK_SIZE = 2**19
"""The largest amount of numbers in a chunk of rounds: 4 MB."""
ROUND_OVERHEAD = 20
"""Numbers per round that do not depend on the arms: count, noise, regret, choice and intermediate results."""

# Each part of a problem has its own random stream, so that a change of one part does not change the others.
THETA, FEATURES, NOISE, COUNTS = 0, 1, 2, 3


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Features and theta* with entries uniform in [-1/sqrt(d), 1/sqrt(d)].

    All norms and scores are therefore at most 1. Each round draws new features, unless the arms are fixed. Each seed
    draws a new theta*.

    Args:
        dim: d.
        arms: K, the number of arms in a round, or the largest number if fewest_arms is given.
        fewest_arms: if given, each round has a random number of arms from fewest_arms to arms.
        fixed_arms: draw the features once for each seed, and use the same arms in every round.
        theta_norm: if given, theta* is scaled to this norm.
        link: mu.
        rewards: "bernoulli", "gaussian", "poisson" or a Noise. "natural" selects by the link (`natural_noise`).

    >>> problem = Synthetic(dim=3, arms=5)
    >>> [len(chunk) for chunk in problem.rounds(horizon=8, seed=1)]
    [8]
    """

    dim: int = 6
    arms: int = 100
    fewest_arms: int | None = None
    fixed_arms: bool = False
    theta_norm: float | None = None
    link: str | Link = "logistic"
    rewards: str | Noise = "natural"

    def __post_init__(self) -> None:
        check_int("dim", self.dim, at_least=1)
        check_int("arms", self.arms, at_least=1)
        if self.fewest_arms is not None:
            check_int("fewest_arms", self.fewest_arms, at_least=1)
            if self.fewest_arms > self.arms:
                raise InvalidInput(f"fewest_arms must be at most arms = {self.arms}; got {self.fewest_arms}")
        largest = 1.0 if self.theta_norm is None else check_float("theta_norm", self.theta_norm, above=0)
        link, noise = find_link(self.link), self.noise
        low, high = link.mean(-largest), link.mean(largest)
        if not (noise.lowest_mean <= low and high <= noise.highest_mean):
            raise InvalidInput(
                f"{noise.name} rewards need means from {noise.lowest_mean:g} to {noise.highest_mean:g}; with the "
                f"{link.name} link they are from {low:.3g} to {high:.3g}. Choose other rewards or another link."
            )

    @property
    def noise(self) -> Noise:
        """The distribution of a reward, given its expectation."""
        return noise_of(self.rewards, find_link(self.link))

    def theta_star(self, seed: int) -> Floats:
        """The true parameter for this seed."""
        theta: Floats = self._stream(seed, THETA).uniform(-1.0, 1.0, self.dim) / math.sqrt(self.dim)
        if self.theta_norm is not None:
            theta *= self.theta_norm / np.linalg.norm(theta)
        return theta

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """Yield the rounds of one run, in chunks of at most 4 MB of features."""
        theta_star, expectation = self.theta_star(seed), expected_rewards(find_link(self.link))
        noise = self.noise
        features, noises, counts = (self._stream(seed, part) for part in (FEATURES, NOISE, COUNTS))
        chunk_length = max(1, CHUNK_SIZE // (self.arms * (self.dim + 2) + ROUND_OVERHEAD))
        fewest = self.arms if self.fewest_arms is None else self.fewest_arms
        for start in range(0, horizon, chunk_length):
            length = min(chunk_length, horizon - start)
            arms = features.uniform(-1.0, 1.0, (1 if self.fixed_arms else length, self.arms, self.dim))
            arms /= math.sqrt(self.dim)
            if self.fixed_arms:  # each chunk starts the stream again, so that all chunks have the same arms
                features = self._stream(seed, FEATURES)
                arms = np.repeat(arms, length, axis=0)
            expected = expectation(arms, theta_star)
            yield Rounds(
                arms=arms,
                counts=counts.integers(fewest, self.arms, length, endpoint=True),
                expected=expected,
                noise=noise.draw(noises, length),
                values=expected,
            )

    def _stream(self, seed: int, part: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part,)))


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
    function: Callable[[Floats, Floats], Floats] = entry_point(expectation_recipe, link).compiled()
    return function


def expectation_recipe(link: Link) -> Recipe:
    """Describe how to compile the function that `expected_rewards` returns."""
    mean = link.mean

    def expectation(arms: Floats, theta: Floats) -> Floats:
        expected = np.empty(arms.shape[:2])
        for t in range(arms.shape[0]):
            for a in range(arms.shape[1]):
                expected[t, a] = mean(dot(arms[t, a], theta))
        return expected

    signature = types.float64[:, ::1](READ_CUBE, READ_VECTOR)
    name = f"expected rewards, {link.name}"
    return Recipe(expectation, signature, name, check_bounds=not link.built_in)
