"""Simulate several policies on the same seeds, and write the results to files."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from glbandits.common.atomic_files import write_atomically
from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import one_line
from glbandits.common.errors import InvalidInput, lookup, value_text
from glbandits.common.version import __version__
from glbandits.lab.environments import Environment
from glbandits.lab.environments.rounds import regret_name
from glbandits.lab.experiments.paired_differences import Difference, paired_differences
from glbandits.lab.simulation import Simulation, prepare, simulate
from glbandits.lab.simulation.simulate import regret_chart
from glbandits.policies.agents import PolicyLike, settings_values
from glbandits.policies.parsing import as_policy_or_agent


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

    def differences(self, reference: str) -> dict[str, Difference]:
        """Return the difference of the final regret of each other policy to that of the reference, paired by seed.

        The intervals of all policies hold at once with 95 % (Bonferroni).
        """
        return paired_differences({label: result.final_regret for label, result in self.items()}, reference)

    def plot(self, title: str = "") -> Any:
        """Return an Altair chart of mean cumulative regret over the rounds, with bands of one standard error."""
        return regret_chart(self, title)


def compare(
    policies: Mapping[str, PolicyLike] | Sequence[PolicyLike],
    environment: Environment,
    horizon: int,
    seeds: int | Iterable[int],
    *,
    jobs: int = -1,
    progress: Callable[[str, int], None] | None = None,
) -> SimulatedComparison:
    """Simulate every policy on the same seeds. Classes and functions that make agents are policies too.

    Without labels, as in `compare(["uniform", LinUcb()], ...)`, texts and the names of policies are the labels.
    `progress` is called with a label and the number of rounds played since the last call, first with 0 when the
    simulation of a policy starts.
    """
    policies = _labelled(policies)
    seeds = seeds if isinstance(seeds, int) else tuple(seeds)
    prepare(map(as_policy_or_agent, policies.values()), environment)  # compile all policies at the same time
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


def _labelled(policies: Mapping[str, PolicyLike] | Sequence[PolicyLike]) -> Mapping[str, PolicyLike]:
    if isinstance(policies, str) or not isinstance(policies, Mapping | Sequence):
        raise InvalidInput(
            f"policies must be a list of policies, or a dict of them by label; got {value_text(policies)}. "
            'Write ["optimist", LinUcb()] or {"mine": LinUcb()}'
        )
    if not policies:
        raise InvalidInput("compare needs at least one policy; got none")
    if isinstance(policies, Mapping):
        return policies
    labels = [each if isinstance(each, str) else as_policy_or_agent(each).name for each in policies]
    if len(set(labels)) < len(labels):
        raise InvalidInput(
            f"policies must have different names; got {', '.join(labels)}. Pass a dict of policies by label"
        )
    return dict(zip(labels, policies, strict=True))


def results_table(comparison: SimulatedComparison) -> pl.DataFrame:
    """Return the regret: one row for each policy, seed and recorded round."""
    parts = [
        pl.DataFrame({"round": result.rounds, "regret": result.regret[i]}).select(
            pl.lit(label).alias("policy"), pl.lit(seed).alias("seed"), "round", "regret"
        )
        for label, result in comparison.items()
        for i, seed in enumerate(result.seeds)
    ]
    return pl.concat(parts)


def comparison_summary(comparison: SimulatedComparison, reference: str | None = None) -> dict[str, Any]:
    """Return the problem, and for each policy its settings, final regret and time, as data for JSON.

    With a `reference`, also the difference of each other policy to it (`SimulatedComparison.differences`).
    """
    first = next(iter(comparison.values()))
    differences = comparison.differences(reference) if reference is not None else {}
    policies = {}
    for label, result in comparison.items():
        error = float(result.standard_error[-1])
        policies[label] = {
            "policy": result.policy.name,
            "settings": settings_values(result.policy),
            "regret": float(result.final_regret.mean()),
            "standard_error": error if math.isfinite(error) else None,
            "seconds": float(result.seconds.mean()),
        }
        if label in differences:
            policies[label] |= {"difference": differences[label]._asdict()}
    return {
        "version": __version__,
        "environment": repr(first.environment),
        "horizon": first.horizon,
        "seeds": list(first.seeds),
        "reference": reference,
        "policies": policies,
    }


def write_results(
    comparison: SimulatedComparison, folder: Path, table_format: str = "parquet", *, reference: str | None = None
) -> Path:
    """Write `results_table` to regret.parquet or regret.csv, and `comparison_summary` to summary.json.

    Creates the folder if it is missing. Returns the path of the table.
    """
    write = lookup("format", table_format, TABLE_FORMATS)
    summary = json.dumps(comparison_summary(comparison, reference), indent=2, ensure_ascii=False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"regret.{table_format}"
    write(results_table(comparison), path)
    write_atomically(folder / "summary.json", summary.encode() + b"\n")
    return path


TABLE_FORMATS: dict[str, Callable[..., None]] = {
    "parquet": pl.DataFrame.write_parquet,
    "csv": pl.DataFrame.write_csv,
}
"""Functions that write a table, by the name of the file format."""
