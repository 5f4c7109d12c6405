"""The verdict: which words, when there will be an answer, and how often it is wrong."""

import math
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from glbandits.service.domain.events import Mode, SettledDecision
from glbandits.service.domain.evidence import LoopEvidence
from glbandits.service.domain.verdict import LoopVerdict, judge_past, judge_present, judge_uniform
from tests.service.domain.simulated_loops import false_verdicts, settled, simulated
from tests.service.helpers import decision

UNLIMITED = (-math.inf, math.inf)


def evidence_of(decisions: int, means: tuple[float, ...], seed: int = 0) -> LoopEvidence:
    probabilities, shown, rewards = simulated(1, decisions, means, seed)
    return LoopEvidence().extended_by(settled(probabilities[0], shown[0], rewards[0]), UNLIMITED)


def same_decisions(count: int, rewards: tuple[tuple[int, float], ...] = ((5, 1.0),), **changed: Any) -> LoopEvidence:
    """Decisions that show the baseline and another action in turn."""
    values: dict[str, Any] = {"reward_range": (0.0, 1.0)} | changed
    rows = [
        SettledDecision(1, decision("e", **values | {"shown": index % 2}), rewards, False) for index in range(count)
    ]
    return LoopEvidence().extended_by(rows, UNLIMITED)


def seconds_of(time: datetime | None) -> float:
    assert time is not None
    return time.timestamp()


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        (LoopEvidence(), LoopVerdict.EARLY),
        (same_decisions(99, ()), LoopVerdict.EARLY),
        (same_decisions(100, ()), LoopVerdict.SILENT),
        (same_decisions(1, mode=Mode.APPRENTICE), LoopVerdict.APPRENTICE),
        (same_decisions(1, reward_range=None), LoopVerdict.UNLIMITED),
        (same_decisions(500, probabilities=(0.5, 0.5, 0.0), baseline=2), LoopVerdict.BLIND),
    ],
    ids=["nothing", "few", "silent", "apprentice", "unlimited", "blind"],
)
def test_missing_evidence_has_its_own_verdicts(evidence: LoopEvidence, verdict: LoopVerdict) -> None:
    assert judge_past(evidence).verdict is verdict


def test_one_decision_with_other_limits_hardly_changes_the_verdict() -> None:
    evidence = evidence_of(600, (0.2, 0.3, 0.6))
    other = SettledDecision(1, decision("e", reward_range=(-1.0, 1.0)), ((5, 0.0),), False)
    before, after = judge_past(evidence), judge_past(evidence.extended_by([other], UNLIMITED))
    assert before.low is not None
    assert after.difference == pytest.approx(before.difference, rel=0.01)
    assert after.low == pytest.approx(before.low, rel=0.02)


@pytest.mark.parametrize(
    ("means", "verdict"),
    [((0.2, 0.3, 0.6), LoopVerdict.BETTER), ((0.6, 0.1, 0.1), LoopVerdict.WORSE)],
)
def test_real_difference_is_detected(means: tuple[float, ...], verdict: LoopVerdict) -> None:
    """The worse loop explores nine tenths of its decisions. Bounds hold the truth in 97.5 % of loops."""
    if verdict is LoopVerdict.WORSE:
        rng, n = np.random.default_rng(5), 3000
        model = np.tile([0.1, 0.45, 0.45], (n, 1))
        shown = rng.choice(3, n, p=model[0]).astype(np.float64)
        rewards = (rng.random(n) < np.array(means)[shown.astype(int)]).astype(np.float64)
        evidence, truth = LoopEvidence().extended_by(settled(model, shown, rewards), UNLIMITED), -0.45
    else:
        evidence, truth = evidence_of(3000, means), 0.34
    for judged in (judge_past(evidence), judge_present(evidence)):
        assert judged.verdict is verdict
        assert judged.low is not None
        assert judged.high is not None
        assert judged.low < truth < judged.high
        assert judged.decisions_needed is None


@pytest.mark.statistics
def test_random_choice_is_beaten_before_a_rare_baseline() -> None:
    """One of five arms is better. The floor of 0.2 shows each of the others in 4 % of decisions."""
    rng, n = np.random.default_rng(3), 4000
    model = np.tile([0.04, 0.04, 0.84, 0.04, 0.04], (n, 1))
    shown = rng.choice(5, n, p=model[0]).astype(np.float64)
    rewards = (rng.random(n) < np.where(shown == 2, 0.16, 0.1)).astype(np.float64)
    evidence = LoopEvidence().extended_by(settled(model, shown, rewards), UNLIMITED)
    uniform = judge_uniform(evidence)
    assert (judge_past(evidence).verdict, uniform.verdict) == (LoopVerdict.EARLY, LoopVerdict.BETTER)
    assert uniform.low is not None
    assert uniform.high is not None
    assert uniform.low < 0.64 * 0.06 < uniform.high


