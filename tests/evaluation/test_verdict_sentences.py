"""The verdict of a comparison in sentences."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from glbandits.common.arrays import Floats
from glbandits.common.display.text_format import significant
from glbandits.evaluation import FixedArms, LoggedData
from glbandits.evaluation.logs.doubts import Doubt, DoubtKind, Withheld
from glbandits.evaluation.policy_comparison import (
    CandidateLike,
    ComparisonSettings,
    GateSettings,
    PolicyComparison,
    compare_policies,
)
from glbandits.evaluation.policy_verdicts import VerdictKind
from glbandits.evaluation.report import write_evaluation_report

PROBABILITIES = np.array([0.4, 0.3, 0.2, 0.1])
CANDIDATES = {"uniform": "uniform", "b": "arm:b", "d": "arm:d"}


def log_of(means: list[float], rows: int, seed: int) -> LoggedData:
    """A log of four arms a, b, c, d with rewards of 0 and 1, and the probabilities of all arms."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(4, rows, p=PROBABILITIES)
    return LoggedData(
        chosen=chosen,
        rewards=(rng.random(rows) < np.array(means)[chosen]).astype(float),
        probabilities=np.tile(PROBABILITIES, (rows, 1)),
        arms=FixedArms(np.eye(4), rows=rows),
        arm_names=tuple("abcd"),
    )


def compared(log: LoggedData, reference: str | None = None, **candidates: CandidateLike) -> PolicyComparison:
    settings = ComparisonSettings(estimators=("dr",), reference=reference)
    return compare_policies(log, candidates or CANDIDATES, settings)


def test_verdict_names_the_better_and_the_best_candidate(tmp_path: Path) -> None:
    comparison = compared(log_of([0.3, 0.1, 0.3, 0.7], 3000, 0), b="arm:b", d="arm:d")
    better, worse, best = comparison.verdict
    assert better.startswith("Better than the logging policy on these rows (all 3,000 rows): d (gain +0.")
    assert better.endswith("95% sure, however often you look.")
    assert worse.startswith("Worse than the logging policy on these rows (all 3,000 rows): b (gain -0.1")
    assert best == "The best candidate is d, better than b; 95% sure, however often you look."
    page, record = write_evaluation_report(comparison, tmp_path, "")
    assert json.loads(record.read_text())["verdict"] == list(comparison.verdict)
    text = page.read_text()
    assert text.index(best) < text.index("This page was written by")


def test_best_candidate_needs_disjoint_intervals_at_every_n() -> None:
    """Both arms differ from the reference at every n, and from each other only at this n."""
    log = log_of([0.3, 0.8, 0.3, 0.72], 4000, 6)
    comparison = compared(log, "a", a="arm:a", b="arm:b", d="arm:d")
    b, d = (comparison.differences[label] for label in ("b", "d"))
    assert b is not None
    assert d is not None
    assert b.anytime is not None
    assert d.anytime is not None
    assert 0.0 < d.anytime.low < b.anytime.low < d.anytime.high
    assert "however often" not in comparison.verdict[-1]


def test_verdict_says_how_many_rows_are_missing() -> None:
    """The gain of 0.02 has about twice as wide an interval on each side: (2^2 - 1) as many rows are missing."""
    comparison = compared(log_of([0.3, 0.3, 0.3, 0.4], 600, 1), d="arm:d", b="arm:b")
    first, *rest = comparison.verdict
    assert first == "No candidate is shown to be better than the logging policy on these rows (all 600 rows)."
    gain = comparison.policies[0].evaluation.headline
    assert gain is not None
    assert gain.joint_gain.fixed_n is not None
    value, low = gain.joint_gain.value, gain.joint_gain.fixed_n.low
    about = 600 * (((value - low) / value) ** 2 - 1)
    [stated] = [line for line in rest if line.startswith("Whether d is better or worse is open")]
    number = float(stated.split("about ")[1].split(" more")[0].replace(",", ""))
    assert number == pytest.approx(about, rel=0.06)
    assert rest[-1].startswith("The highest estimate is that of d, ")
    assert rest[-1].endswith("more rows like these would tell.")


def test_gains_share_the_error_probability() -> None:
    one, three = (
        compared(log_of([0.3] * 4, 2000, 2), **candidates).policies[0].evaluation.headline
        for candidates in ({"b": "arm:b"}, {"b": "arm:b", "c": "arm:c", "d": "arm:d"})
    )
    assert one is not None
    assert three is not None
    assert one.gain == one.joint_gain == three.gain
    assert one.gain.fixed_n is not None
    assert three.joint_gain.fixed_n is not None
    ratio = (three.joint_gain.value - three.joint_gain.fixed_n.low) / (one.gain.value - one.gain.fixed_n.low)
    assert ratio == pytest.approx(2.394 / 1.960, rel=0.05)  # quantiles of 1 - 0.05 / 6 and 1 - 0.05 / 2


