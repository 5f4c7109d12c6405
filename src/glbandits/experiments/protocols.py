"""Two ways to compare: the paper's, where each run picks its own best setting, and one on fresh seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glbandits.errors import InvalidInput
from glbandits.experiments.engine import POINTS, Workload, compile_policies, run_missing, workers
from glbandits.experiments.experiment import Experiment, PolicyEntry, in_words
from glbandits.experiments.outcomes import FRESH, PAPER, ExperimentResult, Outcome, ProtocolResult
from glbandits.experiments.progress import OverallProgress, Progress, no_progress
from glbandits.experiments.result_store import FinishedRun, ResultStore
from glbandits.experiments.run_spec import RunSpec
from glbandits.policy import Policy
from glbandits.records import Floats
from glbandits.simulation import recorded_rounds

WORDS = {
    PAPER: (
        "In every repeat each policy's best setting is picked afterwards, by that repeat's own final regret, and the "
        "picked runs are averaged. Every run has noise of its own, as in the published code. A larger grid has more "
        "attempts, so it gains the most: this favours large grids, and does not say how a policy will do."
    ),
    FRESH: (
        "One setting for each policy, chosen by its mean final regret over the seeds of the paper's protocol, is "
        "played on other seeds. Bands are 95 % confidence intervals of the mean. All policies play the same problems "
        "with the same noise, so differences are taken seed by seed."
    ),
}
PROTOCOLS = (PAPER, FRESH)
COMPILE_SECONDS = 12.0
"""A first guess for one policy; with a warm cache it takes a second."""


@dataclass(frozen=True)
class ExperimentRunner:
    """A result store, and how to fill it."""

    store: ResultStore
    jobs: int = -1
    engine: str = "local"
    progress: Progress = no_progress

    def run(
        self, experiments: Sequence[Experiment], protocols: Sequence[str] = PROTOCOLS, *, quick: bool = False
    ) -> list[ExperimentResult]:
        """Play what the store lacks, and evaluate the experiments under the protocols."""
        parts = OverallProgress(self.progress, dict.fromkeys(("compile", "play"), 0.0))
        return self.run_parts(experiments, protocols, parts, quick=quick)

    def run_parts(
        self, experiments: Sequence[Experiment], protocols: Sequence[str], parts: OverallProgress, *, quick: bool
    ) -> list[ExperimentResult]:
        """The same as the parts "compile" and "play" of a longer work."""
        for experiment in experiments:
            _check_seeds(experiment)
        experiments = [experiment.quickened() for experiment in experiments] if quick else experiments
        grids = [_grid(experiment, protocols, quick) for experiment in experiments]
        pairs = list(zip(experiments, grids, strict=True))
        tuning = [spec for pair in pairs for spec in _tuning(*pair)]
        # Which settings report is known only after tuning; until then the first of each grid stands for them.
        reporting = [spec for pair in pairs for spec in _stand_ins(*pair)]
        workload = Workload(tuning + (reporting if FRESH in protocols else []))
        missing = self.store.missing(tuning)
        kinds = len({type(spec.policy) for spec in missing})
        parts.expect("compile", COMPILE_SECONDS * kinds / min(max(kinds, 1), workers(self.jobs)))
        parts.expect("play", workload.total / workers(self.jobs))
        compile_policies(missing, jobs=self.jobs, progress=parts.part("compile"))
        self._play(tuning, workload, parts)
        tuned = [_Tuned.of(*pair, self.store) for pair in pairs]
        if FRESH in protocols:
            self._play([spec for one in tuned for spec in one.fresh_specs()], workload, parts)
        return [
            ExperimentResult(one.experiment, tuple(_EVALUATE[name](one, self.store) for name in protocols), quick)
            for one in tuned
        ]

    def _play(self, specs: Sequence[RunSpec], workload: Workload, parts: OverallProgress) -> None:
        run_missing(
            specs, self.store, jobs=self.jobs, engine=self.engine, progress=parts.part("play"), workload=workload
        )


@dataclass(frozen=True)
class _Grid:
    """A policy entry and all its settings."""

    entry: PolicyEntry
    policies: list[Policy]
    is_extra: bool


def _grid(experiment: Experiment, protocols: Sequence[str], quick: bool) -> list[_Grid]:
    grids = [_Grid(entry, entry.settings(quick=quick), False) for entry in experiment.entries]
    if FRESH in protocols:
        grids += [_Grid(entry, entry.settings(quick=quick), True) for entry in experiment.extras]
    return grids


def _tuning(experiment: Experiment, grids: Sequence[_Grid]) -> list[RunSpec]:
    """The runs of every setting. An extra policy with one setting has nothing to tune."""
    policies = [p for grid in grids for p in grid.policies if not grid.is_extra or len(grid.policies) > 1]
    return experiment.specs(policies, experiment.repeats, own_noise=True)


def _stand_ins(experiment: Experiment, grids: Sequence[_Grid]) -> list[RunSpec]:
    return experiment.specs([grid.policies[0] for grid in grids], experiment.fresh)


@dataclass(frozen=True)
class _Tuned:
    """An experiment after tuning: for each policy the runs of all settings, and the setting with the least mean."""

    experiment: Experiment
    grids: list[_Grid]
    tables: list[list[list[FinishedRun]]]
    """For each policy, setting and repeat; empty for a policy that was not tuned."""
    chosen: list[Policy]

    @classmethod
    def of(cls, experiment: Experiment, grids: list[_Grid], store: ResultStore) -> "_Tuned":
        tables, chosen = [], []
        for grid in grids:
            is_tuned = not grid.is_extra or len(grid.policies) > 1
            table = [
                [store[spec] for spec in experiment.specs([policy], experiment.repeats, own_noise=True)]
                for policy in (grid.policies if is_tuned else ())
            ]
            means = [np.mean([run.regret[-1] for run in runs]) for runs in table]
            tables.append(table)
            chosen.append(grid.policies[int(np.argmin(means)) if means else 0])
        return cls(experiment, grids, tables, chosen)

    def fresh_specs(self) -> list[RunSpec]:
        """The runs that report."""
        return self.experiment.specs(self.chosen, self.experiment.fresh)


def _paper(tuned: _Tuned, store: ResultStore) -> ProtocolResult:  # noqa: ARG001
    """The mean, over repeats, of each repeat's best run."""
    outcomes = []
    repeats = tuned.experiment.repeats
    for grid, table in zip(tuned.grids, tuned.tables, strict=True):
        if grid.is_extra:
            continue
        winners = np.array([[run.regret[-1] for run in runs] for runs in table]).argmin(axis=0)
        runs = [table[winner][repeat] for repeat, winner in enumerate(winners)]
        won = len(set(winners.tolist()))
        words = "the same in every repeat" if won == 1 else f"{won} different ones, each the best of some repeat"
        outcomes.append(_outcome(tuned.experiment, grid, repeats, runs, words, table))
    return ProtocolResult(PAPER, tuple(outcomes), _best_reward(tuned.experiment, repeats))


