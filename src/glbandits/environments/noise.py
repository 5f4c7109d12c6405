"""Noise: from the expected reward of the arm that was pulled to the reward that is seen.

A round has one noise number, drawn before anyone plays. The reward grows with the expected reward for a given
number, so policies that face the same rounds are compared on common random numbers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from glbandits.errors import check_float
from glbandits.numba_support import jittable
from glbandits.records import Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Noise:
    """A family of rewards with a given mean."""

    name: str
    draw: Callable[[np.random.Generator, int], Floats]
    """The noise numbers of so many rounds."""
    reward: Callable[[float, float], float]
    """The reward, given its expectation and the round's noise number. Compiled into the simulation."""
    lowest_mean: float = -math.inf
    highest_mean: float = math.inf
    lowest_reward: float = -math.inf
    highest_reward: float = math.inf

    def __post_init__(self) -> None:
        jittable(self.reward)

    def __reduce__(self) -> tuple[Callable[..., "Noise"], tuple[dict[str, Any]]]:
        """Pickled for worker processes: built again there, so that its reward is known to the compiler."""
        return _unpickled, ({field.name: getattr(self, field.name) for field in fields(self)},)

    def __repr__(self) -> str:
        return f"<{self.name} noise>"

    @property
    def built_in(self) -> bool:
        """Whether its code comes with the package."""
        return any(self.reward is noise.reward for noise in NOISES.values())


def _unpickled(parts: dict[str, Any]) -> Noise:
    return Noise(**parts)


def _bernoulli_reward(expected: float, noise: float) -> float:
    return 1.0 if noise < expected else 0.0


def _additive_reward(expected: float, noise: float) -> float:
    return expected + noise


def _poisson_reward(expected: float, noise: float) -> float:
    """Inversion: the first count whose distribution function exceeds the noise. For means below 700."""
    count, chance = 0.0, math.exp(-expected)
    reached = chance
    while reached <= noise and chance > 0.0:
        count += 1.0
        chance *= expected / count
        reached += chance
    return count


def gaussian(deviation: float = 0.5) -> Noise:
    """Normal rewards with this standard deviation."""
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