def test_refused_candidate_has_no_part_in_the_verdict() -> None:
    log = log_of([0.3, 0.3, 0.3, 0.7], 3000, 3)
    wrong = replace(log, probabilities=None, propensities=np.where(log.chosen == 3, 0.01, PROBABILITIES[log.chosen]))
    verdict = compared(wrong).verdict
    assert any(line.startswith("No verdict on d: not enough evidence: the mean weight is") for line in verdict)
    assert not any(line.startswith("The best") for line in verdict)
    only = compared(wrong, d="arm:d").verdict
    assert len(only) == 1


@pytest.mark.parametrize("withholds", Withheld)
def test_doubt_withholds_its_verdicts(withholds: Withheld, tmp_path: Path) -> None:
    doubt = Doubt(kind=DoubtKind.CHANGED, text="It changed at row 7", short="it changed", withholds=withholds, since=7)
    comparison = compared(log_of([0.3, 0.1, 0.3, 0.7], 3000, 3), d="arm:d", b="arm:b")
    doubted = [replace(each, evaluation=replace(each.evaluation, doubts=(doubt,))) for each in comparison.policies]
    comparison = replace(comparison, policies=tuple(doubted))
    kinds = {each.kind for each in comparison.verdicts}
    assert (VerdictKind.BETTER in kinds) == (withholds is Withheld.NOTHING)
    assert (VerdictKind.BEST in kinds) == (withholds is not Withheld.ALL)
    withheld = [each for each in comparison.verdicts if each.kind is VerdictKind.WITHHELD]
    assert [each.candidate for each in withheld] == ([] if withholds is Withheld.NOTHING else ["d", "b"])
    assert all("it changed" in each.reason for each in withheld)
    _, record = write_evaluation_report(comparison, tmp_path, "")
    assert json.loads(record.read_text())["policies"][0]["doubts"][0]["since"] == 7


def test_candidate_that_decides_like_the_log_is_equally_good() -> None:
    log = log_of([0.3] * 4, 2000, 4)
    same: Floats = np.tile(PROBABILITIES, (2000, 1))
    verdict = compared(log, same=same).verdict
    assert verdict[1] == "same decides as the logging policy on these rows does."


def test_gate_answers_what_is_better_than_today() -> None:
    log = log_of([0.3, 0.1, 0.3, 0.7], 3000, 0)
    settings = ComparisonSettings(estimators=("dr",), gate=GateSettings())
    comparison = compare_policies(log, {"b": "arm:b", "d": "arm:d"}, settings)
    assert comparison.promotion is not None
    assert comparison.verdict[0] == comparison.promotion.headline
    assert not any("on these rows" in sentence for sentence in comparison.verdict)


def test_sentence_quotes_the_interval_that_it_claims() -> None:
    comparison = compared(log_of([0.3, 0.1, 0.3, 0.7], 3000, 0), d="arm:d")
    headline = comparison.policies[0].evaluation.headline
    assert headline is not None
    assert headline.joint_gain.anytime is not None
    low, high = headline.joint_gain.anytime.interval
    assert f"+{significant(low)} to +{significant(high)}); 95% sure, however often" in comparison.verdict[0]


def test_verdict_needs_dr() -> None:
    settings = ComparisonSettings(estimators=("snips",))
    [sentence] = compare_policies(log_of([0.3] * 4, 500, 5), CANDIDATES, settings).verdict
    assert "add the estimator dr" in sentence


@pytest.mark.statistics
@pytest.mark.parametrize("reference", ["uniform", "d"])
def test_sentences_without_a_true_difference_are_rarely_wrong(reference: str) -> None:
    """Each kind of sentence is wrong in at most 5 % of logs: more than 10 of 100 with a probability of 1.1 %."""
    wrong = {"Better or Worse": 0, "The best": 0}
    for seed in range(100):
        verdict = compared(log_of([0.2] * 4, 1500, seed), reference).verdict
        for kinds in wrong:
            wrong[kinds] += any(line.startswith(tuple(kinds.split(" or "))) for line in verdict)
    assert max(wrong.values()) <= 10, wrong


def test_verdicts_are_records_with_kind_and_candidate() -> None:
    verdicts = compared(log_of([0.3, 0.1, 0.3, 0.7], 3000, 0), b="arm:b", d="arm:d").verdicts
    assert [(each.kind, each.candidate, each.rivals) for each in verdicts] == [
        (VerdictKind.WORSE, "b", ()),
        (VerdictKind.BETTER, "d", ()),
        (VerdictKind.BEST, "d", ("b",)),
    ]
    assert all(each.always for each in verdicts)
