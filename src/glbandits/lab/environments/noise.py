"""Noise: the distribution of a reward, given its expectation.

Each round has one noise number, which is drawn before a policy runs. The reward is a nondecreasing function of the
expected reward for a given noise number. Policies on the same rounds are therefore compared with common random numbers.

The compiled simulation gets a built-in noise as its number at run time, and a user's noise as its function `reward`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import check_float
from glbandits.compilation.numba_support import jittable

Reward: TypeAlias = Callable[[float, float], float]


@dataclass(frozen=True, kw_only=True, eq=False)
class Noise:
    """A family of reward distributions, indexed by the mean."""

    name: str
    draw: Callable[[np.random.Generator, int], Floats]
    """draw(rng, rounds) returns the noise numbers of this number of rounds."""
    reward: Reward
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
    def number(self) -> int:
        """The number of a noise whose `reward` is a function of this package; -1 for a user's."""
        return REWARDS.index(self.reward) if self.built_in else -1

    @property
    def built_in(self) -> bool:
        """Whether `reward` is a function of this package, not a user's."""
        return self.reward in REWARDS


def _unpickled(parts: dict[str, Any]) -> Noise:
    return Noise(**parts)


BERNOULLI, ADDITIVE, POISSON = 0, 1, 2
"""The numbers of the built-in noises."""


@jittable
def built_in_reward(number: int, expected: float, noise: float) -> float:
    """Return the reward under the built-in noise with this number."""
    if number == BERNOULLI:
        return 1.0 if noise < expected else 0.0
    if number == ADDITIVE:
        return expected + noise
    # Invert the Poisson distribution function at a uniform `noise`, for means up to 700.
    count, probability = 0.0, math.exp(-expected)
    cumulative = probability
    while cumulative <= noise and probability > 0.0:
        count += 1.0
        probability *= expected / count
        cumulative += probability
    return count


def _bernoulli_reward(expected: float, noise: float) -> float:
    return built_in_reward(BERNOULLI, expected, noise)


def _additive_reward(expected: float, noise: float) -> float:
    return built_in_reward(ADDITIVE, expected, noise)


def _poisson_reward(expected: float, noise: float) -> float:
    return built_in_reward(POISSON, expected, noise)


REWARDS: tuple[Reward, ...] = (_bernoulli_reward, _additive_reward, _poisson_reward)
"""The functions of the built-in noises, in the order of their numbers."""


def own_noise(noise: Noise) -> Noise | None:
    """Return the noise that compiled code is specialised for: a user's; None for all built-in noises.

    An environment may make a new noise whenever it is asked for one. Of those with the same name and function
    `reward`, which are all that is compiled, the first is returned.
    """
    return None if noise.built_in else _first.setdefault((noise.name, noise.reward), noise)


_first: dict[tuple[str, Reward], Noise] = {}


def reward_function(own: Noise | None) -> Callable[[int, float, float], float]:
    """Return a function that compiled code calls for a reward, with the number of the noise."""
    if own is None:
        return built_in_reward
    reward = own.reward

    def reward_of(number: int, expected: float, noise: float) -> float:  # noqa: ARG001
        return reward(expected, noise)

    return jittable(reward_of)


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