def _fresh(tuned: _Tuned, store: ResultStore) -> ProtocolResult:
    """One setting each, chosen on the repeats' seeds, reported on others."""
    experiment, outcomes = tuned.experiment, []
    for grid, policy, table in zip(tuned.grids, tuned.chosen, tuned.tables, strict=True):
        runs = [store[spec] for spec in experiment.specs([policy], experiment.fresh)]
        words = in_words(policy, grid.entry.own_grid)
        outcomes.append(_outcome(experiment, grid, experiment.fresh, runs, words, table or [runs]))
    return ProtocolResult(FRESH, tuple(outcomes), _best_reward(experiment, experiment.fresh))


_EVALUATE = {PAPER: _paper, FRESH: _fresh}


def _check_seeds(experiment: Experiment) -> None:
    overlap = set(experiment.repeats) & set(experiment.fresh)
    if overlap:
        raise InvalidInput(f"seeds that report must not be among those that tune; both have {sorted(overlap)}")


def _outcome(
    experiment: Experiment,
    grid: _Grid,
    seeds: Sequence[int],
    runs: Sequence[FinishedRun],
    words: str,
    table: Sequence[Sequence[FinishedRun]],
) -> Outcome:
    arms = max(len(run.pulls) for run in runs)
    return Outcome(
        label=grid.entry.label,
        tried=len(grid.policies),
        distinct=len({spec.key for spec in experiment.specs(grid.policies, seeds[:1])}),
        chosen=words,
        seeds=tuple(seeds),
        rounds=runs[0].rounds,
        regret=np.array([run.regret for run in runs]),
        pulls=np.array([np.pad(run.pulls, (0, arms - len(run.pulls))) for run in runs], dtype=np.float64),
        seconds=np.array([run.seconds for run in runs]),
        fastest=min(run.seconds for row in table for run in row),
        grid_regret=np.array([[run.regret[-1] for run in row] for row in table]),
        is_extra=grid.is_extra,
    )


def _best_reward(experiment: Experiment, seeds: Sequence[int]) -> Floats:
    """Needed only where reward is drawn; making the rounds again costs less than storing them."""
    rounds = recorded_rounds(experiment.horizon, POINTS)
    total = np.zeros(len(rounds))
    if experiment.measure == "reward":
        for seed in seeds:
            best = np.concatenate([piece.best() for piece in experiment.environment.rounds(experiment.horizon, seed)])
            total += np.cumsum(best)[rounds - 1] / len(seeds)
    return total
