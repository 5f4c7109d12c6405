"""Simulate several policies on the same seeds, and write the results to files."""

import json
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from glbandits.common.atomic_files import atomic_path, write_atomically
from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import one_line
from glbandits.common.errors import InvalidInput, value_text
from glbandits.common.parallel import check_engine
from glbandits.common.version import __version__
from glbandits.lab.environments import Environment
from glbandits.lab.environments.rounds import regret_name
from glbandits.lab.experiments.missing_runs import POINTS, run_missing
from glbandits.lab.experiments.paired_differences import Difference, paired_differences
from glbandits.lab.experiments.progress import Progress, no_progress
from glbandits.lab.experiments.result_store import ResultStore
from glbandits.lab.experiments.run_spec import IdentifiedProblem, RunSpec
from glbandits.lab.simulation import Simulation, prepare, recorded_rounds
from glbandits.lab.simulation.simulate import simulate_all
from glbandits.lab.simulation.simulated_runs import regret_chart
from glbandits.maths.philox import seed_list
from glbandits.policies.agents import PolicyLike, settings_values
from glbandits.policies.parsing import as_policy_or_agent

FRAME_ROWS = 2**20
"""Rows of the results that are in memory at the same time."""
TABLE_SCHEMA = pl.Schema({"policy": pl.String, "seed": pl.Int64, "round": pl.Int64, "regret": pl.Float64})


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
    engine: str = "local",
    store: ResultStore | None = None,
    progress: Progress = no_progress,
) -> SimulatedComparison:
    """Simulate every policy on the same seeds. Classes and functions that make agents are policies too.

    The rounds of a seed are generated once, and all policies play them. Each regret equals that of `simulate`, and is
    recorded at `POINTS` rounds at most.

    Args:
        policies: the policies by label or, as in `["uniform", LinUcb()]`, without labels: texts and the names of
            policies are then the labels.
        environment: a problem, such as `Synthetic()`.
        horizon: T, the number of rounds.
        seeds: the seeds, or their number: n means 0 to n-1.
        jobs: the number of runs at the same time; -1 for one per core.
        engine: "local" for the cores of this machine, "ray" for a Ray cluster; see `common.parallel`.
        store: keeps finished runs, which are then never played again. Processes with the same store share the work.
        progress: called with a label, the work done and the total work.
    """
    check_engine(engine, jobs)
    labelled = {label: as_policy_or_agent(policy) for label, policy in _labelled(policies).items()}
    given, numbers, rounds = list(labelled.values()), seed_list(seeds), recorded_rounds(horizon, POINTS)
    if store is None:
        report = _round_counter(progress, horizon * len(numbers) * len(given))
        results = simulate_all(given, environment, horizon, numbers, rounds, jobs=jobs, engine=engine, progress=report)
    else:
        prepare(given, environment)
        problem = IdentifiedProblem.of(environment, horizon, numbers[0])
        specs = [[RunSpec(policy, problem, horizon, seed) for seed in numbers] for policy in given]
        run_missing(chain.from_iterable(specs), store, jobs=jobs, engine=engine, progress=progress)
        results = [_stored_simulation(own, store) for own in specs]
    return SimulatedComparison(zip(labelled, results, strict=True))


def _round_counter(progress: Progress, total: int) -> Callable[[int], None] | None:
    """Return a function of the rounds just played; None if nobody listens: then agents print lines."""
    if progress is no_progress:
        return None
    played, lock = 0, threading.Lock()

    def report(rounds: int) -> None:
        nonlocal played
        with lock:  # policies play in threads
            played += rounds
            progress("playing", played, total)

    progress("playing", 0, total)
    return report


def _stored_simulation(specs: Sequence[RunSpec], store: ResultStore) -> Simulation:
    """Return the runs of one policy."""
    runs, first = [store[spec] for spec in specs], specs[0]
    return Simulation(
        policy=first.policy,
        environment=first.environment,
        horizon=first.horizon,
        seeds=tuple(spec.seed for spec in specs),
        rounds=runs[0].rounds,
        regret=np.array([run.regret for run in runs]),
        choices=None,
        seconds=np.array([run.seconds for run in runs]),
    )


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


def results_table(comparison: SimulatedComparison) -> pl.LazyFrame:
    """Return the regret: one row for each policy, seed and recorded round.

    The table is generated while it is read. `collect` it if it fits into memory: it has 28 bytes a row.
    """

    def frames(columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _size: int | None) -> Any:
        for frame in chain.from_iterable(_frames(label, result) for label, result in comparison.items()):
            some = frame if rows is None else frame.head(rows)
            rows = None if rows is None else rows - some.height
            some = some if columns is None else some.select(columns)
            yield some if predicate is None else some.filter(predicate)
            if rows == 0:
                return

    return register_io_source(frames, schema=TABLE_SCHEMA)


def _frames(label: str, result: Simulation) -> Iterator[pl.DataFrame]:
    """Yield the rows of one policy, some seeds at a time."""
    points = len(result.rounds)
    some = max(FRAME_ROWS // points, 1)
    for start in range(0, len(result.seeds), some):
        regret = result.regret[start : start + some]
        seeds = np.array(result.seeds[start : start + some], dtype=np.int64)
        columns = {"seed": seeds.repeat(points), "round": np.tile(result.rounds, len(seeds)), "regret": regret.ravel()}
        yield pl.DataFrame(columns).select(pl.lit(label).alias("policy"), *columns)


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


def write_results(comparison: SimulatedComparison, folder: Path, *, reference: str | None = None) -> Path:
    """Write `results_table` to regret.parquet, and `comparison_summary` to summary.json.

    Creates the folder if it is missing. Returns the path of the table.
    """
    summary = json.dumps(comparison_summary(comparison, reference), indent=2, ensure_ascii=False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "regret.parquet"
    with atomic_path(path) as temporary:
        results_table(comparison).sink_parquet(temporary)
    write_atomically(folder / "summary.json", summary.encode() + b"\n")
    return path
