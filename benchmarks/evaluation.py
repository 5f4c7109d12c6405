"""Evaluation of a Parquet log: the cost of anytime-valid intervals, targets and clusters, workers, and memory."""

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from joblib.externals.loky import get_reusable_executor

from glbandits.evaluation import Columns, LoggedData, evaluate, read_parquet
from glbandits.evaluation.logs.arm_features import copy_with
from glbandits.evaluation.logs.logged_data import BLOCK, Log, StreamedLog

ARMS, SIZES = ("a", "b", "c", "d", "e"), (1_000_000, 10_000_000)
TARGETS = {"uniform": "uniform", "a": "arm:a", "b": "arm:b", "c": "arm:c"}
COLUMNS = Columns(context=("age",), probabilities="p_{arm}")
WORKERS = ("one worker", "two workers")
CLUSTERS = 1_000_000
REPEATS = 2


class Cost(NamedTuple):
    """Measurements of a new process and its workers."""

    seconds: float
    """Of all cores."""
    megabytes: float
    """Peak of the largest process."""
    wall: float


def report() -> None:
    """Print CPU seconds with and without anytime-valid intervals, and peak memory."""
    with TemporaryDirectory() as folder:
        costs = {}
        for rows in SIZES:
            write_log(Path(folder) / "log.parquet", rows)
            ways = ("without", "anytime", "four") if rows == SIZES[0] else ("without", "anytime", *WORKERS, "clusters")
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
    one, two = (large[way] for way in WORKERS)
    print(f"  wall time of two workers / one, three targets  {two.wall / one.wall:.2f}   (wanted: at most 0.6)")
    print(f"  memory with {CLUSTERS:,} clusters  {large['clusters'].megabytes:.0f} MB   (wanted: at most 2,000)")
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
        "user": rng.integers(CLUSTERS, size=rows),
    }
    per_arm = {f"p_{arm}": probabilities[:, index] for index, arm in enumerate(ARMS)}
    pl.DataFrame(columns | per_arm).write_parquet(path, row_group_size=100_000)


class WithoutAnytime(StreamedLog):
    """The same log with estimated propensities, which disable anytime-valid intervals."""

    def __init__(self, log: Log) -> None:
        self._log, self.schema = log, replace(log.schema, estimated=True)

    def blocks(self, size: int = BLOCK, **rows: Any) -> Iterator[LoggedData]:
        """Yield rows in order, in blocks of limited size."""
        for block in self._log.blocks(size, **rows):
            yield copy_with(block, estimated=True)


def _cost(path: Path, way: str) -> Cost:
    words = [sys.executable, "-m", "benchmarks.evaluation", str(path), way]
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return Cost(*map(float, out.split()))


def _evaluate(path: Path, way: str) -> None:
    """Evaluate once to compile, then measure.

    Print CPU seconds, the peak memory of the largest process, and seconds.
    """
    columns = replace(COLUMNS, cluster="user") if way == "clusters" else COLUMNS
    log: Log = read_parquet(path, columns, link="logistic")
    three = {name: TARGETS[name] for name in ("uniform", "a", "b")}
    evaluate(next(iter(log.blocks(1000))), three, reference="uniform")
    cpu, start = _cpu_seconds(), time.perf_counter()
    if way in ("four", *WORKERS):
        targets = TARGETS if way == "four" else three
        evaluate(log, targets, reference="uniform", jobs=2 if way == "two workers" else 1)
    else:
        evaluate(WithoutAnytime(log) if way == "without" else log, "uniform")
    seconds, wall = _cpu_seconds() - cpu, time.perf_counter() - start
    if way == "two workers":  # the CPU time of workers counts when they have ended
        get_reusable_executor().shutdown(wait=True)
        seconds = _cpu_seconds() - cpu
    print(seconds, max(resource.getrusage(who).ru_maxrss for who in WHO) / 1024, wall)


WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def _cpu_seconds() -> float:
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, WHO))


if __name__ == "__main__":
    _evaluate(Path(sys.argv[1]), sys.argv[2])
