"""Anytime-valid and fixed-n intervals on logs of a policy that learns."""

import numpy as np
import pytest
from benchmarks.learning_logs import DIM, LearningLog, learning_log

from glbandits.common.errors import InvalidInput
from glbandits.evaluation import FixedArms, LoggedData, evaluate
from glbandits.evaluation.estimators.anytime import AnytimeInterval, AnytimeSums
from glbandits.evaluation.estimators.estimator import Interval
from glbandits.evaluation.estimators.log_rows import RowReader
from glbandits.evaluation.estimators.measures import Measure
from glbandits.evaluation.estimators.results import Evaluation
from glbandits.evaluation.models.reward_models import SequentialGlm
from glbandits.maths.links import find_link

pytestmark = pytest.mark.statistics


@pytest.fixture(scope="module")
def learned() -> LearningLog:
    return learning_log(0, 3000)


@pytest.fixture(scope="module")
def evaluated(learned: LearningLog) -> dict[str, Evaluation]:
    """The evaluation of each target, on the whole log."""
    return {name: evaluate(learned.log, learned.targets[name]) for name in ("uniform", "good", "bad")}


def without_probabilities(log: LoggedData) -> LoggedData:
    return LoggedData(
        chosen=log.chosen, rewards=log.rewards, propensities=log.propensities, arms=log.arms, link=log.link
    )


def width(interval: Interval | None) -> float:
    assert interval is not None
    return interval.high - interval.low


@pytest.mark.parametrize("target", ["uniform", "good", "bad"])
def test_both_intervals_contain_the_true_value(
    learned: LearningLog, evaluated: dict[str, Evaluation], target: str
) -> None:
    headline = evaluated[target].headline
    assert headline is not None
    assert isinstance(headline.value.fixed_n, Interval)
    assert headline.value.fixed_n.low < learned.values[target] < headline.value.fixed_n.high
    assert isinstance(headline.value.interval, Interval)
    assert headline.value.interval.low < learned.values[target] < headline.value.interval.high


@pytest.mark.parametrize("target", ["uniform", "good", "bad"])
def test_gain_is_the_difference_to_the_log(evaluated: dict[str, Evaluation], target: str) -> None:
    found = evaluated[target]
    assert found.headline is not None
    gain = found.headline.gain
    assert gain.value == pytest.approx(found.headline.value.value - found.logged, abs=0.02)
    assert isinstance(gain.anytime, AnytimeInterval)
    assert gain.anytime.low < gain.value < gain.anytime.high
    assert (gain.value > 0) == (target == "good")


def reader_of(dim: int) -> RowReader:
    return RowReader((0.0, 1.0), None, SequentialGlm(find_link("logistic"), dim))


def test_blocks_of_any_size_give_the_same_intervals(learned: LearningLog) -> None:
    whole, parts = (AnytimeSums(Measure.VALUE, (0.0, 1.0)) for _ in range(2))
    rows = reader_of(DIM).read(learned.log)
    whole.add(rows, Measure.VALUE.of_rows(rows, learned.targets["good"]))
    reader = reader_of(DIM)
    for start in (0, 32, 64, 2000):
        stop = {0: 32, 32: 64, 64: 2000, 2000: 3000}[start]
        rows = reader.read(learned.log[start:stop])
        parts.add(rows, Measure.VALUE.of_rows(rows, learned.targets["good"][start:stop]))
    assert parts.rows == whole.rows == 3000
    assert parts.interval(0.95).interval == pytest.approx(whole.interval(0.95).interval, abs=0.02)


def test_probabilities_of_all_arms_narrow_the_interval(learned: LearningLog, evaluated: dict[str, Evaluation]) -> None:
    target, chosen_only = learned.targets["uniform"], without_probabilities(learned.log)
    complete = evaluated["uniform"].headline
    alone = evaluate(chosen_only, target).headline
    floor = evaluate(chosen_only, target, least_propensity=0.01).headline
    assert complete is not None
    assert alone is not None
    assert floor is not None
    widths = [width(headline.value.interval) for headline in (complete, floor, alone)]
    assert widths[0] <= widths[1] < widths[2]


def test_propensity_of_two_arms_determines_both_probabilities() -> None:
    rng = np.random.default_rng(3)
    chosen = (rng.random(2000) < 0.3).astype(np.int64)
    rewards, propensities = rng.integers(0, 2, 2000).astype(np.float64), np.where(chosen == 1, 0.3, 0.7)
    intervals = []
    for probabilities in (None, np.tile([0.7, 0.3], (2000, 1))):
        arms = FixedArms(np.eye(2), rows=2000)
        log = LoggedData(
            chosen=chosen,
            rewards=rewards,
            propensities=propensities,
            probabilities=probabilities,
            arms=arms,
            link="logistic",
        )
        headline = evaluate(log, "uniform").headline
        assert headline is not None
        gain = headline.gain
        assert gain.fixed_n is not None
        intervals.append([*(headline.value.interval or ()), *(gain.interval or ()), *gain.fixed_n])
    assert len(intervals[0]) == 6
    assert intervals[0] == pytest.approx(intervals[1], rel=1e-12)


