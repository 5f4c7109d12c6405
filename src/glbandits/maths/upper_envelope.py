"""The upper envelope of lines: the probabilities of lines to be the highest.

A rule that scores arms by level + Z slope, with the same random Z for all arms, chooses the arm whose line is the
highest at Z. The lines that are the highest at some position form a convex chain, the upper envelope. A sort and one
pass find it. Each line of the chain is the highest in one interval, whose probability is exact.
"""

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.compilation.numba_support import jittable
from glbandits.maths.normal import interval_probability, normal_density

ROUNDING = 2.0**-52
"""The relative error of one operation."""


@jittable
def upper_envelope(levels: Floats, slopes: Floats, low: float, high: float) -> tuple[Ints, Floats]:
    """Return the lines that are the highest at some position in [low, high], and the position at which each begins.

    The lines are in the order of the positions, and the first of equal lines stands for all. The positions have one
    more element, `high`. O(K log K).
    """
    order = sorted_lines(slopes, slopes, 0.0)
    chain, starts = np.empty(order.shape[0], dtype=np.int64), np.empty(order.shape[0] + 1)
    size = 0
    for line in order:
        start, useful = low, True
        while size > 0 and useful:
            last = chain[size - 1]
            rise = slopes[line] - slopes[last]
            if rise == 0.0 and levels[line] <= levels[last]:  # a parallel line; the first of equal ones stays
                useful = False
            elif rise > 0.0 and max((levels[last] - levels[line]) / rise, low) > starts[size - 1]:
                start = (levels[last] - levels[line]) / rise
                break
            else:
                size -= 1
        if useful and start < high:
            chain[size], starts[size] = line, start
            size += 1
    starts[size] = high
    return chain[:size], starts[: size + 1]


@jittable
def uniform_probabilities(levels: Floats, slopes: Floats, low: float, high: float, out: Floats) -> None:
    """Write the probability that a line is the highest at a uniform position in [low, high].

    The first of equal lines has the whole probability. O(K log K).
    """
    lines, starts = upper_envelope(levels, slopes, low, high)
    for a in range(out.shape[0]):
        out[a] = 0.0
    for k in range(lines.shape[0]):
        out[lines[k]] = (starts[k + 1] - starts[k]) / (high - low)


@jittable
def normal_probabilities(levels: Floats, slopes: Floats, out: Floats) -> None:
    """Write the probability that each line is the highest at a standard normal position Z.

    The first of equal lines has the whole probability. A line whose interval is shorter than the rounding error has
    `ROUNDING` times the density of Z there instead of 0. O(K log K).
    """
    lines, starts = upper_envelope(levels, slopes, -np.inf, np.inf)
    for a in range(out.shape[0]):
        out[a] = 0.0
    for k in range(lines.shape[0]):
        least = ROUNDING * max(normal_density(starts[k]), normal_density(starts[k + 1]))
        out[lines[k]] = max(interval_probability(starts[k], starts[k + 1]), least)


@jittable
def sorted_lines(levels: Floats, slopes: Floats, z: float) -> Ints:
    """The indices that sort lines by levels + z slopes in ascending order, by a stable merge sort.

    Compares differences, as `line_order.highest_line` does. `np.argsort` takes 4 seconds to compile.
    """
    size, width = levels.shape[0], 1
    order, merged = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    for i in range(size):
        order[i] = i
    while width < size:
        for start in range(0, size, 2 * width):
            middle, end = min(start + width, size), min(start + 2 * width, size)
            left, right = start, middle
            for i in range(start, end):
                a, b = order[min(left, size - 1)], order[min(right, size - 1)]
                if left < middle and (right >= end or levels[a] - levels[b] <= z * (slopes[b] - slopes[a])):
                    merged[i] = a
                    left += 1
                else:
                    merged[i] = b
                    right += 1
        order, merged = merged, order
        width *= 2
    return order
