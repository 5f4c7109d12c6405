"""Compiled part of hashing: sums of hashed features and their products."""

from typing import TypeVar

import numpy as np
from numba import types
from numpy.typing import NDArray

from glbandits.common.arrays import Floats, Ints
from glbandits.compilation.numba_support import READ_INTS, READ_VECTOR, VECTOR, jittable
from glbandits.compilation.recipe import Recipe
from glbandits.features.hashing.feature_codes import FEATURE_BYTES

Code = TypeVar("Code", np.uint64, NDArray[np.uint64])
"""A code or an array of codes. Functions that accept both are called by compiled code and by NumPy code."""
HALF, LOWEST = np.uint64(32), np.uint64(1)
DIGIT, DIGIT_MASK = 11, 2**11 - 1
"""The bits of a digit of the radix sort, and their mask."""


@jittable
def index_of(code: Code, width: int) -> Code:
    """The index in a vector of this width, from the upper 32 bits of the code."""
    return ((code >> HALF) * np.uint64(width)) >> HALF


@jittable
def add_signed(row: Floats, code: np.uint64, value: float) -> None:
    """Add a value at the index of its code. The lowest bit of the code is the sign.

    Because of the sign, features that share an index cancel as often as they add, so inner products are unbiased.
    """
    row[index_of(code, row.shape[0])] += value if code & LOWEST else -value


def signs_of(codes: NDArray[np.uint64]) -> Floats:
    """The signs with which `add_signed` adds the values of these codes."""
    return np.where(codes & LOWEST, 1.0, -1.0)


@jittable
def product_code(action: Code, shared: Code) -> Code:
    """The code of a product of two features, by the final mixing steps of splitmix64."""
    mixed = action * np.uint64(0x9E3779B97F4A7C15) + shared
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def cross_recipe() -> Recipe:
    """The recipe of a function that fills a row of `out` for each action.

    The encoded features are concatenated: first the shared ones, then those of each action. Each is a code and a value.
    `codes` and `values` are views of the same bytes as uint64 and as float64. `sizes` has the number of bytes of the
    shared features and of each action.
    """

    def cross(codes: NDArray[np.uint64], values: Floats, sizes: Ints, out: Floats) -> None:
        shared_end = sizes[0] // FEATURE_BYTES
        begin = shared_end
        for action in range(out.shape[0]):
            row, end = out[action], begin + sizes[action + 1] // FEATURE_BYTES
            for shared in range(shared_end):
                add_signed(row, codes[2 * shared], values[2 * shared + 1])
            for own in range(begin, end):
                code, value = codes[2 * own], values[2 * own + 1]
                for shared in range(shared_end):
                    add_signed(row, product_code(code, codes[2 * shared]), value * values[2 * shared + 1])
            begin = end

    codes = types.Array(types.uint64, 1, "C", readonly=True)
    signature = types.void(codes, READ_VECTOR, READ_INTS, types.float64[:, ::1])
    return Recipe(cross, signature, "hashed features", nogil=False)


def cross_rows_recipe() -> Recipe:
    """The recipe of a function that computes the same sums as `cross_recipe`, as sparse rows.

    Its cost does not depend on the width. `indices` and `sums` have room for all terms. `indptr`, whose first entry
    must be 0, receives the end of each row. Terms with the same index are summed in the same order as in a vector, so
    the sums are equal to the last bit.
    """

    def cross_rows(
        codes: NDArray[np.uint64], values: Floats, sizes: Ints, width: int, indptr: Ints, indices: Ints, sums: Floats
    ) -> None:
        shared_end = sizes[0] // FEATURE_BYTES
        begin, used = shared_end, 0
        keys, terms = np.empty(indices.shape[0], dtype=np.int64), np.empty(indices.shape[0])
        for action in range(indptr.shape[0] - 1):
            end, count = begin + sizes[action + 1] // FEATURE_BYTES, 0
            for shared in range(shared_end):
                count = put_term(keys, terms, count, codes[2 * shared], values[2 * shared + 1], width)
            for own in range(begin, end):
                code, value = codes[2 * own], values[2 * own + 1]
                for shared in range(shared_end):
                    pair, product = product_code(code, codes[2 * shared]), value * values[2 * shared + 1]
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
    """Write a signed term after `count` others, and return the new count.

    The key of a term is its index in the upper 32 bits and its position in the lower 32 bits.
    """
    keys[count] = (np.int64(index_of(code, width)) << 32) | count
    terms[count] = value if code & LOWEST else -value
    return count + 1


@jittable
def sorted_keys(keys: Ints, width: int) -> Ints:
    """Sort the keys.

    From 1000 keys on by radix sort, in linear time, because clients control their number.
    """
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
    """Write the sum of the terms of each index after `used` others.

    Returns the new number of sums.
    """
    last = -1
    for key in keys:
        index = key >> 32
        if index != last:
            indices[used], sums[used], last = index, 0.0, index
            used += 1
        sums[used - 1] += terms[key & 0xFFFFFFFF]
    return used
