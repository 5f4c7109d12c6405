"""Doubts about logs: changes, order, copies, leaks; and none about logs as assumed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glbandits.common.arrays import Floats, Ints
from glbandits.evaluation import CrossedArms, FixedArms, LoggedData
from glbandits.evaluation.logs.checks.log_doubts import LogDoubtSums
from glbandits.evaluation.logs.doubts import Doubt, DoubtKind, Withheld
from glbandits.evaluation.logs.log_statistics import doubts_of

ROWS = 4000
MEANS = np.array([0.1, 0.3, 0.2])
Index = Ints | slice


def softmax(scores: Floats) -> Floats:
    shares: Floats = np.exp(scores)
    mixed: Floats = 0.85 * shares / shares.sum(axis=1, keepdims=True) + 0.05
    return mixed


def log_of(seed: int, *, context: bool = True, probabilities: Floats | None = None, rows: int = ROWS) -> LoggedData:
    """A log of three arms, with the probabilities of all arms."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(rows, 3))
    p = softmax(contexts @ rng.normal(size=(3, 3))) if context else np.full((rows, 3), 1 / 3)
    p = p if probabilities is None else probabilities
    chosen = np.minimum(2, (rng.random((rows, 1)) > np.cumsum(p, axis=1)).sum(axis=1))
    return LoggedData(
        chosen=chosen,
        rewards=(rng.random(rows) < MEANS[chosen]).astype(float),
        probabilities=p,
        arms=CrossedArms(contexts, np.eye(3)) if context else FixedArms(np.eye(3), rows=rows),
        link="logistic",
    )


def found(log: LoggedData) -> list[DoubtKind]:
    return [doubt.kind for doubt in doubts_of(log)]


def with_column(log: LoggedData, column: Floats) -> LoggedData:
    assert isinstance(log.arms, CrossedArms)
    contexts = np.column_stack([log.arms.contexts, column])
    return LoggedData(
        chosen=log.chosen,
        rewards=log.rewards,
        probabilities=log.probabilities,
        arms=CrossedArms(contexts, np.eye(3)),
        link="logistic",
    )


@pytest.mark.parametrize("context", [False, True])
def test_logs_as_assumed_have_no_doubts(context: bool) -> None:
    """At most 0.25 % of logs have a false doubt, so 5 % of choices of 20 seeds would fail: these do not."""
    assert not any(found(log_of(seed, context=context)) for seed in range(20, 40))


def test_time_in_the_context_is_no_change() -> None:
    log = log_of(0, context=False)
    contexts = np.arange(ROWS)[:, np.newaxis] / ROWS
    timed = LoggedData(
        chosen=log.chosen,
        rewards=log.rewards,
        probabilities=log.probabilities,
        arms=CrossedArms(contexts, np.eye(3)),
    )
    assert found(timed) == []


def test_another_assignment_of_equal_shares_is_a_change() -> None:
    contexts = np.random.default_rng(7).normal(size=(ROWS, 3))
    scores = contexts @ np.array([[1.0, 0.0, -1.0]] * 3)
    scores[2000:] *= -1
    log = log_of(7, probabilities=softmax(scores))
    log = LoggedData(
        chosen=log.chosen,
        rewards=log.rewards,
        probabilities=log.probabilities,
        arms=CrossedArms(contexts, np.eye(3)),
    )
    assert found(log) == [DoubtKind.CHANGED]


def test_heavy_rewards_are_no_change() -> None:
    rng = np.random.default_rng(1)
    for seed in range(10):
        log = log_of(seed)
        revenue = log.rewards * np.exp(2.5 * rng.normal(size=ROWS))
        heavy = LoggedData(chosen=log.chosen, rewards=revenue, probabilities=log.probabilities, arms=log.arms)
        assert found(heavy) == []


def shifted(arm_at_end: int, start: int) -> Floats:
    p = np.full((ROWS, 3), 1 / 3)
    p[start:] = 0.1
    p[start:, arm_at_end] = 0.8
    return p


@pytest.mark.parametrize("start", [1200, 2000, 3600])
def test_changed_logger_is_found_with_its_row(start: int) -> None:
    [doubt] = doubts_of(log_of(0, context=False, probabilities=shifted(1, start)))
    assert doubt.kind is DoubtKind.CHANGED
    assert doubt.withholds is Withheld.GAIN
    assert doubt.since is not None
    assert start <= doubt.since <= start + ROWS / 20


def test_last_of_several_changes_is_found() -> None:
    p = shifted(1, 1000)
    p[3000:] = 1 / 3
    [doubt] = doubts_of(log_of(0, context=False, probabilities=p))
    assert doubt.since is not None
    assert 3000 <= doubt.since <= 3200


SORTED: dict[str, Callable[[LoggedData], Any]] = {
    "reward": lambda log: log.rewards,
    "reward, downwards": lambda log: -log.rewards,
    "arm": lambda log: log.chosen,
    "reward in days": lambda log: np.arange(ROWS) // 500 + log.rewards / 2,
}


