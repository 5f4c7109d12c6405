import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from glbandits import Bandit, Optimist, SgdTs
from glbandits.common.errors import InvalidInput, UnknownName
from glbandits.evaluation import evaluate, play_log
from glbandits.evaluation.comparison_result import CURVE_POINTS
from glbandits.evaluation.estimators.anytime import AnytimeInterval
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate
from glbandits.evaluation.estimators.targets import AlwaysTarget, GivenTarget, UniformTarget
from glbandits.evaluation.policy_comparison import (
    Candidate,
    ComparisonSettings,
    compare_policies,
)
from tests.evaluation.small_comparison import ROWS, VALUES, small_comparison, small_log


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")  # a few seconds of plain Python, instead of half a minute


def test_learners_are_evaluated_on_rows_they_did_not_learn() -> None:
    evaluated = {policy.label: policy for policy in small_comparison().policies}
    for label in ("optimist", "sgd-ts:step=0.5", "arm:new", "uniform"):
        assert (evaluated[label].left_out_rows, evaluated[label].evaluation.support.rows) == (512, 512), label
    assert (evaluated["a <model>"].left_out_rows, evaluated["a <model>"].evaluation.support.rows) == (0, ROWS)
    assert [evaluated[label].learned_rows for label in evaluated] == [512, 512, None, None, None]
    assert [evaluated[label].learning_curve is None for label in evaluated] == [False, False, True, True, True]


def test_comparison_equals_manual_training_and_evaluation() -> None:
    log = small_log()
    bandit = Bandit(Optimist(link="logistic"), log.dim, seed=0)
    first, rest = log[:512], log[512:]
    bandit.learn_batch(first.features()[np.arange(512), first.chosen], first.rewards)
    by_hand = evaluate(rest, bandit, ("snips", "dr"))
    evaluated = small_comparison().policies[0]
    assert evaluated.evaluation["dr"].value == by_hand["dr"].value
    assert evaluated.evaluation["snips"].normal == by_hand["snips"].normal
    curve = play_log(Optimist(link="logistic"), log, seed=0, points=CURVE_POINTS)
    assert evaluated.learning_curve is not None
    assert evaluated.learning_curve.value == curve.value


def test_estimates_are_near_the_true_values() -> None:
    # Four standard errors: a correct program fails once in 16,000 seeds, and this seed is fixed.
    evaluated = {policy.label: policy.evaluation for policy in small_comparison().policies}
    for label, truth in (("arm:new", VALUES[1]), ("uniform", VALUES.mean())):
        for estimate in (evaluated[label]["snips"], evaluated[label]["dr"]):
            assert abs(estimate.value - truth) < 4 * estimate.standard_error, label
    assert evaluated["optimist"]["dr"].value > 0.5


def test_all_rows_are_used_if_no_candidate_learns() -> None:
    result = compare_policies(
        small_log(), {"uniform": UniformTarget(), "arm:old": AlwaysTarget(0)}, ComparisonSettings()
    )
    assert list(result.evaluation_by_left_out_rows) == [0]
    assert [policy.evaluation.support.rows for policy in result.policies] == [ROWS, ROWS]
    assert result.describe_rows(0) == "all 1,024 rows"


def test_candidates_may_be_targets_of_evaluate() -> None:
    log, settings = small_log(), ComparisonSettings(estimators=("ips",))
    probabilities = np.full((ROWS, 3), 1 / 3)
    named = compare_policies(log, {"a": "arm:new", "b": "new", "c": "uniform", "d": probabilities}, settings)
    objects: dict[str, Candidate] = {"a": AlwaysTarget(1), "b": AlwaysTarget(1), "c": UniformTarget()}
    prepared = compare_policies(log, objects | {"d": GivenTarget(probabilities)}, settings)
    for one, other in zip(named.policies, prepared.policies, strict=True):
        assert one.evaluation["ips"].value == other.evaluation["ips"].value
    with pytest.raises(UnknownName, match="unknown candidate 'a' 'nwe'; did you mean"):
        compare_policies(log, {"a": "nwe"}, settings)
    with pytest.raises(UnknownName, match="unknown arm 'nwe'; did you mean 'new'"):
        compare_policies(log, {"a": "arm:nwe"}, settings)
    with pytest.raises(InvalidInput, match="candidate 'a' must be a Bandit, an agent"):
        compare_policies(log, {"a": 3}, settings)  # type: ignore[dict-item]


