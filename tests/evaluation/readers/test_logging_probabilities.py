"""Logs with the probabilities of all arms: validation, slices, and reading from tables."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits import InvalidInput, Optimist
from glbandits.common.arrays import Floats
from glbandits.evaluation import (
    Columns,
    FixedArms,
    LoggedData,
    RowArms,
    estimate_propensities,
    evaluate,
    read_csv,
    read_parquet,
    read_table,
)
from glbandits.evaluation.logs.log_slice import LogSlice
from glbandits.evaluation.logs.log_statistics import overlap_of
from glbandits.evaluation.models.propensity_models import EstimatedPropensities

P = np.array([[0.5, 0.25, 0.25], [0.1, 0.9, 0.0]])


def log_with(**fields: Any) -> LoggedData:
    settings: dict[str, Any] = {
        "chosen": [0, 1],
        "rewards": [0.0, 1.0],
        "probabilities": P,
        "arms": FixedArms(np.eye(3), rows=2),
    }
    return LoggedData(**settings | fields)


def of(log: LoggedData) -> list[list[float]]:
    assert log.probabilities is not None
    rows: list[list[float]] = log.probabilities.tolist()
    return rows


def test_propensities_are_those_of_the_chosen_arms() -> None:
    propensities = log_with().propensities
    assert propensities is not None
    assert propensities.tolist() == [0.5, 0.9]


def test_slices_keep_their_probabilities() -> None:
    log = log_with()
    assert of(log[1:]) == [[0.1, 0.9, 0.0]]
    assert [of(block) for block in log.blocks(1)] == [[[0.5, 0.25, 0.25]], [[0.1, 0.9, 0.0]]]
    assert [of(block) for block in LogSlice(log, 1, 2).blocks()] == [[[0.1, 0.9, 0.0]]]
    assert replace(log, probabilities=None)[1:].probabilities is None


@pytest.mark.parametrize(
    "rounded",
    [
        np.array([[1 / 3, 1 / 3, 1 / 3], [0.7, 0.2, 0.1]], dtype=np.float32),
        np.array([[0.333333, 0.333333, 0.333333], [0.7, 0.2, 0.1]]),
    ],
)
def test_rounded_probabilities_are_accepted(rounded: Floats) -> None:
    assert of(log_with(probabilities=rounded, propensities=[1 / 3, 0.2])) == rounded.astype(np.float64).tolist()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"probabilities": P[:1]}, "probabilities must have one entry for each of the 2 rows; got 1"),
    ({"probabilities": P[:, :2]}, "must have shape .2, 3.: rows and arms; got shape .2, 2."),
    ({"probabilities": P[0]}, "probabilities must have 2 axes"),
    ({"probabilities": [[0.5, 0.5, 0.0], [0.5, 0.6, -0.1]]}, "row 1: the probabilities must be at least 0"),
    (
        {"probabilities": [[0.5, 0.5, 0.0], [0.5, 0.4, 0.0]]},
        r"row 1: the probabilities must sum to 1 .*got \[0.5, 0.4, 0.0\]",
    ),
    (
        {"probabilities": [[0.0, 0.5, 0.5], [0.5, 0.5, 0.0]]},
        "row 0: the probabilities must be above 0 for the chosen arm",
    ),
    (
        {"propensities": [0.5, 0.8]},
        "row 1: the probabilities must equal the propensity .* arm 1 was chosen with propensity 0.8",
    ),
    (
        {"arms": RowArms(np.ones((2, 3, 1)), np.array([2, 3]))},
        "row 0: the probabilities must be at least 0, and 0 beyond the arms of the row",
    ),
]


@pytest.mark.parametrize(("fields", "message"), WRONG)
def test_invalid_probabilities_are_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        log_with(**fields)


TABLE = {"arm": ["b", "a"], "reward": [0, 1]}
DICTS = [{"a": 0.25, "b": 0.75}, {"a": 0.5, "c": 0.5}]


def test_probabilities_are_read_from_a_struct() -> None:
    """A field of the struct is an arm even if it was never chosen. A missing field means probability 0."""
    log = read_table(TABLE | {"probabilities": DICTS}, Columns())
    assert log.arm_names == ("a", "b", "c")
    assert of(log) == [[0.25, 0.75, 0.0], [0.5, 0.0, 0.5]]


def test_probabilities_are_read_from_columns(tmp_path: Path) -> None:
    table = pl.DataFrame(TABLE | {"p_a": [0.25, 0.5], "p_b": [0.75, 0.5], "propensity": [0.75, 0.5]})
    table.write_csv(tmp_path / "log.csv")
    table.write_parquet(tmp_path / "log.parquet")
    columns = Columns(probabilities="p_{arm}")
    for log in (
        read_table(table, columns),
        read_csv(tmp_path / "log.csv", columns).read(),
        read_parquet(tmp_path / "log.parquet", columns).read(),
    ):
        assert of(log) == [[0.25, 0.75], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ({"arm": ["b", "a"], "offered": [["a", "b"], ["a"]]}, Columns(arms="offered", probabilities="p")),
        ({"arm": [1, 0], "z": [[[1.0], [2.0]], [[3.0]]]}, Columns(features="z", probabilities="p")),
    ],
)
def test_probabilities_are_read_from_lists(table: dict[str, Any], columns: Columns, tmp_path: Path) -> None:
    frame = pl.DataFrame(table | {"reward": [0, 1], "p": [[0.25, 0.75], [1.0]]})
    frame.write_parquet(tmp_path / "log.parquet")
    (log,) = read_parquet(tmp_path / "log.parquet", columns).blocks()
    assert of(log) == [[0.25, 0.75], [1.0, 0.0]]
    assert log.propensities is not None
    assert log.propensities.tolist() == [0.75, 1.0]


LISTS = {"arm": ["b", "a"], "offered": [["a", "b"], ["a"]], "reward": [0, 1]}
MISREAD: list[tuple[dict[str, Any], Columns, str]] = [
    (TABLE | {"probabilities": [[0.5, 0.5]] * 2}, Columns(), "must hold a struct with .* names of the arms; got List"),
    (TABLE | {"probabilities": ["x", "y"]}, Columns(), "something else, set Columns.probabilities=None."),
    (
        TABLE | {"probabilities": [{"a": 0.5, "b": 0.5}, {"a": 0.5}]},
        Columns(),
        "row 1: the probabilities must sum to 1",
    ),
    (TABLE | {"p_a": [1, 1]}, Columns(probabilities="p_{arm}"), "no column 'p_b'.* needs a column for every arm"),
    (
        TABLE | {"p_a": [0.2, 0.2], "p_b": [0.2, 0.2]},
        Columns(probabilities="p_{arm}"),
        "row 0: the probabilities must sum to 1 .*Name all arms in arm_table if some were never chosen",
    ),
    (TABLE, Columns(propensity=None, probabilities="p"), "the table has no column 'p'"),
    (
        LISTS | {"probabilities": [[0.5, 0.5]] * 2},
        Columns(arms="offered"),
        "row 1: the value must have a number for each of",
    ),
    (LISTS | {"probabilities": DICTS}, Columns(arms="offered"), "must hold a list with a number for each arm"),
]


@pytest.mark.parametrize(("table", "columns", "message"), MISREAD)
def test_ambiguous_columns_are_rejected(table: dict[str, Any], columns: Columns, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_table(table, columns)


def test_probability_columns_need_the_same_arms_in_all_rows() -> None:
    with pytest.raises(InvalidInput, match="probabilities must be one column of lists"):
        Columns(arms="offered", probabilities="p_{arm}")


def test_default_probability_column_is_optional() -> None:
    table = {"arm": ["a", "b", "c"], "reward": [0, 1, 0], "propensity": [0.5, 0.25, 0.5]}
    log = read_table(table, Columns())
    assert log.probabilities is None


def test_propensity_estimation_adds_all_probabilities() -> None:
    log = read_table({"arm": ["a", "b", "b", "b"], "reward": [0, 1, 0, 1]}, Columns(propensity=None))
    with pytest.warns(EstimatedPropensities):
        assert of(estimate_propensities(log)) == [[0.25, 0.75]] * 4


def test_overlap_counts_arms_that_were_not_chosen() -> None:
    overlap = overlap_of(log_with(chosen=[0, 0], probabilities=[[0.999, 0.001, 0.0]] * 2))
    assert (overlap.least, overlap.least_possible) == (0.999, 0.001)
    assert overlap.impossible == pytest.approx(1 / 3)
    assert [said.split(":")[0] for said in overlap.warnings()] == [
        "some arms had a probability of 0.001, but no arm with a probability below 1 was chosen",
        "33.3% of the pairs of row and arm have probability 0",
        "2 arms were never chosen, so the log has no evidence on them",
    ]


def test_policy_without_a_bandit_is_not_a_target() -> None:
    policy: Any = Optimist()
    with pytest.raises(InvalidInput, match="target must be a Bandit.*got Optimist"):
        evaluate(log_with(), policy)
