"""Run all parts of the paper, or some of them, with one progress report."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import msgspec

from glbandits.common.atomic_files import write_atomically
from glbandits.common.errors import InvalidInput, lookup
from glbandits.lab.experiments.experiment import Experiment
from glbandits.lab.experiments.outcomes import ExperimentResult
from glbandits.lab.experiments.progress import OverallProgress, Progress
from glbandits.lab.experiments.protocols import ExperimentRunner
from glbandits.lab.experiments.run_spec import source_digest
from glbandits.lab.paper.cost import CostTable, measure_cost
from glbandits.lab.paper.experiments import (
    EXPERIMENTS,
    NEWS,
    SCENARIO_1,
    SCENARIO_2,
    SIMULATION,
    Sources,
    later_policies,
    paper_policies,
)
from glbandits.lab.paper.runtime import RuntimeTable, compile_for_runtime, measure_runtime
from glbandits.lab.paper.theory import TheoryCheck, check_theory
from glbandits.policies import POLICIES

T = TypeVar("T")

RUNTIME, COST, THEORY, ALL = "runtime", "cost", "theory", "all"
NAMES = (*EXPERIMENTS, RUNTIME, COST, THEORY)
SECONDS = {
    SIMULATION: (150.0, 45.0),
    SCENARIO_1: (60.0, 6.0),
    SCENARIO_2: (350.0, 40.0),
    NEWS: (100.0, 8.0),
    RUNTIME: (150.0, 10.0),
    COST: (240.0, 8.0),
    THEORY: (120.0, 6.0),
}
"""Initial guesses of the seconds of each part: full, and with `--quick`. The first one compiles."""


@dataclass(frozen=True)
class PaperResults:
    """The results of the parts of the paper that were run."""

    experiments: tuple[ExperimentResult, ...] = ()
    runtime: RuntimeTable | None = None
    cost: CostTable | None = None
    theory: TheoryCheck | None = None
    missing: tuple[str, ...] = ()
    """The names of the parts that are still to be run."""


def paper_parts(names: Sequence[str]) -> list[str]:
    """Return the parts of these names. "all" means every part."""
    for name in names:
        lookup("experiment", name, dict.fromkeys((*NAMES, ALL)))
    if ALL in names and len(names) > 1:
        raise InvalidInput(
            f"all already means every experiment and cannot be combined with other names; got {', '.join(names)}"
        )
    return list(NAMES) if ALL in names else list(dict.fromkeys(names))


def run_paper(
    names: Sequence[str], sources: Sources, runner: ExperimentRunner, protocols: Sequence[str], progress: Progress
) -> Iterator[PaperResults]:
    """Run these parts, and yield all results so far after each of them.

    Runs in the store and cached measurements are not repeated.
    """
    parts = paper_parts(names)
    overall = OverallProgress(progress, {name: SECONDS[name][sources.quick] for name in parts})
    results = PaperResults()
    for number, name in enumerate(parts, start=1):
        results = _with_part(name, results, sources, runner, protocols, overall.part(name))
        results = replace(results, missing=tuple(parts[number:]))
        yield results


def _with_part(
    name: str,
    results: PaperResults,
    sources: Sources,
    runner: ExperimentRunner,
    protocols: Sequence[str],
    progress: Progress,
) -> PaperResults:
    """Run one part, and return its results with those before it."""
    quick, measured = sources.quick, partial(_cached, runner.store.folder, quick=sources.quick)
    if name == RUNTIME:
        (news,) = EXPERIMENTS[NEWS](sources)
        data = news.problem().identity
        runtime = measured(RUNTIME, RuntimeTable, lambda: _runtime(news, quick, progress), data=data)
        return replace(results, runtime=runtime)
    if name == COST:
        return replace(results, cost=measured(COST, CostTable, lambda: measure_cost(quick=quick, progress=progress)))
    if name == THEORY:
        theory = measured(THEORY, TheoryCheck, lambda: check_theory(quick=quick, jobs=runner.jobs, progress=progress))
        return replace(results, theory=theory)
    progress(f"reading the data of {name}", 0, 1)
    played = replace(runner, progress=progress).run(EXPERIMENTS[name](sources), protocols, quick=quick)
    return replace(results, experiments=(*results.experiments, *played))


def _runtime(problem: Experiment, quick: bool, progress: Progress) -> RuntimeTable:
    compared = [entry.label for entry in (*paper_policies(problem.horizon), *later_policies())]
    names = compared if quick else list(POLICIES)
    compile_for_runtime(names)
    return measure_runtime(problem.environment, problem.horizon, names=names, quick=quick, progress=progress)


def _cached(folder: Path, name: str, kind: type[T], measure: Callable[[], T], *, quick: bool, data: str = "") -> T:
    """Return the measurement of this code and data from its file beside the result store, or measure and write it."""
    code = source_digest("glbandits.policies", f"glbandits.lab.paper.{name}")
    key = sha256(f"{code} {data}".encode()).hexdigest()[:16]
    path = folder / f"{name}-{'quick-' * quick}{key}.json"
    if path.exists():
        with suppress(msgspec.DecodeError, UnicodeDecodeError):  # if the file is damaged, measure again
            return msgspec.json.decode(path.read_bytes(), type=kind)
    measurement = measure()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(measurement)))
    return measurement
