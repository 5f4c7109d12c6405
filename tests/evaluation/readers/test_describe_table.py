from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits import InvalidInput
from glbandits.evaluation import Columns, read_parquet
from glbandits.evaluation.logs import description as description_module
from glbandits.evaluation.logs.description import LogDescription
from glbandits.evaluation.readers.describe_table import describe_table

ROWS = 400


def described(columns: Columns | None = None, **changes: Any) -> LogDescription:
    """Describe a table with two arms; None drops a column."""
    values = {
        "arm": ["hat", "shoe"] * 200,
        "reward": [0, 1, 1, 0] * 100,
        "propensity": [0.5] * ROWS,
        "age": list(range(20, 60)) * 10,
        **changes,
    }
    table = pl.DataFrame({name: column for name, column in values.items() if column is not None}, strict=False)
    return describe_table(table.lazy(), columns or Columns(), "log.csv")


def test_clean_table_has_neither_problems_nor_notes() -> None:
    clean = described()
    assert (clean.problems, clean.notes, clean.is_refused) == ((), (), False)
    assert clean.command == "glb evaluate log.csv --link logistic --context age"
    assert [(column.name, column.kind) for column in clean.columns] == [("age", "number")]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"reward": [0, 1, None, 0] * 100}, "the reward is missing in 100 of 400 rows"),
        (
            {"reward": ["1", "0", "oops", "1"] * 100},
            "no number between -1e+50 and 1e+50 in 100 of 400 rows",
        ),
        ({"propensity": [50] * ROWS}, "not above 0 and at most 1 in 400 of 400 rows. Correct it, such as 0.5 for 50%"),
        ({"arm": np.arange(400) / 2.0}, "must name the chosen arm by text or a whole number"),
    ],
)
def test_values_that_an_evaluation_refuses_are_counted(changes: dict[str, Any], problem: str) -> None:
    description = described(**changes)
    assert problem in description.problems[0]
    assert description.is_refused
    assert "Next, after the corrections: glb evaluate" in str(description)
    assert ("--propensity", "estimate") not in description.options
    assert description.highest_reward <= 1.0


def test_decimal_commas_are_parsed() -> None:
    description = described(reward=["0,5", "1,25"] * 200, propensity=["0,5"] * ROWS)
    assert (description.mean_reward, description.highest_reward, description.problems) == (0.875, 1.25, ())


def test_too_many_arms_need_an_arm_table() -> None:
    table = pl.DataFrame({"arm": [f"item {index}" for index in range(1001)], "reward": [0, 1, 1] * 333 + [0, 0]})
    description = describe_table(table.lazy(), Columns(), "log.csv")
    assert description.command.endswith("--arm-table FILE")


def test_table_without_propensities_is_described() -> None:
    description = described(propensity=None)
    assert "the log has no propensities" in description.problems[0]
    assert description.options.count(("--propensity", "estimate")) == 1
    assert not description.is_refused
    assert "Next, if the propensities may be estimated: glb evaluate" in str(description)


def test_table_without_the_named_columns_describes_all_columns() -> None:
    description = described(Columns(arm="offer", reward="sold"))
    assert [column.name for column in description.columns] == ["arm", "reward", "age"]
    assert description.command == "glb describe log.csv --arm COLUMN --reward COLUMN"
    assert len(description.problems) == 2


def test_column_that_is_named_reward_is_not_suggested_as_context() -> None:
    assert described(Columns(reward="age")).options == ()


def test_context_that_the_table_lacks_is_a_problem() -> None:
    assert "no column 'agee' (did you mean 'age'?)" in described(Columns(context=("agee",))).problems[0]


def test_columns_have_checks_and_kinds_to_declare() -> None:
    description = described(
        price=["5,5 %", "6 %"] * 200,
        zip=["10119", "10115"] * 200,
        plz=[4109, 10115, 20095, 80331] * 100,
        user_id=range(ROWS),
        device=["mobile"] * 399 + ["Mobile"],
        income=[3000.0, 4000.0] * 199 + [3500.0, 1e6],
        share=[0.01, 0.02] * 199 + [0.015, 0.97],
        comment=[f"text {index}" for index in range(ROWS)],
        vip=[True, None] * 200,
    )
    checks = {column.name: column.check for column in description.columns}
    assert checks == {
        "age": "",
        "price": "declare its kind",
        "zip": "declare its kind",
        "plz": "code or quantity?",
        "user_id": "code or quantity?",
        "device": "similar values",
        "income": "1 outliers (0.25%), such as 1e+06",
        "share": "",
        "comment": "declare its kind",
        "vip": "",
    }
    assert {column.name: column.missing for column in description.columns}["vip"] == 0.5
    context, *kinds = [values[0] for option, *values in description.options if option in ("--context", "--kind")]
    assert context == "age,price,zip,plz,device,income,share,vip"
    assert kinds == ["price=number", "zip=category", "plz=category"]


def test_numbers_that_are_too_large_are_refused_by_name() -> None:
    description = described(income=[1e308, 1.0, -1e308, 2.0] * 100)
    assert [note[:46] for note in description.notes] == ["column 'income': each value must be a finite n"]
    assert "got 1e+308" in description.notes[0]
    assert description.options[-1] == ("--context", "age")


def test_column_without_a_name_is_not_suggested() -> None:
    columns: dict[str, Any] = {"": list(range(ROWS)), "city, country": ["a\nb", "c"] * 200}
    description = described(**columns)
    assert '"city, country"' in description.options[-1][1]
    assert description.options[-1][1].startswith("age,")
    assert "a?b (200)" in str(description)


def test_variants_of_arms_are_named() -> None:
    assert "'Hat' (1 row)" in described(arm=["hat", "shoe"] * 199 + ["Hat", "shoe"]).notes[0]


def test_column_with_too_many_arms_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description_module, "MOST_ARMS", 100)
    with pytest.raises(InvalidInput, match="more than 100 different arms"):
        described(arm=[f"user {index}" for index in range(ROWS)])


def test_opened_log_describes_its_columns(tmp_path: Any) -> None:
    table = {"arm": ["a", "b"] * 100, "reward": [0, 1] * 100, "propensity": [0.5] * 200, "city": ["Bonn", "bonn"] * 100}
    pl.DataFrame(table).write_parquet(tmp_path / "log.parquet")
    description = read_parquet(tmp_path / "log.parquet", Columns(context=("city",))).describe()
    assert [column.check for column in description.columns] == ["similar values"]
    assert description.arms[0].rows == 100
