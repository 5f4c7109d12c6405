"""The promotion gate."""

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glbandits import Optimist, Uniform
from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.evaluation import FixedArms, LoggedData, evaluate, promotion
from glbandits.evaluation.comparison_result import ComparisonSettings, GateSettings
from glbandits.evaluation.learning.train import train_all
from glbandits.evaluation.logs.doubts import DoubtKind
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.policy_comparison import compare_policies
from glbandits.evaluation.promotion_result import Verdict

MEANS = np.array([0.3, 0.5, 0.5])


def uniform_log(seed: int, rows: int, means: Floats = MEANS) -> LoggedData:
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, 3, rows)
    return LoggedData(
        chosen=chosen,
        rewards=(rng.random(rows) < means[chosen]).astype(np.float64),
        probabilities=np.full((rows, 3), 1 / 3),
        arms=FixedArms(np.eye(3), rows=rows),
        link="logistic",
        arm_names=("a", "b", "c"),
    )


def test_a_better_candidate_is_promoted() -> None:
    found = promotion(uniform_log(0, 20_000), {"b": "b", "a": "a"})
    assert found.verdict is Verdict.PROMOTE
    assert found.candidate == "b"
    assert found.gains["b"].low > 0.0 > found.gains["a"].high
    assert math.isnan(found.rows_needed)
    assert "Promote b: it is better than the running policy." in str(found)


def test_other_candidates_do_not_change_an_estimate() -> None:
    log = uniform_log(0, 5000)
    together, alone = promotion(log, {"b": "b", "a": "a"}), promotion(log, {"b": "b"})
    assert together.gains["b"].value == alone.gains["b"].value
    assert together.gains["b"].low < alone.gains["b"].low, "candidates share alpha"


def test_worse_candidates_are_not_promoted() -> None:
    found = promotion(uniform_log(0, 20_000), {"a": "a"})
    assert found.verdict is Verdict.KEEP
    assert found.candidate is None


@pytest.mark.statistics
def test_policy_learns_before_the_comparison() -> None:
    found = promotion(uniform_log(0, 20_000), {"greedy": Optimist(link="logistic", floor=0.0), "same": Uniform()})
    assert (found.verdict, found.candidate, found.first_row) == (Verdict.PROMOTE, "greedy", 512)


def test_gain_below_the_margin_gives_keep() -> None:
    log = uniform_log(0, 20_000, np.array([0.5, 0.5, 0.5]))
    assert promotion(log, {"b": "b"}).verdict is Verdict.WAIT
    assert promotion(log, {"b": "b"}, margin=0.2).verdict is Verdict.KEEP


def test_policy_learns_again_before_the_rows_it_is_compared_on(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[int] = []

    def recorded(log: Log, *arguments: Any, **options: Any) -> Any:
        learned.append(len(log))
        return train_all(log, *arguments, **options)

    monkeypatch.setattr(sys.modules[promotion.__module__], "train_all", recorded)
    found = promotion(uniform_log(0, 2049), {"same": Uniform(), "b": "b"})
    assert learned == [512, 1024, 2048]
    assert found.first_row == 512
    assert found.gains["same"].rows == found.gains["b"].rows == 2049 - 512


def changing_log(before: Floats, after: Floats) -> LoggedData:
    """The means of the arms change in the middle of 16,384 rows."""
    parts = [uniform_log(seed, 8192, means) for seed, means in enumerate((before, after))]
    return replace(
        uniform_log(0, 16_384),
        chosen=np.concatenate([part.chosen for part in parts]),
        rewards=np.concatenate([part.rewards for part in parts]),
    )


def test_gain_of_old_rows_only_is_not_enough() -> None:
    """Arm b gains 0.2 in the first half of the log, and nothing in the second."""
    log = changing_log(np.array([0.3, 0.6, 0.3]), np.array([0.5, 0.5, 0.5]))
    assert promotion(log[:8192], {"b": "b"}).verdict is Verdict.PROMOTE
    found = promotion(log, {"b": "b"})
    assert found.gains["b"].low > 0.0
    assert found.verdict is Verdict.WAIT
    assert [doubt.kind for doubt in found.doubts] == [DoubtKind.CHANGED]


def test_recent_rows_may_decide_alone() -> None:
    """Arm b loses 0.2 in the first half of the log, and gains as much in the second."""
    found = promotion(changing_log(np.array([0.5, 0.2, 0.5]), np.array([0.3, 0.6, 0.3])), {"b": "b"})
    assert (found.verdict, found.first_row) == (Verdict.PROMOTE, 8192)


def test_fixed_candidate_is_compared_from_the_first_row() -> None:
    found = promotion(uniform_log(0, 400, np.array([0.1, 0.9, 0.1])), {"b": "b"})
    assert (found.verdict, found.first_row) == (Verdict.PROMOTE, 0)


def test_log_too_short_to_learn_from_gives_wait() -> None:
    found = promotion(uniform_log(0, 500), {"same": Uniform()})
    assert found.verdict is Verdict.WAIT
    assert found.rows_needed == 1024
    assert str(found) == "Wait: the log does not have enough evidence yet; about 1,024 rows would be enough."


def test_no_candidates_or_no_bounds_are_errors() -> None:
    with pytest.raises(InvalidInput, match="candidates is empty"):
        promotion(uniform_log(0, 2000), {})
    with pytest.raises(InvalidInput, match="alpha must be a finite number at least 1e-09"):
        promotion(uniform_log(0, 2000), {"b": "b"}, alpha=1e-200)
    with pytest.raises(InvalidInput, match=r"got 1.0 in row \d+. Set a wider reward_range"):
        promotion(uniform_log(0, 2000), {"b": "b"}, reward_range=(0.0, 0.5))
    log = uniform_log(0, 2000)
    unbounded = replace(log, link="identity")
    with pytest.raises(InvalidInput, match="needs rewards with bounds.*--reward-range"):
        promotion(unbounded, {"b": Uniform()})


def test_invalid_range_and_least_propensity_are_errors() -> None:
    log = uniform_log(0, 10)
    for bounds in ((1.0, 0.0), (0.0, 0.5, 1.0)):
        with pytest.raises(InvalidInput, match="reward_range must be the lowest and then"):
            promotion(log, {"a": "a"}, reward_range=bounds)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="least_propensity must be a finite number"):
        promotion(log, {"a": "a"}, least_propensity=-1)


