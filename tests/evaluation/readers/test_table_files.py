import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from glbandits import InvalidInput
from glbandits.evaluation import Columns, CrossedArms, open_log, read_csv, read_parquet, read_table
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.readers import table_inspection
from glbandits.evaluation.readers.table_log import TableLog
from glbandits.features import Category, FeatureMap
from tests.evaluation.readers.table_data import COLUMNS, LISTS, TABLE, assert_same_log


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
    """The blocks of a streamed log have all its rows, in order."""
    assert isinstance(log, TableLog)
    whole, start = log.read(), 0
    for block in log.blocks(size):
        assert len(block) <= size
        assert_same_log(block, whole[start : start + len(block)])
        start += len(block)
    assert start == len(log) == len(whole)


@pytest.mark.parametrize("size", [1, 7, 100, 5000])
def test_parquet_blocks_equal_the_table(tmp_path: Path, size: int) -> None:
    frame = many(300)
    frame.write_parquet(tmp_path / "log.parquet", row_group_size=64)
    log = read_parquet(tmp_path / "log.parquet", CONTEXT, link="logistic")
    assert_same_log(log.read(), read_table(frame, CONTEXT))
    assert log.dim == log.read().dim
    assert log.arm_names == tuple(f"item {arm}" for arm in range(12))
    together(log, size)
    together(log, size)


def test_rows_stay_in_order_across_parts_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glbandits.evaluation.readers.table_log.BLOCK", 16)  # a part has 64 rows
    frame = many(300)
    frame[:130].write_parquet(tmp_path / "1.parquet", row_group_size=50)
    frame[130:].with_columns(pl.col("reward").cast(pl.Float64)).write_parquet(tmp_path / "2.parquet")
    log = read_parquet(tmp_path, CONTEXT, link="logistic")
    assert_same_log(log.read(), read_table(frame, CONTEXT))
    together(log, 16)
    together(log, 7)


def test_folder_and_pattern_are_read_in_order_of_names(tmp_path: Path) -> None:
    frame = many(90)
    for part in range(3):
        frame[30 * part : 30 * (part + 1)].write_parquet(tmp_path / f"part-{part}.parquet")
        frame[30 * part : 30 * (part + 1)].write_csv(tmp_path / f"part-{part}.csv")
    wanted = read_table(frame, CONTEXT)
    for source in (tmp_path, tmp_path / "part-*.parquet", str(tmp_path / "*-[012].parquet")):
        assert_same_log(read_parquet(source, CONTEXT).read(), wanted)
    assert_same_log(read_csv(tmp_path, CONTEXT).read(), wanted)
    assert_same_log(read_csv(tmp_path / "part-*.csv", CONTEXT).read(), wanted)


def test_csv_equals_the_table(tmp_path: Path) -> None:
    pl.DataFrame(TABLE).write_csv(tmp_path / "log.csv")
    log = read_csv(tmp_path / "log.csv", COLUMNS)
    assert_same_log(log.read(), read_table(TABLE, COLUMNS))
    together(log, 2)


def test_csv_infers_types_from_all_lines(tmp_path: Path) -> None:
    lines = ["arm,reward,propensity,x"] + ["01,0,0.5,1"] * 500 + ["1,1,0.5,2.5"] * 10
    (tmp_path / "log.csv").write_text("\n".join(lines))
    log = read_csv(tmp_path / "log.csv", Columns(context=("x",)), kinds={"x": "raw"}).read()
    assert log.arm_names == ("01", "1")
    assert log.chosen.sum() == 10
    assert log.features()[-1, 1].tolist() == [0, 1, 0, 2.5]
    (tmp_path / "log.csv").write_text("\n".join([*lines, "1,so,0.5,1"]))
    with pytest.raises(InvalidInput, match="column 'reward', row 510: the value"):
        read_csv(tmp_path / "log.csv", Columns()).read()


@pytest.mark.parametrize("mark", ["NA", "nan", "null", "", "n/a", "?"])
def test_missing_number_in_csv_keeps_the_column_numeric(tmp_path: Path, mark: str) -> None:
    lines = ["arm,reward,propensity,age,land", "a,0,0.5,31,NA", f"b,1,0.5,{mark},de", "NA,1,0.5,18,de"]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    ages = read_csv(tmp_path / "log.csv", Columns(context=("age",))).read().arms
    assert isinstance(ages, CrossedArms)
    assert ages.contexts.tolist() == [[1, 0], [0, 1], [-1, 0]]
    log = read_csv(tmp_path / "log.csv", Columns(context=("land",))).read()  # text may be NA, which is Namibia
    assert log.arm_names == ("NA", "a", "b")
    assert log.dim == 3 + 3 * 3


def test_compressed_csv_is_read(tmp_path: Path) -> None:
    packed = gzip.compress(pl.DataFrame(TABLE).write_csv().encode())
    (tmp_path / "log.csv.gz").write_bytes(packed)
    for source in (tmp_path / "log.csv.gz", tmp_path, tmp_path / "*.csv.gz"):
        log = open_log(source, COLUMNS)
        assert isinstance(log, TableLog)
        assert_same_log(log.read(), read_table(TABLE, COLUMNS))
        together(log, 2)


def parts(folder: Path, *tables: dict[str, list[object]]) -> Path:
    for number, table in enumerate(tables):
        (folder / f"day=2025-01-0{number + 1}").mkdir()
        pl.DataFrame(table).write_parquet(folder / f"day=2025-01-0{number + 1}" / "x.parquet")
    return folder


