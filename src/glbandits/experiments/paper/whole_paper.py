"""Everything of the paper, or some of it, in one run with one progress report."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import msgspec

from glbandits.errors import InvalidInput, lookup
from glbandits.experiments.experiment import Experiment
from glbandits.experiments.outcomes import ExperimentResult
from glbandits.experiments.paper import EXPERIMENTS, Sources, news
from glbandits.experiments.paper.compared_policies import later_policies, paper_policies
from glbandits.experiments.paper.cost import CostTable, measure_cost
from glbandits.experiments.paper.runtime import RuntimeTable, compile_for_runtime, measure_runtime
from glbandits.experiments.paper.theory import TheoryCheck, check_theory
from glbandits.experiments.progress import OverallProgress, Progress
from glbandits.experiments.protocols import ExperimentRunner
from glbandits.experiments.run_spec import fingerprint, source_digest
from glbandits.parallel import in_processes
from glbandits.policies import POLICIES

T = TypeVar("T")

RUNTIME, COST, THEORY, ALL = "runtime", "cost", "theory", "all"
NAMES = (*EXPERIMENTS, RUNTIME, COST, THEORY)
SECONDS = {"data": (60.0, 8.0), "compile": (70.0, 70.0), "play": (600.0, 60.0)} | {
    RUNTIME: (150.0, 8.0),
    COST: (240.0, 10.0),
    THEORY: (120.0, 8.0),
}
"""First guesses of each part's seconds: whole, and quick."""


@dataclass(frozen=True)
class PaperResults:
    """What was run of the paper."""

    experiments: tuple[ExperimentResult, ...]
    runtime: RuntimeTable | None = None
    cost: CostTable | None = None
    theory: TheoryCheck | None = None


def paper_parts(names: Sequence[str]) -> list[str]:
    """The parts that these names ask for; "all" stands for every part."""
    for name in names:
        lookup("experiment", name, dict.fromkeys((*NAMES, ALL)))
    if ALL in names and len(names) > 1:
        raise InvalidInput(f"all stands for every experiment, so it is named alone; got {', '.join(names)}")
    return list(NAMES) if ALL in names else list(dict.fromkeys(names))


def run_paper(
    names: Sequence[str], sources: Sources, runner: ExperimentRunner, protocols: Sequence[str], progress: Progress
) -> PaperResults:
    """Run these parts. What the store already has is not run again."""
    parts, quick, kept = paper_parts(names), sources.quick, _Measurements(runner.store.folder, sources.quick)
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
    results = runner.run_parts(experiments, protocols, overall, quick=quick) if has_experiments else []
    runtime = cost = theory = None
    if RUNTIME in parts:
        (problem,) = EXPERIMENTS[news.NAME](sources)
        data = fingerprint(problem.environment)
        runtime = kept.get(RUNTIME, RuntimeTable, lambda: _runtime(problem, runner, quick, overall.part(RUNTIME)), data)
    if COST in parts:
        cost = kept.get(COST, CostTable, lambda: measure_cost(quick=quick, progress=overall.part(COST)))
    if THEORY in parts:
        progress_here = overall.part(THEORY)
        theory = kept.get(
            THEORY, TheoryCheck, lambda: check_theory(quick=quick, jobs=runner.jobs, progress=progress_here)
        )
    return PaperResults(tuple(results), runtime, cost, theory)


def _runtime(problem: Experiment, runner: ExperimentRunner, quick: bool, progress: Progress) -> RuntimeTable:
    compared = [entry.label for entry in (*paper_policies(problem.horizon), *later_policies())]
    names = compared if quick else list(POLICIES)
    for done, name in enumerate(in_processes(compile_for_runtime, [(name,) for name in names], runner.jobs)):
        progress(f"compiled {name}", done, 4 * len(names))

    def timed(what: str, done: float, total: float) -> None:
        progress(what, total + 3 * done, 4 * total)

    return measure_runtime(problem.environment, problem.horizon, names=names, progress=timed)


class _Measurements:
    """Measurements that are kept beside the runs, so that a stopped command does not repeat them."""

    def __init__(self, folder: Path, quick: bool) -> None:
        self._folder, self._quick = folder, quick

    def get(self, name: str, kind: type[T], measure: Callable[[], T], data: str = "") -> T:
        """The measurement of this code on these data, from its file or made now."""
        code = source_digest("glbandits.policies", f"glbandits.experiments.paper.{name}")
        key = sha256(f"{code} {data}".encode()).hexdigest()[:16]
        path = self._folder / f"{name}-{'quick-' * self._quick}{key}.json"
        if path.exists():
            with suppress(msgspec.DecodeError, UnicodeDecodeError):  # a damaged file: measure again
                return msgspec.json.decode(path.read_bytes(), type=kind)
        measured = measure()
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part")
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(measured)))
        partial.replace(path)
        return measured
