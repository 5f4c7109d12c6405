"""Hashed features and their products, added up in vectors or sparse rows: the part of hashing that is compiled."""

from typing import TypeVar

import numpy as np
from numba import types
from numpy.typing import NDArray

from glbandits.compilation import Recipe
from glbandits.features.hashing.feature_codes import CODED
from glbandits.numba_support import READ_INTS, READ_VECTOR, VECTOR, jittable
from glbandits.records import Floats, Ints

Code = TypeVar("Code", np.uint64, NDArray[np.uint64])
"""A code, or an array of them: the functions below that take both serve compiled code and NumPy."""
HALF, LOWEST = np.uint64(32), np.uint64(1)
DIGIT, DIGIT_MASK = 11, 2**11 - 1
"""Bits by which keys are sorted at a time."""


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


def cross_rows_recipe() -> Recipe:
    """A function that fills sparse rows with what `cross_recipe` adds up in vectors, and costs nothing for the width.

    `indices` and `sums` have room for all terms, of which several may have the same index: `indptr`, whose first number
    is 0, says how much is used. Terms of one index are added in the order in which they are added to a vector, so the
    sums are the same to the last bit.
    """

    def cross_rows(
        codes: NDArray[np.uint64], values: Floats, sizes: Ints, width: int, indptr: Ints, indices: Ints, sums: Floats
    ) -> None:
        shared_end = sizes[0] // CODED
        begin, used = shared_end, 0
        keys, terms = np.empty(indices.shape[0], dtype=np.int64), np.empty(indices.shape[0])
        for action in range(indptr.shape[0] - 1):
            end, count = begin + sizes[action + 1] // CODED, 0
            for shared in range(shared_end):
                count = put_term(keys, terms, count, codes[2 * shared], values[2 * shared + 1], width)
            for own in range(begin, end):
                code, value = codes[2 * own], values[2 * own + 1]
                for shared in range(shared_end):
                    pair, product = of_pair(code, codes[2 * shared]), value * values[2 * shared + 1]
                    count = put_term(keys, terms, count, pair, product, width)
            used = add_terms(sorted_keys(keys[:count], width), terms, indices, sums, used)
            indptr[action + 1] = used
            begin = end

    codes = types.Array(types.uint64, 1, "C", readonly=True)
    ints = types.int64[::1]
    signature = types.void(codes, READ_VECTOR, READ_INTS, types.int64, ints, ints, VECTOR)
    return Recipe(cross_rows, signature, "hashed features, sparse", nogil=False)


@jittable
def put_term(keys: Ints, terms: Floats, count: int, code: np.uint64, value: float, width: int) -> int:
    """Put a term, with its sign, after `count` others. Its key has its index in the upper half, its position below."""
    keys[count] = (np.int64(index_of(code, width)) << 32) | count
    terms[count] = value if code & LOWEST else -value
    return count + 1


@jittable
def sorted_keys(keys: Ints, width: int) -> Ints:
    """The keys in order. Many are sorted digit by digit, in linear time: clients choose how many there are."""
    if keys.shape[0] < 1000:
        keys.sort()
        return keys
    source, target, shift = keys, np.empty_like(keys), 32
    while (width - 1) >> (shift - 32) > 0:
        starts = np.zeros((1 << DIGIT) + 1, dtype=np.int64)
        for key in source:
            starts[((key >> shift) & DIGIT_MASK) + 1] += 1
        starts = np.cumsum(starts)
        for key in source:
            digit = (key >> shift) & DIGIT_MASK
            target[starts[digit]] = key
            starts[digit] += 1
        source, target, shift = target, source, shift + DIGIT
    return source


@jittable
def add_terms(keys: Ints, terms: Floats, indices: Ints, sums: Floats, used: int) -> int:
    """Write the sum of the terms of each index after `used` others. Returns how many are used then."""
    last = -1
    for key in keys:
        index = key >> 32
        if index != last:
            indices[used], sums[used], last = index, 0.0, index
            used += 1
        sums[used - 1] += terms[key & 0xFFFFFFFF]
    return used
