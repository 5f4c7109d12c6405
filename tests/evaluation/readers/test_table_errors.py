"""Errors of logs from tables."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits import InvalidInput
from glbandits.evaluation import Columns, read_csv, read_table
from glbandits.features import FeatureMap
from tests.evaluation.readers.table_data import ARMS, LISTS, TABLE, changed

INDEXED = {**TABLE, "arm": [0, 0, 0]}
WRONG = [
    (changed("propensity", 1, 1.5), {}, "column 'propensity', row 1: .* above 0 and at most 1; got 1.5"),
    ({**TABLE, "reward": ["1", "0", "so"]}, {}, "column 'reward', row 2: .* finite number; got 'so'"),
    (changed("arm", 0, None), {}, "column 'arm', row 0: the value must not be missing"),
    ({**TABLE, "arm": [1.0, 2.0, 3.0]}, {}, "column 'arm' must name the chosen arm by text or a whole number"),
    ({**TABLE, "arms": TABLE["age"]}, {"arms": "arms"}, "column 'arms' must have a list of names .*; got Int64"),
    (changed("arms", 2, ["c", "b", "c"], LISTS), {"arms": "arms"}, "'arms', row 2: .* list each arm once"),
    ({**TABLE, "arm": [0, 1, 0], "z": [[[1]]] * 3}, {"features": "z"}, "'arm', row 1: .* index of an arm of its row"),
    ({**INDEXED, "z": [[[1]], [[None]], [[1]]]}, {"features": "z"}, "'z', row 1: the value must be a finite"),
    ({name: values[:0] for name, values in TABLE.items()}, {}, "the table has no rows"),
]


@pytest.mark.parametrize(("table", "columns", "message"), WRONG)
def test_errors_name_the_column_and_the_row(table: dict[str, Any], columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_table(table, Columns(**columns))


def test_rewards_outside_the_link_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="column 'reward', row 1: .*logistic"):
        read_table(changed("reward", 1, 2.0), Columns(), link="logistic")


def test_missing_columns_are_listed_with_suggestions() -> None:
    frame = pl.DataFrame(TABLE).rename({"propensity": "propensity_score"})
    with pytest.raises(InvalidInput) as caught:
        read_table(frame, Columns(context=("age", "height")))
    message = str(caught.value)
    assert "'propensity' (did you mean 'propensity_score'?), 'height'" in message
    assert "Expected: arm, reward, propensity, age, height" in message
    assert "Found: arm, reward, propensity_score, age, land" in message
    with pytest.raises(InvalidInput, match="no column 'far_a' .did you mean 'near_a'.*'far_b'.*for every arm"):
        read_table(TABLE, Columns(per_arm=("far_{arm}",)))


WRONG_ARMS: list[tuple[dict[str, Any], str | None, str]] = [
    (
        {"name": ["a"], "price": [1.0]},
        None,
        "column 'arm', row 0: the value must be one of 'a'; got 'b'. Add the arm to arm_table",
    ),
    ({"name": ["a", "a"]}, None, "column 'name', row 0: the value must name each arm of arm_table once; got 'a'"),
    ({"name": ["a", None]}, None, "column 'name', row 1: the value must name each arm"),
    ({"name": ["a", "b"]}, "id", "arm_table has no column 'id'.*Set arm_id"),
    ({"name": []}, None, "arm_table must have a row for each arm; got none"),
    ({"price": [1, 2], "arm": ["a", "b"]}, None, "in its first column, which is 'price'. Move the column 'arm' to"),
    ({"name": ["a", " a", "b"]}, None, "the arms ' a' and 'a' differ only in spaces at the ends of their names"),
]


@pytest.mark.parametrize(("arms", "arm_id", "message"), WRONG_ARMS)
def test_invalid_arm_tables_are_rejected(arms: dict[str, Any], arm_id: str | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_table(TABLE, Columns(), arm_table=arms, arm_id=arm_id)


def test_id_columns_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {name: [values[i % 3] for i in range(90)] for name, values in TABLE.items()}
    table["land"] = [f"land {i}" for i in range(90)]
    with pytest.raises(InvalidInput, match="column 'land' contains 90 distinct texts in"):
        read_table(table, Columns(context=("land",)))
    monkeypatch.setattr("glbandits.evaluation.readers.table_inspection.ARM_BLOCKS", 1)
    with pytest.raises(InvalidInput, match="column 'arm' names 2 different arms"):
        read_table(TABLE, Columns())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"context": (1,)}, "context must be different names of columns"),
        ({"context": 3}, "context must be names of columns"),
        ({"context": ("a", "a")}, "context must be different names"),
        ({"arm": None}, "arm must be the name of a column; got None"),
        ({"per_arm": ("x_{arm}",), "features": "z"}, "per_arm needs the names of the arms"),
    ],
)
def test_invalid_columns_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Columns(**settings)


def test_invalid_tables_are_rejected() -> None:
    with pytest.raises(
        InvalidInput,
        match="a table must be a data frame .*; got list",
    ):
        read_table([1, 2], Columns())
    with pytest.raises(InvalidInput, match="the columns could not be combined into a"):
        read_table({"a": [1, 2], "b": [1, 2, 3]}, Columns())
    with pytest.raises(InvalidInput, match="columns must be a Columns object"):
        read_table(TABLE, "arm")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="from the column of features or from arm_table"):
        read_table({**TABLE, "z": [[[1]]] * 3}, Columns(features="z"), arm_table=ARMS)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"context": ("age", "click"), "reward": "click"}, "context must not contain the reward column 'click', which"),
        ({"context": ("propensity",)}, "context must not contain the propensity column 'propensity'"),
        ({"context": ("arm",)}, "context must not contain the arm column 'arm'"),
        ({"context": ("probabilities",)}, "context must not contain the probabilities column"),
    ],
)
def test_context_must_be_known_before_the_decision(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Columns(**columns)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("reward", ["yes", "maybe"], "row 1: the value must be a word such as 'yes', as other rewards are, or 1 or 0"),
        ("reward", ["yes", "NA"], "row 1: the value must be a finite number; got none. Fill in or drop"),
        ("propensity", ["0.5", "yes"], "got 'yes'. Write 1 for yes and 0 for no"),
        ("propensity", [50.0, 50.0], "at most 1; got 50.0. Divide percentages by 100. If the propensities"),
        ("propensity", [0.5, -0.1], "at most 1; got -0.1. If the propensities"),
    ],
)
def test_errors_of_rewards_and_propensities_give_advice(column: str, values: list[Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_table({"arm": ["a", "b"], "reward": [0, 1], "propensity": [0.5, 0.5], column: values}, Columns())


def test_decimal_commas_are_read_in_rewards_and_propensities() -> None:
    log = read_table({"arm": ["a", "b"], "reward": ["1,250", "-12,5"], "propensity": ["0,5", "1"]}, Columns())
    assert log.rewards.tolist() == [1.25, -12.5]
    np.testing.assert_array_equal(log.propensities, [0.5, 1.0])


@pytest.mark.parametrize("texts", [["yes", "No"], ["true", "false"], [" Y", "n"], ["T", "f"], ["on", "0"]])
def test_words_for_yes_and_no_are_rewards_of_1_and_0(texts: list[str]) -> None:
    log = read_table({"arm": ["a", "b"], "reward": texts, "propensity": [0.5, 0.5]}, Columns(), link="logistic")
    assert log.rewards.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("last", ["maybe", "", "2"])
def test_invalid_rewards_are_refused_when_a_file_is_opened(tmp_path: Path, last: str) -> None:
    """Before anything is compiled or learned."""
    for first in ("yes", "1"):
        path = tmp_path / f"{first}.csv"
        path.write_text("arm,reward,propensity\n" + f"a,{first},0.5\n" * 3 + f"a,{last},0.5\n")
        with pytest.raises(InvalidInput, match="column 'reward', row 3: .*. Rows are counted from 0, without the hea"):
            read_csv(path, Columns(), link="logistic")


def test_commas_that_may_separate_thousands_are_refused() -> None:
    table = {"arm": ["a", "b"], "reward": ["1,250", "3,500"], "propensity": [0.5, 0.5]}
    with pytest.raises(InvalidInput, match="column 'reward', row 0: .* got '1,250'. Write numbers with a decimal"):
        read_table(table, Columns())


@pytest.mark.parametrize("sparse", [False, True])
def test_errors_of_an_arm_table_name_its_row(sparse: bool) -> None:
    arms = {"name": ["c", "b", "a"], "price": ["1", "2", "cheap"]}
    with pytest.raises(InvalidInput, match="column 'price', row 2: the value"):
        read_table(TABLE, Columns(), arm_table=arms, features=FeatureMap(arm={"price": "number"}), sparse=sparse)


@pytest.mark.parametrize("other", ["Zu\u0308rich", " Zu\u0308rich"])
def test_arms_that_differ_only_in_the_unicode_form_are_refused(other: str) -> None:
    table = {"arm": ["Z\u00fcrich", other], "reward": [0, 1], "propensity": [0.5, 0.5]}
    with pytest.raises(InvalidInput, match="differ only in the Unicode form"):
        read_table(table, Columns())