def test_a_loop_at_its_best_baseline_is_better_than_random_choice() -> None:
    evidence = evidence_of(3000, (0.6, 0.2, 0.2))
    assert judge_past(evidence).verdict is LoopVerdict.WORSE
    assert judge_uniform(evidence).verdict is LoopVerdict.BETTER


def test_arms_that_are_never_shown_leave_random_choice_unknown() -> None:
    evidence = same_decisions(500, probabilities=(0.5, 0.5, 0.0))
    assert judge_past(evidence).verdict is LoopVerdict.EARLY
    assert judge_uniform(evidence).verdict is LoopVerdict.BLIND


@pytest.mark.statistics
def test_present_model_is_judged_apart_from_the_past() -> None:
    """The baseline is the worst for 5,000 decisions, and then the best for 5,000, while the policy stays as it is."""
    rng, n = np.random.default_rng(1), 10_000
    model = np.tile([0.3, 0.35, 0.35], (n, 1))
    shown = rng.choice(3, n, p=model[0]).astype(np.float64)
    better = np.arange(n) < 5000
    rewards = (rng.random(n) < np.where((shown > 0) == better, 0.7, 0.2)).astype(np.float64)
    early = LoopEvidence().extended_by(settled(model, shown, rewards)[:5000], UNLIMITED)
    late = LoopEvidence().extended_by(settled(model, shown, rewards), UNLIMITED)
    assert judge_past(early).verdict is judge_present(early).verdict is LoopVerdict.BETTER
    assert judge_present(late).verdict is LoopVerdict.WORSE
    assert judge_past(late).verdict is not LoopVerdict.WORSE


@pytest.mark.statistics
def test_no_difference_is_seen_when_the_interval_is_narrow() -> None:
    judged = judge_past(evidence_of(8000, (0.4, 0.4, 0.4)))
    assert judged.verdict is LoopVerdict.SAME
    assert judged.low is not None
    assert judged.high is not None
    assert judged.low < 0.0 < judged.high < judged.low + 0.2


def test_forecast_has_the_time_of_the_answer() -> None:
    """One decision a second. Intervals shrink like 1 / sqrt(n), so the forecast is about right: here within a half."""
    evidence = evidence_of(300, (0.3, 0.45, 0.45), seed=4)
    judged = judge_past(evidence)
    assert judged.verdict is LoopVerdict.EARLY
    assert judged.decisions_needed is not None
    assert seconds_of(judged.expected_at) == pytest.approx(300 + judged.decisions_needed, rel=0.01)
    expected = judged.decisions * ((judged.difference - judged.low) / judged.difference) ** 2  # type: ignore[operator]
    assert judged.decisions_needed == math.ceil(expected - judged.decisions)


def test_present_model_is_judged_from_1024_decisions_on() -> None:
    judged = judge_present(evidence_of(600, (0.2, 0.6, 0.6)))
    assert (judged.verdict, judged.decisions, judged.decisions_needed) == (LoopVerdict.EARLY, 0, 424)
    assert seconds_of(judged.expected_at) == pytest.approx(1024, rel=0.01)


def test_forecast_beyond_ten_years_has_no_date() -> None:
    evidence = evidence_of(300, (0.4, 0.4, 0.4))
    slow = replace(evidence, past=replace(evidence.past, last=10**15))
    assert judge_past(slow).decisions_needed is not None
    assert judge_past(slow).expected_at is None


def test_differences_are_in_units_of_the_reward() -> None:
    probabilities, shown, rewards = simulated(1, 1500, (0.2, 0.5, 0.5))
    rows = settled(probabilities[0], shown[0], rewards[0])
    wide = [
        SettledDecision(
            row.sequence,
            replace(row.decision, reward_range=(-10.0, 30.0)),
            tuple((at, 40.0 * value - 10.0) for at, value in row.rewards),
            activated=False,
        )
        for row in rows
    ]
    one, other = (judge_past(LoopEvidence().extended_by(each, UNLIMITED)) for each in (rows, wide))
    for name in ("difference", "low", "high"):
        assert getattr(other, name) == pytest.approx(40.0 * getattr(one, name))
    assert one.verdict is other.verdict is LoopVerdict.BETTER


def test_few_loops_without_a_difference_get_a_verdict() -> None:
    """300 loops that learn in a drifting world, watched at each of 1,200 decisions: at most 5 % may be misjudged.

    The rate is about 1.2 %: at that rate more than 15 of 300 have probability below 1e-5.
    """
    assert false_verdicts(300, 1200, seed=0) <= 15


@pytest.mark.slow
def test_thousand_loops_without_a_difference() -> None:
    """The same with 1,000 loops of 5,000 decisions: 12 are misjudged. More than 50 have probability below 1e-16."""
    wrong = sum(false_verdicts(100, 5000, seed) for seed in range(10))
    assert wrong <= 50