@pytest.mark.parametrize("key", SORTED)
def test_sorted_log_is_found(key: str) -> None:
    log = log_of(3)
    kinds = found(log[np.argsort(SORTED[key](log), kind="stable")])
    assert DoubtKind.ORDER in kinds
    assert DoubtKind.CHANGED not in kinds


def test_rows_of_a_cluster_may_have_the_same_arm() -> None:
    log = log_of(3, context=False)
    users = np.arange(ROWS) // 8
    chosen = np.repeat(log.chosen[::8], 8)
    values: dict[str, Any] = {"chosen": chosen, "rewards": log.rewards, "arms": log.arms, "link": "logistic"}
    values["probabilities"] = log.probabilities
    assert found(LoggedData(**values)) == [DoubtKind.ORDER]
    assert found(LoggedData(**values, clusters=users)) == []


COPIES: dict[str, tuple[bool, Callable[[np.random.Generator], Index]]] = {
    "a part again": (True, lambda _: np.concatenate([np.arange(ROWS), np.arange(1000)])),
    "a part again, without a context": (False, lambda _: np.concatenate([np.arange(ROWS), np.arange(1000)])),
    "shuffled": (True, lambda rng: rng.permutation(np.concatenate([np.arange(ROWS), np.arange(1000)]))),
    "each three times": (False, lambda rng: rng.permutation(np.tile(np.arange(ROWS), 3))),
    "by a join": (True, lambda rng: np.repeat(np.arange(ROWS), 1 + rng.poisson(0.5, ROWS))),
}


def test_copies_of_few_contents_are_found_by_their_order_and_their_number() -> None:
    """Three arms with rewards of 0 and 1 have six contents."""
    log, rng = log_of(5, context=False), np.random.default_rng(0)
    assert found(log[np.concatenate([np.arange(ROWS), np.arange(1000)])]) == [DoubtKind.COPIES]
    assert found(log[rng.permutation(np.tile(np.arange(ROWS), 5))]) == [DoubtKind.COPIES]


@pytest.mark.parametrize("kind", COPIES)
def test_copies_are_found(kind: str) -> None:
    context, rows_of = COPIES[kind]
    log = log_of(5, context=context)
    if not context:  # each row of an arm has the same content but for the reward, so that only counts and order tell
        chosen, rng = log.chosen, np.random.default_rng(0)
        log = LoggedData(
            chosen=chosen,
            rewards=rng.integers(0, 12, ROWS).astype(float),
            propensities=np.full(ROWS, 1 / 3),
            arms=log.arms,
        )
    assert found(log[rows_of(np.random.default_rng(0))]) == [DoubtKind.COPIES]


LEAKS: dict[str, Callable[[np.random.Generator, Floats], Floats]] = {
    "status": lambda _, rewards: rewards,
    "minutes": lambda rng, rewards: np.log(rng.exponential(1 + 60 * rewards)),
    "partly known": lambda rng, rewards: rewards * (rng.random(ROWS) < 0.5),
}


@pytest.mark.parametrize("kind", LEAKS)
def test_leaked_column_is_named(kind: str) -> None:
    log, rng = log_of(2), np.random.default_rng(0)
    [doubt] = doubts_of(with_column(log, LEAKS[kind](rng, log.rewards)))
    assert doubt.kind is DoubtKind.LEAK
    assert doubt.text.startswith("feature 3 of the context:")


def test_good_predictor_that_is_known_before_is_no_leak() -> None:
    """The context decides about half of the variance of the rewards, and about the arms."""
    rng = np.random.default_rng(4)
    for _ in range(10):
        known = rng.normal(size=(ROWS, 1))
        p = softmax(known @ np.array([[1.5, 0.0, -1.5]]))
        chosen = np.minimum(2, (rng.random((ROWS, 1)) > np.cumsum(p, axis=1)).sum(axis=1))
        rewards = 1.0 / (1.0 + np.exp(-4.0 * known[:, 0])) + 0.3 * rng.normal(size=ROWS) + 0.1 * chosen
        log = LoggedData(chosen=chosen, rewards=rewards, probabilities=p, arms=CrossedArms(known, np.eye(3)))
        assert found(log) == []


def test_parts_give_the_doubts_of_the_whole() -> None:
    log = log_of(0, context=False, probabilities=shifted(1, 2000))
    parts = [LogDoubtSums(log.schema, first) for first in (0, 1500)]
    for part, rows in zip(parts, (slice(0, 1500), slice(1500, ROWS)), strict=True):
        part.add(log[rows], log[rows].rewards)
    parts[0].merge(parts[1])
    assert parts[0].doubts() == doubts_of(log)


def test_short_log_has_no_doubts() -> None:
    log = log_of(3)
    assert doubts_of(log[np.argsort(log.rewards)][:150]) == ()


def test_doubt_shows_its_text() -> None:
    assert str(Doubt(kind=DoubtKind.LEAK, text="a leak", short="b")) == "a leak"
