"""The difference between two targets on one log: its intervals contain the truth, and its sign is consistent."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.evaluation import LoggedData, RowArms, evaluate
from glbandits.evaluation.estimators.anytime import AnytimeInterval
from glbandits.evaluation.estimators.estimator import Interval
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate, HeadlineSums, Levels
from glbandits.evaluation.estimators.log_rows import LogRows
from glbandits.evaluation.estimators.results import Evaluation
from glbandits.evaluation.logs.logged_data import Log
from tests.evaluation.learning_problem import Stream
from tests.evaluation.simulated_logs import logged, make_world, softmax


class Case(NamedTuple):
    """A log, two targets, and the true difference of their values on its rows."""

    log: LoggedData
    target: Floats
    reference: Floats
    truth: float


def case_of(means: Floats, logging: Floats, target: Floats, reference: Floats, rng: np.random.Generator) -> Case:
    """A log of clicks without context: an arm is its name."""
    rows, arms = means.shape
    chosen = (rng.random((rows, 1)) > np.cumsum(logging, axis=1)).sum(axis=1).clip(0, arms - 1)
    log = LoggedData(
        chosen=chosen,
        rewards=(rng.random(rows) < means[np.arange(rows), chosen]).astype(np.float64),
        probabilities=logging,
        arms=RowArms(np.tile(np.eye(arms), (rows, 1, 1)), np.full(rows, arms)),
        link="logistic",
    )
    return Case(log, target, reference, float(((target - reference) * means).sum(axis=1).mean()))


def similar_softmaxes(rng: np.random.Generator) -> Case:
    """Two good policies whose values are strongly correlated."""
    world = make_world(rng, 1000)
    log = replace(logged(world, rng), probabilities=world.logging)
    reference = softmax(np.log(world.target) / 2)
    truth = float(((world.target - reference) * world.means).sum(axis=1).mean())
    return Case(log, world.target, reference, truth)


def equal_arms(rng: np.random.Generator) -> Case:
    """Two arms of the same value, of which the log rarely chose the first."""
    rows, one = 1000, np.eye(3)
    means, logging = np.full((rows, 3), 0.3), np.tile([0.05, 0.35, 0.6], (rows, 1))
    return case_of(means, logging, np.tile(one[0], (rows, 1)), np.tile(one[1], (rows, 1)), rng)


def rare_clicks(rng: np.random.Generator) -> Case:
    """Clicks in 1 % of rows, of two arms that the log chose unequally often."""
    rows, one = 2000, np.eye(3)
    means, logging = np.tile([0.012, 0.01, 0.01], (rows, 1)), np.tile([0.15, 0.35, 0.5], (rows, 1))
    return case_of(means, logging, np.tile(one[0], (rows, 1)), np.tile(one[1], (rows, 1)), rng)


def opposite_arms(rng: np.random.Generator) -> Case:
    """A very good and a very bad arm, in a short log."""
    rows, one = 150, np.eye(3)
    means, logging = np.tile([0.93, 0.07, 0.5], (rows, 1)), np.tile([0.2, 0.2, 0.6], (rows, 1))
    return case_of(means, logging, np.tile(one[0], (rows, 1)), np.tile(one[1], (rows, 1)), rng)


def few_different_rows(rng: np.random.Generator) -> Case:
    """Two policies that differ in 5 % of the rows only."""
    rows, one = 2000, np.eye(3)
    means, logging = np.tile([0.15, 0.1, 0.3], (rows, 1)), np.tile([0.2, 0.2, 0.6], (rows, 1))
    differs = rng.random((rows, 1)) < 0.05
    return case_of(means, logging, np.where(differs, one[0], one[2]), np.where(differs, one[1], one[2]), rng)


CASES = (similar_softmaxes, equal_arms, rare_clicks, opposite_arms, few_different_rows)


def difference(case: Case) -> DoublyRobustEstimate:
    """The difference with the mean rewards of arms as a cross-fitted reward model, without anytime-valid intervals."""
    log, arms = case.log, case.target.shape[1]
    fold, predicted = np.arange(len(log)) % 2, np.empty_like(case.target)
    for left_out in range(2):
        learned = fold != left_out
        counts = np.bincount(log.chosen[learned], minlength=arms)
        sums = np.bincount(log.chosen[learned], weights=log.rewards[learned], minlength=arms)
        predicted[~learned] = (sums + log.rewards[learned].mean()) / (counts + 1.0)
    sums_of_log = HeadlineSums((0.0, 1.0), no_anytime="not computed")
    sums_of_log.add(LogRows(log, (0.0, 1.0), predicted, None), case.target, case.reference)
    estimate = sums_of_log.headline(Levels(0.95, 0.95, 0.95)).difference
    assert estimate is not None
    return estimate


def coverage(make_case: Callable[[np.random.Generator], Case], logs: int) -> float:
    """The share of logs whose fixed-n interval contains the true difference."""
    covered = 0
    for seed in range(logs):
        case = make_case(np.random.default_rng([seed, 77]))
        interval = difference(case).fixed_n
        assert isinstance(interval, Interval)
        covered += interval.low <= case.truth <= interval.high
    return covered / logs


@pytest.mark.parametrize("make_case", [similar_softmaxes, equal_arms])
def test_intervals_contain_the_true_difference(make_case: Callable[[np.random.Generator], Case]) -> None:
    """At 95 %, at most 50 of 60 have probability 0.0005; the seeds are fixed."""
    assert coverage(make_case, 60) > 50 / 60


@pytest.mark.slow
@pytest.mark.parametrize("make_case", CASES)
def test_coverage_of_differences_is_at_least_nominal(make_case: Callable[[np.random.Generator], Case]) -> None:
    """At 95 %, a share of at most 0.93 of 1,000 logs has probability 0.004; the seeds are fixed."""
    assert coverage(make_case, 1000) > 0.93


@pytest.mark.parametrize("complete", [True, False])
def test_exchanging_the_targets_only_changes_the_sign(complete: bool) -> None:
    case = few_different_rows(np.random.default_rng(1))
    log = case.log[:200] if complete else replace(case.log[:200], probabilities=None)
    target, reference = case.target[:200], case.reference[:200]
    forth, back = evaluated(log, target, reference), evaluated(log, reference, target)
    assert forth.value == -back.value
    assert forth.standard_error == back.standard_error
    for interval, reverse in ((forth.fixed_n, back.fixed_n), (forth.interval, back.interval)):
        if interval is None or reverse is None:
            assert interval == reverse
        else:
            assert (interval.low, interval.high) == (-reverse.high, -reverse.low)


def evaluated(log: Log, target: Any, reference: Any, **settings: Any) -> DoublyRobustEstimate:
    evaluation: Evaluation = evaluate(log, target, "dr", reference=reference, **settings)
    headline = evaluation.headline
    assert headline is not None
    assert headline.difference is not None
    return headline.difference


def short_log() -> Case:
    case = equal_arms(np.random.default_rng(4))
    return Case(case.log[:200], case.target[:200], case.reference[:200], 0.0)


def test_equal_targets_have_difference_zero() -> None:
    case = short_log()
    estimate = evaluated(case.log, case.target, case.target.copy())
    assert (estimate.value, estimate.standard_error) == (0.0, 0.0)
    assert estimate.fixed_n is None
    assert estimate.no_fixed_n == "it decides like the reference in all rows"
    assert isinstance(estimate.anytime, AnytimeInterval)
    assert estimate.anytime.low < 0.0 < estimate.anytime.high


def test_difference_is_that_of_the_values_with_a_smaller_error() -> None:
    case = similar_softmaxes(np.random.default_rng(2))
    log, target, reference = case.log[:200], case.target[:200], case.reference[:200]
    first, second = (evaluate(log, each, "dr").headline for each in (target, reference))
    assert first is not None
    assert second is not None
    estimate = evaluated(log, target, reference)
    assert estimate.value == pytest.approx(first.value.value - second.value.value, abs=1e-12)
    assert estimate.standard_error < 0.5 * np.hypot(first.value.standard_error, second.value.standard_error)


def test_streamed_log_has_the_same_difference() -> None:
    case = short_log()
    whole = evaluated(case.log, case.target, case.reference)
    assert asdict(evaluated(Stream(case.log, 1000, []), case.target, case.reference)) == asdict(whole)
    parts = evaluated(Stream(case.log, 70, []), case.target, case.reference)
    assert parts.value == pytest.approx(whole.value, abs=1e-6)  # the reward model is fitted block by block
    assert parts.fixed_n == pytest.approx(whole.fixed_n, abs=1e-6)


def test_several_comparisons_share_the_error_probability() -> None:
    case = short_log()
    one, three = (evaluated(case.log, case.target, case.reference, comparisons=count) for count in (1, 3))
    for narrow, wide in ((one.fixed_n, three.fixed_n), (one.interval, three.interval)):
        assert isinstance(narrow, Interval)
        assert isinstance(wide, Interval)
        assert wide.low < narrow.low < narrow.high < wide.high
    assert isinstance(three.anytime, AnytimeInterval)
    assert three.anytime.level == pytest.approx(1 - 0.05 / 3)


def test_reference_needs_an_estimator_with_a_reward_model() -> None:
    case = short_log()
    with pytest.raises(InvalidInput, match="reference needs an estimator with a reward"):
        evaluate(case.log, case.target, "ips", reference=case.reference)
