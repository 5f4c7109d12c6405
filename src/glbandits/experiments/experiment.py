"""An experiment as data: a problem, a horizon, and policies with the settings that each may choose among."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from glbandits.environments import Environment
from glbandits.experiments.run_spec import ProblemKey, RunSpec
from glbandits.policy import Grid, Policy, grid_points, settings_of

THIN: Grid = {
    "exploration": (0.1, 1.0),
    "exploration_a1": (0.01, 0.1, 1.0),
    "exploration_a2": (0.01,),
    "step": (0.1, 0.5, 1.0),
    "warm_up_factor": (1, 5),
    "block_factor": (1, 5, 10),
}
"""The thin grid of `--quick`: these values of a policy's grid, where it has any of them."""
QUICK_FRESH = 20
"""The most fresh seeds of `--quick`, which has no finals."""


@dataclass(frozen=True)
class PolicyEntry:
    """A policy in an experiment: fixed settings, and a grid for the others."""

    kind: type[Policy]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    grid: Grid | None = None
    """The policy's own grid if None."""

    @property
    def label(self) -> str:
        """Its name in tables and figures."""
        return self.kind.name

    @property
    def own_grid(self) -> Grid:
        """The grid that it plays on."""
        return self.kind.grid if self.grid is None else self.grid

    def settings(self, *, quick: bool = False) -> list[Policy]:
        """Every point of the grid, or of the thin grid."""
        grid = dict(self.own_grid)
        if quick:
            grid = {name: _thin(name, values) for name, values in grid.items()}
        build: Any = self.kind
        return [build(**self.fixed, **point) for point in grid_points(self.label, grid)]


def _thin(name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of a setting that the thin grid has; all of them if it has none."""
    return tuple(value for value in values if value in THIN.get(name, values)) or values


@dataclass(frozen=True)
class Experiment:
    """A figure or a table, before it is run."""

    name: str
    title: str
    environment: Environment
    horizon: int
    entries: Sequence[PolicyEntry]
    extras: Sequence[PolicyEntry] = ()
    """Policies that the paper does not have. They play on fresh seeds only."""
    repeats: Sequence[int] = tuple(range(1, 11))
    """Seeds of the paper's protocol. The fresh protocol chooses finalists on them."""
    finals: Sequence[int] = tuple(range(501, 521))
    """Seeds on which the fresh protocol chooses among the finalists; if empty, the repeats decide."""
    fresh: Sequence[int] = tuple(range(1001, 1061))
    """Seeds on which the fresh protocol reports."""
    measure: Literal["regret", "reward"] = "regret"
    """What figures show: cumulative regret, or the running mean of expected reward."""
    best_arms: int = 0
    """If above 0, figures also show the pulls of this many best arms; arms must keep their index."""
    note: str = ""
    """What a reader must know of the data."""

    def quickened(self) -> "Experiment":
        """The same with fewer seeds."""
        return replace(self, fresh=tuple(self.fresh)[:QUICK_FRESH], finals=())

    @cached_property
    def problem(self) -> ProblemKey:
        """The key of the problem in the result store."""
        return ProblemKey.of(self.environment)

    def specs(self, policies: Sequence[Policy], seeds: Sequence[int], *, own_noise: bool = False) -> list[RunSpec]:
        """A run for each policy and seed, with noise of its own or with the noise that all policies share."""
        shared = [
            RunSpec(policy, self.environment, self.horizon, seed, known_problem=self.problem)
            for policy in policies
            for seed in seeds
        ]
        return [spec.with_own_noise() for spec in shared] if own_noise else shared


def in_words(policy: Policy, grid: Grid) -> str:
    """The settings of a policy that its grid varies, as text."""
    chosen = settings_of(policy)
    words = {name: chosen[name] if isinstance(chosen[name], str) else f"{chosen[name]:g}" for name in grid}
    return ", ".join(f"{name}={value}" for name, value in words.items()) or "nothing to tune"
