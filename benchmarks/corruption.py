"""False rewards: regret of all policies with 1, 5 and 10 % of them, relative to Optimist.

Policies have their default settings. Regret counts true means. None of these problems was used to choose a robust rule
(docs/decisions/0047-false-rewards.md).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.regret.candidates import SUBJECT, default_policy, policy_entry
from benchmarks.regret.environments import OneHotArms
from glbandits import InvalidInput, Optimist
from glbandits.common.arrays import Floats
from glbandits.lab import ClassificationTable, Noise, Synthetic, simulate
from glbandits.lab.environments import Environment
from glbandits.lab.environments.rounds import Rounds
from glbandits.lab.simulation.simulate import prepare
from glbandits.policies import POLICIES
from glbandits.policies.contract import Policy

HONEST, RANDOM, ONE_ARM, EARLY = "honest", "random", "one arm", "early"
CELLS = ((HONEST, 0.0), *((kind, share) for kind in (RANDOM, ONE_ARM, EARLY) for share in (0.01, 0.05, 0.1)))
AUTO = "optimist, auto"
SEEDS = range(80_000, 80_024)
FEW, MAIN = 4, (0.0, 0.1)
"""Policies that store all rewards take up to a second for a run: they play only this number of seeds and shares."""


@dataclass(frozen=True, kw_only=True)
class Corrupted:
    """A problem in which a share of the rewards are false, in random rounds or, with "early", in the first ones.

    With "random" a false reward is low + high - y in place of y. Otherwise it is `high` for the worst arm of the round,
    and `low` for all others.
    """

    problem: Any
    kind: str
    share: float
    horizon: int

    @property
    def dim(self) -> int:
        """That of the problem."""
        return int(self.problem.dim)

    @property
    def noise(self) -> Noise:
        """That of the problem, with the mean of the false reward in a false round."""
        noise: Noise = self.problem.noise
        return noise

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """The rounds of the problem. The payoffs, which count as regret, stay true."""
        low, high = (0.0, 1.0) if self.noise.highest_mean == 1.0 else (-1.0, 1.0)
        rng, start = np.random.default_rng([seed, 3]), 0
        for block in self.problem.rounds(horizon, seed):
            t, is_false = np.arange(len(block)), rng.random(len(block)) < self.share
            if self.kind == EARLY:
                is_false = start + t < self.share * self.horizon
            reported = low + high - block.expected
            if self.kind != RANDOM:
                reported = np.full(block.expected.shape, low)
                reported[t, block.payoffs.argmin(axis=1)] = high
            yield replace(block, expected=np.where(is_false[:, np.newaxis], reported, block.expected))
            start += len(block)


PROBLEMS: Mapping[str, Environment] = {
    "moving arms, d=12, K=10": Synthetic(dim=12, arms=10, theta_norm=2.0),
    "fixed arms, d=8, K=50": Synthetic(dim=8, arms=50, fixed_arms=True, theta_norm=4.0),
    "one-hot arms, K=10, .5 and .3": OneHotArms(arms=10, best_mean=0.5, other_mean=0.3),
    "identity link, d=8, K=20": Synthetic(dim=8, arms=20, theta_norm=1.0, link="identity", rewards="gaussian"),
    "table: wine, d=42, K=3": ClassificationTable.bundled("wine"),
}


def report(
    names: Sequence[str] = tuple(POLICIES),
    problems: Mapping[str, Environment] = PROBLEMS,
    seeds: Sequence[int] = SEEDS,
    rounds: int = 1000,
) -> None:
    """Print the regret of Optimist, and ratios of all policies to it.

    Takes more than 16 CPU minutes, most of them for wine.
    """
    print(f"False rewards in 1, 5 or 10 % of {rounds} rounds. {len(seeds)} seeds; {FEW} if a policy stores all rewards")
    print("random: 1 - y in place of y; identity link: -y")
    print("one arm: 1 if the worst arm of the round is pulled, else 0; identity link: else -1")
    print("early: as one arm, in the first rounds instead of random ones")
    header = f"\n  {'':30s}" + "".join(f"{f'{kind} {share:.0%}' if share else kind:>12s}" for kind, share in CELLS)
    print(f"Regret of {SUBJECT}{header}")
    regrets = list[dict[str, list[Floats]]]()
    for title, problem in problems.items():
        regrets.append(play(problem, names, seeds, rounds))
        print(f"  {title:30s}" + "".join(f"{cell.mean():12.1f}" for cell in regrets[-1][SUBJECT]), flush=True)
    print(f"Regret / that of {SUBJECT}, geometric mean over the problems +- standard error{header}")
    for name in [AUTO, *names]:
        shared = [regret for regret in regrets if name in regret]
        ratios = (ratio_text([(regret[name][i], regret[SUBJECT][i]) for regret in shared]) for i in range(len(CELLS)))
        missing = "" if len(shared) == len(regrets) else f" ({len(shared)} of {len(regrets)})"
        print(f"  {name + missing:30s}" + "".join(f"{ratio:>12s}" for ratio in ratios))


def play(problem: Any, names: Sequence[str], seeds: Sequence[int], rounds: int) -> dict[str, list[Floats]]:
    """The final regret of each seed in every cell, for the policies that can play the problem."""
    link, playing = getattr(problem, "link", "logistic"), dict[str, Policy]()
    for name in dict.fromkeys((SUBJECT, *names)):
        with suppress(InvalidInput):  # a policy for another link
            policy = default_policy(policy_entry(name, problem, link, rounds, {}))
            prepare([policy], problem)
            playing[name] = policy
    playing[AUTO] = Optimist(link=link, half_life="auto")
    regret: dict[str, list[Floats]] = {name: [] for name in playing}
    for kind, share in CELLS:
        lying = Corrupted(problem=problem, kind=kind, share=share, horizon=rounds)
        for name, policy in playing.items():
            own_seeds = seeds
            if "t d" in policy.info.memory:
                own_seeds = seeds[:FEW] if share in MAIN else ()
            regret[name].append(
                simulate(policy, lying, rounds, own_seeds, jobs=1).final_regret if own_seeds else np.empty(0)
            )
    return regret


def ratio_text(pairs: Sequence[tuple[Floats, Floats]]) -> str:
    """The geometric mean of the ratios of means over the same seeds, with its standard error."""
    logs, variances = [], []
    for own, subject in pairs:
        if not len(own):
            return "-"
        other = subject[: len(own)]
        logs.append(math.log(own.mean() / other.mean()))
        variances.append((own / own.mean() - other / other.mean()).var(ddof=1) / len(own))
    ratio = math.exp(np.mean(logs))
    return f"{ratio:.2f}+-{ratio * math.sqrt(sum(variances)) / len(pairs):.2f}"
