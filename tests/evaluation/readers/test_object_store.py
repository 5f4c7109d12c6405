"""Logs in an object store, which polars reads: a server with the API of S3 on this machine."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from glbandits import InvalidInput
from glbandits.evaluation import Columns, LoggedData, evaluate, open_log

pytestmark = pytest.mark.skipif(find_spec("moto") is None, reason="needs moto[server]")
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
COLUMNS = Columns(context=("age",))


def frame(rows: int = 600) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    chosen = rng.integers(2, size=rows)
    columns = {"arm": np.array(["a", "b"])[chosen], "reward": rng.random(rows), "propensity": np.full(rows, 0.5)}
    return pl.DataFrame(columns | {"age": rng.normal(size=rows), "day": np.arange(rows) % 3})


@pytest.fixture(name="bucket", scope="module")
def bucket_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = 5600 + os.getpid() % 300
    with (tmp_path_factory.mktemp("s3") / "log").open("wb") as log:
        words = [sys.executable, "-m", "moto.server", "-p", str(port)]
        server = subprocess.Popen(words, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    settings = KEYS | {"AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": "true"}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(urllib.request.Request(f"{address}/logs", method="PUT"))
                break
            except OSError:
                assert server.poll() is None
                time.sleep(0.2)
        frame().write_parquet("s3://logs/log.parquet", row_group_size=100)
        for day in range(3):
            frame().filter(pl.col("day") == day).drop("day").write_parquet(f"s3://logs/days/day={day}/part.parquet")
        frame().lazy().sink_csv("s3://logs/log.csv")
        yield "s3://logs"
    finally:
        server.terminate()
        server.wait(30)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.mark.parametrize("name", ["log.parquet", "log.csv"])
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
