"""The order of rows by their time, and ids that identify decisions."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits import InvalidInput
from glbandits.evaluation import Columns, LoggedData, open_log
from glbandits.evaluation.logs.doubts import DoubtKind, Withheld
from glbandits.evaluation.policy_comparison import ComparisonSettings, compare_policies

TABLE: dict[str, Any] = {
    "arm": ["a", "b", "a", "b"],
    "reward": [0.0, 1.0, 2.0, 3.0],
    "propensity": [0.5, 0.5, 0.5, 0.5],
    "at": [40, 10, 30, 20],
    "key": ["w", "x", "y", "z"],
}


@pytest.mark.parametrize(
    "times",
    [
        [40, 10, 30, 20],
        [4.5, 1.0, 3.0, 2.0],
        ["2025-01-04", "2025-01-01", "2025-01-03", "2025-01-02"],
        ["2025-01-31T12:00:04", "2025-01-31T12:00:01Z", "2025-01-31T12:00:03", "2025-01-31T12:00:02"],
        ["2025-01-31T12:00:04.5", "2025-01-31T14:00:01+02:00", "2025-01-31T10:30:03-0130", "2025-01-31 12:00:02Z"],
    ],
)
@pytest.mark.parametrize("suffix", ["parquet", "csv", ""])
def test_rows_are_read_in_the_order_of_time(tmp_path: Path, times: list[Any], suffix: str) -> None:
    frame, path = pl.DataFrame(TABLE | {"at": times}), tmp_path / f"log.{suffix}"
    source: Any = path
    if suffix == "parquet":
        frame.write_parquet(path)
    elif suffix == "csv":
        frame.write_csv(path)
    else:
        source = frame
    log = open_log(source, Columns(time="at", id="key"))
    assert [reward for block in log.blocks(2) for reward in block.rewards] == [1.0, 3.0, 2.0, 0.0]


def test_sorted_log_stays_where_it_is(tmp_path: Path) -> None:
    frame = pl.DataFrame(TABLE).sort("at")
    frame.write_parquet(tmp_path / "log.parquet")
    log = open_log(tmp_path / "log.parquet", Columns(time="at"))
    (tmp_path / "log.parquet").unlink()
    with pytest.raises(Exception, match="log.parquet"):
        list(log.blocks())


def test_id_with_two_rows_is_refused() -> None:
    with pytest.raises(InvalidInput, match="1 of 4 rows repeat an id, such as 'x'. Copies count as evidence"):
        open_log(TABLE | {"key": ["w", "x", "x", "z"]}, Columns(id="key"))
    with pytest.raises(InvalidInput, match="must identify each decision; 1 rows have none"):
        open_log(TABLE | {"key": ["w", None, "x", "z"]}, Columns(id="key"))


def test_time_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="column 'at', row 2: must be a number, a date or a time.*; got 'soon'"):
        open_log(TABLE | {"at": ["2025-01-04", "2025-01-01", "soon", "2025-01-02"]}, Columns(time="at"))
    with pytest.raises(InvalidInput, match="column 'at', row 1: .*; got None"):
        open_log(TABLE | {"at": [4.0, None, 3.0, 2.0]}, Columns(time="at"))


def test_several_rewards_are_columns_of_one_log(tmp_path: Path) -> None:
    frame = pl.DataFrame(TABLE | {"click": [1, None, 0, 1], "price": [1.5, 2.5, None, 3.0]})
    frame.write_parquet(tmp_path / "log.parquet")
    log = open_log(tmp_path / "log.parquet", Columns(other_rewards=("click", "price")))
    assert dict(log.schema.other_rewards) == {"click": "logistic", "price": "identity"}
    (block,) = log.blocks()
    assert str(block.other_rewards["click"].tolist()) == "[1.0, nan, 0.0, 1.0]"
    with pytest.raises(InvalidInput, match="column 'key' must have numbers, as an other reward"):
        open_log(TABLE, Columns(other_rewards=("key",)))
    with pytest.raises(InvalidInput, match="other_rewards must not contain 'reward'"):
        Columns(other_rewards=("reward",))


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "arrow"])
def test_frames_are_accepted_as_they_are(kind: str) -> None:
    frame = pl.DataFrame(TABLE)
    source: Any = {"pandas": pytest.importorskip("pandas").DataFrame, "polars": pl.DataFrame}.get(kind, lambda _: None)(
        TABLE
    )
    if kind == "arrow":
        source = pytest.importorskip("pyarrow").table(TABLE)
    log = open_log(frame.lazy() if kind == "lazy" else source)
    assert isinstance(log, LoggedData) == (kind != "lazy")  # a LazyFrame is streamed
    (block,) = log.blocks()
    assert block.rewards.tolist() == TABLE["reward"]
    assert log.schema.names == ("a", "b")


def timed(rows: int = 60) -> pl.DataFrame:
    index = np.arange(rows)
    return pl.DataFrame(
        {
            "key": index,
            "arm": np.where(index % 3 == 0, "a", "b"),
            "reward": (index % 2).astype(float),
            "propensity": np.full(rows, 0.5),
            "made": np.datetime64("2025-01-01", "ms") + index * np.timedelta64(60_000, "ms"),
        }
    )


def test_copies_with_the_same_id_count_once() -> None:
    log = open_log(pl.concat([timed(), timed().head(20)]), Columns(id="key"))
    assert len(log) == 60
    assert [(doubt.kind, doubt.withholds) for doubt in log.schema.doubts] == [(DoubtKind.COPIES, Withheld.NOTHING)]


def test_rows_of_one_id_that_differ_are_refused() -> None:
    other = timed().head(20).with_columns(pl.col("reward") + 0.5)
    with pytest.raises(InvalidInput, match="repeat an id"):
        open_log(pl.concat([timed(), other]), Columns(id="key"))


def test_newest_first_is_found_unless_the_time_is_named(tmp_path: Path) -> None:
    timed().reverse().write_csv(tmp_path / "log.csv")
    [doubt] = open_log(tmp_path / "log.csv").schema.doubts
    assert doubt.kind is DoubtKind.ORDER
    assert "--time made" in doubt.text
    assert open_log(tmp_path / "log.csv", Columns(time="made")).schema.doubts == ()


def test_rows_in_order_have_no_doubt() -> None:
    assert open_log(timed()).schema.doubts == ()


@pytest.mark.parametrize(
    ("first", "dates"),
    [("2026-03-01", "2026-03-01 to 2026-03-03"), ("2026-03-01T20:00:00-05:00", "2026-03-02 to 2026-03-04"), (7, "")],
)
def test_comparison_names_the_dates_of_its_rows(first: Any, dates: str) -> None:
    """Times with an offset have the dates of UTC; numbers have none."""
    step: Any = 1 if isinstance(first, int) else dt.timedelta(days=1)
    start: Any = first if isinstance(first, int) else dt.datetime.fromisoformat(first)
    times = [start + step * (row // 20) for row in range(60)]
    table = {
        "arm": ["a", "b"] * 30,
        "reward": [0, 1, 1] * 20,
        "propensity": [0.5] * 60,
        "time": [time if isinstance(time, int) else time.isoformat() for time in reversed(times)],
    }
    log = open_log(table, Columns(time="time"))
    comparison = compare_policies(log, {"a": "arm:a"}, ComparisonSettings())
    assert comparison.describe_rows(0) == ", ".join(filter(None, ("all 60 rows", dates)))
    assert comparison.describe_rows(40).endswith(dates[-10:])
