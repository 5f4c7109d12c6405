"""A policy whose helper reads behind the end of the state for large rewards."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import types

from glbandits import Uniform
from glbandits.common.arrays import Floats, Generator
from glbandits.compilation.numba_support import READ_VECTOR, jittable
from glbandits.compilation.shared_functions import shared
from glbandits.maths.links import LinkFunctions


@shared(types.float64(READ_VECTOR, types.int64))
def entry_at(values: Floats, index: int) -> float:
    return float(values[index])


@jittable
def entry_for(values: Floats, reward: float) -> float:
    return entry_at(values, int(reward))


@dataclass(frozen=True, kw_only=True)
class Careless(Uniform):
    name: ClassVar[str] = "careless"

    def init(self, dim: int) -> Floats:
        return np.zeros(dim)

    @staticmethod
    @jittable
    def learn(state: Floats, _settings: Any, x: Floats, reward: float, _rng: Generator, _link: LinkFunctions) -> Floats:
        state[0] += reward * x[0] + entry_for(state, reward)
        return state
