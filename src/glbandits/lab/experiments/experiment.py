"""An experiment as data: a problem, a horizon, and policies with grids of settings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from glbandits.common.arrays import set_validated
from glbandits.common.errors import InvalidInput, check_int, lookup, value_text
from glbandits.lab.environments import Environment
from glbandits.lab.experiments.run_spec import IdentifiedProblem, RunSpec
from glbandits.policies.agents import AgentFactory, PolicyOrAgent, agent_factory, settings_values
from glbandits.policies.contract import Grid, Policy, grid_points
from glbandits.policies.parsing import find_policy

THIN_GRID: Grid = {
    "exploration": (0.1, 1.0),
    "exploration_a1": (0.01, 0.1, 1.0),
    "exploration_a2": (0.01,),
    "step": (0.1, 0.5, 1.0),
    "warm_up_factor": (1, 5),
    "block_factor": (1, 5, 10),
}
"""The thin grid of `--quick`: a policy keeps only these values of a setting, if its grid has any of them."""
FIRST_REPEAT, FIRST_FINAL, FIRST_FRESH = 1, 501, 1001
"""The first seeds, if an experiment gives the number of its seeds."""
MAX_HORIZON = 10**8
"""All choices of a run are kept in memory."""
QUICK_REPEATS, QUICK_FRESH = 5, 20
"""Largest numbers of repeats and of fresh seeds with `--quick`. It has no finals."""


@dataclass(frozen=True)
class PolicyEntry:
    """A policy in an experiment: fixed settings, and a grid of values for others."""

    kind: Any
    """A class of policies or its name, or a class or function that makes agents. Stored as a class or AgentFactory."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The same in all runs."""
    grid: Grid | None = None
    """Values to try for other settings; None for the default grid of the policy."""
    name: str | None = None
    """What tables and figures call it; by default the name of the policy."""

    def __post_init__(self) -> None:
        kind = find_policy(self.kind) if isinstance(self.kind, str) else agent_factory(self.kind) or self.kind
        if not (isinstance(kind, AgentFactory) or (isinstance(kind, type) and issubclass(kind, Policy))):
            raise InvalidInput(
                "kind must be a class of policies, its name, or a class or function that makes agents; got "
                f"{value_text(self.kind)}. Pass settings of the policy as settings"
            )
        if self.name is not None and not (isinstance(self.name, str) and self.name.strip()):
            raise InvalidInput(f"the name of a policy must be a text; got {value_text(self.name)}")
        set_validated(self, kind=kind)

    @property
    def label(self) -> str:
        """The name of the policy in tables and figures."""
        return str(self.kind.name if self.name is None else self.name)

    @property
    def tuning_grid(self) -> Grid:
        """The grid, or the default grid of the policy if there is none."""
        default: Grid = self.kind.grid
        return default if self.grid is None else self.grid

    def policies(self, *, quick: bool = False) -> list[PolicyOrAgent]:
        """Return a policy for every point of the grid, or of the thin grid if `quick`."""
        grid = dict(self.tuning_grid)
        if quick:
            grid = {name: _thin(name, values) for name, values in grid.items()}
        points = [{**self.settings, **point} for point in grid_points(self.label, grid)]
        if isinstance(self.kind, AgentFactory):
            return [self.kind.with_settings(point) for point in points]
        build: Any = self.kind
        return [build(**point) for point in points]


def _thin(name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values that are also in the thin grid; all values if none is."""
    return tuple(value for value in values if value in THIN_GRID.get(name, values)) or values


def seeds_from(count: int, first: int) -> tuple[int, ...]:
    """Return this many consecutive seeds."""
    return tuple(range(first, first + count))


def _seeds(name: str, given: Any, first: int, end: int = 2**62, *, may_be_empty: bool = False) -> tuple[int, ...]:
    """Return seeds, or as many as the given number, from `first` on and below `end`. Raises InvalidInput."""
    if isinstance(given, Iterable) and not isinstance(given, str):
        seeds = tuple(check_int(f"a seed of {name}", seed, at_least=0) for seed in given)
        if len(set(seeds)) < len(seeds):
            raise InvalidInput(f"{name} must be different seeds; got {value_text(given)}", field=name)
    else:
        count = check_int(name, given, at_least=0 if may_be_empty else 1, at_most=end - first)
        seeds = seeds_from(count, first)
    if not (seeds or may_be_empty):
        raise InvalidInput(f"{name} must be at least one seed, or a number of seeds; got none", field=name)
    return seeds


@dataclass(frozen=True)
class Experiment:
    """The definition of an experiment."""

    name: str
    """The name in files and links of the report."""
    environment: Environment
    horizon: int
    policies: Sequence[PolicyEntry]
    title: str = ""
    """The heading in the report; by default the name."""
    extras: Sequence[PolicyEntry] = ()
    """Policies that are not in the paper. They play on fresh seeds only."""
    repeats: Sequence[int] = seeds_from(10, FIRST_REPEAT)
    """Seeds of the paper's protocol, or their number. The fresh protocol selects finalists on them."""
    finals: Sequence[int] = seeds_from(20, FIRST_FINAL)
    """Seeds on which the fresh protocol selects a finalist, or their number. With none, the repeats decide."""
    fresh: Sequence[int] = seeds_from(60, FIRST_FRESH)
    """Seeds of the runs that the fresh protocol reports, or their number."""
    reference: str | None = None
    """The name of the policy to which the report and the summary compare all others."""
    measure: Literal["regret", "reward"] = "regret"
    """The quantity of figures: cumulative regret, or the running mean of expected reward."""
    best_arms: int = 0
    """If positive, figures also show the pulls of this many best arms. Arms must then keep their index."""
    note: str = ""
    """Remarks on the data for readers of the report."""

    def __post_init__(self) -> None:
        check_int("horizon", self.horizon, at_least=1, at_most=MAX_HORIZON)
        set_validated(
            self,
            title=self.title or self.name,
            repeats=_seeds("repeats", self.repeats, FIRST_REPEAT, FIRST_FINAL),
            finals=_seeds("finals", self.finals, FIRST_FINAL, FIRST_FRESH, may_be_empty=True),
            fresh=_seeds("fresh", self.fresh, FIRST_FRESH),
        )
        labels = [entry.label for entry in (*self.policies, *self.extras)]
        if not labels:
            raise InvalidInput(f"the experiment {self.name!r} needs at least one policy; got none")
        if len(set(labels)) < len(labels):
            raise InvalidInput(f"policies of an experiment must have different names; got {', '.join(labels)}")
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
