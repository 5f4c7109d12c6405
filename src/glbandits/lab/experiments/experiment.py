"""An experiment as data: a problem, a horizon, and policies with grids of settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from glbandits.common.errors import InvalidInput, lookup
from glbandits.lab.environments import Environment
from glbandits.lab.experiments.run_spec import IdentifiedProblem, RunSpec
from glbandits.policies.agents import AgentFactory, PolicyOrAgent, settings_values
from glbandits.policies.contract import Grid, Policy, grid_points

THIN_GRID: Grid = {
    "exploration": (0.1, 1.0),
    "exploration_a1": (0.01, 0.1, 1.0),
    "exploration_a2": (0.01,),
    "step": (0.1, 0.5, 1.0),
    "warm_up_factor": (1, 5),
    "block_factor": (1, 5, 10),
}
"""The thin grid of `--quick`: a policy keeps only these values of a setting, if its grid has any of them."""
QUICK_REPEATS, QUICK_FRESH = 5, 20
"""Largest numbers of repeats and of fresh seeds with `--quick`. It has no finals."""


@dataclass(frozen=True)
class PolicyEntry:
    """A policy in an experiment: fixed settings, and a grid of values for others."""

    kind: type[Policy] | AgentFactory
    fixed: Mapping[str, Any] = field(default_factory=dict)
    grid: Grid | None = None
    """None for the default grid of the policy."""

    @property
    def label(self) -> str:
        """The name of the policy in tables and figures."""
        return self.kind.name

    @property
    def tuning_grid(self) -> Grid:
        """The grid, or the default grid of the policy if there is none."""
        return self.kind.grid if self.grid is None else self.grid

    def settings(self, *, quick: bool = False) -> list[PolicyOrAgent]:
        """Return a policy for every point of the grid, or of the thin grid if `quick`."""
        grid = dict(self.tuning_grid)
        if quick:
            grid = {name: _thin(name, values) for name, values in grid.items()}
        points = [{**self.fixed, **point} for point in grid_points(self.label, grid)]
        if isinstance(self.kind, AgentFactory):
            return [self.kind.with_settings(point) for point in points]
        build: Any = self.kind
        return [build(**point) for point in points]


def _thin(name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values that are also in the thin grid; all values if none is."""
    return tuple(value for value in values if value in THIN_GRID.get(name, values)) or values


@dataclass(frozen=True)
class Experiment:
    """The definition of an experiment."""

    name: str
    title: str
    environment: Environment
    horizon: int
    entries: Sequence[PolicyEntry]
    extras: Sequence[PolicyEntry] = ()
    """Policies that are not in the paper. They play on fresh seeds only."""
    repeats: Sequence[int] = tuple(range(1, 11))
    """Seeds of the paper's protocol. The fresh protocol selects finalists on them."""
    finals: Sequence[int] = tuple(range(501, 521))
    """Seeds on which the fresh protocol selects one of the finalists. If empty, the repeats decide."""
    fresh: Sequence[int] = tuple(range(1001, 1061))
    """Seeds of the runs that the fresh protocol reports."""
    reference: str | None = None
    """The label of the policy to which the report and the summary compare all others."""
    measure: Literal["regret", "reward"] = "regret"
    """The quantity of figures: cumulative regret, or the running mean of expected reward."""
    best_arms: int = 0
    """If positive, figures also show the pulls of this many best arms. Arms must then keep their index."""
    note: str = ""
    """Remarks on the data for readers of the report."""

    def __post_init__(self) -> None:
        labels = [entry.label for entry in (*self.entries, *self.extras)]
        if not labels:
            raise InvalidInput(f"the experiment {self.name!r} needs at least one policy; got none")
        if len(set(labels)) < len(labels):
            raise InvalidInput(f"policies of an experiment must have different names; got {', '.join(labels)}")
        if not self.repeats or not self.fresh:
            raise InvalidInput(f"the experiment {self.name!r} needs at least one seed in repeats and one in fresh")
        if self.reference is not None:
            lookup("policy as reference", self.reference, dict.fromkeys(labels))

    def with_fewer_seeds(self) -> "Experiment":
        """Return the experiment as `--quick` runs it: fewer repeats and fresh seeds, and no finals."""
        repeats, fresh = tuple(self.repeats)[:QUICK_REPEATS], tuple(self.fresh)[:QUICK_FRESH]
        return replace(self, repeats=repeats, fresh=fresh, finals=())

    def problem(self) -> IdentifiedProblem:
        """Return the environment with its identity. Raises InvalidInput if it has none."""
        return IdentifiedProblem.of(self.environment, self.horizon, self.repeats[0])

    def specs(
        self,
        problem: IdentifiedProblem,
        policies: Sequence[PolicyOrAgent],
        seeds: Sequence[int],
        *,
        own_noise: bool = False,
    ) -> list[RunSpec]:
        """Return a run for each policy and seed.

        Policies share the noise of the problem unless `own_noise`, which gives every setting its own noise.
        """
        shared = [RunSpec(policy, problem, self.horizon, seed) for policy in policies for seed in seeds]
        return [spec.with_own_noise() for spec in shared] if own_noise else shared


def describe_settings(policy: PolicyOrAgent, grid: Grid) -> str:
    """Return the settings of a policy that its grid varies, as text."""
    settings = settings_values(policy)
    varied = {name: settings[name] for name in grid}
    values = {name: f"{value:g}" if isinstance(value, int | float) else value for name, value in varied.items()}
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "nothing to tune"
