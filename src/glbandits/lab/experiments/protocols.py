"""Run experiments on three sets of seeds: repeats, finals and fresh seeds.

The fresh protocol, the default, has three steps:

1. It plays every setting on the repeats, and selects a few settings of each policy, the finalists.
2. It plays the finalists on the finals, and selects one of them.
3. It plays this setting on the fresh seeds, and reports these runs.

The paper's protocol, for the paper, picks the best setting of each repeat afterwards, and averages the picked runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.common.parallel import worker_count
from glbandits.compilation.entry_point import compile_mode
from glbandits.lab.experiments.experiment import Experiment, PolicyEntry, describe_settings
from glbandits.lab.experiments.missing_runs import POINTS, compile_policies, expected_seconds, run_missing
from glbandits.lab.experiments.outcomes import FRESH, PAPER, ExperimentResult, Outcome, ProtocolResult
from glbandits.lab.experiments.progress import OverallProgress, Progress, no_progress
from glbandits.lab.experiments.result_store import FinishedRun, ResultStore
from glbandits.lab.experiments.run_spec import RunSpec, forget_digests
from glbandits.lab.simulation import recorded_rounds
from glbandits.policies.agents import AgentFactory, PolicyOrAgent

PROTOCOL_DESCRIPTIONS = {
    PAPER: (
        "In every repeat each policy's best setting is picked afterwards, by the final regret of that repeat, and the "
        "picked runs are averaged. Every run has its own noise, as in the published code. This favours large grids, "
        "which have more attempts, and does not predict how a policy will perform."
    ),
    FRESH: (
        "One setting of each policy plays on seeds that were not used to choose it. It is chosen in two steps, both by "
        "mean final regret: the best tenth of the settings (at least five) over the repeats, each run with its own "
        "noise, and of these the best over further seeds. Bands are 95 % confidence intervals of the mean. All "
        "policies play the same problems with the same noise, so differences are paired by seed."
    ),
}
PROTOCOLS = (PAPER, FRESH)
MIN_FINALISTS, SETTINGS_PER_FINALIST = 5, 10
"""At least 5 settings of each policy, or one in ten of a larger grid, are compared on the seeds of the finals."""
COMPILE_SECONDS = 12.0
"""Initial guess for one policy. With a warm cache it takes a second."""


@dataclass(frozen=True)
class ExperimentRunner:
    """Runs experiments and keeps their runs in a result store."""

    store: ResultStore
    jobs: int = -1
    engine: str = "local"
    progress: Progress = no_progress

    def run(
        self,
        experiments: Sequence[Experiment],
        protocols: Sequence[str] = (FRESH,),
        *,
        quick: bool = False,
    ) -> list[ExperimentResult]:
        """Play the runs that the store lacks, and return the results under the protocols."""
        forget_digests()
        for experiment in experiments:
            _check_seeds(experiment)
        experiments = [experiment.with_fewer_seeds() for experiment in experiments] if quick else experiments
        tunings = [_Tuning(experiment, protocols, quick, self.store) for experiment in experiments]
        grid_runs = [spec for tuning in tunings for spec in tuning.grid_specs()]
        missing, workers = self.store.missing(grid_runs), worker_count(self.jobs)
        policies = len({type(spec.policy) for spec in missing} - {AgentFactory})
        later = [spec for tuning in tunings for spec in tuning.placeholder_specs()] if FRESH in protocols else []
        compiles = compile_mode() != "never"
        expected = {
            "compile": compiles * COMPILE_SECONDS * policies / min(max(policies, 1), workers),
            "repeats": expected_seconds(missing) / workers,
            "finals": expected_seconds(later) / workers / 2,
            "fresh": expected_seconds(later) / workers / 2,
        }
        parts = OverallProgress(self.progress, expected)
        if compiles:
            parts.part("compile")("compiling", 0.0, 1.0)
            compile_policies(missing)
            parts.part("compile")("compiled", 1.0, 1.0)
        self._play(grid_runs, parts.part("repeats"))
        if FRESH in protocols:
            self._play([spec for tuning in tunings for spec in tuning.final_specs()], parts.part("finals"))
            self._play([spec for tuning in tunings for spec in tuning.fresh_specs()], parts.part("fresh"))
        return [
            ExperimentResult(tuning.experiment, tuple(_EVALUATE[name](tuning) for name in protocols), quick)
            for tuning in tunings
        ]

    def _play(self, specs: Sequence[RunSpec], progress: Progress) -> None:
        run_missing(specs, self.store, jobs=self.jobs, engine=self.engine, progress=progress)


@dataclass(frozen=True)
class _Grid:
    """A policy entry with a policy for each point of its grid."""

    entry: PolicyEntry
    policies: list[PolicyOrAgent]
    is_extra: bool

    @property
    def finalist_count(self) -> int:
        """The number of settings that are compared on the seeds of the finals."""
        return max(MIN_FINALISTS, len(self.policies) // SETTINGS_PER_FINALIST)

    @property
    def is_tuned(self) -> bool:
        """Whether its settings are compared. An extra policy with a single setting is not tuned."""
        return not self.is_extra or len(self.policies) > 1


class _Tuning:
    """Selects settings: all of them on the repeats, then the best few on the finals.

    Ten repeats are too few to choose among hundreds of settings: the best of them is best partly by noise.
    """

    def __init__(self, experiment: Experiment, protocols: Sequence[str], quick: bool, store: ResultStore) -> None:
        self.experiment, self.store = experiment, store
        self._problem = experiment.problem()
        self._tables: dict[str, list[list[FinishedRun]]] = {}
        self.grids = [_Grid(entry, entry.policies(quick=quick), False) for entry in experiment.policies]
        if FRESH in protocols:
            self.grids += [_Grid(entry, entry.policies(quick=quick), True) for entry in experiment.extras]

    def grid_specs(self) -> list[RunSpec]:
        """Return the runs of every setting on the repeats."""
        policies = [policy for grid in self.grids if grid.is_tuned for policy in grid.policies]
        return self._specs(policies, self.experiment.repeats, own_noise=True)

    def placeholder_specs(self) -> list[RunSpec]:
        """Return runs that cost about as much as the runs of the finals and the fresh seeds.

        Those are not known yet, because they depend on the results of the grid.
        """
        specs = []
        for grid in self.grids:
            specs += self._specs(grid.policies[:1], self.experiment.fresh)
            if len(grid.policies) > 1:
                specs += self._specs(grid.policies[: grid.finalist_count], self.experiment.finals)
        return specs

    def final_specs(self) -> list[RunSpec]:
        """Return the runs of the finalists."""
        finalists = [policy for grid in self.grids for policy in self.finalists(grid)]
        return self._specs(finalists, self.experiment.finals)

    def fresh_specs(self) -> list[RunSpec]:
        """Return the runs of the chosen settings on the fresh seeds."""
        return self._specs([self.chosen(grid) for grid in self.grids], self.experiment.fresh)

    def table(self, grid: _Grid) -> list[list[FinishedRun]]:
        """Return the runs of the repeats for each setting; empty for a policy that is not tuned."""
        label = grid.entry.label
        if label not in self._tables:
            policies = grid.policies if grid.is_tuned else []
            repeats = self.experiment.repeats
            self._tables[label] = [self.runs(policy, repeats, own_noise=True) for policy in policies]
        return self._tables[label]

    def finalists(self, grid: _Grid) -> list[PolicyOrAgent]:
        """Return the distinct settings of least mean regret over the repeats.

        The list is empty if there is only one setting.
        """
        if len(grid.policies) == 1:
            return []
        means = [_mean_regret(runs) for runs in self.table(grid)]
        ordered = [grid.policies[index] for index in np.argsort(means, kind="stable")]
        (seed, *_) = self.experiment.repeats
        distinct = {self._specs([policy], [seed])[0].key: policy for policy in reversed(ordered)}
        return list(reversed(distinct.values()))[: grid.finalist_count]

    def chosen(self, grid: _Grid) -> PolicyOrAgent:
        """Return the finalist of least mean regret over the seeds of the finals."""
        finalists = self.finalists(grid)
        if not finalists or not self.experiment.finals:
            return (finalists or grid.policies)[0]
        return min(finalists, key=lambda policy: _mean_regret(self.runs(policy, self.experiment.finals)))

    def _specs(
        self, policies: Sequence[PolicyOrAgent], seeds: Sequence[int], *, own_noise: bool = False
    ) -> list[RunSpec]:
        return self.experiment.specs(self._problem, policies, seeds, own_noise=own_noise)

    def runs(self, policy: PolicyOrAgent, seeds: Sequence[int], *, own_noise: bool = False) -> list[FinishedRun]:
        """Return the runs of a policy, one for each seed."""
        return [self.store[spec] for spec in self._specs([policy], seeds, own_noise=own_noise)]


def _mean_regret(runs: Sequence[FinishedRun]) -> float:
    return float(np.mean([run.regret[-1] for run in runs]))


def _paper(tuning: _Tuning) -> ProtocolResult:
    """Evaluate the paper's protocol: the best run of each repeat."""
    outcomes, repeats = [], tuning.experiment.repeats
    for grid in tuning.grids:
        if grid.is_extra:
            continue
        table = tuning.table(grid)
        winners = np.array([[run.regret[-1] for run in runs] for runs in table]).argmin(axis=0)
        runs = [table[winner][repeat] for repeat, winner in enumerate(winners)]
        distinct = len(set(winners.tolist()))
        chosen = f"{distinct} different ones, each the best of some repeat"
        chosen = "the same in every repeat" if distinct == 1 else chosen
        outcomes.append(_outcome(grid, repeats, runs, chosen, table))
    return ProtocolResult(PAPER, tuple(outcomes), _best_reward(tuning.experiment, repeats))


