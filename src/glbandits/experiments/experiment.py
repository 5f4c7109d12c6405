"""An experiment as data: a problem, a horizon, and policies with the settings that each may choose among."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from glbandits.environments import Environment
from glbandits.experiments.run_spec import RunSpec
from glbandits.policy import Grid, Policy, grid_points, settings_of

THIN: Grid = {
    "exploration": (0.1, 1.0),
    "exploration_a1": (0.01, 0.1, 1.0),
    "exploration_a2": (0.01,),
    "step": (0.1, 0.5, 1.0),
    "warm_up_factor": (1, 5),
    "block_factor": (1, 5, 10),
}
"""The thin grid of `--quick`: these values of a policy's grid, where it has them."""


@dataclass(frozen=True)
class PolicyEntry:
    """A policy, what is fixed of its settings, and the values among which the rest is chosen."""

    kind: type[Policy]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    grid: Grid | None = None
    """The policy's own if None."""

    @property
    def label(self) -> str:
        """How it is called in tables and figures."""
        return self.kind.name

    def settings(self, *, quick: bool = False) -> list[Policy]:
        """Every point of the grid, or of the thin one."""
        grid = dict(self.kind.grid if self.grid is None else self.grid)
        if quick:
            grid = {name: tuple(v for v in values if v in THIN.get(name, values)) for name, values in grid.items()}
        build: Any = self.kind
        return [build(**self.fixed, **point) for point in grid_points(self.label, grid)]


@dataclass(frozen=True)
class Experiment:
    """A figure or a table, before it is run."""

    name: str
    title: str
    environment: Environment
    horizon: int
    entries: Sequence[PolicyEntry]
    repeats: Sequence[int] = tuple(range(1, 11))
    """The seeds of the paper's protocol; the fresh protocol tunes on them."""
    fresh: Sequence[int] = tuple(range(1001, 1061))
    """The seeds on which the fresh protocol reports."""
    measure: Literal["regret", "reward"] = "regret"
    """What is drawn: cumulative regret, or the running mean of expected reward."""
    best_arms: int = 0
    """If above 0, the pulls of so many best arms are drawn too; arms must keep their places."""
    note: str = ""
    """What a reader must know of the data."""

    def specs(self, policies: Sequence[Policy], seeds: Sequence[int], *, own_noise: bool = False) -> list[RunSpec]:
        """A run for each policy and seed; with noise of its own, or with the noise that all share."""
        shared = [RunSpec(policy, self.environment, self.horizon, seed) for policy in policies for seed in seeds]
        return [spec.with_own_noise() for spec in shared] if own_noise else shared


def in_words(policy: Policy, grid: Grid) -> str:
    """The settings of a policy that its grid varies, as text."""
    chosen = settings_of(policy)
    words = {name: chosen[name] if isinstance(chosen[name], str) else f"{chosen[name]:g}" for name in grid}
    return ", ".join(f"{name}={value}" for name, value in words.items()) or "no setting to choose"
