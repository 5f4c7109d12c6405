"""Random numbers by the counter-based generator Philox.

The state of a generator is an array of three words. The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw,
2011): a keyed function of a counter. Its state is a key, a stream and a counter, so it is easy to save, copy and send.
Compiled code receives it at no cost, whereas passing a NumPy Generator takes 15 microseconds a call
(docs/decisions/0003-randomness-is-an-array.md). All products fit in 64 bits, so plain Python computes the same numbers.
"""

import math
from collections.abc import Iterable

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.common.errors import InvalidInput, check_int
from glbandits.compilation.numba_support import jittable

KEY, STREAM, COUNTER = 0, 1, 2

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_MULTIPLIER_0, _MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_ONE = np.uint64(1)
_TOP_27, _TOP_26 = np.uint64(5), np.uint64(6)  # right shifts that leave the top 27 or 26 of 32 bits


def generator(seed: int, stream: int = 0) -> Generator:
    """The generator of a seed and a stream. Different streams of a seed are independent."""
    key = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    return np.array([key, stream, 0], dtype=np.uint64)


def seed_list(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """The seeds as a tuple. An int n means the seeds 0 to n - 1."""
    listed = seeds if isinstance(seeds, Iterable) else range(check_int("seeds", seeds, at_least=1))
    chosen = tuple(check_int("a seed", seed, at_least=0) for seed in listed)
    if not chosen:
        raise InvalidInput("seeds must be at least one seed, or a number of seeds; got none")
    return chosen


@jittable
def philox(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, k0: np.uint64, k1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Ten rounds of Philox4x32. Arguments and results are 32-bit numbers in 64-bit words."""
    for _ in range(10):
        product_0, product_1 = _MULTIPLIER_0 * c0, _MULTIPLIER_1 * c2
        c0, c2 = (product_1 >> _HALF) ^ c1 ^ k0, (product_0 >> _HALF) ^ c3 ^ k1
        c1, c3 = product_1 & _LOW, product_0 & _LOW
        k0, k1 = (k0 + _WEYL_0) & _LOW, (k1 + _WEYL_1) & _LOW
    return c0, c1, c2, c3


@jittable
def uniform_pair(rng: Generator) -> tuple[float, float]:
    """Draw two independent numbers, uniform on the 2^53 multiples of 2^-53 in [0, 1)."""
    key, stream, counter = rng[KEY], rng[STREAM], rng[COUNTER]
    rng[COUNTER] = counter + _ONE
    return pair_at(key, stream, counter)


@jittable
def pair_at(key: np.uint64, stream: np.uint64, counter: np.uint64) -> tuple[float, float]:
    """The two numbers that `uniform_pair` draws from a generator in this state."""
    w0, w1, w2, w3 = philox(counter & _LOW, counter >> _HALF, stream & _LOW, stream >> _HALF, key & _LOW, key >> _HALF)
    first = (float(w0 >> _TOP_27) * 67108864.0 + float(w1 >> _TOP_26)) / 9007199254740992.0
    second = (float(w2 >> _TOP_27) * 67108864.0 + float(w3 >> _TOP_26)) / 9007199254740992.0
    return first, second


@jittable
def uniform(rng: Generator) -> float:
    """Draw a number uniform on [0, 1)."""
    return uniform_pair(rng)[0]


@jittable
def any_index(rng: Generator, size: int) -> int:
    """Draw an index from 0 to size - 1, all equally likely up to size / 2^53."""
    return int(uniform(rng) * size)


@jittable
def add_normals(target: Floats, deviation: float, rng: Generator) -> None:
    """Add independent N(0, deviation^2) noise to target, in place (Box and Muller, 1958)."""
    size = target.shape[0]
    for i in range(0, size, 2):
        u, v = uniform_pair(rng)
        length = deviation * math.sqrt(-2.0 * math.log(1.0 - u))  # 1 - u is never 0
        target[i] += length * math.cos(2.0 * math.pi * v)
        if i + 1 < size:
            target[i + 1] += length * math.sin(2.0 * math.pi * v)


@jittable
def noise_at(index: int, deviation: float, rng: Generator) -> float:
    """The noise that `add_normals` would add to one entry. O(1). Does not advance the generator."""
    u, v = pair_at(rng[KEY], rng[STREAM], rng[COUNTER] + np.uint64(index >> 1))
    length = deviation * math.sqrt(-2.0 * math.log(1.0 - u))
    return length * (math.cos(2.0 * math.pi * v) if index % 2 == 0 else math.sin(2.0 * math.pi * v))


@jittable
def skip_normals(size: int, rng: Generator) -> None:
    """Advance a generator as `add_normals` does for a target of this size."""
    rng[COUNTER] += np.uint64((size + 1) // 2)


@jittable
def normal(rng: Generator) -> float:
    """Draw a standard normal number."""
    u, v = uniform_pair(rng)
    return math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * v)
