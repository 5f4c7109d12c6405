"""Estimates are refused if the log has not enough evidence, also in differences, gains, the gate and reports."""

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from glbandits.common.arrays import Floats
from glbandits.evaluation import CrossedArms, LoggedData, estimate_propensities, evaluate, promotion
from glbandits.evaluation.estimators.results import Evaluation
from glbandits.evaluation.policy_comparison import CandidateLike, ComparisonSettings, GateSettings, compare_policies
from glbandits.evaluation.promotion_result import Verdict
from glbandits.evaluation.report import write_evaluation_report
from glbandits.evaluation.report.tables import estimates_table

ARMS, DIM, TRUTH_ROWS = 6, 3, 100_000
SCORES, EFFECTS = np.random.default_rng(1).normal(size=(2, DIM, ARMS))


class Simulated(NamedTuple):
    """A log without propensities, the probabilities of its policy, and the mean rewards of all arms."""

    log: LoggedData
    probabilities: Floats
    means: Floats


def simulate(kind: str, rows: int, seed: int) -> Simulated:
    """A log with 0/1 rewards of a policy that is deterministic, nearly so, confounded or clean (softmax)."""
    rng = np.random.default_rng(seed)
    x, hidden = rng.normal(size=(rows, DIM)), rng.normal(size=(rows, 1))
    scores = x @ SCORES
    probabilities = {
        "deterministic": np.eye(ARMS)[scores.argmax(axis=1)],
        "nearly deterministic": 0.999 * np.eye(ARMS)[scores.argmax(axis=1)] + 0.001 / ARMS,
        "confounded": _softmax(0.3 * scores + hidden * np.linspace(-1.5, 1.5, ARMS)),
        "clean": _softmax(0.5 * scores),
    }[kind]
    means = 1.0 / (1.0 + np.exp(2.5 - 0.4 * x @ EFFECTS - 0.8 * hidden * (kind == "confounded")))
    chosen = (rng.random((rows, 1)) > probabilities.cumsum(axis=1)).sum(axis=1).clip(max=ARMS - 1)
    log = LoggedData(
        chosen=chosen,
        rewards=(rng.random(rows) < means[np.arange(rows), chosen]).astype(float),
        arms=CrossedArms(x, np.eye(ARMS)),
        link="logistic",
        arm_names=tuple("abcdef"),
    )
    return Simulated(log, probabilities, means)


def _softmax(scores: Floats) -> Floats:
    exponentials = np.exp(scores)
    shares: Floats = exponentials / exponentials.sum(axis=1, keepdims=True)
    return shares


def estimated(log: LoggedData) -> LoggedData:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimate_propensities(log)


def assert_no_numbers(evaluation: Evaluation) -> None:
    assert evaluation.no_evidence.startswith("not enough evidence")
    assert evaluation.headline is not None
    for estimate in (evaluation.headline.value, evaluation.headline.gain):
        assert math.isnan(estimate.value)
        assert estimate.interval is None
        assert estimate.no_fixed_n == estimate.no_anytime == evaluation.no_evidence
    for check in evaluation.estimates:
        assert math.isnan(check.value)
        assert math.isnan(check.normal.low)
        assert np.isnan(check.running).all()
        assert check.no_evidence
    for text in (str(evaluation), repr(evaluation.estimates[0])):
        assert "not enough evidence" in text
        assert "nan" not in text


@pytest.mark.parametrize("kind", ["deterministic", "nearly deterministic"])
def test_estimated_propensities_of_a_deterministic_log_are_refused(kind: str) -> None:
    result = evaluate(estimated(simulate(kind, 3000, 0).log), {"uniform": "uniform", "b": "arm:b"}, reference="b")
    for evaluation in result.values():
        assert_no_numbers(evaluation)
    difference = result["uniform"].headline
    assert difference is not None
    assert difference.difference is not None
    assert math.isnan(difference.difference.value)


def test_logged_probabilities_without_support_are_refused() -> None:
    """The policy logged that it was deterministic: the probabilities are correct, and say nothing about other arms."""
    simulated = simulate("deterministic", 3000, 0)
    log = replace(simulated.log, probabilities=simulated.probabilities)
    assert_no_numbers(evaluate(log, "uniform"))
    assert_no_numbers(evaluate(replace(log, probabilities=None), "uniform"))
    assert evaluate(log, simulated.probabilities).no_evidence == ""


def test_wrong_logged_propensities_are_refused_also_by_the_gate() -> None:
    """The log has the propensities of a uniform choice, and its policy preferred some arms."""
    simulated = simulate("clean", 3000, 1)
    log = replace(simulated.log, propensities=np.full(3000, 1 / (3 * ARMS)))
    assert_no_numbers(evaluate(log, "uniform"))
    verdict = promotion(log, {"uniform": "uniform"})
    assert verdict.verdict is Verdict.WAIT
    assert not verdict.gains
    assert "the mean weight is 3" in verdict.no_evidence["uniform"]
    assert "the mean weight is 3" in str(verdict)
    assert "the mean weight is 3" in verdict._repr_html_()


