"""Regret of Optimist when theta changes: fixed half-lives, none, and half_life="auto".

The constants of "auto" were chosen on the development problems, and on runs of 60,000 rounds without a change. The
reporting problems have other sizes, periods and seeds, but they influenced the choice too. After one run of them on
other seeds, the threshold was raised. The first comparison was delayed, because a reporting problem without a change
had a ratio of 1.08. That copies with a half-life take no decisions, and their half-lives, were chosen later, on the
development problems alone.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import expit

from glbandits import Optimist
from glbandits.common.arrays import Floats
from glbandits.lab import Noise, simulate
from glbandits.lab.environments import Environment
from glbandits.lab.environments.rounds import Rounds
from glbandits.lab.environments.synthetic import noise_of
from glbandits.maths.links import find_link

PIECE = 1000
"""Rounds that are generated at once."""
HALF_LIVES = (4000.0, 2000.0, 1000.0, 500.0, 250.0, 120.0, 60.0, 30.0)
SETTINGS: tuple[float | Literal["auto"] | None, ...] = (None, *HALF_LIVES, "auto")


@dataclass(frozen=True, kw_only=True)
class Drifting:
    """A generalized linear bandit whose theta changes.

    Features are uniform in [-1/sqrt(d), 1/sqrt(d)].

    Args:
        dim: d.
        arms: K.
        arm_features: "moving" draws new features in every round, "fixed" once for each seed; "separate" gives each of
            d arms its own coordinate, so that the reward of one arm says nothing about another.
        theta_norm: the length of theta; of a random walk and of changed coordinates, the root mean square.
        change: "none"; "flip", theta becomes -theta at `period`; "jumps", a new theta every `period` rounds, from a
            random round on; "rotation" in a plane, once around in `period` rounds; "walk", a stationary random walk
            whose autocorrelation falls to 1/e in `period` rounds; "partial", a quarter of the coordinates is drawn
            again every `period` rounds.
        period: rounds, see `change`.
        link: mu.
    """

    dim: int = 6
    arms: int = 20
    arm_features: Literal["moving", "fixed", "separate"] = "moving"
    theta_norm: float = 3.0
    change: Literal["none", "flip", "jumps", "rotation", "walk", "partial"] = "none"
    period: int = 5000
    link: Literal["logistic", "identity"] = "logistic"

    @property
    def noise(self) -> Noise:
        """The distribution of rewards given their expectation."""
        return noise_of("natural", find_link(self.link))

    def thetas(self, horizon: int, seed: int) -> Floats:
        """Theta in every round."""
        rng, t = np.random.default_rng([seed, 0]), np.arange(horizon)
        first, second = (self._theta(rng) for _ in range(2))
        if self.change == "flip":
            return np.where(t[:, np.newaxis] < self.period, first, -first)
        if self.change == "jumps":
            index = (t + rng.integers(self.period)) // self.period
            thetas: Floats = np.array([self._theta(rng) for _ in range(index[-1] + 1)])[index]
            return thetas
        if self.change == "rotation":
            second -= first * (first @ second) / (first @ first)
            second *= self.theta_norm / np.linalg.norm(second)
            angles = 2.0 * math.pi * t[:, np.newaxis] / self.period
            return np.cos(angles) * first + np.sin(angles) * second
        thetas, scale = np.tile(first, (horizon, 1)), self.theta_norm / math.sqrt(self.dim)
        if self.change == "walk":
            correlation = math.exp(-1.0 / self.period)
            steps = scale * rng.normal(size=(horizon, self.dim))
            thetas[0] = steps[0]
            for i in range(1, horizon):
                thetas[i] = correlation * thetas[i - 1] + math.sqrt(1.0 - correlation * correlation) * steps[i]
        elif self.change == "partial":
            for i in range(self.period, horizon, self.period):
                changed = rng.choice(self.dim, max(1, self.dim // 4), replace=False)
                thetas[i:, changed] = scale * rng.normal(size=len(changed))
        return thetas

    def _theta(self, rng: np.random.Generator) -> Floats:
        theta = rng.normal(size=self.dim)
        return self.theta_norm * theta / np.linalg.norm(theta)

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """The rounds of one run."""
        thetas = self.thetas(horizon, seed)
        features, noises = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
        fixed = self._features(features, 1)
        for start in range(0, horizon, PIECE):
            theta = thetas[start : start + PIECE]
            arms = (
                self._features(features, len(theta))
                if self.arm_features == "moving"
                else np.repeat(fixed, len(theta), 0)
            )
            scores = np.einsum("tad,td->ta", arms, theta)
            expected = expit(scores) if self.link == "logistic" else scores
            counts = np.full(len(theta), arms.shape[1])
            yield Rounds(arms, counts, expected, self.noise.draw(noises, len(theta)), expected)

    def _features(self, rng: np.random.Generator, rounds: int) -> Floats:
        if self.arm_features == "separate":
            return np.eye(self.dim)[np.newaxis]
        return rng.uniform(-1.0, 1.0, (rounds, self.arms, self.dim)) / math.sqrt(self.dim)


def walking_arms(arms: int, period: int) -> Drifting:
    """Arms without common features, whose scores are random walks with standard deviation 1."""
    norm = round(math.sqrt(arms), 1)
    return Drifting(dim=arms, arm_features="separate", theta_norm=norm, change="walk", period=period)


DEVELOPMENT: Mapping[str, Environment] = {
    "none, moving arms": Drifting(),
    "none, fixed arms": Drifting(dim=10, arm_features="fixed"),
    "flip, moving arms": Drifting(change="flip"),
    "flip, fixed arms": Drifting(dim=10, arm_features="fixed", change="flip"),
    "jumps every 500": Drifting(change="jumps", period=500),
    "jumps every 2000": Drifting(change="jumps", period=2000),
    "jumps every 2000, fixed arms": Drifting(dim=10, arm_features="fixed", change="jumps", period=2000),
    "rotation in 5000": Drifting(change="rotation"),
    "walk over 2000": Drifting(change="walk", period=2000),
    "walk over 10000, fixed arms": Drifting(dim=10, arm_features="fixed", change="walk", period=10_000),
    "partial every 2500": Drifting(change="partial", period=2500),
    "partial every 2500, separate": Drifting(
        dim=10, arm_features="separate", theta_norm=4.0, change="partial", period=2500
    ),
    "walk over 3000, 8 separate": walking_arms(8, 3000),
    "walk over 12000, 8 separate": walking_arms(8, 12_000),
    "walk over 12000, 20 separate": walking_arms(20, 12_000),
}
FIXED = Drifting(dim=8, arms=50, arm_features="fixed", theta_norm=4.0)
"""The reporting problems with fixed arms are this one with a change."""
REPORTING: Mapping[str, Environment] = {
    "none, d=12, K=10": Drifting(dim=12, arms=10, theta_norm=2.0),
    "none, d=8, K=50, fixed": FIXED,
    "none, d=20, K=5, identity": Drifting(dim=20, arms=5, theta_norm=1.0, link="identity"),
    "flip at 3500, d=12, K=10": Drifting(dim=12, arms=10, change="flip", period=3500),
    "flip at 7000, d=8, K=50, fixed": replace(FIXED, change="flip", period=7000),
    "jumps every 800, d=4, K=8": Drifting(dim=4, arms=8, change="jumps", period=800),
    "jumps every 3000, d=12, K=10": Drifting(dim=12, arms=10, change="jumps", period=3000),
    "jumps every 1500, d=8, K=50, fixed": replace(FIXED, change="jumps", period=1500),
    "rotation in 8000, d=10, K=40": Drifting(dim=10, arms=40, change="rotation", period=8000),
    "rotation in 3000, d=4, K=8": Drifting(dim=4, arms=8, change="rotation", period=3000),
    "walk over 4000, d=12, K=10": Drifting(dim=12, arms=10, change="walk", period=4000),
    "walk over 4000, d=8, K=50, fixed": replace(FIXED, change="walk", period=4000),
    "walk over 3000, d=6, K=20, identity": Drifting(theta_norm=1.0, change="walk", period=3000, link="identity"),
    "partial every 2000, d=12, K=10": Drifting(dim=12, arms=10, change="partial", period=2000),
    "partial every 2000, d=8, separate": replace(FIXED, arm_features="separate", change="partial", period=2000),
    "walk over 2000, 5 separate": walking_arms(5, 2000),
    "walk over 6000, 10 separate": walking_arms(10, 6000),
}  # fmt: skip


def report(
    development: Sequence[int] = range(1000, 1016),
    reporting: Sequence[int] = range(60_000, 60_040),
    horizon: int = 10_000,
    problems: int | None = None,
) -> None:
    """Print the mean regret of every half-life, and ratios of "auto" to the others.

    For a quick run give few seeds, a short horizon and a number of problems. Takes about 15 minutes otherwise.
    """
    for title, table, seeds in (("Development", DEVELOPMENT, development), ("Reporting", REPORTING, reporting)):
        print(f'{title} problems: regret over {horizon} rounds, mean of {len(seeds)} seeds. "best" is the best of the')
        print("fixed half-lives and None on the same seeds; in brackets a 95 % bootstrap interval over seeds")
        print(f"  {'':36s} " + " ".join(f"{_label(setting):>6s}" for setting in SETTINGS))
        for name, problem in list(table.items())[:problems]:
            print_problem(name, problem, horizon, seeds)


def print_problem(name: str, problem: Environment, horizon: int, seeds: Sequence[int]) -> None:
    """Print two lines: the regret of every setting, and the ratios of "auto"."""
    regret = {setting: final_regret(setting, problem, horizon, seeds) for setting in SETTINGS}
    means = " ".join(f"{values.mean():6.0f}" for values in regret.values())
    best = min(SETTINGS[:-1], key=lambda setting: regret[setting].mean())
    ratios = [
        f"/ {_label(setting)} {ratio_text(regret['auto'], regret[setting])}" for setting in dict.fromkeys((None, best))
    ]
    print(f"  {name:36s} {means}\n  {'':36s} auto {'; '.join(ratios)}", flush=True)


def final_regret(
    half_life: float | Literal["auto"] | None, problem: Environment, horizon: int, seeds: Sequence[int]
) -> Floats:
    """The regret of each seed after the last round."""
    policy = Optimist(half_life=half_life, link=getattr(problem, "link", "logistic"))
    return simulate(policy, problem, horizon, seeds, jobs=1, keep_choices=False).final_regret


def ratio_text(numerator: Floats, denominator: Floats, draws: int = 4000) -> str:
    """The ratio of two means over the same seeds, with a bootstrap interval."""
    resamples = np.random.default_rng(0).integers(0, len(numerator), (draws, len(numerator)))
    low, high = np.quantile(numerator[resamples].mean(axis=1) / denominator[resamples].mean(axis=1), [0.025, 0.975])
    return f"{numerator.mean() / denominator.mean():.2f} ({low:.2f} to {high:.2f})"


def _label(setting: float | str | None) -> str:
    return f"{setting:g}" if isinstance(setting, float) else str(setting)
