"""Result files: everything that was measured, with everything that made it."""

import json
from pathlib import Path

import polars as pl

from glbandits.experiments.comparison import Comparison
from glbandits.policy import settings_of
from glbandits.version import __version__


def write_parquet(comparison: Comparison, folder: Path) -> Path:
    """Write one row for each policy, seed and recorded round; returns the file's path."""
    path = folder / "regret.parquet"
    results_table(comparison).write_parquet(path)
    return path


def write_csv(comparison: Comparison, folder: Path) -> Path:
    """The same as comma-separated text."""
    path = folder / "regret.csv"
    results_table(comparison).write_csv(path)
    return path


FORMATS = {"parquet": write_parquet, "csv": write_csv}


def results_table(comparison: Comparison) -> pl.DataFrame:
    """The same as a table."""
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
