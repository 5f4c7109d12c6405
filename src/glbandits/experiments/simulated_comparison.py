"""Simulate several policies on the same seeds, and write the results to files."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import polars as pl

from glbandits.environments import Environment
from glbandits.policies import Policy
from glbandits.policy import settings_of
from glbandits.simulation import Simulation, simulate
from glbandits.version import __version__

SimulatedComparison: TypeAlias = dict[str, Simulation]
"""A simulation for each label, all with the same environment, horizon and seeds."""


def compare(
    policies: Mapping[str, Policy],
    environment: Environment,
    horizon: int,
    seeds: int | Iterable[int],
    *,
    jobs: int = -1,
    progress: Callable[[str, int], None] | None = None,
) -> SimulatedComparison:
    """Simulate every policy on the same seeds.

    `progress` is called with a label and the number of rounds played since the last call, first with 0 when the
    simulation of a policy starts.
    """
    seeds = seeds if isinstance(seeds, int) else tuple(seeds)
    comparison: SimulatedComparison = {}
    for label, policy in policies.items():

        def report(rounds: int, label: str = label) -> None:
            if progress is not None:
                progress(label, rounds)

        report(0)
        comparison[label] = simulate(
            policy, environment, horizon, seeds, jobs=jobs, keep_choices=False, progress=report
        )
    return comparison


def results_table(comparison: SimulatedComparison) -> pl.DataFrame:
    """Return one row for each policy, seed and recorded round, with the settings."""
    parts = [
        pl.DataFrame({"round": result.rounds, "regret": result.regret[i]}).select(
            pl.lit(label).alias("policy"),
            pl.lit(seed).alias("seed"),
            "round",
            "regret",
            pl.lit(result.seconds[i]).alias("policy_seconds"),
            pl.lit(json.dumps(settings_of(result.policy))).alias("settings"),
            pl.lit(repr(result.environment)).alias("environment"),
            pl.lit(result.horizon).alias("horizon"),
            pl.lit(__version__).alias("glbandits_version"),
        )
        for label, result in comparison.items()
        for i, seed in enumerate(result.seeds)
    ]
    return pl.concat(parts)


def write_parquet(comparison: SimulatedComparison, folder: Path) -> Path:
    """Write `results_table` to regret.parquet; return its path."""
    path = folder / "regret.parquet"
    results_table(comparison).write_parquet(path)
    return path


def write_csv(comparison: SimulatedComparison, folder: Path) -> Path:
    """Write `results_table` to regret.csv; return its path."""
    path = folder / "regret.csv"
    results_table(comparison).write_csv(path)
    return path


FORMATS = {"parquet": write_parquet, "csv": write_csv}
"""Functions that write a comparison, by the name of the file format."""
