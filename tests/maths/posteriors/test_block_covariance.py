import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glbandits.common.arrays import Floats, Ints
from glbandits.maths.posteriors.block_covariance import (
    CHUNK,
    LARGEST_BLOCK,
    are_valid_blocks,
    gather,
    initial_size,
    merge_blocks,
    scatter,
    set_initial_blocks,
)
from tests.maths.posteriors.block_parts import assembled, blocks_of, packed, positive_definite

HEADER = np.array([3.0, -1.0, 2.5])
"""Numbers of a state in front of its blocks."""


def initial_blocks(dim: int) -> Floats:
    blocks = np.empty(initial_size(dim))
    set_initial_blocks(blocks, dim)
    return blocks


def random_blocks(sizes: list[int], rng: np.random.Generator) -> Floats:
    """Blocks of these sizes with the features in random order; those of a single block are in order."""
    features = rng.permutation(sum(sizes)) if len(sizes) > 1 else np.arange(sizes[0])
    ends = np.cumsum(sizes)
    return packed([(features[end - n : end], positive_definite(n, rng)) for n, end in zip(sizes, ends, strict=True)])


def merged(blocks: Floats, x: Floats) -> Floats:
    """The blocks after an observation, with a header in front of them meanwhile."""
    state = merge_blocks(np.concatenate([HEADER, blocks]), HEADER.size, x)
    np.testing.assert_array_equal(state[: HEADER.size], HEADER)
    return state[HEADER.size :]


def partition(blocks: Floats) -> set[frozenset[int]]:
    return {frozenset(members.tolist()) for members, _ in blocks_of(blocks)}


def unit_vector(dim: int, members: Ints | list[int]) -> Floats:
    x = np.zeros(dim)
    x[members] = 1.0
    return x


@pytest.mark.parametrize("dim", [1, 2, LARGEST_BLOCK])
def test_few_features_are_one_block(dim: int) -> None:
    ((members, P),) = blocks_of(initial_blocks(dim))
    np.testing.assert_array_equal(members, np.arange(dim))
    np.testing.assert_array_equal(P, np.eye(dim))


def test_many_features_start_in_separate_blocks() -> None:
    dim = LARGEST_BLOCK + 1
    assert partition(initial_blocks(dim)) == {frozenset([i]) for i in range(dim)}
    np.testing.assert_array_equal(assembled(initial_blocks(dim), dim), np.eye(dim))


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from([0, 1, 2, 5, 20, 60, 127, 128, 129, 300]), max_size=8))
def test_merging_keeps_every_feature_and_matrix(seed: int, counts: list[int]) -> None:
    rng, dim = np.random.default_rng(seed), 300
    blocks = random_blocks([1] * dim, rng)
    for count in counts:
        x = unit_vector(dim, rng.permutation(dim)[:count]) * rng.normal(size=dim)
        before, whole = partition(blocks), assembled(blocks, dim)
        blocks = merged(blocks, x)
        after = partition(blocks)
        assert are_valid_blocks(blocks, dim)
        assert sorted(i for block in after for i in block) == list(range(dim))
        assert max(len(block) for block in after) <= LARGEST_BLOCK
        # Each new block is a union of old ones, and its matrix is block diagonal.
        assert all(any(old <= new for new in after) for old in before)
        np.testing.assert_allclose(assembled(blocks, dim), whole, rtol=1e-12, atol=1e-12)
        # Blocks without a feature of the observation stay as they are.
        present = set(np.flatnonzero(x).tolist())
        assert {block for block in before if not block & present} <= after
        touched = sum(len(block) for block in before if block & present)
        if 0 < touched <= LARGEST_BLOCK:
            assert sum(bool(block & present) for block in after) == 1
        # Learn something, so that the next matrices are not diagonal.
        parts = [(members, positive_definite(len(members), rng)) for members, _ in blocks_of(blocks)]
        blocks = packed(parts)


def test_dense_observation_gives_chunks() -> None:
    dim = 300
    blocks = merged(initial_blocks(dim), np.ones(dim))
    sizes = [len(members) for members, _ in blocks_of(blocks)]
    assert max(sizes) <= CHUNK
    assert len(sizes) == math.ceil(dim / CHUNK)
    np.testing.assert_array_equal(merged(blocks, np.ones(dim)), blocks)


def test_largest_observation_that_fits_gives_one_block() -> None:
    dim = LARGEST_BLOCK + 10
    blocks = merged(initial_blocks(dim), unit_vector(dim, list(range(5, 5 + LARGEST_BLOCK))))
    assert max(len(members) for members, _ in blocks_of(blocks)) == LARGEST_BLOCK
    sizes = [len(members) for members, _ in blocks_of(merged(blocks, np.ones(dim)))]
    assert sorted(sizes) == [5, 5, LARGEST_BLOCK]


