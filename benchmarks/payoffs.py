"""Payoffs: regret of linearised bonuses against bonuses inside the link, and the cost of payoffs and rankings.

Regret is in payoff units: means over new seeds with 95 % intervals, and the worst run. "inside" scores an arm by
value * mu(m + Z bonus) - cost, "greedy" by value * mu(m) - cost, both with the posterior of `optimist`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from benchmarks.timing import best_seconds
from glbandits import Bandit, Optimist, Policy, Uniform
from glbandits.common.arrays import Floats, Generator
from glbandits.lab import Noise, Prices, Rounds, Synthetic, WithPayoffs, simulate
from glbandits.lab.environments import Environment
from glbandits.maths.line_order import draw_z
from glbandits.maths.links import LinkFunctions

SEEDS, MANY_SEEDS = range(1000, 1040), range(5000, 6000)
ROUNDS = 2000
optimist_lines = Optimist.lines


class InsideTheLink(Optimist):
    """Optimist whose sampled score, bonus included, goes through the link."""

    name: ClassVar[str] = "inside"
    draws_anew: ClassVar[bool] = True

    def implementation(self, dim: int) -> type[Policy]:  # noqa: ARG002
        """This class, for every width."""
        return type(self)

    @staticmethod
    def scores(
        state: Floats, settings: Any, arms: Floats, _draw: int, rng: Generator, link: LinkFunctions, out: Floats
    ) -> None:
        """Write scores with one random Z."""
        slopes = np.empty(out.shape[0])
        z = optimist_lines(state, settings, arms, link, out, slopes)
        scale = draw_z(z, rng)
        for a in range(out.shape[0]):
            out[a] += z.intercept + scale * slopes[a]


class WithoutBonus(Optimist):
    """The posterior means of Optimist, without exploration."""

    name: ClassVar[str] = "greedy"

    def implementation(self, dim: int) -> type[Policy]:  # noqa: ARG002
        """This class, for every width."""
        return type(self)

    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        """Write posterior means."""
        slopes = np.empty(out.shape[0])
        z = optimist_lines(state, settings, arms, link, out, slopes)
        for a in range(out.shape[0]):
            out[a] += z.intercept


KINDS: dict[str, Any] = {
    "optimist": Optimist, "inside": InsideTheLink, "greedy": WithoutBonus, "uniform": Uniform,
}  # fmt: skip


@dataclass(frozen=True)
class Bids:
    """A problem in which each round has new values of the arms, such as the bids of an auction: log-normal."""

    environment: Synthetic
    has_payoffs: ClassVar[bool] = True

    @property
    def dim(self) -> int:
        """The number of features of an arm."""
        return self.environment.dim

    @property
    def noise(self) -> Noise:
        """The distribution of a reward, given its expectation."""
        return self.environment.noise

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """Yield the rounds, with values."""
        rng = np.random.default_rng([seed, 9])
        for chunk in self.environment.rounds(horizon, seed):
            values = np.exp(rng.normal(size=chunk.expected.shape))
            yield replace(chunk, values=values, payoffs=values * chunk.payoffs)


def problems() -> dict[str, tuple[str, Environment]]:
    """The problems, each with its link."""
    values, costs = np.geomspace(1.0, 10.0, 10), np.linspace(0.0, 2.0, 10)
    plain: dict[str, Any] = {"dim": 8, "arms": 10, "theta_norm": 2.0}
    found: dict[str, tuple[str, Environment]] = {"shop": ("logistic", Prices())}
    for link, intercept in {"logistic": -1.0, "probit": -1.0, "identity": 1.0, "log": 0.0}.items():
        problem = Synthetic(**plain, link=link, intercept=intercept)
        fixed = replace(problem, fixed_arms=True)
        found[f"{link}, values"] = link, WithPayoffs(problem, values)
        found[f"{link}, values and costs"] = link, WithPayoffs(problem, values, costs)
        found[f"{link}, fixed arms, values and costs"] = link, WithPayoffs(fixed, values, costs)
        found[f"{link}, bids"] = link, Bids(problem)
    return found


def report() -> None:
    """Print regrets and ratios of CPU time."""
    print(f"Regret in payoff units after {ROUNDS} rounds, seeds {SEEDS[0]} to {SEEDS[-1]}: mean +- 95 % (worst)")
    print(f"{'':38s}" + "".join(f"{name:>22s}" for name in KINDS) + "   optimist / inside")
    for problem, (link, environment) in problems().items():
        regrets = final_regrets(environment, link, SEEDS)
        cells = "".join(f"{_summary(regret):>22s}" for regret in regrets.values())
        print(f"{problem:38s}{cells}   {_ratio(regrets['optimist'], regrets['inside'])}")
    print(f"The shop with seeds {MANY_SEEDS[0]} to {MANY_SEEDS[-1]}, and the share of runs with a regret above 1,200")
    for name, regret in final_regrets(Prices(), "logistic", MANY_SEEDS).items():
        print(f"  {name:10s} {_summary(regret):>22s} {100 * (regret > 1200).mean():6.1f} %")
    print("CPU time of optimist, d = 20, relative to choose without values")
    for arms in (10, 100, 1000):
        print(f"  {arms:4d} arms: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios(arms).items()))


def final_regrets(environment: Environment, link: str, seeds: Sequence[int]) -> dict[str, Floats]:
    """Return the final regret of each policy and seed."""
    policies = {name: kind() if kind is Uniform else kind(link=link) for name, kind in KINDS.items()}
    return {
        name: simulate(policy, environment, ROUNDS, seeds, keep_choices=False).final_regret
        for name, policy in policies.items()
    }


def _summary(regret: Floats) -> str:
    margin = 1.96 * regret.std(ddof=1) / np.sqrt(len(regret))
    return f"{regret.mean():.0f} +- {margin:.0f} ({regret.max():.0f})"


def _ratio(ours: Floats, theirs: Floats) -> str:
    """The ratio of mean regrets, with the 95 % interval of the paired differences."""
    margin = 1.96 * (ours - theirs).std(ddof=1) / np.sqrt(len(ours)) / theirs.mean()
    return f"{ours.mean() / theirs.mean():.2f} +- {margin:.2f}"


def ratios(count: int, dim: int = 20) -> dict[str, float]:
    """Return CPU times of decisions among so many arms, relative to `choose` without values."""
    rng = np.random.default_rng(1)
    bandit, arms, values = Bandit(Optimist(), dim, seed=1), rng.normal(size=(count, dim)) / 4, rng.random(count)
    for x in rng.normal(size=(500, dim)) / 4:
        bandit.learn(x, float(rng.random() < 0.5))
    calls = range(max(20000 // count, 20))
    seconds = best_seconds(
        {
            "choose": lambda: [bandit.choose(arms) for _ in calls],
            "with values": lambda: [bandit.choose(arms, values=values) for _ in calls],
            "with values and costs": lambda: [bandit.choose(arms, values=values, costs=values) for _ in calls],
            "rank 10": lambda: [bandit.rank(arms, 10) for _ in calls],
            "rank 10 with values": lambda: [bandit.rank(arms, 10, values=values) for _ in calls],
        },
        repeats=15,
    )
    return {name: value / seconds["choose"] for name, value in seconds.items() if name != "choose"}
