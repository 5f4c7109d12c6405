"""Hashed features and their products, added up in vectors: the part of hashing that is compiled."""

from typing import TypeVar

import numpy as np
from numba import types
from numpy.typing import NDArray

from glbandits.compilation import Recipe
from glbandits.features.codes import CODED
from glbandits.numba_support import READ_INTS, READ_VECTOR, jittable
from glbandits.records import Floats, Ints

Code = TypeVar("Code", np.uint64, NDArray[np.uint64])
"""A code, or an array of them: the functions below that take both serve compiled code and NumPy."""
HALF, LOWEST = np.uint64(32), np.uint64(1)


@jittable
def index_of(code: Code, width: int) -> Code:
    """The index in the vector that the upper half of a code gives."""
    return ((code >> HALF) * np.uint64(width)) >> HALF


@jittable
def add_up(row: Floats, code: np.uint64, value: float) -> None:
    """Add a value at the index of its code, with the sign that the lowest bit of the code gives.

    Because of the sign, features that share an index cancel as often as they add up, so inner products have no bias.
    """
    row[index_of(code, row.shape[0])] += value if code & LOWEST else -value


def signs_of(codes: NDArray[np.uint64]) -> Floats:
    """The signs with which `add_up` adds the values of these codes."""
    return np.where(codes & LOWEST, 1.0, -1.0)


@jittable
def of_pair(action: Code, shared: Code) -> Code:
    """64 bits for a pair of features, well mixed: the last steps of splitmix64."""
    mixed = action * np.uint64(0x9E3779B97F4A7C15) + shared
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def cross_recipe() -> Recipe:
    """A function that fills a row of `out` for each action.

    The features stand one after the other, a code and then its value: first the shared ones, then those of each action.
    `codes` and `values` are the same bytes, read in two ways; `sizes` says how many bytes are of whom.
    """

    def cross(codes: NDArray[np.uint64], values: Floats, sizes: Ints, out: Floats) -> None:
        shared_end = sizes[0] // CODED
        begin = shared_end
        for action in range(out.shape[0]):
            row, end = out[action], begin + sizes[action + 1] // CODED
            for shared in range(shared_end):
                add_up(row, codes[2 * shared], values[2 * shared + 1])
            for own in range(begin, end):
                code, value = codes[2 * own], values[2 * own + 1]
                for shared in range(shared_end):
                    add_up(row, of_pair(code, codes[2 * shared]), value * values[2 * shared + 1])
            begin = end

    codes = types.Array(types.uint64, 1, "C", readonly=True)
    signature = types.void(codes, READ_VECTOR, READ_INTS, types.float64[:, ::1])
    return Recipe(cross, signature, "hashed features", nogil=False)