@pytest.mark.slow
def test_equal_candidates_are_hardly_ever_promoted() -> None:
    """200 logs, three candidates that equal the log, five runs. At 5 %, 22 promotions have probability 0.0004."""
    wrong = 0
    for seed in range(200):
        log = uniform_log(seed, 3600, np.array([0.5, 0.5, 0.5]))
        looks = (promotion(log[:rows], {"a": "a", "b": "b", "c": "c"}) for rows in range(1200, 3601, 600))
        wrong += any(look.verdict is Verdict.PROMOTE for look in looks)
    assert wrong < 22


def test_exploration_lowers_the_value_of_a_candidate() -> None:
    """The log explores half of the time. The policy without exploration is better, with the same exploration it is not.

    The second assertion fails for at most 5 % of seeds.
    """
    rng, rows = np.random.default_rng(0), 20_000
    probabilities = np.tile([1 / 6, 1 / 6 + 0.5, 1 / 6], (rows, 1))
    chosen = (rng.random((rows, 1)) > probabilities.cumsum(axis=1)).sum(axis=1)
    log = LoggedData(
        chosen=chosen,
        rewards=(rng.random(rows) < np.array([0.3, 0.5, 0.3])[chosen]).astype(np.float64),
        probabilities=probabilities,
        arms=FixedArms(np.eye(3), rows=rows),
        link="logistic",
        arm_names=("a", "b", "c"),
    )
    assert promotion(log, {"b": "b"}).verdict is Verdict.PROMOTE
    same = promotion(log, {"b": "b"}, exploration=0.5)
    assert same.verdict is Verdict.WAIT
    assert same.gains["b"].value == pytest.approx(0.0, abs=1e-12)


def test_forecast_needs_a_hundred_rows() -> None:
    few, more = (promotion(uniform_log(3, rows), {"b": "b"}) for rows in (99, 150))
    assert few.rows_needed == math.inf
    assert few.headline == "Wait: the log does not have enough evidence yet."
    assert 150 < more.rows_needed < 1e9


def test_exploration_means_the_same_in_table_and_gate() -> None:
    """A share of the decisions of every candidate is random, also of one that is not a bandit."""
    log = uniform_log(0, 3000)
    settings = ComparisonSettings(estimators=("dr",), exploration=0.5, gate=GateSettings())
    comparison = compare_policies(log, {"b": "b"}, settings)
    plain, gain = evaluate(log, "b"), comparison.policies[0].evaluation.headline
    assert plain.headline is not None
    assert gain is not None
    assert comparison.promotion is not None
    assert gain.gain.value == pytest.approx(plain.headline.gain.value / 2, abs=0.02)
    assert gain.gain.value == pytest.approx(comparison.promotion.gains["b"].value, abs=0.02)
