"""Two ways to compare: the paper's, where each run picks its own best setting, and one on fresh seeds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from glbandits.errors import InvalidInput
from glbandits.experiments.engine import POINTS, run_missing
from glbandits.experiments.experiment import Experiment, PolicyEntry, in_words
from glbandits.experiments.result_store import FinishedRun, ResultStore
from glbandits.policy import Grid, Policy
from glbandits.records import Floats, Ints
from glbandits.simulation import recorded_rounds

PAPER, FRESH = "paper", "fresh"

WORDS = {
    PAPER: (
        "For every repeat, each algorithm's best setting is picked by that repeat's own final regret, after the fact, "
        "and the picked runs are averaged. Every run has noise of its own, as in the published code. More settings "
        "mean more chances, so the largest grid gains the most: this says how lucky a grid is, not how an algorithm "
        "will do. It is the protocol behind the paper's figures."
    ),
    FRESH: (
        "For each algorithm one setting is chosen, by mean final regret over the tuning seeds (the runs of the paper's "
        "protocol). It is then played on other seeds, which nothing was chosen on. Bands are 95 % confidence "
        "intervals of the mean. All algorithms face the same problems with the same noise, so differences are taken "
        "seed by seed."
    ),
}


@dataclass(frozen=True)
class Outcome:
    """What one algorithm did under one protocol."""

    label: str
    tried: int
    """Settings in its grid."""
    distinct: int
    """Settings of these that play differently."""
    chosen: str
    """The setting that was played, in words."""
    seeds: tuple[int, ...]
    rounds: Ints
    regret: Floats
    """Cumulative regret, (seeds, points)."""
    pulls: Floats
    """Pulls of each arm by its place, (seeds, arms); ragged ends are zeros."""
    seconds: Floats
    """CPU seconds of the policy itself, (seeds,)."""
    fastest: float
    """The shortest run among all settings tried: what the paper calls runtime."""

    @property
    def final(self) -> Floats:
        """Regret at the end, (seeds,)."""
        last: Floats = self.regret[:, -1]
        return last

    @property
    def mean(self) -> Floats:
        """Mean regret, (points,)."""
        mean: Floats = self.regret.mean(axis=0)
        return mean

    @property
    def half_width(self) -> Floats:
        """Half of a 95 % confidence interval of the mean, (points,); NaN for a single seed."""
        return half_width(self.regret)


def half_width(samples: Floats) -> Floats:
    """Half of a 95 % confidence interval of the mean over rows, by Student's t; NaN for a single row."""
    n = len(samples)
    if n == 1:
        return np.full(samples.shape[1], math.nan)
    width: Floats = stdtrit(n - 1, 0.975) * samples.std(axis=0, ddof=1) / math.sqrt(n)
    return width


@dataclass(frozen=True)
class ProtocolResult:
    """All algorithms under one protocol."""

    protocol: str
    outcomes: tuple[Outcome, ...]
    best_reward: Floats
    """Mean cumulative value of the best arms, (points,): with regret it gives the reward."""

    @property
    def words(self) -> str:
        """The protocol in plain words."""
        return WORDS[self.protocol]

    def paired(self) -> list[tuple[str, float, float]]:
        """Each algorithm's final regret less that of the best, seed by seed: mean and half of a 95 % interval."""
        best = min(self.outcomes, key=lambda outcome: outcome.final.mean())
        differences = []
        for outcome in self.outcomes:
            gap = outcome.final - best.final
            differences.append((outcome.label, float(gap.mean()), float(half_width(gap[:, np.newaxis])[0])))
        return differences


Progress = Callable[[str, float, float], None]
"""Called with what is running, and the weight of what is done and of all there is."""


@dataclass(frozen=True)
class ExperimentRunner:
    """Where runs happen: a store, and how to fill it."""

    store: ResultStore
    jobs: int = -1
    engine: str = "local"
    progress: Progress | None = None

    def run(
        self, what: str, experiment: Experiment, policies: Sequence[Policy], seeds: Sequence[int], *, own_noise: bool
    ) -> None:
        """Have every policy run with every seed."""

        def report(done: float, total: float) -> None:
            if self.progress is not None:
                self.progress(what, done, total)

        specs = experiment.specs(policies, seeds, own_noise=own_noise)
        run_missing(specs, self.store, jobs=self.jobs, engine=self.engine, progress=report)

    def finished(
        self, experiment: Experiment, policy: Policy, seeds: Sequence[int], *, own_noise: bool
    ) -> list[FinishedRun]:
        """The runs of a policy, by seed."""
        return [self.store[spec] for spec in experiment.specs([policy], seeds, own_noise=own_noise)]


