"""Noise: the distribution of a reward, given its expectation.

Each round has one noise number, which is drawn before a policy runs. The reward is a nondecreasing function of the
expected reward for a given noise number. Policies on the same rounds are therefore compared with common random numbers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import check_float
from glbandits.compilation.numba_support import jittable


@dataclass(frozen=True, kw_only=True, eq=False)
class Noise:
    """A family of reward distributions, indexed by the mean."""

    name: str
    draw: Callable[[np.random.Generator, int], Floats]
    """draw(rng, rounds) returns the noise numbers of this number of rounds."""
    reward: Callable[[float, float], float]
    """reward(expected, noise) returns the reward. It is compiled into the simulation."""
    lowest_mean: float = -math.inf
    highest_mean: float = math.inf
    lowest_reward: float = -math.inf
    highest_reward: float = math.inf

    def __post_init__(self) -> None:
        jittable(self.reward)

    def __reduce__(self) -> tuple[Callable[..., "Noise"], tuple[dict[str, Any]]]:
        """Pickle the fields, so that `__post_init__` registers `reward` again in a worker process."""
        return _unpickled, ({field.name: getattr(self, field.name) for field in fields(self)},)

    def __repr__(self) -> str:
        return f"<{self.name} noise>"

    @property
    def built_in(self) -> bool:
        """Whether `reward` is a function of this package, not a user's."""
        return any(self.reward is noise.reward for noise in NOISES.values())


def same_noise(noise: Noise) -> Noise:
    """Return the first noise with this name and function `reward`: all that is compiled into a simulation.

    An environment may make a new noise whenever it is asked for one, as in `return gaussian(0.5)`.
    """
    return _first.setdefault((noise.name, noise.reward), noise)


_first: dict[tuple[str, Callable[[float, float], float]], Noise] = {}


def _unpickled(parts: dict[str, Any]) -> Noise:
    return Noise(**parts)


def _bernoulli_reward(expected: float, noise: float) -> float:
    return 1.0 if noise < expected else 0.0


def _additive_reward(expected: float, noise: float) -> float:
    return expected + noise


def _poisson_reward(expected: float, noise: float) -> float:
    """Invert the Poisson distribution function at a uniform `noise`, for means up to 700."""
    count, probability = 0.0, math.exp(-expected)
    cumulative = probability
    while cumulative <= noise and probability > 0.0:
        count += 1.0
        probability *= expected / count
        cumulative += probability
    return count


def gaussian(deviation: float = 0.5) -> Noise:
    """Return the noise of normal rewards with this standard deviation."""
    deviation = check_float("deviation", deviation, at_least=0)
    return Noise(
        name="gaussian",
        draw=lambda rng, rounds: rng.normal(0.0, deviation, rounds),
        reward=_additive_reward,
    )


NOISES: dict[str, Noise] = {
    "bernoulli": Noise(
        name="bernoulli",
        draw=lambda rng, rounds: rng.random(rounds),
        reward=_bernoulli_reward,
        lowest_mean=0.0,
        highest_mean=1.0,
        lowest_reward=0.0,
        highest_reward=1.0,
    ),
    "gaussian": gaussian(),
    "poisson": Noise(
        name="poisson",
        draw=lambda rng, rounds: rng.random(rounds),
        reward=_poisson_reward,
        lowest_mean=0.0,
        highest_mean=700.0,
        lowest_reward=0.0,
    ),
}
