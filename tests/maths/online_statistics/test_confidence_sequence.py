"""Confidence sequences: the formula, the bounds of the terms, and coverage at all rows."""

import math
from typing import TypeAlias

import numpy as np
import pytest

from glbandits.common.arrays import Floats, Ints
from glbandits.maths.online_statistics.confidence_sequence import (
    BETS,
    LARGEST_LOSS,
    LOG_SHARES,
    ConfidenceSequence,
)

ARMS = 3
Rows: TypeAlias = tuple[Floats, Ints, Floats, Floats]
"""Probabilities, chosen arms, rewards, and true means."""


def rows_of(seed: int, n: int = 400, floor: float = 0.06, drift: float = 0.0) -> Rows:
    """Logged rows of a policy that changes, with probabilities of all arms, and their true mean rewards."""
    rng = np.random.default_rng(seed)
    favourite = (np.arange(n) // 50) % ARMS
    probabilities = np.full((n, ARMS), floor / ARMS)
    probabilities[np.arange(n), favourite] += 1.0 - floor
    means = np.clip(np.array([0.3, 0.5, 0.4]) + drift * np.sin(np.arange(n) / 40.0)[:, np.newaxis], 0.0, 1.0)
    chosen = (rng.random(n)[:, np.newaxis] > np.cumsum(probabilities, axis=1)).sum(axis=1).clip(0, ARMS - 1)
    rewards = (rng.random(n) < means[np.arange(n), chosen]).astype(np.float64)
    return probabilities, chosen, rewards, means


def add_rows(
    sequence: ConfidenceSequence, target: Floats, rows: Rows, predicted: Floats, part: slice = slice(None)
) -> None:
    probabilities, chosen, rewards = rows[0][part], rows[1][part], rows[2][part]
    measure = np.broadcast_to(target, probabilities.shape)
    index = np.arange(len(chosen))
    sequence.add(
        measure=measure,
        reach=np.abs(measure) / probabilities,
        chosen=chosen,
        weights=measure[index, chosen] / probabilities[index, chosen],
        rewards=rewards,
        predicted=predicted[part],
    )


def test_bound_is_where_the_capital_reaches_its_limit() -> None:
    terms = (np.random.default_rng(0).random(200) < 0.7).astype(np.float64)
    one_arm, sequence = np.ones((200, 1)), ConfidenceSequence(0.0)
    always, rows = np.zeros(200, dtype=np.int64), np.ones(200)
    sequence.add(measure=one_arm, reach=one_arm, chosen=always, weights=rows, rewards=terms, predicted=0.0 * one_arm)
    bound = sequence.above.bound(0.025)
    capital = np.ones(len(BETS))
    for index, term in enumerate(terms):
        centre = (10.0 * 0.5 + terms[:index].sum()) / (10.0 + index)
        capital *= (1.0 + BETS * (term - centre)) * np.exp(BETS * (centre - bound))
    assert math.isclose(float(np.exp(LOG_SHARES) @ capital), 40.0, rel_tol=1e-5)


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_blocks_of_any_size_give_the_same_interval(low: float) -> None:
    rows = rows_of(1)
    predicted = np.random.default_rng(2).random((400, ARMS))
    target = np.array([0.1, 0.7, 0.2]) if low == 0.0 else np.array([0.1, 0.5, -0.6])
    whole, parts = ConfidenceSequence(low), ConfidenceSequence(low)
    add_rows(whole, target, rows, predicted)
    for start in range(0, 400, 7):
        add_rows(parts, target, rows, predicted, slice(start, start + 7))
    assert parts.interval(0.95) == pytest.approx(whole.interval(0.95), abs=1e-9)
    assert parts.mean == pytest.approx(whole.mean, abs=1e-12)
    assert parts.rows == 400


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_predictions_do_not_bias_the_terms(low: float) -> None:
    """Enumerate all arms and rewards of one row: the mean gain of each bet is that of the true difference."""
    rng = np.random.default_rng(3)
    probabilities, means = rng.dirichlet([0.2] * ARMS, size=20) * 0.97 + 0.01, rng.random((20, ARMS))
    target = rng.dirichlet([0.3] * ARMS, size=20)
    measure = target if low == 0.0 else target - rng.dirichlet([0.3] * ARMS, size=20)
    predicted = rng.random((20, ARMS))
    expected = np.zeros((20, len(BETS)))
    for arm in range(ARMS):
        for reward in (0.0, 1.0):
            for row in range(20):
                sequence = ConfidenceSequence(low)
                sequence.add(
                    measure=measure[[row]],
                    reach=np.abs(measure[[row]]) / probabilities[[row]],
                    chosen=np.array([arm]),
                    weights=measure[[row], arm] / probabilities[[row], arm],
                    rewards=np.array([reward]),
                    predicted=predicted[[row]],
                )
                chance = probabilities[row, arm] * (means[row, arm] if reward else 1.0 - means[row, arm])
                gain = np.expm1(sequence.above.log_capital) / sequence.above.bets
                assert (np.exp(sequence.above.log_capital) >= 1.0 - LARGEST_LOSS - 1e-12).all(), (
                    "a bet lost more than it may"
                )
                expected[row] += chance * gain
    centre = (low + 1.0) / 2.0
    truth = (measure * means).sum(axis=1) - centre
    assert expected == pytest.approx(np.tile(truth, (len(BETS), 1)).T, abs=1e-9)


def test_without_known_weights_predictions_are_not_used() -> None:
    rows = rows_of(4)
    probabilities, chosen, rewards, _ = rows
    target = np.broadcast_to([0.0, 1.0, 0.0], probabilities.shape)
    index = np.arange(len(chosen))
    intervals = []
    for predicted in (np.zeros((400, ARMS)), np.ones((400, ARMS))):
        sequence = ConfidenceSequence(0.0)
        sequence.add(
            measure=target,
            reach=None,
            chosen=chosen,
            weights=target[index, chosen] / probabilities[index, chosen],
            rewards=rewards,
            predicted=predicted,
        )
        intervals.append(sequence.interval(0.95))
    assert intervals[0] == intervals[1]
    assert 0.0 < intervals[0][0] < 0.5 < intervals[0][1] <= 1.0


@pytest.mark.statistics
@pytest.mark.parametrize("target", [[0.0, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [-1.0, 1.0, 0.0]])
def test_interval_covers_the_mean_at_every_row(target: list[float]) -> None:
    """100 logs with drift, 20 intervals each. At a miss rate of 5 %, 14 misses have probability 0.0005."""
    misses = 0
    for seed in range(100):
        rows, predicted = rows_of(seed, drift=0.2), np.full((400, ARMS), 0.4)
        sequence, truth = ConfidenceSequence(min(0.0, *target)), (rows[3] @ np.array(target)).cumsum()
        missed = False
        for start in range(0, 400, 20):
            add_rows(sequence, np.array(target), rows, predicted, slice(start, start + 20))
            mean = truth[start + 19] / (start + 20)
            missed |= max(sequence.above.log_evidence(mean), sequence.below.log_evidence(-mean)) > math.log(40.0)
        misses += missed
    assert misses < 14


def test_evidence_grows_only_against_false_values() -> None:
    rows = rows_of(5, n=20_000)
    sequence = ConfidenceSequence(-1.0)
    add_rows(sequence, np.array([-1.0, 1.0, 0.0]), rows, np.full((20_000, ARMS), 0.4))
    assert sequence.above.log_evidence(0.0) > math.log(20.0), "the second arm is better than the first"
    assert sequence.below.log_evidence(0.0) < math.log(20.0)
    lowest, highest = sequence.interval(0.95)
    assert 0.0 < lowest < 0.2 < highest


def test_interval_of_one_row_is_the_whole_range() -> None:
    sequence = ConfidenceSequence(0.0)
    assert math.isnan(sequence.mean)
    assert sequence.interval(0.95) == (0.0, 1.0)


def test_sequence_continues_from_its_saved_state() -> None:
    rows, predicted, target = rows_of(6), np.full((400, ARMS), 0.4), np.array([-1.0, 1.0, 0.0])
    whole, first = ConfidenceSequence(-1.0), ConfidenceSequence(-1.0)
    for part in (slice(0, 150), slice(150, 400)):
        add_rows(whole, target, rows, predicted, part)
    add_rows(first, target, rows, predicted, slice(0, 150))
    second = ConfidenceSequence.from_state(-1.0, first.state())
    add_rows(second, target, rows, predicted, slice(150, 400))
    assert second.state() == whole.state()
    assert second.interval(0.95) == whole.interval(0.95)
    assert ConfidenceSequence.from_state(-1.0, ()).state() == ConfidenceSequence(-1.0).state()