def paper_protocol(experiment: Experiment, runner: ExperimentRunner, *, quick: bool = False) -> ProtocolResult:
    """The mean, over repeats, of each repeat's best run."""
    runner.run("paper's protocol", experiment, _all_settings(experiment, quick), experiment.repeats, own_noise=True)
    outcomes = []
    for entry in experiment.entries:
        policies = entry.settings(quick=quick)
        table = [runner.finished(experiment, policy, experiment.repeats, own_noise=True) for policy in policies]
        final = np.array([[run.regret[-1] for run in runs] for runs in table])
        winners = final.argmin(axis=0)
        runs = [table[winner][repeat] for repeat, winner in enumerate(winners)]
        won = len(set(winners.tolist()))
        words = "the same one in every repeat" if won == 1 else f"{won} different ones, each the best of some repeat"
        outcomes.append(_outcome(experiment, entry, policies, experiment.repeats, runs, words, table))
    return ProtocolResult(PAPER, tuple(outcomes), _best_reward(experiment, experiment.repeats))


def fresh_protocol(experiment: Experiment, runner: ExperimentRunner, *, quick: bool = False) -> ProtocolResult:
    """One setting each, chosen on the repeats' seeds, reported on others."""
    overlap = set(experiment.repeats) & set(experiment.fresh)
    if overlap:
        raise InvalidInput(f"seeds that report must not be among those that tune; both have {sorted(overlap)}")
    runner.run("tuning", experiment, _all_settings(experiment, quick), experiment.repeats, own_noise=True)
    chosen: list[Policy] = []
    tables = []
    for entry in experiment.entries:
        policies = entry.settings(quick=quick)
        table = [runner.finished(experiment, policy, experiment.repeats, own_noise=True) for policy in policies]
        means = [np.mean([run.regret[-1] for run in runs]) for runs in table]
        chosen.append(policies[int(np.argmin(means))])
        tables.append(table)
    runner.run("fresh seeds", experiment, chosen, experiment.fresh, own_noise=False)
    outcomes = []
    for entry, policy, table in zip(experiment.entries, chosen, tables, strict=True):
        runs = runner.finished(experiment, policy, experiment.fresh, own_noise=False)
        words = in_words(policy, grid_of(entry))
        policies = entry.settings(quick=quick)
        outcomes.append(_outcome(experiment, entry, policies, experiment.fresh, runs, words, table))
    return ProtocolResult(FRESH, tuple(outcomes), _best_reward(experiment, experiment.fresh))


PROTOCOLS = {PAPER: paper_protocol, FRESH: fresh_protocol}


def grid_of(entry: PolicyEntry) -> Grid:
    """The grid that it plays on."""
    return entry.kind.grid if entry.grid is None else entry.grid


def _all_settings(experiment: Experiment, quick: bool) -> list[Policy]:
    return [policy for entry in experiment.entries for policy in entry.settings(quick=quick)]


def _outcome(
    experiment: Experiment,
    entry: PolicyEntry,
    policies: Sequence[Policy],
    seeds: Sequence[int],
    runs: Sequence[FinishedRun],
    words: str,
    table: Sequence[Sequence[FinishedRun]],
) -> Outcome:
    arms = max(len(run.pulls) for run in runs)
    return Outcome(
        label=entry.label,
        tried=len(policies),
        distinct=len({spec.key for spec in experiment.specs(policies, seeds[:1])}),
        chosen=words,
        seeds=tuple(seeds),
        rounds=runs[0].rounds,
        regret=np.array([run.regret for run in runs]),
        pulls=np.array([np.pad(run.pulls, (0, arms - len(run.pulls))) for run in runs], dtype=np.float64),
        seconds=np.array([run.seconds for run in runs]),
        fastest=min(run.seconds for row in table for run in row),
    )


def _best_reward(experiment: Experiment, seeds: Sequence[int]) -> Floats:
    """Needed only where reward is drawn; rounds are then made again, which costs less than keeping them."""
    rounds = recorded_rounds(experiment.horizon, POINTS)
    total = np.zeros(len(rounds))
    if experiment.measure == "reward":
        for seed in seeds:
            best = np.concatenate([piece.best() for piece in experiment.environment.rounds(experiment.horizon, seed)])
            total += np.cumsum(best)[rounds - 1] / len(seeds)
    return total
