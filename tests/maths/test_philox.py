import numpy as np
import pytest
from scipy import stats

from glbandits.maths.philox import (
    COUNTER,
    add_normals,
    any_index,
    generator,
    noise_at,
    philox,
    skip_normals,
    uniform,
    uniform_pair,
)

# Known answers published with Random123, the reference implementation of Philox.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 6, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("words", "answer"), KNOWN_ANSWERS)
def test_philox_matches_the_published_test_vectors(words: tuple[int, ...], answer: tuple[int, ...]) -> None:
    assert [int(word) for word in philox(*(np.uint64(word) for word in words))] == list(answer)


def test_uniforms_are_uniform() -> None:
    rng = generator(1)
    values = np.array([uniform_pair(rng) for _ in range(5000)])
    assert values.min() >= 0.0
    assert values.max() < 1.0
    # Each p-value falls below 1e-4 once in 10,000 seeds for a right generator; the seed is fixed.
    assert stats.kstest(values.ravel(), "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(values.T)[0, 1]) < 4 / np.sqrt(5000)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_normals_are_normal(size: int) -> None:
    rng = generator(2)
    draws = np.zeros((4000, size))
    for row in draws:
        add_normals(row, 3.0, rng)
    assert stats.kstest(draws.ravel() / 3.0, "norm").pvalue > 1e-4
    off_diagonal = np.atleast_2d(np.corrcoef(draws.T)) - np.eye(size)
    assert np.abs(off_diagonal).max() < 4.5 / np.sqrt(4000)


def test_every_index_is_equally_likely() -> None:
    rng = generator(3)
    counts = np.bincount([any_index(rng, 5) for _ in range(5000)], minlength=5)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_generator_is_three_words() -> None:
    rng = generator(4)
    uniform(rng)
    copy = rng.copy()
    assert [uniform(rng) for _ in range(5)] == [uniform(copy) for _ in range(5)]


def test_seeds_and_streams_differ() -> None:
    firsts = {uniform(generator(seed, stream)) for seed in range(20) for stream in range(3)}
    assert len(firsts) == 60


@pytest.mark.parametrize("size", [1, 2, 7])
def test_noise_at_an_index_equals_the_noise_vector(size: int) -> None:
    rng, target = generator(3, stream=5), np.zeros(size)
    rng[COUNTER] = 2**40
    before, skipped = rng.copy(), rng.copy()
    add_normals(target, 0.7, rng)
    assert [noise_at(i, 0.7, before) for i in range(size)] == target.tolist()
    skip_normals(size, skipped)
    np.testing.assert_array_equal(skipped, rng)
