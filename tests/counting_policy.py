"""A policy that learns and compiles quickly, for tests of logs."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits import Uniform
from glbandits.common.arrays import Floats, Generator
from glbandits.compilation.numba_support import jittable
from glbandits.maths.links import LinkFunctions
from glbandits.maths.matrix_products import best_arm
from glbandits.maths.philox import any_index


@dataclass(frozen=True, kw_only=True)
class Counting(Uniform):
    """The weight of a feature is its total reward. One time in five, pull a random arm. Cheap to compile."""

    name: ClassVar[str] = "counting"

    def init(self, dim: int) -> Floats:
        return np.zeros(dim)

    @staticmethod
    @jittable
    def choose(state: Floats, _settings: Floats, arms: Floats, rng: Generator, _link: LinkFunctions) -> int:
        if any_index(rng, 5) == 0:
            return any_index(rng, arms.shape[0])
        return best_arm(arms, state)

    @staticmethod
    @jittable
    def learn(
        state: Floats, _settings: Floats, x: Floats, reward: float, _rng: Generator, _link: LinkFunctions
    ) -> Floats:
        for i in range(len(x)):
            state[i] += (reward - 0.5) * x[i]
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, _settings: Floats, arms: Floats, _link: LinkFunctions, out: Floats) -> bool:
        out[:] = 0.2 / arms.shape[0]
        out[best_arm(arms, state)] += 0.8
        return True
