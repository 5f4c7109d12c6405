"""The results of playing policies: of one run, and of one policy over many seeds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glbandits.common.arrays import Floats, Ints
from glbandits.common.display.displayed import Displayed
from glbandits.lab.environments import Environment
from glbandits.lab.environments.rounds import regret_name
from glbandits.policies.agents import PolicyOrAgent


@dataclass(frozen=True)
class Run:
    """The result of playing one policy with one seed."""

    regret: Floats
    """Cumulative regret at the recorded rounds, (points,)."""
    choices: NDArray[np.int32] | None
    """The arm of every round, (horizon,); None without `keep_choices`."""
    seconds: float
    """CPU seconds of choosing and learning, without those of generating the rounds."""
    state: Floats | None
    """The state of the policy after the last round: everything that it keeps; None without `keep_state`."""


@dataclass(frozen=True, repr=False)
class Simulation(Displayed):
    """The result of playing one policy with several seeds."""

    policy: PolicyOrAgent
    environment: Environment
    horizon: int
    seeds: tuple[int, ...]
    rounds: Ints
    """The rounds at which regret was recorded, (points,): 1-based, the last is the horizon."""
    regret: Floats
    """Cumulative regret, (seeds, points)."""
    choices: NDArray[np.int32] | None
    """The arm of every round, (seeds, horizon); None without `keep_choices`."""
    seconds: Floats
    """CPU seconds of choosing and learning, (seeds,), without those of generating the rounds."""

    @property
    def final_regret(self) -> Floats:
        """Cumulative regret at the horizon, (seeds,)."""
        last: Floats = self.regret[:, -1]
        return last

    @property
    def mean(self) -> Floats:
        """Mean regret over the seeds, (points,)."""
        mean: Floats = self.regret.mean(axis=0)
        return mean

    @property
    def standard_error(self) -> Floats:
        """Standard error of that mean, (points,); NaN for a single seed."""
        if len(self.seeds) == 1:
            return np.full(len(self.rounds), math.nan)
        error: Floats = self.regret.std(axis=0, ddof=1) / math.sqrt(len(self.seeds))
        return error

    def _values(self) -> dict[str, object]:
        return {
            "policy": self.policy,
            "environment": self.environment,
            "horizon": self.horizon,
            "seeds": len(self.seeds),
            f"mean final {regret_name(self.environment)}": float(self.final_regret.mean()),
        }

    def plot(self) -> Any:
        """Return an Altair chart of mean cumulative regret over the rounds, with a band of one standard error."""
        return regret_chart({self.policy.name: self})


def regret_chart(results: Mapping[str, Simulation], title: str = "") -> Any:
    """Return a chart of the mean cumulative regret of each simulation, with bands of one standard error."""
    from glbandits.common.display.charts import Curve, curves_chart, finish

    curves = [
        Curve(f"{label}: {result.mean[-1]:.1f}", result.rounds, result.mean, result.standard_error)
        for label, result in results.items()
    ]
    seeds = max(len(result.seeds) for result in results.values())
    regret = regret_name(next(iter(results.values())).environment)
    chart = curves_chart(curves, "round", f"cumulative {regret} (mean of {seeds} seeds, band: 1 s.e.)")
    return finish(chart, title, wrap=70)
