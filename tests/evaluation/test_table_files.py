import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from glbandits import InvalidInput
from glbandits.evaluation import Columns, Log, TableLog, open_log, read_csv, read_parquet, read_table
from tests.evaluation.test_tables import LISTS, TABLE, same

COLUMNS = Columns(context=("age", "land", "mobile"), per_arm=("near_{arm}",), cluster="user")


def many(rows: int, seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "arm": [f"item {arm}" for arm in rng.integers(0, 12, rows)],
            "reward": rng.integers(0, 2, rows),
            "propensity": rng.uniform(0.05, 0.2, rows),
            "age": rng.normal(size=rows),
            "land": rng.choice(["de", "fr", "uk"], rows),
            "mobile": rng.integers(0, 2, rows).astype(bool),
            "user": [f"user {user}" for user in rng.integers(0, 9, rows)],
        }
    )


CONTEXT = Columns(context=("age", "land", "mobile"), cluster="user")


def together(log: Log, size: int) -> None:
    """The blocks of a streamed log hold the rows of the whole one, in order."""
    assert isinstance(log, TableLog)
    whole, start = log.read(), 0
    for block in log.blocks(size):
        assert len(block) <= size
        same(block, whole[start : start + len(block)])
        start += len(block)
    assert start == len(log) == len(whole)


@pytest.mark.parametrize("size", [1, 7, 100, 5000])
def test_parquet_in_blocks_is_the_table(tmp_path: Path, size: int) -> None:
    frame = many(300)
    frame.write_parquet(tmp_path / "log.parquet", row_group_size=64)
    log = read_parquet(tmp_path / "log.parquet", CONTEXT, link="logistic")
    same(log.read(), read_table(frame, CONTEXT))
    assert log.dim == log.read().dim
    assert log.arm_names == tuple(f"item {arm}" for arm in range(12))
    together(log, size)
    together(log, size)


def test_a_folder_or_a_pattern_is_read_in_order_of_names(tmp_path: Path) -> None:
    frame = many(90)
    for part in range(3):
        frame[30 * part : 30 * (part + 1)].write_parquet(tmp_path / f"part-{part}.parquet")
        frame[30 * part : 30 * (part + 1)].write_csv(tmp_path / f"part-{part}.csv")
    wanted = read_table(frame, CONTEXT)
    for source in (tmp_path, tmp_path / "part-*.parquet", str(tmp_path / "*-[012].parquet")):
        same(read_parquet(source, CONTEXT).read(), wanted)
    same(read_csv(tmp_path, CONTEXT).read(), wanted)
    same(read_csv(tmp_path / "part-*.csv", CONTEXT).read(), wanted)


def test_csv_is_the_table_too(tmp_path: Path) -> None:
    pl.DataFrame(TABLE).write_csv(tmp_path / "log.csv")
    log = read_csv(tmp_path / "log.csv", COLUMNS)
    same(log.read(), read_table(TABLE, COLUMNS))
    together(log, 2)


def test_csv_keeps_the_names_of_arms_and_looks_at_all_lines_for_numbers(tmp_path: Path) -> None:
    lines = ["arm,reward,propensity,x"] + ["01,0,0.5,1"] * 500 + ["1,1,0.5,2.5"]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    log = read_csv(tmp_path / "log.csv", Columns(context=("x",))).read()
    assert log.arm_names == ("01", "1")
    assert log.chosen.sum() == 1
    assert log.features()[-1, 1].tolist() == [0, 1, 0, 2.5]
    (tmp_path / "log.csv").write_text("\n".join([*lines, "1,n/a,0.5,1"]))
    with pytest.raises(InvalidInput, match="column 'reward', row 501: it must be a finite number; got 'n/a'"):
        read_csv(tmp_path / "log.csv", Columns()).read()


def test_rows_with_arms_of_their_own_are_streamed(tmp_path: Path) -> None:
    table = {**LISTS, "z": [[[1.0, 2.0]] * len(arms) for arms in LISTS["arms"]]}
    pl.DataFrame(table).write_parquet(tmp_path / "log.parquet")
    for columns in (Columns(arms="arms", context=("age",)), Columns(arms="arms", features="z")):
        log = read_parquet(tmp_path / "log.parquet", columns)
        same(log.read(), read_table(table, columns))
        together(log, 2)
        assert {block.arms.most for block in log.blocks(1)} == {3}


def test_errors_in_later_blocks_count_rows_from_the_beginning(tmp_path: Path) -> None:
    many(100).with_columns(
        propensity=pl.when(pl.int_range(pl.len()) == 77).then(2.0).otherwise(pl.col("propensity"))
    ).write_parquet(tmp_path / "log.parquet")
    log = read_parquet(tmp_path / "log.parquet", CONTEXT)
    with pytest.raises(InvalidInput, match="column 'propensity', row 77: it must be a chance"):
        list(log.blocks(10))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is no file, no folder with files ..parquet, and no pattern"):
        read_parquet(tmp_path, Columns())
    with pytest.raises(InvalidInput, match="is no file"):
        read_csv(tmp_path / "none.csv", Columns())
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 is not all there is to it")
    with pytest.raises(InvalidInput, match="the table could not be read"):
        read_parquet(tmp_path / "broken.parquet", Columns())
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(InvalidInput, match="could not be read as CSV"):
        read_csv(tmp_path / "empty.csv", Columns())
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInput, match="has no column 'arm'.*Found: a, b"):
        read_csv(tmp_path / "other.csv", Columns())


def test_open_log_tells_kinds_apart(tmp_path: Path) -> None:
    frame = many(50)
    frame.write_parquet(tmp_path / "log.parquet")
    (tmp_path / "folder").mkdir()
    frame.write_csv(tmp_path / "folder" / "log.csv")
    wanted = read_table(frame, CONTEXT)
    for source in (
        frame,
        dict(frame.to_dict()),
        tmp_path / "log.parquet",
        tmp_path / "folder",
        tmp_path / "folder/*.csv",
    ):
        log = open_log(source, CONTEXT)
        same(log.read() if isinstance(log, TableLog) else next(log.blocks()), wanted)
    assert open_log(tmp_path / "log.parquet").dim == 12
    with pytest.raises(InvalidInput, match="must end with .parquet"):
        open_log(tmp_path / "log.txt")


PROGRAM = """
import resource, sys
from glbandits.evaluation import Columns, read_parquet
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
log = read_parquet(sys.argv[1], Columns(context=("age", "land", "mobile")))
rows = sum(len(block) for block in log.blocks())
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    frame, used = many(100_000), {}
    for copies in (40, 150):
        pl.concat([frame] * copies).write_parquet(tmp_path / f"{copies}.parquet")
        arguments = [sys.executable, "-c", PROGRAM, str(tmp_path / f"{copies}.parquet")]
        out = subprocess.run(arguments, capture_output=True, text=True, check=True, env=os.environ)
        rows, used[copies] = map(int, out.stdout.split())
        assert rows == copies * 100_000
    assert used[150] < used[40] + 80_000  # kilobytes: to hold the 11 million more rows would take 400,000
