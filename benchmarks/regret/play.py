"""Time, tune and run policies on one environment."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed

from benchmarks.regret import vowpal
from benchmarks.regret.candidates import (
    FULL,
    SUBJECT,
    TABLE_SEEDS,
    TOO_SLOW,
    Effort,
    default_policy,
    effort_for,
    policy_entry,
)
from benchmarks.regret.results import PolicyResult
from benchmarks.regret.timing import measure
from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.lab import ClassificationTable, play_together, recorded_rounds
from glbandits.lab.environments import Environment
from glbandits.lab.experiments.experiment import describe_settings
from glbandits.policies.contract import Policy
from glbandits.policies.contract.policy_checks import check_is_policy

TIMED_RUNS = 4
"""Runs that decide the effort of a policy."""


@dataclass(frozen=True)
class Setup:
    """An environment and the facts that a run depends on."""

    environment: Environment
    horizon: int
    link: str
    kind: str
    jobs: int = 1


@dataclass(frozen=True)
class Candidate:
    """A policy that can play: its settings, the default first, and its effort."""

    name: str
    policies: list[Policy]
    descriptions: list[str]
    effort: Effort
    seconds: float

    @property
    def is_tunable(self) -> bool:
        """Whether it has more settings than the default."""
        return len(self.policies) > 1

    @property
    def total_seconds(self) -> float:
        """Expected CPU seconds of all its runs."""
        tuning_runs = len(self.policies) * len(self.effort.tuning) if self.is_tunable else 0
        return self.seconds * (TIMED_RUNS + tuning_runs + (1 + self.is_tunable) * len(self.effort.fresh))


@dataclass(frozen=True)
class Variant:
    """One setting of a candidate, by index: its default or its tuned setting."""

    candidate: Candidate
    index: int
    is_tuned: bool


def find_candidate(name: str, setup: Setup, timed_runs: int = TIMED_RUNS) -> Candidate:
    """Time a policy and choose its effort. An estimate needs one timed run.

    Raises InvalidInput if it cannot play, or takes too long.
    """
    facts = (name, setup.environment, setup.link, setup.horizon)
    entry = policy_entry(*facts, FULL.grid)
    default = default_policy(entry)
    seconds = 0.0
    # Fits take longer on some seeds, and a setting may have a shorter random phase than the default.
    timed = [*[default] * (TIMED_RUNS - 1), check_is_policy(entry.policies()[-1])]
    for seed, policy in enumerate(timed[:timed_runs], start=1):
        timing = measure(policy, setup.environment, setup.horizon, seed, TOO_SLOW)
        seconds = max(seconds, timing.seconds)
        if seconds > TOO_SLOW and name != SUBJECT:
            raise InvalidInput(
                f"over {TOO_SLOW:g} s a run: {seconds:.1f} s for {timing.rounds} of {setup.horizon} rounds"
            )
    effort = effort_for(name, setup.kind, seconds)
    entry = policy_entry(*facts, effort.grid)
    tuned = list(map(check_is_policy, entry.policies())) if entry.tuning_grid else []
    descriptions = ["default", *(describe_settings(policy, entry.tuning_grid) for policy in tuned)]
    return Candidate(name, [default, *tuned], descriptions, effort, seconds)


def tune(candidates: Sequence[Candidate], setup: Setup) -> tuple[list[Variant], dict[str, str]]:
    """Choose the setting of least mean regret on the tuning seeds, for policies with a grid.

    Return the defaults and the tuned settings, and the policies whose tuning runs took too long, with the reason.
    """
    tunable = [candidate for candidate in candidates if candidate.is_tunable]
    runs = iter(_runs([(policy, each.effort.tuning) for each in tunable for policy in each.policies], setup))
    tuned, too_slow = list[Variant](), dict[str, str]()
    for candidate in tunable:
        regrets, seconds = zip(*[next(runs) for _ in candidate.policies], strict=True)
        if np.mean(seconds) > TOO_SLOW:
            too_slow[candidate.name] = f"over {TOO_SLOW:g} s a run: {np.mean(seconds):.1f} s on the tuning seeds"
        tuned.append(Variant(candidate, int(np.argmin([each.mean() for each in regrets])), True))
    variants = [Variant(candidate, 0, False) for candidate in candidates] + tuned
    return [variant for variant in variants if variant.candidate.name not in too_slow], too_slow


def play_variants(variants: Sequence[Variant], setup: Setup) -> list[PolicyResult]:
    """Run each variant on its fresh seeds."""
    policies = [variant.candidate.policies[variant.index] for variant in variants]
    seeds = {policy: each.candidate.effort.fresh for policy, each in zip(policies, variants, strict=True)}
    runs = dict(zip(seeds, _runs(list(seeds.items()), setup), strict=True))  # a tuned setting may be the default
    return [
        PolicyResult(
            policy=variant.candidate.name,
            is_tuned=variant.is_tuned,
            setting=variant.candidate.descriptions[variant.index],
            settings_tried=len(variant.candidate.policies) if variant.is_tuned else 1,
            tuning_seeds=len(variant.candidate.effort.tuning) if variant.is_tuned else 0,
            seeds=tuple(variant.candidate.effort.fresh),
            regrets=runs[policy][0],
            seconds=runs[policy][1],
        )
        for variant, policy in zip(variants, policies, strict=True)
    ]


def play_vowpal(explorers: Sequence[str], environment: ClassificationTable, horizon: int) -> list[PolicyResult]:
    """Run explorers of Vowpal Wabbit on the fresh seeds of the tables."""
    runs = np.array([vowpal.play(explorers, environment, horizon, seed) for seed in TABLE_SEEDS])
    return [
        PolicyResult(name, False, "default", 1, 0, tuple(TABLE_SEEDS), runs[:, i, 0], float(runs[:, i, 1].mean()))
        for i, name in enumerate(explorers)
    ]


def _runs(plan: Sequence[tuple[Policy, Sequence[int]]], setup: Setup) -> list[tuple[Floats, float]]:
    """Final regrets and mean CPU seconds of each policy on its seeds.

    The policies share the rounds of a seed.
    """
    seeds = sorted({seed for _, own in plan for seed in own})
    indices = {seed: [index for index, (_, own) in enumerate(plan) if seed in own] for seed in seeds}
    rounds = recorded_rounds(setup.horizon, 1)
    played = Parallel(n_jobs=setup.jobs, prefer="threads")(
        delayed(play_together)([plan[i][0] for i in indices[seed]], setup.environment, setup.horizon, seed, rounds)
        for seed in seeds
    )
    results: list[tuple[list[float], list[float]]] = [([], []) for _ in plan]
    for seed, runs in zip(seeds, played, strict=True):
        for index, run in zip(indices[seed], runs, strict=True):
            results[index][0].append(run.regret[-1])
            results[index][1].append(run.seconds)
    return [(np.array(regrets), float(np.mean(seconds))) for regrets, seconds in results]
