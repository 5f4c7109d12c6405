"""Logs from data frames of polars, pandas and Arrow."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits import InvalidInput
from glbandits.evaluation import Columns, read_table
from tests.evaluation.readers.table_data import COLUMNS, LISTS, TABLE, assert_same_log, changed


def test_all_types_of_frames_give_the_same_log() -> None:
    frame = pl.DataFrame(TABLE)
    wanted = read_table(TABLE, COLUMNS)
    assert_same_log(read_table(frame, COLUMNS), wanted)
    assert_same_log(read_table(frame.lazy(), COLUMNS), wanted)
    assert_same_log(read_table(frame.with_columns(pl.col("land", "arm").cast(pl.Categorical)), COLUMNS), wanted)
    assert_same_log(read_table({name: np.array(values) for name, values in TABLE.items()}, COLUMNS), wanted)
    assert_same_log(read_table(frame.to_dicts(), COLUMNS), wanted)


class ArrowTable:
    """A table of another program, which shares its columns as Arrow's C stream."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def test_arrow_table_gives_the_same_log() -> None:
    assert_same_log(read_table(ArrowTable(pl.DataFrame(TABLE)), COLUMNS), read_table(TABLE, COLUMNS))


def test_pandas_frame_gives_the_same_log() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE)
    assert_same_log(read_table(frame, COLUMNS), read_table(TABLE, COLUMNS))
    frame["land"], frame["age"] = frame["land"].astype("category"), frame["age"].astype("Int64")
    frame["anything"] = [{"a": 1}, "text", 3]
    assert_same_log(read_table(frame, COLUMNS), read_table(TABLE, COLUMNS))
    lists = pandas.DataFrame(LISTS)
    assert_same_log(read_table(lists, Columns(arms="arms")), read_table(LISTS, Columns(arms="arms")))
    frame.loc[1, "age"] = pandas.NA
    assert_same_log(read_table(frame, COLUMNS), read_table(changed("age", 1, None), COLUMNS))


def test_pandas_frame_may_have_nested_arrays() -> None:
    pandas = pytest.importorskip("pandas")
    vectors = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]], [[7.0, 8.0], [9.0, 10.0], [11.0, 12.0]]]
    table = {**LISTS, "z": vectors}
    frame = pandas.DataFrame(LISTS)
    frame["arms"] = [np.array(names, dtype=object) for names in LISTS["arms"]]
    frame["z"] = [nested(row) for row in vectors]
    columns = Columns(arms="arms", features="z")
    assert_same_log(read_table(frame, columns), read_table(table, columns))
    assert_same_log(
        read_table(frame, Columns(propensity="propensity", arms="arms")), read_table(LISTS, Columns(arms="arms"))
    )
    frame["z"] = [np.array(row) for row in vectors]  # two axes in each row
    assert_same_log(read_table(frame, columns), read_table(table, columns))
    assert_same_log(read_table({**table, "z": [nested(row) for row in vectors]}, columns), read_table(table, columns))


def nested(rows: list[list[float]]) -> np.ndarray[Any, Any]:
    """An array of arrays, as pandas returns a nested column of Parquet."""
    out = np.empty(len(rows), dtype=object)
    out[:] = [np.array(row) for row in rows]
    return out


def test_duplicate_pandas_columns_are_rejected() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({**TABLE, "other": [0, 0, 0]})
    twice = pandas.concat([frame, frame[["other"]]], axis=1)
    assert_same_log(read_table(twice, COLUMNS), read_table(TABLE, COLUMNS))
    with pytest.raises(InvalidInput, match="the table has 2 columns 'other'"):
        read_table(twice, Columns(context=("other",)))
    with pytest.raises(InvalidInput, match="the table has 2 columns 'other'"):
        read_table(TABLE, Columns(), arm_table=twice)


def test_columns_that_are_not_read_may_have_any_content() -> None:
    odd = {**TABLE, "odd": [nested([[1.0]]), "text", object()]}
    assert_same_log(read_table(odd, COLUMNS), read_table(TABLE, COLUMNS))
    with pytest.raises(InvalidInput, match="no column 'od'.*did you mean 'odd'"):
        read_table(odd, Columns(context=("od",)))


def test_integers_may_come_before_floats() -> None:
    assert read_table({**TABLE, "reward": [0, 1.5, 2]}, Columns()).rewards.tolist() == [0.0, 1.5, 2.0]
    assert read_table({**TABLE, "reward": [False, 1.5, 2]}, Columns()).rewards.tolist() == [0.0, 1.5, 2.0]
    rows = {"arm": [0, 0, 1], "reward": [0, 1, 2], "propensity": [1, 1, 0.5], "z": [[[0]], [[1.5]], [[2], [0.5]]]}
    assert read_table(rows, Columns(features="z")).features().tolist() == [[[0], [0]], [[1.5], [0]], [[2], [0.5]]]
