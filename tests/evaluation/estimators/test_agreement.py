from typing import Any

import numpy as np
import pytest

from glbandits.evaluation import Columns, evaluate, read_table
from glbandits.evaluation.estimators.anytime import AnytimeInterval
from glbandits.evaluation.estimators.estimator import Interval
from glbandits.evaluation.estimators.grouped_moments import MomentSums
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate, Headline, agreement_doubts
from glbandits.evaluation.estimators.results import Evaluation
from glbandits.evaluation.logs.doubts import DoubtKind


def evaluated(context: str, rows: int = 1500, **columns: Any) -> Evaluation:
    """A log of three arms that shows arm c most, with a context column before and one after the decision."""
    rng = np.random.default_rng(3)
    probabilities = np.array([0.2, 0.2, 0.6])
    arm = rng.choice(3, rows, p=probabilities)
    age = rng.normal(size=rows)
    reward = (rng.random(rows) < np.array([0.1, 0.1, 0.4])[arm]).astype(int)
    table = {
        "arm": np.array(["a", "b", "c"])[arm],
        "reward": reward,
        "propensity": probabilities[arm],
        "age": age,
        "status": np.where(reward == 1, "bought", "none"),
    }
    return evaluate(read_table(table, Columns(context=(context,), **columns)), "uniform", ["dr", "ips"])


def test_reward_model_does_not_use_a_column_known_after_the_decision() -> None:
    result = evaluated("status")
    assert result["dr"].value == pytest.approx(result["ips"].value, abs=0.005)  # with the column: 0.03 more
    assert DoubtKind.LEAK in [doubt.kind for doubt in result.doubts]
    assert DoubtKind.DISAGREEMENT not in [doubt.kind for doubt in result.doubts]


@pytest.mark.parametrize("rows", [60, 1500])
def test_no_warning_if_dr_and_ips_agree(rows: int) -> None:
    assert not [note for note in evaluated("age", rows).notes if "dr is" in note]


def test_small_logs_get_no_warning() -> None:
    assert not [note for note in evaluated("status", 60).notes if "dr is" in note]


def test_estimate_outside_its_anytime_interval_gets_a_note() -> None:
    support = evaluated("age").support
    estimate = DoublyRobustEstimate(
        value=-0.02,
        standard_error=0.01,
        fixed_n=Interval(-0.03, -0.01),
        anytime=AnytimeInterval(value=-0.04, low=-0.06, high=-0.03, rows=1500, level=0.95),
    )
    inside = DoublyRobustEstimate(value=0.2, standard_error=0.01, fixed_n=None, anytime=None)
    sums = MomentSums(2)
    terms = np.random.default_rng(1).normal(size=(1500, 2)) + np.array([0.0, 1.0])
    sums.add(list(terms.T), np.arange(1500))
    doubts = agreement_doubts(sums.moments(), Headline(value=inside, gain=estimate, joint_gain=estimate), support)
    assert [str(doubt)[:40] for doubt in doubts] == ["the gain of dr lies outside the interval"]


def test_arms_with_two_names_do_not_blame_the_context() -> None:
    rng = np.random.default_rng(5)
    arm = rng.choice(["news", "News", "shop", "Shop"], 1500)
    table = {"arm": arm, "reward": rng.integers(0, 2, 1500), "propensity": np.full(1500, 0.5), "age": np.arange(1500.0)}
    with pytest.warns(UserWarning, match="differ only in case"):
        log = read_table(table, Columns(context=("age",)))
    notes = evaluate(log, "uniform", ["dr", "ips"]).notes
    assert any("an arm has several names" in note for note in notes)
    assert not any("known only after the decision" in note for note in notes)