def test_given_target_must_have_a_row_for_each_row() -> None:
    log, target = small_log(), GivenTarget(np.full((ROWS + 1, 3), 1 / 3))
    with pytest.raises(InvalidInput, match="a row for each row of the log, 1024"):
        compare_policies(log, {"given": target}, ComparisonSettings())
    with pytest.raises(InvalidInput, match="target must be an array of numbers"):
        evaluate(log, [[1.0, 0.0], [1.0]], "ips")  # type: ignore[call-overload]


def test_progress_reaches_the_end_of_every_step() -> None:
    last: dict[str, float] = {}

    def report(label: str, done: float, total: float) -> None:
        last[label] = done / total

    compare_policies(small_log(), {"optimist": Optimist(link="logistic")}, ComparisonSettings(), progress=report)
    steps = ("learning curves", "training optimist", "evaluating optimist")
    assert last == dict.fromkeys(steps, 1.0)


@pytest.mark.system
def test_short_log_is_not_compiled(tmp_path: Path) -> None:
    program = """
from glbandits import Optimist
from glbandits.compilation.entry_point import _entries
from glbandits.compilation import compiler_pool
from glbandits.evaluation.policy_comparison import ComparisonSettings, compare_policies
from tests.evaluation.small_comparison import small_log
compare_policies(small_log()[:200], {"optimist": Optimist(link="logistic"), "uniform": "uniform"}, ComparisonSettings())
print([entry.recipe.name for entry in _entries.values() if entry.is_compiled], len(compiler_pool._pools))
"""
    environment = os.environ | {"GLBANDITS_COMPILE": "background", "NUMBA_CACHE_DIR": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.stdout == "[] 0\n", run.stderr


def test_learning_curve_of_few_rows_has_a_note() -> None:
    short = small_log()[:200]
    [evaluated] = compare_policies(short, {"optimist": Optimist(link="logistic")}, ComparisonSettings()).policies
    assert "the effective sample size of the learning curve is only" in str(evaluated.learning_curve_note())
    assert small_comparison().policies[0].learning_curve_note() is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimators": ()}, "name at least one estimator, and each once; got none"),
        ({"estimators": ("dr", "dr")}, "each once; got dr, dr"),
        ({"train": 0.0}, "train must be a finite number above 0"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"learn": "some"}, "unknown way to learn 'some'"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ComparisonSettings(**settings)  # type: ignore[arg-type]


def test_comparison_without_candidates_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="name at least one policy"):
        compare_policies(small_log(), {}, ComparisonSettings())


def test_candidates_are_compared_with_the_first() -> None:
    comparison = small_comparison()
    assert comparison.reference == "optimist"
    assert list(comparison.differences) == ["sgd-ts:step=0.5", "arm:new", "uniform", "a <model>"]
    evaluated = {policy.label: policy.evaluation for policy in comparison.policies}
    for label, difference in comparison.differences.items():
        if label == "a <model>":
            assert difference is None  # it is evaluated on rows that optimist learned
            continue
        assert isinstance(difference, DoublyRobustEstimate)
        assert difference.value == pytest.approx(evaluated[label]["dr"].value - evaluated["optimist"]["dr"].value)
        assert isinstance(difference.anytime, AnytimeInterval)
        assert difference.anytime.level == pytest.approx(1 - 0.05 / 10)  # ten pairs of five candidates
    assert "uniform minus optimist -0." in repr(comparison)
    assert "uniform minus optimist" in comparison._repr_html_()