@pytest.mark.parametrize("order", ["contiguous", "interleaved", "shuffled"])
@pytest.mark.parametrize(("classes", "size"), [(10, 20), (3, 100), (50, 3)])
def test_features_per_class_give_a_block_per_class(classes: int, size: int, order: str) -> None:
    dim, rng = classes * size, np.random.default_rng(classes)
    features = np.arange(dim)
    if order == "shuffled":
        features = rng.permutation(dim)
    of_class = features.reshape(size, classes).T if order == "interleaved" else features.reshape(classes, size)
    blocks = initial_blocks(dim)
    for arm in rng.permutation(np.repeat(np.arange(classes), 4)):
        blocks = merged(blocks, unit_vector(dim, of_class[arm]))
    assert partition(blocks) == {frozenset(members.tolist()) for members in of_class}


def test_merging_only_one_block_copies_nothing() -> None:
    blocks = initial_blocks(LARGEST_BLOCK + 2)
    assert merge_blocks(blocks, 0, unit_vector(LARGEST_BLOCK + 2, [7])) is blocks
    assert merge_blocks(blocks, 0, np.zeros(LARGEST_BLOCK + 2)) is blocks


def test_gather_and_scatter_use_the_features_of_a_block() -> None:
    blocks = packed([(np.array([4, 1]), np.eye(2)), (np.array([0, 2, 3]), np.eye(3))])
    out, vector = np.full(3, np.nan), np.arange(5.0)
    assert gather(blocks, 0, vector, out)
    np.testing.assert_array_equal(out, [4.0, 1.0, np.nan])
    assert gather(blocks, 7, vector, out)
    np.testing.assert_array_equal(out, [0.0, 2.0, 3.0])
    assert not gather(blocks, 7, np.array([0.0, 5.0, 0.0, 0.0, 5.0]), out)
    scatter(blocks, 7, np.array([10.0, 20.0, 30.0]), vector)
    np.testing.assert_array_equal(vector, [10.0, 1.0, 20.0, 30.0, 4.0])


def valid_blocks() -> Floats:
    return packed(
        [(np.array([1, 3]), np.array([[2.0, 0.5], [0.5, 1.0]])), (np.array([0]), np.eye(1)), (np.array([2]), np.eye(1))]
    )


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (0, 0.0),  # the size of the first block
        (0, -2.0),
        (0, 1.0),
        (0, 3.0),
        (0, 1.5),
        (0, 1e9),
        (0, 1e300),
        (1, -1.0),  # its features
        (1, 4.0),
        (1, 1e300),
        (1, 0.5),
        (1, 3.0),
        (1, 0.0),
        (3, 0.0),  # its variances
        (6, -1.0),
        (8, 3.0),  # the feature of the second block
        (9, 0.0),  # its variance
        (9, math.nan),
        (0, math.nan),
        (1, math.nan),
    ],
)
def test_damaged_blocks_are_refused(index: int, value: float) -> None:
    blocks = valid_blocks()
    assert are_valid_blocks(blocks, 4)
    blocks[index] = value
    assert not are_valid_blocks(blocks, 4)


def test_repeated_feature_in_a_block_is_refused() -> None:
    # Every feature occurs, so only the repetition is wrong.
    blocks = packed([(np.array([1, 1]), np.eye(2)), (np.array([0]), np.eye(1))])
    assert not are_valid_blocks(blocks, 2)


def test_single_block_in_another_order_is_refused() -> None:
    # Decisions read the features of a single block in order, which is the only order that learning gives it.
    assert are_valid_blocks(packed([(np.array([0, 1, 2]), np.eye(3))]), 3)
    assert not are_valid_blocks(packed([(np.array([0, 2, 1]), np.eye(3))]), 3)


def test_missing_and_extra_blocks_are_refused() -> None:
    blocks = valid_blocks()
    assert not are_valid_blocks(blocks, 3)
    assert not are_valid_blocks(blocks, 5)
    assert not are_valid_blocks(blocks[:-3], 4)
    assert not are_valid_blocks(blocks[:0], 4)
    assert not are_valid_blocks(np.append(blocks, [1.0, 2.0, 1.0]), 4)
    for cut in range(1, 3):
        assert not are_valid_blocks(blocks[:-cut], 4)


def test_block_above_the_largest_size_is_refused() -> None:
    n = LARGEST_BLOCK + 1
    assert not are_valid_blocks(packed([(np.arange(n), np.eye(n))]), n)
