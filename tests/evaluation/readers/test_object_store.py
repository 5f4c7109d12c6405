"""Logs in an object store, which polars reads: a server of files with the API of S3, and moto if it is installed."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from glbandits import InvalidInput
from glbandits.evaluation import Columns, LoggedData, evaluate, open_log
from tests.evaluation.readers.object_server import object_server

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
COLUMNS = Columns(context=("age",))


def frame(rows: int = 600) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    chosen = rng.integers(2, size=rows)
    columns = {"arm": np.array(["a", "b"])[chosen], "reward": rng.random(rows), "propensity": np.full(rows, 0.5)}
    return pl.DataFrame(columns | {"age": rng.normal(size=rows), "day": np.arange(rows) % 3})


@contextmanager
def moto_server(folder: Path) -> Iterator[str]:
    """The server of moto, with the files of a folder in the bucket "logs"."""
    port = 5600 + os.getpid() % 300
    address, words = f"http://127.0.0.1:{port}", [sys.executable, "-m", "moto.server", "-p", str(port)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(urllib.request.Request(f"{address}/logs", method="PUT"), timeout=30)
                break
            except OSError:
                assert server.poll() is None
                time.sleep(0.2)
        for file in (folder / "logs").rglob("*.*"):
            key = f"{address}/{file.relative_to(folder).as_posix()}"
            head = {"Content-Type": "application/octet-stream"}
            urllib.request.urlopen(urllib.request.Request(key, file.read_bytes(), head, method="PUT"), timeout=30)
        yield address
    finally:
        server.kill()
        server.wait(30)


@pytest.fixture(name="bucket", scope="module", params=["files", "moto"])
def bucket_fixture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "moto" and find_spec("moto") is None:
        pytest.skip("needs moto[server]")
    bucket = tmp_path_factory.mktemp("s3") / "logs"
    bucket.mkdir()
    frame().write_parquet(bucket / "log.parquet", row_group_size=100)
    frame().write_csv(bucket / "log.csv")
    frame().drop("day").write_ndjson(bucket / "log.jsonl")
    for day in range(3):
        (bucket / f"days/day={day}").mkdir(parents=True)
        frame().filter(pl.col("day") == day).drop("day").write_parquet(bucket / f"days/day={day}/part.parquet")
    server = moto_server if request.param == "moto" else object_server
    with server(bucket.parent) as address, pytest.MonkeyPatch.context() as patch:
        for name, value in (KEYS | {"AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": "true"}).items():
            patch.setenv(name, value)
        yield "s3://logs"


@pytest.mark.parametrize("name", ["log.parquet", "log.csv", "log.jsonl"])
def test_log_of_an_object_store_is_read_by_polars(bucket: str, name: str) -> None:
    log, local = open_log(f"{bucket}/{name}", COLUMNS), open_log(frame(), COLUMNS)
    assert isinstance(local, LoggedData)
    assert len(log) == 600
    np.testing.assert_array_equal(np.concatenate([block.rewards for block in log.blocks(100)]), local.rewards)
    found, expected = (evaluate(each, "arm:a", progress=lambda *_: None) for each in (log, local))
    assert found["dr"].value == expected["dr"].value


def test_folders_of_an_object_store_become_columns(bucket: str) -> None:
    log = open_log(f"{bucket}/days/", Columns(context=("age", "day")))
    assert len(log) == 600
    assert "day" in getattr(log.feature_map, "kinds", {})


def test_missing_object_is_one_sentence(bucket: str) -> None:
    with pytest.raises(InvalidInput, match="none.parquet could not be read: .*not found"):
        open_log(f"{bucket}/none.parquet", COLUMNS)


def test_other_formats_are_refused(bucket: str) -> None:
    with pytest.raises(InvalidInput, match="must be Parquet, CSV or JSON lines; got format 'dsjson'. Download it"):
        open_log(f"{bucket}/log.json", format="dsjson")


def test_path_with_a_colon_is_no_address(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="must be a file"):
        open_log(tmp_path / "c:/none.parquet")