def test_saved_model_can_be_the_reference_of_a_policy() -> None:
    log = small_log()[:400]
    candidates: dict[str, Candidate] = {
        "optimist": Optimist(link="logistic"),
        "model": Bandit(Optimist(link="logistic"), log.dim, seed=3),
        "given": GivenTarget(np.full((400, 3), 1 / 3)),
    }
    comparison = compare_policies(log, candidates, ComparisonSettings(estimators=("dr",), reference="model"))
    assert list(comparison.differences) == ["optimist", "given"]
    assert all(isinstance(difference, DoublyRobustEstimate) for difference in comparison.differences.values())
    swapped = compare_policies(log, candidates, ComparisonSettings(estimators=("dr",), reference="given"))
    model, given = swapped.differences["model"], comparison.differences["given"]
    assert isinstance(model, DoublyRobustEstimate)  # on all rows; that of `given` on the second half
    assert isinstance(given, DoublyRobustEstimate)


def test_equal_candidates_have_difference_zero() -> None:
    log = small_log()[:400]
    candidates = {name: SgdTs(link="logistic", step=0.5) for name in ("one", "other")}  # its decisions are drawn
    [difference] = compare_policies(log, candidates, ComparisonSettings()).differences.values()
    assert isinstance(difference, DoublyRobustEstimate)
    assert difference.value == 0.0


def test_unknown_reference_is_rejected_and_ips_has_no_differences() -> None:
    targets: dict[str, Candidate] = {"uniform": UniformTarget(), "arm:old": AlwaysTarget(0)}
    with pytest.raises(UnknownName, match="unknown reference 'unifrom'; did you mean 'uniform'.* Known: "):
        compare_policies(small_log(), targets, ComparisonSettings(reference="unifrom"))
    assert not compare_policies(small_log(), targets, ComparisonSettings(estimators=("ips",))).differences


def test_candidates_learn_the_first_reward_and_are_evaluated_by_all() -> None:
    clicks = small_log()
    log, candidates = (
        replace(clicks, other_rewards={"no": 1.0 - clicks.rewards}),
        {"optimist": Optimist(link="logistic")},
    )
    settings = ComparisonSettings(estimators=("snips",))
    both = compare_policies(log, candidates, settings, source="log", reward="click", other_rewards=["no"])
    [other] = both.other_rewards
    [first], [second] = both.policies, other.policies
    assert first.evaluation["snips"].value > 0.5
    assert second.evaluation["snips"].value == pytest.approx(1.0 - first.evaluation["snips"].value)
    assert (other.reward, other.source, second.learning_curve) == ("no", "log, no", None)
    with pytest.raises(UnknownName, match="unknown reward 'yes'"):
        compare_policies(log, candidates, settings, reward="click", other_rewards=["yes"])


def test_rows_without_another_reward_are_left_out_of_it_only() -> None:
    clicks = small_log()
    late = np.where(np.arange(len(clicks)) % 3 == 0, np.nan, 1.0 - clicks.rewards)
    log, settings = replace(clicks, other_rewards={"late": late}), ComparisonSettings(estimators=("ips",))
    given = GivenTarget(np.full((len(log), log.arms.max_arms), 1.0 / log.arms.max_arms))
    found = compare_policies(
        log, {"learns": Optimist(link="logistic"), "given": given}, settings, other_rewards=["late"]
    )
    [other] = found.other_rewards
    rows = len(clicks) - found.policies[1].left_out_rows
    assert found.policies[1].evaluation.support.rows == rows
    known = ~np.isnan(late[len(clicks) - rows :])
    assert other.policies[1].evaluation.support.rows == known.sum()
    expected = evaluate(clicks[len(clicks) - rows :][known], given.given[: known.sum()], "ips")
    assert other.policies[1].evaluation["ips"].value == pytest.approx(1.0 - expected["ips"].value, abs=0.2)
