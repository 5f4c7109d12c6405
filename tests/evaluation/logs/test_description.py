import numpy as np
import pytest

from glbandits.evaluation import Columns, FixedArms, LoggedData, estimate_propensities, read_table, split


def logged(rows: int = 400, propensity: float = 0.5) -> LoggedData:
    chosen = np.arange(rows) % 2
    rewards = np.where(np.arange(rows) % 4 == 0, 1.0, 0.0)
    return LoggedData(
        chosen=chosen, rewards=rewards, propensities=np.full(rows, propensity), arms=FixedArms(np.eye(2), rows=rows)
    )


def test_arms_rewards_and_propensities_are_described() -> None:
    description = logged().describe()
    assert (description.rows, description.mean_reward) == (400, 0.25)
    first, second = description.arms
    assert (first.name, first.rows, first.mean_reward, first.mean_weight) == ("0", 200, 0.5, 1.0)
    assert second.mean_reward == 0.0
    assert description.overlap is not None
    assert description.overlap.mean_inverse == 2.0
    assert (description.problems, description.notes) == ((), ())
    assert description.command == "glb evaluate LOG --link logistic"
    assert "mean of 1 / propensity" in str(description)


def test_deterministic_logging_cannot_be_evaluated() -> None:
    [problem] = logged(propensity=1.0).describe().problems
    assert "could choose no other arm" in problem


def test_wrong_propensities_are_noted() -> None:
    [note] = logged(propensity=0.2).describe().notes
    assert "the mean of 1 / propensity is 5.00, and 2 arms were chosen" in note


def test_constant_rewards_and_one_arm_are_problems_and_few_rows_a_note() -> None:
    log = read_table({"arm": ["a"] * 9, "reward": [1] * 9, "propensity": [0.5] * 9}, Columns())
    description = log.describe()
    assert [problem[:17] for problem in description.problems] == ["all rewards are 1", "only the arm 'a' "]
    assert "only 9 rows" in description.notes[0]
    assert "Next, after the corrections: " in str(description)


def test_arms_that_were_never_chosen_are_listed() -> None:
    table = {"arm": ["a", "b"] * 100, "reward": [0, 1] * 100, "propensity": [0.3] * 200}
    description = read_table(table, Columns(), arm_table={"name": ["a", "b", "c"]}).describe()
    assert [(arm.name, arm.rows) for arm in description.arms] == [("a", 100), ("b", 100), ("c", 0)]
    assert any("never chosen" in note for note in description.notes)


def test_parts_of_logs_and_estimated_propensities_are_described() -> None:
    table = {"arm": ["a", "b", "b", "b"] * 50, "reward": np.arange(200) / 7}
    log = read_table(table, Columns(propensity=None))
    assert ("--propensity", "estimate") in log.describe().options
    with pytest.warns(UserWarning, match="were estimated"):
        estimated = estimate_propensities(log)
    description = estimated.describe()
    assert description.overlap is not None
    assert description.overlap.estimated
    assert any("--reward-range, which must include 0 to 28.43" in note for note in description.notes)
    assert split(log, 0.5)[1].describe().rows == 100
