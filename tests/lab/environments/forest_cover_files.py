"""Small files in the format of the forest cover data set."""

import gzip

import numpy as np

from glbandits.common.arrays import Ints

EVERY = [(1, "clean"), (2, "clean"), (2, "as-published")]


def lines(members: int = 7, seed: int = 1) -> Ints:
    """Rows like those of the real file: 32 well-separated groups of patches, in mixed order."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(32), members))
    table = np.zeros((len(group), 55), dtype=np.int64)
    table[:, :10] = 200 * (group[:, np.newaxis] >> np.arange(10) % 5 & 1) + rng.integers(-9, 10, (len(group), 10))
    table[np.arange(len(group)), 10 + rng.integers(0, 4, len(group))] = 1
    table[np.arange(len(group)), 14 + rng.integers(0, 40, len(group))] = 1
    table[:, 54] = np.where(rng.random(len(group)) < group / 31, 1, rng.integers(2, 8, len(group)))
    return table


def groups(members: int = 7, seed: int = 1) -> Ints:
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(32), members))


def text(table: Ints) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in table.tolist())


def gzipped(content: bytes) -> bytes:
    """Compress without a time stamp, which would change the test ids between processes."""
    return gzip.compress(content, mtime=0)
