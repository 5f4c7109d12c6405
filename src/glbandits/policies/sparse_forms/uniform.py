"""Uniform on sparse rows."""

from typing import Any

from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import any_index
from glbandits.maths.vectors import uniform_mass
from glbandits.policies.algorithms.uniform import LEARNED, Uniform


class SparseUniform(Uniform, sparse=True):
    """The sparse form of `Uniform`."""

    @staticmethod
    def choose(
        state: Floats, settings: Any, indptr: Ints, indices: Ints, values: Floats, rng: Generator, link: LinkFunctions
    ) -> int:
        return any_index(rng, indptr.shape[0] - 1)

    @staticmethod
    def learn(
        state: Floats, settings: Any, indices: Ints, values: Floats, reward: float, rng: Generator, link: LinkFunctions
    ) -> Floats:
        """Count the reward."""
        state[LEARNED] += 1.0
        return state

    @staticmethod
    def probabilities(
        state: Floats, settings: Any, indptr: Ints, indices: Ints, values: Floats, link: LinkFunctions, out: Floats
    ) -> bool:
        uniform_mass(out)
        return True
