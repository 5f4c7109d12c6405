"""Run all parts of the paper, or some of them, with one progress report."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from glbandits.lab.experiments.run_spec import fingerprint, source_digest
from glbandits.lab.paper.cost import CostTable, measure_cost
from glbandits.lab.paper.experiments import EXPERIMENTS, NEWS, Sources, later_policies, paper_policies
from glbandits.lab.paper.runtime import RuntimeTable, compile_for_runtime, measure_runtime
from glbandits.lab.paper.theory import TheoryCheck, check_theory
from glbandits.policies import POLICIES

T = TypeVar("T")

RUNTIME, COST, THEORY, ALL = "runtime", "cost", "theory", "all"
NAMES = (*EXPERIMENTS, RUNTIME, COST, THEORY)
SECONDS = {"data": (60.0, 8.0), "compile": (70.0, 70.0), "repeats": (400.0, 40.0), "finals": (100.0, 0.0)} | {
    "fresh": (100.0, 20.0),
    RUNTIME: (150.0, 8.0),
    COST: (240.0, 10.0),
    THEORY: (120.0, 8.0),
}
"""Initial guesses of the seconds of each part: full, and with `--quick`."""


@dataclass(frozen=True)
class PaperResults:
    """The results of the parts of the paper that were run."""

    experiments: tuple[ExperimentResult, ...]
    runtime: RuntimeTable | None = None
    cost: CostTable | None = None
    theory: TheoryCheck | None = None


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
) -> PaperResults:
    """Run these parts. Runs in the store and cached measurements are not repeated."""
    parts, quick = paper_parts(names), sources.quick
    measured = partial(_cached, runner.store.folder, quick=quick)
    has_experiments = any(name in EXPERIMENTS for name in parts)
    expected = {
        name: seconds[quick]
        for name, seconds in SECONDS.items()
        if name in parts or (name not in NAMES and has_experiments)
    }
    overall = OverallProgress(progress, expected)
    experiments = []
    for done, name in enumerate(name for name in parts if name in EXPERIMENTS):
        overall.part("data")(f"reading the data of {name}", done, len(EXPERIMENTS))
        experiments += EXPERIMENTS[name](sources)
    if has_experiments:
        overall.part("data")("data read", 1, 1)
    results = runner.run(experiments, protocols, quick=quick, overall=overall) if has_experiments else []
    runtime = cost = theory = None
    if RUNTIME in parts:
        (problem,) = EXPERIMENTS[NEWS](sources)
        data = fingerprint(problem.environment)
        runtime = measured(RUNTIME, RuntimeTable, lambda: _runtime(problem, quick, overall.part(RUNTIME)), data=data)
    if COST in parts:
        cost = measured(COST, CostTable, lambda: measure_cost(quick=quick, progress=overall.part(COST)))
    if THEORY in parts:
        theory_progress = overall.part(THEORY)
        theory = measured(
            THEORY, TheoryCheck, lambda: check_theory(quick=quick, jobs=runner.jobs, progress=theory_progress)
        )
    return PaperResults(tuple(results), runtime, cost, theory)


def _runtime(problem: Experiment, quick: bool, progress: Progress) -> RuntimeTable:
    compared = [entry.label for entry in (*paper_policies(problem.horizon), *later_policies())]
    names = compared if quick else list(POLICIES)
    compile_for_runtime(names)
    return measure_runtime(problem.environment, problem.horizon, names=names, progress=progress)


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
