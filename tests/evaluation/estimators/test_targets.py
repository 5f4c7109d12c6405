"""Targets that texts name: arms of logs whose rows have different arms, and unknown names."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glbandits import InvalidInput, UnknownName
from glbandits.evaluation import Columns, LoggedData, RowArms, evaluate, read_table
from glbandits.evaluation.estimators.targets import (
    AlwaysTarget,
    ColumnTarget,
    OfferedArmTarget,
    UniformTarget,
    as_target,
)
from glbandits.evaluation.logs.arm_features import RowArmNames

OFFERED = [["a", "b"], ["c", "a", "b"], ["b", "c"], ["b", "a"]]
TABLE: dict[str, Any] = {
    "arm": ["a", "c", "b", "a"],
    "arms": OFFERED,
    "reward": [1, 0, 1, 0],
    "propensity": [0.5, 0.25, 0.75, 0.5],
    "probabilities": [[0.5, 0.5], [0.25, 0.5, 0.25], [0.75, 0.25], [0.5, 0.5]],
}
ONE_ROW: dict[str, Any] = {"chosen": [0], "rewards": [1.0], "propensities": [0.5]}


def log_of(**changes: Any) -> LoggedData:
    return read_table(TABLE | changes, Columns(arms="arms"))


def fixed_log(names: tuple[str, ...]) -> LoggedData:
    return read_table({"arm": list(names), "reward": [0.0] * len(names), "propensity": [0.5] * len(names)}, Columns())


def test_arm_of_a_row_is_found_by_its_name() -> None:
    log = log_of()
    assert log.arm_names is None
    assert as_target("arm:a", log) == as_target("a", log) == OfferedArmTarget("a")
    expected = [[1, 0, 0], [0, 1, 0], [0.75, 0.25, 0], [0, 1, 0]]  # the third row does not offer a
    np.testing.assert_array_equal(OfferedArmTarget("a").probabilities(log, 0), expected)
    np.testing.assert_array_equal(OfferedArmTarget("a").probabilities(log[2:], 2), expected[2:])
    evaluation = evaluate(log, "arm:a", "ips")
    assert evaluation["ips"].value == evaluate(log, np.array(expected, dtype=float), "ips")["ips"].value
    assert "1 of 4 rows do not offer the arm 'a'" in " ".join(evaluation.notes)
    assert "do not offer" not in " ".join(evaluate(log, "b", "ips").notes)


def test_row_without_the_arm_needs_all_probabilities() -> None:
    log = read_table({name: TABLE[name] for name in TABLE if name != "probabilities"}, Columns(arms="arms"))
    assert evaluate(log, "b", "ips").support.rows == 4
    with pytest.raises(InvalidInput, match="row 2 does not offer the arm 'a'"):
        evaluate(log, "a", "ips")


def test_prefix_reaches_every_name() -> None:
    log = fixed_log(("arm:b", "b", "uniform", "arm:c"))
    assert log.arm_names is not None
    for text, name in [("b", "b"), ("arm:b", "b"), ("arm:arm:b", "arm:b"), ("arm:uniform", "uniform")]:
        assert as_target(text, log) == AlwaysTarget(log.arm_names.index(name)), text
    assert as_target("arm:c", log) == AlwaysTarget(log.arm_names.index("arm:c")), "no arm c"
    assert as_target("uniform", log) == UniformTarget()


def test_arms_match_as_categories_do() -> None:
    log = fixed_log(("Größe XL ", "a"))
    assert log.arm_names is not None
    for text in ("arm:Gro\N{COMBINING DIAERESIS}ße XL", "arm:Größe XL ", "Größe XL"):
        assert as_target(text, log) == AlwaysTarget(log.arm_names.index("Größe XL "))
    offered = log_of(arms=[["a ", " b"]] * 4, arm=["a "] * 4, propensity=[0.5] * 4, probabilities=[[0.5, 0.5]] * 4)
    assert as_target("arm:a", offered) == OfferedArmTarget("a ")


def test_name_of_two_categories_is_unknown() -> None:
    names = RowArmNames(("a ", " a"), np.array([[0, 1]]))
    log = LoggedData(**ONE_ROW, arms=RowArms(np.ones((1, 2, 1)), np.array([2])), row_arm_names=names)
    assert as_target("arm:a ", log) == OfferedArmTarget("a ")
    with pytest.raises(UnknownName, match="unknown arm 'a'"):
        as_target("arm:a", log)


def test_unknown_arm_lists_ten_names() -> None:
    log = fixed_log(tuple(f"arm {number:02}" for number in range(25)))
    with pytest.raises(UnknownName, match=r"unknown arm 'x'. Known: arm 00, arm 01, .*, arm 09 and 15 more$"):
        as_target("arm:x", log)
    with pytest.raises(UnknownName, match=r"unknown reference 'x'. Known: arm 00, .* and 16 more$"):
        evaluate(log, "uniform", reference="x")


def test_arm_of_a_log_without_names_is_refused() -> None:
    log = LoggedData(**ONE_ROW, arms=RowArms(np.ones((1, 2, 1)), np.array([2])))
    with pytest.raises(InvalidInput, match="arm:a needs a log whose arms have names"):
        as_target("arm:a", log)
    with pytest.raises(UnknownName, match="unknown target 'a'. Known: uniform"):
        as_target("a", log)
    with pytest.raises(InvalidInput, match="needs a log whose rows name their arms"):
        OfferedArmTarget("a").probabilities(log, 0)


def test_row_arm_names_are_validated() -> None:
    with pytest.raises(InvalidInput, match="indices must be an array"):
        RowArmNames(("a",), np.array([[1]]))
    with pytest.raises(InvalidInput, match="row_arm_names must have one entry"):
        LoggedData(
            **ONE_ROW,
            arms=RowArms(np.ones((1, 1, 1)), np.array([1])),
            row_arm_names=RowArmNames(("a",), np.zeros((2, 1), dtype=int)),
        )


FIXED: dict[str, Any] = {
    "arm": ["a", "b", "c", "a"],
    "reward": [1, 0, 1, 0],
    "p_a": [0.5] * 4,
    "p_b": [0.25] * 4,
    "p_c": [0.25] * 4,
    "new": ["b", None, "c", "unknown"],
    "age": [30, 40, 50, 60],
}
PROPOSED = Columns(probabilities="p_{arm}", context=("age",), proposed=("new",))


def test_column_names_the_arm_of_each_row() -> None:
    log = read_table(FIXED, PROPOSED)
    assert log.proposed["new"].tolist() == [1, -1, 2, -1]
    assert log.dim == read_table(FIXED, Columns(probabilities="p_{arm}", context=("age",))).dim, "no feature"
    assert as_target("column:new", log) == ColumnTarget("new")
    logged = [0.5, 0.25, 0.25]
    expected = [[0, 1, 0], logged, [0, 0, 1], logged]
    np.testing.assert_array_equal(ColumnTarget("new").probabilities(log[1:], 1), expected[1:])
    evaluation = evaluate(log, "column:new", "ips")
    assert evaluation["ips"].value == evaluate(log, np.array(expected, dtype=float), "ips")["ips"].value
    assert "2 of 4 rows do not offer the arm of column 'new' (or it is missing)" in " ".join(evaluation.notes)


def test_column_in_rows_with_different_arms() -> None:
    log = read_table(TABLE | {"new": ["b", "b", "a", "a"]}, Columns(arms="arms", proposed=("new",)))
    assert log.proposed["new"].tolist() == [1, 2, -1, 1]
    by_index = {name: TABLE[name] for name in ("reward", "propensity", "probabilities")} | {
        "arm": [0, 0, 0, 0],
        "features": [[[1.0]] * len(arms) for arms in OFFERED],
        "new": [1, 2, 2, None],
    }
    log = read_table(by_index, Columns(features="features", proposed=("new",)))
    assert log.proposed["new"].tolist() == [1, 2, -1, -1]


def test_numbers_with_missing_values_name_arms() -> None:
    table = {"arm": [1, 2, 1], "reward": [0, 1, 1], "propensity": [0.5] * 3, "new": np.array([2.0, np.nan, 1.5])}
    assert read_table(table, Columns(proposed=("new",))).proposed["new"].tolist() == [1, -1, -1]


def test_two_arms_need_no_probabilities_of_the_other_one() -> None:
    table = {"arm": ["a", "b"], "reward": [0, 1], "propensity": [0.25, 0.75], "new": ["b", None]}
    log = read_table(table, Columns(proposed=("new",)))
    np.testing.assert_array_equal(ColumnTarget("new").probabilities(log, 0), [[0, 1], [0.25, 0.75]])


@pytest.mark.parametrize(
    ("columns", "table", "message"),
    [
        ({"proposed": ("new",)}, {"new": ["x", "y", None, "x"]}, "'new' must name arms of the log.* got 'x', 'y'"),
        ({"proposed": ("new",)}, {"new": [None] * 4}, "must name arms of the log"),
        ({"proposed": ("new",), "context": ("age", "new")}, {}, "context must not contain 'new'"),
        ({"proposed": ("other",)}, {}, "the table has no column 'other'"),
    ],
)
def test_wrong_column_of_proposed_arms_is_an_error(
    columns: dict[str, Any], table: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_table(FIXED | table, Columns(probabilities="p_{arm}", **columns))


def test_missing_arm_of_a_column_needs_all_probabilities() -> None:
    table = {name: FIXED[name] for name in ("arm", "reward", "new")} | {"propensity": [0.5, 0.25, 0.25, 0.5]}
    with pytest.raises(InvalidInput, match="column 'new' is missing, .* in 2 rows; the first is row 1"):
        read_table(table, Columns(proposed=("new",)))
    log = read_table(table | {"new": ["b"] * 4}, Columns(proposed=("new",)))
    with pytest.raises(InvalidInput, match="row 1 does not offer the arm of column 'new'"):
        evaluate(replace(log, proposed={"new": np.array([1, -1, 0, 0])}), "column:new", "ips")
    with pytest.raises(InvalidInput, match="column:old needs a log that was read with"):
        evaluate(log, "column:old", "ips")


def test_proposed_arms_are_checked() -> None:
    with pytest.raises(InvalidInput, match=r"proposed\['new'\] must have the index of an"):
        LoggedData(**ONE_ROW, arms=RowArms(np.ones((1, 2, 1)), np.array([2])), proposed={"new": np.array([2])})