def test_least_propensity_is_only_of_arms_that_the_target_chooses() -> None:
    log = LoggedData(
        chosen=np.array([0, 1, 2]),
        rewards=np.array([0.0, 1.0, 0.0]),
        propensities=np.array([0.4, 0.5, 0.1]),
        arms=FixedArms(np.eye(3), rows=3),
        link="logistic",
    )
    sums, rows = AnytimeSums(Measure.VALUE, (0.0, 1.0), 0.3), reader_of(3).read(log)
    sums.add(rows, Measure.VALUE.of_rows(rows, np.tile([0.5, 0.5, 0.0], (3, 1))))
    assert sums.rows == 3


def test_too_large_least_propensity_is_rejected(learned: LearningLog) -> None:
    with pytest.raises(InvalidInput, match=r"at least least_propensity, 0\.5; got 0\.01"):
        evaluate(without_probabilities(learned.log), "uniform", least_propensity=0.5)


def test_scaled_rewards_give_scaled_intervals(learned: LearningLog) -> None:
    log = learned.log
    scaled = LoggedData(
        chosen=log.chosen, rewards=10.0 * log.rewards - 4.0, probabilities=log.probabilities, arms=log.arms
    )
    plain = LoggedData(chosen=log.chosen, rewards=log.rewards, probabilities=log.probabilities, arms=log.arms)
    one = evaluate(plain, learned.targets["good"], reward_range=(0.0, 1.0)).headline
    other = evaluate(scaled, learned.targets["good"], reward_range=(-4.0, 6.0)).headline
    assert one is not None
    assert other is not None
    assert other.value.value == pytest.approx(10.0 * one.value.value - 4.0, abs=0.05)
    assert width(other.value.interval) == pytest.approx(10.0 * width(one.value.interval), rel=0.05)
    assert width(other.gain.interval) == pytest.approx(10.0 * width(one.gain.interval), rel=0.05)


def test_clusters_have_no_anytime_interval(learned: LearningLog) -> None:
    log = learned.log
    clustered = LoggedData(
        chosen=log.chosen,
        rewards=log.rewards,
        probabilities=log.probabilities,
        arms=log.arms,
        clusters=np.arange(3000) % 300,
        link="logistic",
    )
    headline = evaluate(clustered, learned.targets["good"]).headline
    assert headline is not None
    assert headline.value.no_anytime == "rows of one cluster depend on each other"
    assert isinstance(headline.value.fixed_n, Interval)


def test_too_few_rows_report_the_number_that_is_enough() -> None:
    log, targets, _ = learning_log(1, 200)
    headline = evaluate(log, targets["bad"]).headline
    assert headline is not None
    assert headline.value.fixed_n is None
    assert headline.value.no_fixed_n.startswith("not enough evidence: the effective sample size is ")
    assert "rows like these would be enough" in headline.value.no_fixed_n


def test_unsupported_target_has_no_interval() -> None:
    rng = np.random.default_rng(2)
    probabilities = np.tile([0.5, 0.5, 0.0], (5000, 1))
    log = LoggedData(
        chosen=rng.integers(0, 2, 5000),
        rewards=rng.integers(0, 2, 5000).astype(np.float64),
        probabilities=probabilities,
        arms=FixedArms(np.eye(3), rows=5000),
        link="logistic",
        arm_names=("a", "b", "c"),
    )
    result = evaluate(log, "c")
    assert result.headline is not None
    assert result.headline.value.interval is None
    assert "the mean weight is 0" in result.no_evidence


def test_rows_to_exclude_zero_grow_with_the_inverse_square() -> None:
    gain = AnytimeInterval(value=0.1, low=-0.1, high=0.3, rows=1000, level=0.95)
    assert gain.rows_to_exclude_zero() == pytest.approx(4000.0)
    assert AnytimeInterval(value=0.1, low=0.05, high=0.3, rows=1000, level=0.95).rows_to_exclude_zero() == 1000.0


@pytest.mark.slow
@pytest.mark.parametrize("floor", [0.05, 0.1, 0.2])
def test_intervals_cover_on_logs_of_a_learning_policy(floor: float) -> None:
    """1,000 logs, of which half have varying arms.

    A fixed-n interval that covers 95 % is below 93 % in 0.4 % of such simulations. It covers up to 98 % where the
    log has few rows of the target's arms. With 12 cells, a false alarm has a probability of at most 5 %.
    """
    covered: dict[str, list[tuple[bool, bool]]] = {"uniform": [], "good": [], "bad": [], "final": []}
    refused = 0
    for seed in range(1000):
        log, targets, values = learning_log(seed, 1000, floor=floor, varying=seed % 2 == 0)
        for name, rows in covered.items():
            evaluation = evaluate(log, targets[name])
            headline = evaluation.headline
            assert headline is not None
            if evaluation.no_evidence:
                refused += 1
                continue
            fixed, anytime = headline.value.fixed_n, headline.value.interval
            assert anytime is not None
            truth = values[name]
            held = fixed is None or fixed.low <= truth <= fixed.high
            rows.append((held, anytime.low <= truth <= anytime.high))
    assert refused <= 8  # of 4,000 evaluations of correct logs
    for name, rows in covered.items():
        fixed_n, at_every_n = np.mean(rows, axis=0)
        assert 0.93 <= fixed_n <= 0.985, (name, fixed_n)
        assert at_every_n >= 0.95, (name, at_every_n)