def _fresh(tuning: _Tuning) -> ProtocolResult:
    """Evaluate the fresh protocol: one setting of each policy, chosen on other seeds."""
    experiment, outcomes = tuning.experiment, []
    for grid in tuning.grids:
        policy = tuning.chosen(grid)
        runs = tuning.runs(policy, experiment.fresh)
        chosen = describe_settings(policy, grid.entry.tuning_grid)
        outcomes.append(_outcome(grid, experiment.fresh, runs, chosen, tuning.table(grid) or [runs]))
    return ProtocolResult(FRESH, tuple(outcomes), _best_reward(experiment, experiment.fresh))


_EVALUATE = {PAPER: _paper, FRESH: _fresh}


def _check_seeds(experiment: Experiment) -> None:
    overlap = (set(experiment.repeats) | set(experiment.finals)) & set(experiment.fresh)
    if overlap:
        raise InvalidInput(f"fresh seeds must differ from repeats and finals; both have {sorted(overlap)}")
    overlap = set(experiment.repeats) & set(experiment.finals)
    if overlap:
        raise InvalidInput(f"finals must differ from repeats; both have {sorted(overlap)}")


def _outcome(
    grid: _Grid,
    seeds: Sequence[int],
    runs: Sequence[FinishedRun],
    chosen: str,
    table: Sequence[Sequence[FinishedRun]],
) -> Outcome:
    arms = max(len(run.pulls) for run in runs)
    return Outcome(
        label=grid.entry.label,
        tried=len(grid.policies),
        chosen=chosen,
        seeds=tuple(seeds),
        rounds=runs[0].rounds,
        regret=np.array([run.regret for run in runs]),
        pulls=np.array([np.pad(run.pulls, (0, arms - len(run.pulls))) for run in runs], dtype=np.float64),
        seconds=np.array([run.seconds for run in runs]),
        grid_regret=np.array([[run.regret[-1] for run in row] for row in table]),
        is_extra=grid.is_extra,
    )


def _best_reward(experiment: Experiment, seeds: Sequence[int]) -> Floats:
    """Return the mean cumulative value of the best arms; zeros if the measure is regret.

    It generates the rounds again, which costs less than storing them.
    """
    rounds = recorded_rounds(experiment.horizon, POINTS)
    total = np.zeros(len(rounds))
    if experiment.measure == "reward":
        for seed in seeds:
            best = np.concatenate([chunk.best() for chunk in experiment.environment.rounds(experiment.horizon, seed)])
            total += np.cumsum(best)[rounds - 1] / len(seeds)
    return total
