"""Fast bounds of products with very many arms: float32 arithmetic with a bound on its error.

Arms are packed in panels of `WIDTH` arms, feature by feature, so that a processor computes several arms at a time. A
pass over the panels reads half the memory of a product in float64. The results may rule arms out, because they bound
the exact numbers. They never decide between two arms that are close.
"""

import math

import numpy as np
from numpy.typing import NDArray

from glbandits.common.arrays import Floats, Ints
from glbandits.compilation.numba_support import jittable

WIDTH = 64
"""Arms of a panel: few enough for a panel of 64 features to stay in the first-level cache."""
GROUP = 4
"""Features that are added at a time; the number of features is padded to a multiple of it."""
UNIT = 2.0**-24
"""The relative error of one float32 operation."""

Singles = NDArray[np.float32]


def largest_error(dim: int) -> float:
    """The largest |computed - exact| / (|u| |v|) of a product u'v of `dim` features and a constant."""
    return (dim + 8) * UNIT


def padded(dim: int) -> int:
    """The number of features in a panel."""
    return dim + -dim % GROUP


def pack_panels(rows: Floats) -> Singles:
    """The panels (n / WIDTH, padded dim, WIDTH) of n arms; n is a multiple of WIDTH."""
    count, dim = rows.shape
    panels = np.zeros((count // WIDTH, padded(dim), WIDTH), dtype=np.float32)
    panels[:, :dim] = rows.reshape(-1, WIDTH, dim).transpose(0, 2, 1)
    return panels


def pack_columns(columns: Floats) -> tuple[Singles, Ints, Floats]:
    """Vectors of dim features and a constant, (n, dim + 1), as `scan_panels` takes them: directions, starts, sizes.

    A vector is its size times its direction. A vector of zeros makes their number even. Directions are scanned in
    pairs: the start of a pair is the feature (a multiple of GROUP) before which both are 0.
    """
    columns = np.concatenate([columns, np.zeros((len(columns) % 2, columns.shape[1]))])
    dim = columns.shape[1] - 1
    sizes = np.linalg.norm(columns, axis=1)
    directions = np.zeros((len(columns), padded(dim) + 1), dtype=np.float32)
    unit = columns / np.where(sizes > 0.0, sizes, 1.0)[:, np.newaxis]
    directions[:, :dim], directions[:, -1] = unit[:, :-1], unit[:, -1]
    first = np.argmax((directions != 0.0).reshape(-1, 2, padded(dim) + 1).any(axis=1), axis=1)
    return directions, np.minimum(first // GROUP * GROUP, padded(dim)), sizes


@jittable
def scan_panels(
    panels: Singles,
    norms: Floats,
    directions: Singles,
    starts: Ints,
    sizes: Floats,
    error: float,
    growth: float,
    remainder: float,
    levels: Floats,
    variances: Floats,
) -> None:
    """Write the level of each arm x, and an upper bound of its variance.

    The level is x'c for the first column c. Let S be the sum of (c'x)^2 over the other columns. If `growth` is 0, the
    new bound is S. Otherwise it is growth v - S, with the old bound v. In both cases, rounding errors of at most
    error |x||c| for each column are added, and remainder |x|^2. The level is without its error.

    `pack_columns` returns directions, starts and sizes of the columns. The last entry of a direction belongs to the
    constant. `norms` are |x| with the constant.
    """
    sign = 1.0 if growth == 0.0 else -1.0
    features = panels.shape[1]
    sums, totals = np.empty((2, WIDTH), dtype=np.float32), np.empty(WIDTH)
    for p in range(panels.shape[0]):
        for k in range(WIDTH):
            totals[k] = 0.0
        for j in range(0, directions.shape[0], 2):  # two at a time, because loading a panel takes longest
            for k in range(WIDTH):
                sums[0, k], sums[1, k] = directions[j, features], directions[j + 1, features]
            for i in range(starts[j // 2], features, GROUP):
                c0, e0 = directions[j, i], directions[j + 1, i]
                c1, e1 = directions[j, i + 1], directions[j + 1, i + 1]
                c2, e2 = directions[j, i + 2], directions[j + 1, i + 2]
                c3, e3 = directions[j, i + 3], directions[j + 1, i + 3]
                for k in range(WIDTH):
                    x0, x1, x2, x3 = panels[p, i, k], panels[p, i + 1, k], panels[p, i + 2, k], panels[p, i + 3, k]
                    sums[0, k] += (c0 * x0 + c1 * x1) + (c2 * x2 + c3 * x3)
                    sums[1, k] += (e0 * x0 + e1 * x1) + (e2 * x2 + e3 * x3)
            if j == 0:
                for k in range(WIDTH):
                    levels[p * WIDTH + k] = sizes[0] * float(sums[0, k])
            for m in range(1 if j == 0 else 0, 2):
                for k in range(WIDTH):
                    product = sizes[j + m] * max(abs(float(sums[m, k])) + sign * error * norms[p * WIDTH + k], 0.0)
                    totals[k] += product * product
        for k in range(WIDTH):
            a = p * WIDTH + k
            variances[a] = max(growth * variances[a] + sign * totals[k], 0.0) + remainder * norms[a] * norms[a]


@jittable
def bound_scores(
    levels: Floats,
    variances: Floats,
    norms: Floats,
    level_error: float,
    variance_error: float,
    offset: float,
    slope: float,
    low: float,
    high: float,
    at_low: Floats,
    at_high: Floats,
) -> None:
    """Write level + Z sqrt(v (offset + slope v)) of each arm at Z = low and at Z = high.

    The level includes an error relative to |x|, the variance v one relative to |x|^2.
    """
    for a in range(at_low.shape[0]):
        level = levels[a] + level_error * norms[a]
        variance = variances[a] + variance_error * norms[a] * norms[a]
        bonus = math.sqrt(variance * (offset + slope * variance))
        at_low[a] = level + low * bonus
        at_high[a] = level + high * bonus
