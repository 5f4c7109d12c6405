"""Agents: bandit algorithms as plain Python objects, which may use any library.

A policy is compiled, and its state is an array. An agent is any object with `choose` and `learn`. It runs wherever a
policy runs in the lab and on logs, uncompiled and so more slowly. A factory makes a new agent for each seed.
"""

import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import index
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable
from weakref import WeakValueDictionary

import numpy as np
from scipy.sparse import csr_array

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput, lookup, value_text
from glbandits.common.identity import identity_of
from glbandits.common.user_code import described_error
from glbandits.maths.sparse_rows import SparseRows
from glbandits.policies.contract import Grid, Policy, settings_of

AGENT_STREAM = 1
"""The part of a seed's random numbers that agents draw from."""
TOLERANCE = 1e-6
"""Largest deviation of a sum of probabilities from 1."""
KEEP_APART = "Keep what an agent learns in `self`, never in its class or in a global variable."


@runtime_checkable
class Agent(Protocol):
    """A bandit algorithm as a plain Python object.

    It may use SciPy, scikit-learn, PyTorch, files and lists. Where a policy is accepted in the lab and on logs, so is a
    class or a function that makes an agent. It is called with the number of features, once for each seed.

    A method `probabilities(arms)` is optional. It returns the probability of each arm in the next choice, as K numbers
    that sum to 1. Evaluations on logs then have less variance.

    >>> import numpy as np
    >>> from glbandits.lab import Synthetic, simulate
    >>> class Ridge:
    ...     def __init__(self, dim):
    ...         self.gram, self.sums = np.eye(dim), np.zeros(dim)
    ...
    ...     def choose(self, arms, rng):
    ...         theta = np.linalg.solve(self.gram, self.sums)
    ...         return int(np.argmax(arms @ theta)) if rng.random() > 0.1 else int(rng.integers(len(arms)))
    ...
    ...     def learn(self, x, reward):
    ...         self.gram += np.outer(x, x)
    ...         self.sums += reward * x
    >>> simulate(Ridge, Synthetic(dim=3, arms=5), horizon=100, seeds=2, jobs=1).regret.shape
    (2, 100)
    """

    def choose(self, arms: Any, rng: np.random.Generator) -> int:
        """Return the index of an arm.

        Args:
            arms: the features of the arms, (K, d). Read-only. If the problem or the log has sparse rows, a csr_array of
                scipy.sparse.
            rng: the random numbers of the run. The same seed gives the same ones, so draw from nothing else.
        """

    def learn(self, x: Any, reward: float) -> object:
        """Learn the reward of an arm with the features x, (d,); of sparse rows, (1, d). What it returns is ignored."""


