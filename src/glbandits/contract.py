"""The contract of a policy."""

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from itertools import product
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, get_args, get_type_hints, runtime_checkable

from glbandits.errors import InvalidInput
from glbandits.maths.links import Link, LinkFunctions
from glbandits.records import Floats, Generator

Grid: TypeAlias = Mapping[str, tuple[Any, ...]]
"""Values for some settings of a policy; an experiment plays their product."""


class Card(NamedTuple):
    """What a user wants to know of a policy before reading its theory: a row of docs/policies.md.

    Costs are orders of growth, where t counts the distinct arms pulled so far.
    """

    choose: str
    """Time of a decision."""
    learn: str
    """Time of a reward."""
    memory: str
    """Size of the state."""
    guarantee: str
    """The regret that was proven for it, with its theory's settings and up to logarithms; or none."""
    use_when: str
    """What it is good for."""
    page: str
    """Its page in docs/theory."""


@runtime_checkable
class Policy(Protocol):
    """Settings, and the functions that play by them.

    A policy is a frozen dataclass of settings. All that it learns lives in one flat array, the state. The
    functions that run every round are static, read no attribute, and are plain Python under `@jittable`:

    - `choose(state, settings, arms, rng, link) -> arm` changes nothing but the generator;
    - `learn(state, settings, x, reward, rng, link) -> state` learns one reward, in place, and returns the
      state. It may return a new array instead: that is how a state grows, or sheds what it needed only at
      the start;
    - `probabilities(state, settings, arms, link, out) -> exact` writes the chance of each arm that `choose`
      would return into `out`, or returns False if the rule has no exact form (it is then estimated by asking
      `choose` itself many times).

    There, `settings` is the array that `numbers` made, `rng` a generator (`maths.randomness`), `arms` a (K, d)
    matrix with K >= 1, and `link` the mean, slope and antiderivative of the policy's link. Input has been
    checked before they are called.
    """

    name: ClassVar[str]
    """The id in the table of policies and on the command line."""

    keeps_history: ClassVar[bool]
    """Whether the state holds past observations, and so may grow with them. All others are of constant size."""

    @property
    def link(self) -> str | Link:
        """How scores become expected rewards: a link, or the name of a built-in one. A setting, or fixed."""

    def init(self, dim: int) -> Floats:
        """The state before the first round."""

    def numbers(self, dim: int) -> Floats:
        """The settings as compiled code reads them."""

    def fits(self, state: Floats, dim: int) -> bool:
        """Whether this array can be a state of this policy: asked before a loaded one is trusted."""

    @staticmethod
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """The arm to pull."""

    @staticmethod
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """The state after a reward."""

    @staticmethod
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """The exact chance of each arm, into out; or False."""


class ListedPolicy(Policy, Protocol):
    """A policy of the table, which says more of itself than playing needs."""

    grid: ClassVar[Grid]
    """The values of its settings among which experiments choose: the SGD-TS paper's, where it has some."""

    card: ClassVar[Card]
    """Its row in docs/policies.md."""


def settle(policy: object, **settings: Any) -> None:
    """Put checked values in place of what the user wrote: a NumPy number becomes a plain one that files can hold."""
    for name, value in settings.items():
        object.__setattr__(policy, name, value)


def grid_points(name: str, grid: Grid) -> list[dict[str, Any]]:
    """Every combination of the values in the grid of the policy of this name; the last setting changes fastest."""
    if any(not values for values in grid.values()):
        raise InvalidInput(f"the grid of {name} has a setting without values: {dict(grid)}")
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def rebuild(kind: type[Policy], settings: dict[str, Any]) -> Policy:
    """The policy that `settings_of` described; only a link of the user's own cannot come back from its name."""
    hints = get_type_hints(kind)
    rebuilt = dict(settings)
    for name, value in settings.items():
        records: list[Any] = [hint for hint in get_args(hints.get(name)) if is_dataclass(hint)]
        if isinstance(value, dict) and records:
            rebuilt[name] = records[0](**value)
    return kind(**rebuilt)


def settings_of(policy: Policy) -> dict[str, Any]:
    """The settings as plain values, a link by its name: what files and tables show."""
    values: dict[str, Any] = {}
    for field in fields(policy):  # type: ignore[arg-type]
        value = getattr(policy, field.name)
        if isinstance(value, Link):
            value = value.name
        elif is_dataclass(value) and not isinstance(value, type):
            value = asdict(value)
        values[field.name] = value
    return values