def test_difference_from_a_reference_without_evidence_is_refused() -> None:
    """The candidate decides like the deterministic policy, so that the log has all evidence on it."""
    simulated = simulate("deterministic", 3000, 0)
    log, same = replace(simulated.log, probabilities=simulated.probabilities), simulated.probabilities
    for result in (evaluate(log, same, reference="uniform"), evaluate(log, {"same": same}, reference="arm:b")["same"]):
        assert result.headline is not None
        assert not result.no_evidence
        assert result.headline.value.fixed_n is not None
        assert result.headline.difference is not None
        assert result.headline.difference.interval is None
        assert "(the reference)" in result.headline.difference.no_anytime


def test_impossible_value_is_refused() -> None:
    """All rewards are 1, and all weights 1.15, which is near enough to 1."""
    log = LoggedData(
        chosen=np.arange(200) % 2,
        rewards=np.ones(200),
        propensities=np.full(200, 0.5 / 1.15),
        arms=CrossedArms(np.zeros((200, 1)), np.eye(2)),
        link="logistic",
    )
    result = evaluate(log, "uniform", ["ips", "snips"])
    assert "it would be 1.15, and possible values are 0 to 1" in result["ips"].no_evidence
    assert result["snips"].value == pytest.approx(1.0)


def test_random_error_of_logged_propensities_is_not_refused() -> None:
    """The only row of the rare arm has the reward 1 and the weight 300: ips is 1.5, with a standard error of 1.5."""
    chosen = np.arange(200) == 7
    log = LoggedData(
        chosen=chosen.astype(int),
        rewards=chosen.astype(float),
        propensities=np.where(chosen, 1 / 300, 299 / 300),
        arms=CrossedArms(np.zeros((200, 1)), np.eye(2)),
    )
    target = np.tile([0.0, 1.0], (200, 1))
    assert evaluate(log, target, "ips")["ips"].value == pytest.approx(1.5)
    assert evaluate(replace(log, estimated=True), target, "ips")["ips"].no_evidence


def test_page_table_and_record_have_no_refused_number(tmp_path: Path) -> None:
    simulated = simulate("deterministic", 3000, 0)
    log = replace(simulated.log, probabilities=simulated.probabilities)
    candidates: dict[str, CandidateLike] = {"same": simulated.probabilities, "uniform": "uniform"}
    comparison = compare_policies(log, candidates, ComparisonSettings(gate=GateSettings()))
    assert comparison.promotion is not None
    assert set(comparison.promotion.gains) == {"same"}
    rows = [row for row in estimates_table(comparison).rows if row[0] == "uniform"]
    assert {row[2] for row in rows} == {"not enough evidence"}
    page, record = write_evaluation_report(comparison, tmp_path, "")
    assert "the mean weight is" in page.read_text()
    policy = json.loads(record.read_text())["policies"][1]
    assert policy["no_evidence"].startswith("not enough evidence")
    assert policy["headline"]["difference"]["value"] is None


@pytest.mark.statistics
def test_intervals_from_estimated_propensities_cover_the_truth() -> None:
    """At a level of 95 %, 24 shown intervals of a clean log all cover it, except for about one."""
    simulated = simulate("clean", TRUTH_ROWS, 99)
    truths = {"uniform": simulated.means.mean(), "b": simulated.means[:, 1].mean()}
    covered = []
    for seed in range(12):
        for name, evaluation in evaluate(
            estimated(simulate("clean", 3000, seed).log), {"uniform": "uniform", "b": "arm:b"}
        ).items():
            assert evaluation.headline is not None
            assert evaluation.headline.value.fixed_n is not None
            low, high = evaluation.headline.value.fixed_n
            covered.append(low <= truths[name] <= high)
    assert sum(covered) >= 20  # of 24 with probability 0.95 each: fewer with a probability of 0.6 %


def test_rare_arm_with_estimated_propensities_is_refused() -> None:
    """Its mean weight is far from 1, but because of few rows within a few standard errors of it."""
    log = simulate("clean", 600, 3).log
    kept = np.flatnonzero((log.chosen != 2) | (np.cumsum(log.chosen == 2) <= 4))
    rare = LoggedData(
        chosen=log.chosen[kept],
        rewards=log.rewards[kept],
        arms=CrossedArms(np.ones((len(kept), 1)), np.eye(ARMS)),
        link="logistic",
        arm_names=log.arm_names,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation = evaluate(estimate_propensities(rare), "arm:c", ["dr"])
    assert evaluation.support.mean_weight < 0.8
    assert evaluation.no_evidence
