"""A small log as a table of columns, with a table of its arms."""

from typing import Any

import numpy as np

from glbandits.evaluation import Columns, LoggedData
from glbandits.evaluation.logs.logged_data import Log

TABLE: dict[str, Any] = {
    "arm": ["b", "a", "b"],
    "reward": [1.0, 0.0, 1.0],
    "propensity": [0.5, 0.25, 0.5],
    "age": [3, 4, 5],
    "land": ["fr", "de", "fr"],
    "mobile": [True, False, True],
    "near_a": [0.1, 0.2, 0.3],
    "near_b": [1.1, 1.2, 1.3],
    "user": ["x", "y", "x"],
}
LISTS: dict[str, Any] = {
    "arm": ["b", "a", "c"],
    "arms": [["a", "b"], ["a"], ["c", "b", "a"]],
    "reward": [1, 0, 1],
    "propensity": [0.5, 1.0, 0.2],
    "age": [3, 4, 5],
    "near_a": [0.1, 0.2, 0.3],
    "near_b": [1.1, 1.2, 1.3],
    "near_c": [2.1, 2.2, 2.3],
}
COLUMNS = Columns(context=("age", "land", "mobile"), per_arm=("near_{arm}",), cluster="user")
ARMS = {"name": ["b", "a"], "price": [2.0, 1.0], "kind": ["shoe", "hat"]}


def changed(column: str, row: int, value: object, table: dict[str, Any] = TABLE) -> dict[str, Any]:
    values = list(table[column])
    values[row] = value
    return {**table, column: values}


def assert_same_log(log: LoggedData, expected: LoggedData) -> None:
    for name in ("chosen", "rewards", "propensities", "clusters"):
        np.testing.assert_array_equal(getattr(log, name), getattr(expected, name))
    np.testing.assert_array_equal(log.features(), expected.features())
    assert log.arm_names == expected.arm_names
    assert isinstance(log, Log)
