"""Evaluation of a Parquet log: the cost of anytime-valid intervals and of several targets, and memory."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import polars as pl

from glbandits.evaluation import Columns, Log, LoggedData, evaluate, read_parquet
from glbandits.evaluation.logs.arm_features import copy_with
from glbandits.evaluation.logs.logged_data import BLOCK

ARMS, SIZES = ("a", "b", "c", "d", "e"), (1_000_000, 10_000_000)
TARGETS = {"uniform": "uniform", "a": "arm:a", "b": "arm:b", "c": "arm:c"}
COLUMNS = Columns(context=("age",), probabilities="p_{arm}")
REPEATS = 2


class Cost(NamedTuple):
    """Measurements of a new process."""

    seconds: float
    megabytes: float


def report() -> None:
    """Print CPU seconds with and without anytime-valid intervals, and peak memory."""
    with TemporaryDirectory() as folder:
        costs = {}
        for rows in SIZES:
            write_log(Path(folder) / "log.parquet", rows)
            ways = ("without", "anytime", "four") if rows == SIZES[0] else ("without", "anytime")
            measured = [(way, _cost(Path(folder) / "log.parquet", way)) for _ in range(REPEATS) for way in ways]
            costs[rows] = {way: min(cost for name, cost in measured if name == way) for way in ways}
    print(f"Evaluating a Parquet log, K={len(ARMS)}, d=10, estimators dr, ips, snips (best of {REPEATS}, one core)")
    for rows, by_way in costs.items():
        for way, cost in by_way.items():
            speed = rows / cost.seconds / 1e6
            print(f"  {rows:.0e} rows, {way:8s} {cost.seconds:6.2f} CPU s  {speed:.2f} million rows/s  "
                  f"peak {cost.megabytes:.0f} MB")  # fmt: skip
    small, large = (costs[rows] for rows in SIZES)
    print(f"  anytime / without  {large['anytime'].seconds / large['without'].seconds:.2f}   (wanted: at most 1.5)")
    four, one = small["four"], small["anytime"]
    print(f"  four targets with differences / one target  {four.seconds / one.seconds:.2f}   (wanted: at most 1.6)")
    print(f"  memory of four targets / one  {four.megabytes / one.megabytes:.2f}   (wanted: at most 1.2)")
    growth = large["anytime"].megabytes / small["anytime"].megabytes - 1.0
    print(f"  memory at {SIZES[1] // SIZES[0]} times as many rows  {growth:+.1%}   (wanted: within 25 %)")


def write_log(path: Path, rows: int) -> None:
    """Write a log with the probabilities of all arms. The context determines the best arm."""
    rng, arms = np.random.default_rng(1), len(ARMS)
    age = rng.normal(size=rows)
    probabilities = 0.8 * rng.dirichlet(np.ones(arms), size=rows) + 0.2 / arms
    chosen = (rng.random((rows, 1)) > probabilities.cumsum(axis=1)).sum(axis=1).clip(0, arms - 1)
    slopes = np.linspace(-1.0, 1.0, arms)[chosen]
    columns = {
        "arm": np.array(ARMS)[chosen],
        "reward": (rng.random(rows) < 1.0 / (1.0 + np.exp(1.0 - slopes * (age + 0.3)))).astype(np.int8),
        "propensity": probabilities[np.arange(rows), chosen],
        "age": age,
    }
    per_arm = {f"p_{arm}": probabilities[:, index] for index, arm in enumerate(ARMS)}
    pl.DataFrame(columns | per_arm).write_parquet(path, row_group_size=100_000)


class WithoutAnytime:
    """The same log with estimated propensities, which disable anytime-valid intervals."""

    def __init__(self, log: Log) -> None:
        self._log, self.dim, self.arm_names, self.feature_map = log, log.dim, log.arm_names, log.feature_map
        self.sparse = log.sparse

    def __len__(self) -> int:
        return len(self._log)

    def blocks(self, size: int = BLOCK) -> Iterator[LoggedData]:
        """Yield all rows in order, in blocks of limited size."""
        for block in self._log.blocks(size):
            yield copy_with(block, estimated=True)


def _cost(path: Path, way: str) -> Cost:
    words = [sys.executable, "-m", "benchmarks.evaluation", str(path), way]
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return Cost(*map(float, out.split()))


def _evaluate(path: Path, way: str) -> None:
    """Evaluate once to compile, then measure.

    Print CPU seconds and the peak memory of this process.
    """
    log: Log = read_parquet(path, COLUMNS, link="logistic")
    evaluate(next(iter(log.blocks(1000))), "uniform")
    start = time.process_time()
    if way == "four":
        evaluate(log, TARGETS, reference="uniform")
    else:
        evaluate(log if way == "anytime" else WithoutAnytime(log), "uniform")
    seconds = time.process_time() - start
    lines = Path("/proc/self/status").read_text().splitlines()  # Linux only
    print(seconds, next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")))


if __name__ == "__main__":
    _evaluate(Path(sys.argv[1]), sys.argv[2])