ROW: dict[str, list[object]] = {"arm": ["a"], "reward": [1], "propensity": [0.5], "z": [[[1]]]}


def test_parquet_files_may_have_different_types(tmp_path: Path) -> None:
    other = ROW | {"reward": [1.5], "z": [[[0.5]]], "extra": ["text"], "odd": [1]}
    log = read_parquet(parts(tmp_path, ROW | {"odd": ["text"]}, other, ROW), Columns())
    assert log.read().rewards.tolist() == [1.0, 1.5, 1.0]
    together(log, 2)
    log = read_parquet(tmp_path, Columns(arm="reward", features="z", reward="propensity"))
    assert log.dim == 1
    pl.DataFrame(ROW | {"arm": pl.Series([3], dtype=pl.Int8)}).write_parquet(tmp_path / "8.parquet")
    pl.DataFrame(ROW | {"arm": [2000]}).write_parquet(tmp_path / "9.parquet")
    assert read_parquet(tmp_path / "[89].parquet", Columns()).arm_names == ("3", "2000")
    days = read_parquet(tmp_path / "day=*" / "x.parquet", Columns(cluster="day")).read().clusters
    assert days is not None
    assert len(set(days.tolist())) == 3


def test_incompatible_parquet_files_are_rejected(tmp_path: Path) -> None:
    text = ROW | {"reward": [[1]]}
    short = {name: values for name, values in ROW.items() if name != "propensity"}
    folder = parts(tmp_path, ROW, text, short)
    with pytest.raises(InvalidInput, match="the table could not be read: .*i64 and list"):
        read_parquet(folder / "day=*[12]" / "x.parquet", Columns())
    with pytest.raises(InvalidInput, match="03/x.parquet has no column 'propensity'"):
        read_parquet(folder / "day=*[13]" / "x.parquet", Columns())
    with pytest.raises(InvalidInput, match="no column 'rewards' .did you mean 'reward'"):
        read_parquet(folder / "day=*[13]" / "x.parquet", Columns(propensity=None, reward="rewards"))


def test_rows_with_different_arms_are_streamed(tmp_path: Path) -> None:
    table = {**LISTS, "z": [[[1.0, 2.0]] * len(arms) for arms in LISTS["arms"]]}
    pl.DataFrame(table).write_parquet(tmp_path / "log.parquet")
    for columns in (Columns(arms="arms", context=("age",)), Columns(arms="arms", features="z")):
        log = read_parquet(tmp_path / "log.parquet", columns)
        assert_same_log(log.read(), read_table(table, columns))
        together(log, 2)
        assert {block.arms.max_arms for block in log.blocks(1)} == {3}


def test_errors_count_rows_from_the_start_of_the_file(tmp_path: Path) -> None:
    many(100).with_columns(
        propensity=pl.when(pl.int_range(pl.len()) == 77).then(2.0).otherwise(pl.col("propensity"))
    ).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(InvalidInput, match="column 'propensity', row 77: the value"):
        read_parquet(tmp_path / "log.parquet", CONTEXT)


def test_open_log_recognises_formats(tmp_path: Path) -> None:
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
        assert_same_log(log.read() if isinstance(log, TableLog) else next(log.blocks()), wanted)
    assert open_log(tmp_path / "log.parquet").dim == 12
    with pytest.raises(InvalidInput, match="must end with .parquet"):
        open_log(tmp_path / "log.txt")


PROGRAM = """
import resource, sys
from glbandits.evaluation import CrossedArms, Columns, read_parquet
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


def write_codes(path: Path, codes: list[str]) -> Path:
    rows = (f"{'ab'[index % 2]},{index % 2},0.5,{code}\n" for index, code in enumerate(codes))
    path.write_text("arm,reward,propensity,code\n" + "".join(rows))
    return path


def test_codes_that_lost_their_zeros_keep_their_category(tmp_path: Path) -> None:
    columns = Columns(context=("code",))
    first = read_csv(write_codes(tmp_path / "1", ["04109", "4111", "04110"]), columns, kinds={"code": "category"})
    second = read_csv(write_codes(tmp_path / "2", ["4109", "4111", "4110"]), columns, features=first.feature_map)
    np.testing.assert_array_equal(second.read().arms.features(), first.read().arms.features())


def test_rare_values_of_a_long_log_are_categories_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_inspection, "LEARN_ROWS", 50)
    codes = ["10115", "20095", "20095", "10115"] * 25
    codes[3], codes[5] = "04109", ""  # the map is learned from every second row
    log = read_csv(write_codes(tmp_path / "log", codes), Columns(context=("code",)), kinds={"code": "category"})
    assert isinstance(log.feature_map, FeatureMap)
    assert log.feature_map.kinds["code"] == Category(("04109", "10115", "20095"), missing="indicator")


def test_ids_of_18_digits_are_different_categories(tmp_path: Path) -> None:
    ids = ["123456789012345678", "123456789012345679", "", "7"]
    for codes in (ids, ids[:2]):
        log = read_csv(write_codes(tmp_path / "log", codes), Columns(context=("code",)), kinds={"code": "category"})
        assert isinstance(log.feature_map, FeatureMap)
        kind = log.feature_map.kinds["code"]
        assert isinstance(kind, Category)
        assert set(ids[:2]) <= set(kind.values)