@dataclass(frozen=True, eq=False)
class AgentFactory:
    """Makes an agent for each run: a class or a function, and the settings with which it is called."""

    grid: ClassVar[Grid] = {}
    """An agent has no default grid of settings."""

    make: Callable[..., Agent]
    """Called with the number of features and the settings."""
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        signature = self._signature()
        if signature is None:
            return
        if not any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values()):
            for name in self.settings:
                lookup(f"setting of {self.name}", name, dict.fromkeys(self.setting_names))
        try:
            signature.bind(1, **self.settings)
        except TypeError as error:
            raise InvalidInput(
                f"{self.name} must make an agent from the number of features, as in {self.name}(6); it takes "
                f"{signature} ({error})"
            ) from None

    @property
    def name(self) -> str:
        """The attribute `name` of the class or function, or else its name in Python."""
        made_by = self.make.func if isinstance(self.make, partial) else self.make
        given = getattr(made_by, "name", None)
        name = given if isinstance(given, str) and given else getattr(made_by, "__name__", type(made_by).__name__)
        return str(name).strip("<>")  # of a lambda

    def _signature(self) -> inspect.Signature | None:
        try:
            return inspect.signature(self.make)
        except ValueError:  # written in C
            return None

    @property
    def setting_names(self) -> list[str]:
        """The names of the settings: all parameters but the first, which is the number of features."""
        signature = self._signature()
        return [] if signature is None else list(signature.parameters)[1:]

    @cached_property
    def identity(self) -> str:
        """Digest of the code and the settings."""
        return identity_of((self.make, self.get_params()), f"the agent {self.name}")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings and the defaults of others by name, like a policy."""
        signature = self._signature()
        parameters = [] if signature is None else list(signature.parameters.values())[1:]
        defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
        return defaults | dict(self.settings)

    def with_settings(self, settings: Mapping[str, Any], **defaults: Any) -> "AgentFactory":
        """Return a factory with these settings in addition, and the defaults that its agents have as settings."""
        known = {name: value for name, value in defaults.items() if name in self.setting_names}
        return replace(self, settings={**known, **self.settings, **settings})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AgentFactory) and self.make == other.make and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value_text(value)}" for name, value in self.settings.items())
        return f"{self.name}({settings})" if settings else self.name

    def new(self, dim: int) -> Agent:
        """Make an agent. Raises InvalidInput if that fails, or if it is not a new object with choose and learn."""
        try:
            agent = self.make(dim, **self.settings)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also sys.exit
            raise InvalidInput(f"agent {self.name} could not be made: {described_error(error)}") from error
        if not is_agent(agent):
            raise InvalidInput(
                f"{self.name}({dim}) must return an agent, an object with choose(arms, rng) and learn(x, reward); got "
                f"{value_text(agent)}"
            )
        with suppress(TypeError):  # some classes with __slots__ have no weak references
            if _made.get(id(agent)) is agent:
                raise InvalidInput(
                    f"{self.name} must make a new agent for each run; it returned {value_text(agent)} again. "
                    "Create the agent inside of the function"
                )
            _made[id(agent)] = agent
        return agent


_made: WeakValueDictionary[int, Agent] = WeakValueDictionary()
"""Agents that factories made in this process, by id."""

PolicyOrAgent: TypeAlias = Policy | AgentFactory
"""A policy, or what makes agents."""
PolicyLike: TypeAlias = Policy | str | Callable[..., Agent] | AgentFactory
"""A policy, its name, or a class or function that makes agents."""


def is_agent(value: object) -> bool:
    """Whether a value is an agent: not a class, with the methods `choose` and `learn`."""
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in ("choose", "learn"))


def agent_factory(value: object) -> AgentFactory | None:
    """Return the factory if a value is a class or a function; None for others, and for policies.

    Raises InvalidInput for an agent: runs would share it.
    """
    if isinstance(value, AgentFactory):
        return value
    if isinstance(value, str | Policy):
        return None
    if isinstance(value, type) and issubclass(value, Policy):
        return None
    if is_agent(value):
        name = type(value).__name__
        raise InvalidInput(
            f"an agent must be given as the class or function that makes it, so that each run has a new one; got an "
            f"object of {name}. Pass {name}, or lambda dim: {name}(dim, ...)"
        )
    if not callable(value):
        return None
    if isinstance(value, type) and not all(callable(getattr(value, name, None)) for name in ("choose", "learn")):
        raise InvalidInput(
            f"{value.__name__} must have the methods choose(arms, rng) and learn(x, reward) of an agent, or be a "
            "policy; got a class without them"
        )
    if isinstance(value, partial) and not value.args:
        return AgentFactory(value.func, value.keywords)
    return AgentFactory(value)


def learner_of(candidate: object) -> PolicyOrAgent | None:
    """Return the policy or factory of agents if this candidate learns from a log; None for any other target.

    A function makes agents if its first parameter is called `dim`. Any other function computes probabilities.
    """
    if isinstance(candidate, Policy | AgentFactory):
        return candidate
    made_by = candidate.func if isinstance(candidate, partial) else candidate
    if isinstance(made_by, type):
        return agent_factory(candidate) if hasattr(made_by, "choose") else None
    if callable(candidate) and not is_agent(candidate):
        with suppress(ValueError):  # written in C
            first, *_ = [*inspect.signature(candidate).parameters, ""]
            return agent_factory(candidate) if first == "dim" else None
    return None


def settings_values(policy: PolicyOrAgent) -> dict[str, Any]:
    """Return the settings as values for a JSON file: a setting of agents that is none of these as its text."""
    if not isinstance(policy, AgentFactory):
        return settings_of(policy)
    values: dict[str, Any] = json.loads(json.dumps(policy.get_params(), default=value_text))
    return values


@contextmanager
def warn_if_agents_change(policies: Sequence[PolicyOrAgent]) -> Iterator[None]:
    """Warn if a run inside changes the classes, settings or global variables of agents: later runs then differ."""
    factories = [each for each in policies if isinstance(each, AgentFactory)]
    before = list(map(_current_identity, factories))
    yield
    for agents, identity in zip(factories, before, strict=True):
        if _current_identity(agents) != identity:
            warnings.warn(
                f"{agents.name} changed its class, its settings or a global variable while it played, so its results "
                f"depend on earlier runs. {KEEP_APART}",
                stacklevel=4,
            )


def _current_identity(agents: AgentFactory) -> str | None:
    with suppress(InvalidInput):  # it cannot be identified
        return replace(agents).identity
    return None


class PlayingAgent:
    """An agent in a run. Checks all that it returns, and names it in each error.

    Args:
        agent: a new one.
        name: what messages call it.
        seed: of the run; None for a random one.
        stream: different streams of a seed have different random numbers.
        rows: what messages call the parts of the run, such as "round".
    """

    def __init__(self, agent: Agent, name: str, seed: int | None, stream: int = 0, rows: str = "round") -> None:
        self.agent, self.name, self._seed, self._rows = agent, name, seed, rows
        self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(AGENT_STREAM, stream)))

    @property
    def has_probabilities(self) -> bool:
        """Whether the agent has the optional method `probabilities`."""
        return callable(getattr(self.agent, "probabilities", None))

    def choose(self, arms: Any, row: int) -> int:
        """Return the index of an arm. `row` is the round, or the row of the log."""
        arm = self._call("choose", row, arms, self._rng)
        count = arms.shape[0]
        try:
            chosen = -1 if isinstance(arm, bool | np.bool_) else index(arm)
        except Exception:  # `__index__` of a user's class
            chosen = -1
        if not 0 <= chosen < count:
            raise InvalidInput(
                f"agent {self.name} must choose the index of an arm, a whole number from 0 to {count - 1}; choose "
                f"returned {value_text(arm)} in {self._where(row)}"
            )
        return chosen

    def learn(self, x: Any, reward: float, row: int) -> None:
        """Let the agent learn a reward."""
        self._call("learn", row, x, reward)

    def probabilities(self, arms: Any, row: int) -> Floats:
        """Return the probability of each arm, (K,)."""
        given = self._call("probabilities", row, arms)
        try:
            found = np.array(given, dtype=np.float64)
        except Exception:  # `__array__` of a user's class
            found = np.empty(0)
        count = arms.shape[0]
        if found.shape != (count,) or not (found.min() >= 0.0 and abs(found.sum() - 1.0) <= TOLERANCE):
            raise InvalidInput(
                f"agent {self.name} must give each of the {count} arms a probability of at least 0, with the sum 1; "
                f"probabilities returned {value_text(given)} in {self._where(row)}"
            )
        return found

    def _call(self, method: str, row: int, *arguments: Any) -> Any:
        try:
            return getattr(self.agent, method)(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also sys.exit
            text = described_error(error)
            advice = ". The agent must not change arms and x: copy them first" if "read-only" in text else ""
            raise InvalidInput(
                f"agent {self.name} failed in {self._where(row)}: {method} raised {text}{advice}"
            ) from error

    def _where(self, row: int) -> str:
        seed = "" if self._seed is None else f" with seed {self._seed}"
        return f"{self._rows} {row:,}{seed}"


def read_only_rows(arms: Any, dim: int) -> Any:
    """Return a copy of arms as an agent gets them: a matrix, or a csr_array of sparse rows. Writing to it fails."""
    if not isinstance(arms, SparseRows):
        copied = np.array(arms, dtype=np.float64)
        copied.flags.writeable = False
        return copied
    rows = csr_array((arms.values.copy(), arms.indices.copy(), arms.indptr.copy()), shape=(arms.row_count, dim))
    for part in (rows.data, rows.indices, rows.indptr):
        part.flags.writeable = False
    return rows
