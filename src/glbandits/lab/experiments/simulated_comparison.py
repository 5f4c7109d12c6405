"""Simulate several policies on the same seeds, and write the results to files."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import one_line
from glbandits.common.errors import lookup
from glbandits.common.version import __version__
from glbandits.lab.environments import Environment
from glbandits.lab.environments.rounds import regret_name
from glbandits.lab.simulation import Simulation, prepare, simulate
from glbandits.lab.simulation.simulate import regret_chart
from glbandits.policies import Policy
from glbandits.policies.contract import settings_of
from glbandits.policies.parsing import as_policy


class SimulatedComparison(dict[str, Simulation]):
    """A simulation for each label, all with the same environment, horizon and seeds."""

    def __repr__(self) -> str:
        regrets = ", ".join(f"{one_line(label)} {result.final_regret.mean():.1f}" for label, result in self.items())
        return f"<SimulatedComparison: mean final regret {regrets}>"

    def _repr_html_(self) -> str:
        rows = [
            (one_line(label), one_line(result.policy), f"{result.mean[-1]:.1f}", f"{result.standard_error[-1]:.1f}")
            for label, result in self.items()
        ]
        regret = regret_name(next(iter(self.values())).environment) if self else "regret"
        columns = "label", "policy", f"mean final {regret}", "standard error"
        return DataTable(columns, rows, ("policy",)).to_html()

    def plot(self, title: str = "") -> Any:
        """Return an Altair chart of mean cumulative regret over the rounds, with bands of one standard error."""
        return regret_chart(self, title)


def compare(
    policies: Mapping[str, Policy | str],
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
    prepare(map(as_policy, policies.values()), environment)  # compile all policies at the same time
    comparison = SimulatedComparison()
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


def write_results(comparison: SimulatedComparison, folder: Path, table_format: str = "parquet") -> Path:
    """Write `results_table` to regret.parquet or regret.csv; return its path."""
    write = lookup("format", table_format, TABLE_FORMATS)
    path = folder / f"regret.{table_format}"
    write(results_table(comparison), path)
    return path


TABLE_FORMATS: dict[str, Callable[..., None]] = {
    "parquet": pl.DataFrame.write_parquet,
    "csv": pl.DataFrame.write_csv,
}
"""Functions that write a table, by the name of the file format."""
