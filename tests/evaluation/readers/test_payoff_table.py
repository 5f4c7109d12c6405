"""Values and costs of arms: tables with a row for each arm, and columns of the log."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from glbandits import InvalidInput
from glbandits.evaluation import Columns, LoggedData, open_log
from glbandits.evaluation.logs.logged_data import Log

TABLE = {
    "arm": ["mug", "big hat", "7"],
    "reward": [1, 0, 1],
    "propensity": [0.5, 0.25, 0.25],
}
LISTS = {
    "arm": ["b", "a"],
    "arms": [["a", "b"], ["c", "b", "a"]],
    "reward": [1, 0],
    "propensity": [0.5, 0.2],
}
FILE = "arm,value,cost\nmug,2,0.5\nbig hat,3,0\n7,10,1\n"


def in_memory(log: Log) -> LoggedData:
    [block] = log.blocks()
    return block


def log_with(text: str, folder: Path, **settings: Any) -> LoggedData:
    (folder / "arms.csv").write_text(text, encoding="utf-8")
    return in_memory(open_log(TABLE, payoffs=folder / "arms.csv", **settings))


def test_each_arm_has_the_value_and_cost_of_its_name(tmp_path: Path) -> None:
    log = log_with(FILE, tmp_path)
    assert log.arm_names == ("7", "big hat", "mug")
    assert log.values is not None
    assert log.costs is not None
    assert log.values.tolist() == [[10.0, 3.0, 2.0]] * 3
    assert log.costs.tolist() == [[1.0, 0.0, 0.5]] * 3
    assert log.payoffs.tolist() == [1.5, 0.0, 9.0]


@pytest.mark.parametrize(
    "text",
    [
        "arm, Value ,COST\n mug ,2,0.5\nbig hat,3,0\n7,10,1\nnever seen,1,1\n",
        "arm,value,cost,colour\nmug,2,0.5,red\nbig hat,3,0,\n7,10,1,blue\n",
        "cost,product,value\n0.5,mug,2\n0,big hat,3\n1,7,10\n",
        '"arm";"value";"cost"\nmug;2,0;0,5\nbig hat;3,0;0,0\n7;10,0;1,0\n',
        "\ufeffarm,value,cost\r\nmug,2,0.5\r\nbig hat,3,0\r\n7,10,1\r\n",
    ],
)
def test_messy_but_clear_files_are_read(text: str, tmp_path: Path) -> None:
    log = log_with(text, tmp_path)
    assert log.payoffs.tolist() == [1.5, 0.0, 9.0]


def test_costs_are_0_without_a_column(tmp_path: Path) -> None:
    assert log_with("arm,value\nmug,2\nbig hat,3\n7,10\n", tmp_path).payoffs.tolist() == [2.0, 0.0, 10.0]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("arm,value,cost\nmug,2,0.5\nbig hat,3,0\n", "none for '7'"),
        (FILE.replace("mug,2", "mug,NaN"), "finite number; got 'NaN'"),
        (FILE.replace("0.5", "inf"), "finite number; got 'inf'"),
        (FILE + ",4,0\n", "each arm of payoffs once; got none"),
        (FILE.replace("cost", "costs"), "columns arm, value and cost"),
        ("arm,value,cost\n", "none for '7', 'big hat', 'mug'"),
    ],
)
def test_invalid_payoffs_are_refused(text: str, match: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=match) as raised:
        log_with(text, tmp_path)
    assert raised.value.field == "payoffs"


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="payoffs must be a Parquet or CSV file"):
        open_log(TABLE, payoffs=tmp_path / "none.csv")


def test_log_without_names_of_arms_is_refused() -> None:
    rows = {"arm": [1, 0], "z": [[[1, 0], [0, 1]], [[2, 2]]], "reward": [0, 1], "propensity": [0.5, 1.0]}
    with pytest.raises(InvalidInput, match="arms have names"):
        open_log(rows, Columns(features="z"), payoffs={"arm": ["0"], "value": [1.0]})


def test_rows_with_different_arms_get_their_payoffs(tmp_path: Path) -> None:
    payoffs = {"arm": ["a", "b", "c"], "value": [1, 2, 3], "cost": [0, 5, 0]}
    log = in_memory(open_log(LISTS, Columns(arms="arms"), payoffs=payoffs))
    assert log.values is not None
    assert log.values.tolist() == [[1.0, 2.0, 0.0], [3.0, 2.0, 1.0]]
    assert log.payoffs.tolist() == [-3.0, 0.0]
    pl.DataFrame(LISTS).write_parquet(tmp_path / "log.parquet")
    streamed = open_log(tmp_path / "log.parquet", Columns(arms="arms"), payoffs=payoffs)
    assert [block.payoffs.tolist() for block in streamed.blocks(1)] == [[-3.0], [0.0]]
    assert (len(streamed), streamed.dim, streamed.arm_names) == (2, log.dim, None)


def test_names_with_leading_zeros_or_decimals_stay_different(tmp_path: Path) -> None:
    """Prices and codes are names: 007 is not 7, and 1.50 is not 1.5."""
    (tmp_path / "log.csv").write_text("arm,reward,propensity\n007,1,0.5\n1.50,0,0.5\n", encoding="utf-8")
    (tmp_path / "arms.csv").write_text("arm,value\n7,1\n007,2\n1.5,3\n1.50,4\n", encoding="utf-8")
    log = in_memory(open_log(tmp_path / "log.csv", payoffs=tmp_path / "arms.csv"))
    assert log.values is not None
    assert dict(zip(log.arm_names or (), log.values[0].tolist(), strict=True)) == {"007": 2.0, "1.50": 4.0}


def test_columns_of_each_arm_are_read() -> None:
    table = {"arm": ["a", "b"], "reward": [1, 1], "propensity": [0.5, 0.5]}
    patterns = {"v_a": [1.0, 2.0], "v_b": [3.0, 4.0], "c_a": [0.0, 0.0], "c_b": [0.5, 1.0]}
    log = in_memory(open_log(table | patterns, Columns(values="v_{arm}", costs="c_{arm}")))
    assert log.payoffs.tolist() == [1.0, 3.0]
    structs = {"margins": [{"a": 1.0, "b": 3.0}, {"a": 2.0, "b": 4.0}]}
    assert in_memory(open_log(table | structs, Columns(values="margins"))).payoffs.tolist() == [1.0, 4.0]
    lists = LISTS | {"values": [[1, 2], [3, 2, 1]], "costs": [[0, 5], [0, 0, 1]]}
    columns = Columns(arms="arms", values="values", costs="costs")
    assert in_memory(open_log(lists, columns)).payoffs.tolist() == [-3.0, -1.0]


@pytest.mark.parametrize(
    ("changes", "columns", "match"),
    [
        ({"v_a": [1.0, -2.0], "v_b": [1.0, 1.0]}, {"values": "v_{arm}"}, "row 1: values must be at least 0"),
        ({"v_a": [1.0, None], "v_b": [1.0, 1.0]}, {"values": "v_{arm}"}, "row 1: .* finite number"),
        ({"v_a": [1.0, 1.0]}, {"values": "v_{arm}"}, "column for every arm"),
        ({"v": [1.0, 2.0]}, {"values": "v"}, "struct with a number for each arm"),
        ({"v": [{"a": 1.0}, {"a": 1.0}]}, {"values": "v"}, "finite number; got none"),
        ({"v_a": [1.0, 1.0]}, {"costs": "v_{arm}"}, "costs needs values"),
    ],
)
def test_invalid_columns_are_refused(changes: dict[str, Any], columns: dict[str, str], match: str) -> None:
    table = {"arm": ["a", "b"], "reward": [1, 1], "propensity": [0.5, 0.5]}
    with pytest.raises(InvalidInput, match=match):
        open_log(table | changes, Columns(**columns))  # type: ignore[arg-type]


def test_lists_must_have_a_value_for_each_arm_of_the_row() -> None:
    with pytest.raises(InvalidInput, match="a number for each of the 3 arms"):
        open_log(LISTS | {"values": [[1, 2], [3, 2]]}, Columns(arms="arms", values="values"))
