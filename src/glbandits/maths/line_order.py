"""The order of lines at a random position Z: the highest line, all lines in order, and the probability of an order.

A rule that scores arms by level + Z slope, with the same Z for all arms, ranks them in the order of their lines at Z.
An order holds in one interval of Z, because two lines cross at most once. The probability that a line is the highest
follows from the `upper_envelope`.
"""

import math
from typing import NamedTuple

import numpy as np

from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.compilation.numba_support import jittable
from glbandits.maths.normal import interval_probability
from glbandits.maths.philox import any_index, normal, uniform
from glbandits.maths.upper_envelope import (
    normal_probabilities,
    sorted_lines,
    uniform_probabilities,
)
from glbandits.maths.vectors import point_mass

FEW = 64
"""The most lines that are found without sorting all."""


class ZRange(NamedTuple):
    """The distribution of Z: uniform in [low, high], or standard normal if both are infinite."""

    low: float
    high: float
    intercept: float = 0.0
    """The score of an arm is its line plus this number, which does not change the order of arms."""


@jittable
def draw_z(z: ZRange, rng: Generator) -> float:
    """Draw a position. Advances the generator only if the position is random."""
    if z.low == z.high:
        return z.low
    if math.isinf(z.low):
        return normal(rng)
    return z.low + (z.high - z.low) * uniform(rng)


@jittable
def highest_line(levels: Floats, slopes: Floats, z: float) -> int:
    """The index of the line with the highest levels + z slopes; the first of equal lines.

    Compares differences of lines, which distinguishes close lines even if scores are large.
    """
    best = 0
    for a in range(1, levels.shape[0]):
        if levels[a] - levels[best] > z * (slopes[best] - slopes[a]):
            best = a
    return best


@jittable
def interval_mass(z: ZRange, start: float, end: float) -> float:
    """The probability of a position between start and end, which are within the range of Z."""
    if not start <= end:
        return 0.0
    if z.low == z.high:
        return 1.0
    return interval_probability(start, end) if math.isinf(z.low) else (end - start) / (z.high - z.low)


@jittable
def highest_probabilities(levels: Floats, slopes: Floats, z: ZRange, out: Floats) -> None:
    """Write the probability that each line is the highest at Z. O(K log K)."""
    if z.low == z.high:
        point_mass(out, highest_line(levels, slopes, z.low))
    elif math.isinf(z.low):
        normal_probabilities(levels, slopes, out)
    else:
        uniform_probabilities(levels, slopes, z.low, z.high, out)


@jittable
def highest_lines(levels: Floats, slopes: Floats, position: float, order: Ints) -> None:
    """Write the highest lines at a position in descending order, as many as `order` has room for.

    The first of equal lines is above the others. A few lines are inserted into the order one by one: most of the others
    are compared with the last of them only, so this is faster than to sort all lines. O(K log K) for many lines.
    """
    length = order.shape[0]
    if length > FEW:
        ascending = sorted_lines(-levels, -slopes, position)  # stable, so equal lines stay in the order of their index
        for i in range(length):
            order[i] = ascending[i]
        return
    for a in range(levels.shape[0]):
        i = min(a, length)
        while i > 0 and levels[a] - levels[order[i - 1]] > position * (slopes[order[i - 1]] - slopes[a]):
            if i < length:
                order[i] = order[i - 1]
            i -= 1
        if i < length:
            order[i] = a


@jittable
def random_order(rng: Generator, count: int, order: Ints) -> None:
    """Write different random numbers below `count` in random order, as many as `order` has room for."""
    numbers = np.empty(count, dtype=np.int64)
    for i in range(count):
        numbers[i] = i
    for i in range(order.shape[0]):
        j = i + any_index(rng, count - i)
        order[i], numbers[j] = numbers[j], numbers[i]


@jittable
def orders(count: int, length: int) -> float:
    """The number of ordered lists of `length` different numbers below `count`; infinite if it is very large."""
    product = 1.0
    for i in range(length):
        product *= count - i
    return product


@jittable
def order_probability(levels: Floats, slopes: Floats, z: ZRange, order: Ints) -> float:
    """The probability that the highest lines at Z are these, in this order. O(K)."""
    count, length = levels.shape[0], order.shape[0]
    start, end, is_listed = z.low, z.high, np.zeros(count)
    for i in range(length):
        is_listed[order[i]] = 1.0
    for i in range(length - 1 + count):
        upper, lower = (order[i], order[i + 1]) if i < length - 1 else (order[length - 1], i - (length - 1))
        if i >= length - 1 and is_listed[lower] == 1.0:
            continue
        gap, gain = levels[upper] - levels[lower], slopes[lower] - slopes[upper]
        if gain == 0.0 and (gap < 0.0 or (gap == 0.0 and lower < upper)):
            return 0.0
        if gain > 0.0:
            end = min(end, gap / gain)
        elif gain < 0.0:
            start = max(start, gap / gain)
    return interval_mass(z, start, end)
