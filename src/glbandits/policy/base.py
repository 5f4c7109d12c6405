"""The contract of a policy: the base class that every policy extends."""

import re
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, dataclass
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, TypeAlias, dataclass_transform

import numpy as np

from glbandits.errors import InvalidInput
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import any_index
from glbandits.maths.vectors import point_mass, uniform_mass
from glbandits.numba_support import fixed_tuple, jittable
from glbandits.policy.bonus_rule import BonusRule
from glbandits.policy.coefficients import Coefficients
from glbandits.policy.settings import AnyLink, packed_names, packed_settings, validate_settings
from glbandits.policy.state_layout import StateLayout
from glbandits.records import Bools, Floats, Generator, Ints

Grid: TypeAlias = Mapping[str, tuple[Any, ...]]
"""Values for some settings of a policy; an experiment plays their product."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
COMPILED = ("choose", "learn", "probabilities", "decide", "sample", "is_warming_up")
"""The functions of a policy that run every round."""


class PolicyInfo(NamedTuple):
    """What a user wants to know about a policy before reading its theory: a row of docs/policies.md.

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
    page: str = ""
    """Its page in docs/theory, if that is not named as the policy is."""
    sparse: str = ""
    """Time to choose, to learn and memory of its sparse form, where n is the nonzeros of an arm; if it has one."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Policy:
    """Settings, a state layout, and the functions that play by them.

    A subclass becomes a frozen dataclass: its annotated attributes are its settings, validated when it is made. All
    that it learns lives in one flat array, the state, whose parts `layout` declares. The functions below run every
    round. They are static, read no attribute, and may call only functions under `@jittable`:

    - `choose(state, settings, arms, rng, link) -> int` returns the arm to pull and changes nothing but `rng`;
    - `learn(state, settings, x, reward, rng, link) -> state` learns one reward, in place, and returns the state. It
      may return another array instead: that is how a state grows or shrinks;
    - `probabilities(state, settings, arms, link, out) -> bool` writes the probability of each arm to `out`, or returns
      False if the rule has no exact form (it is then estimated by asking `choose` many times).

    Instead of `choose` and `probabilities` a policy may define a rule, from which both follow:

    - `decide(state, settings, arms, link) -> int`, if the rule is deterministic, or
    - `sample(state, settings, arms, rng, link) -> int`, if it is random and its probabilities have no exact form;
    - and, with either of them, `is_warming_up(state, settings) -> bool`: while it is true, arms are pulled at random.

    In these functions `settings` has an attribute for each setting that is a number (None reads as NaN, a choice as its
    index) and for each method under `@derived`; `rng` is a generator (`maths.philox`); `arms` is a (K, d) matrix with
    K >= 1; `link` has the mean, slope and antiderivative of the policy's link. Input was checked before.

    A subclass of a policy that is declared with `sparse=True` is its sparse form: what plays in a Bandit with
    `sparse=True`. Its functions take rows in compressed sparse row form (`maths.sparse_rows`), without zeros to learn:

    - `choose(state, settings, indptr, indices, values, rng, link) -> int`;
    - `learn(state, settings, indices, values, reward, rng, link) -> state`;
    - `probabilities(state, settings, indptr, indices, values, link, out) -> bool`, which is optional.
    """

    name: ClassVar[str]
    """The id in the table of policies, on the command line and in file names of compiled code."""
    layout: ClassVar[StateLayout] = StateLayout()
    """The parts of the state."""
    estimate: ClassVar[str] = "theta"
    """The name of the vector of the state that is the point estimate of theta."""
    grid: ClassVar[Grid] = {}
    """The values of settings among which experiments choose: the SGD-TS paper's, where it has some."""
    info: ClassVar[PolicyInfo] = PolicyInfo("", "", "", "", "")
    """Its row in docs/policies.md."""
    is_sparse: ClassVar[bool] = False
    """Whether its functions take sparse rows."""

    choose: ClassVar[Callable[..., int]]
    learn: ClassVar[Callable[..., Floats]]

    def __init_subclass__(cls, *, sparse: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        name = vars(cls).get("name", "policy")
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            raise InvalidInput(
                f"the name of {cls.__name__} must be letters, digits, dots, dashes and underscores; got {name!r}"
            )
        dataclass(frozen=True, kw_only=True)(cls)
        del cls.__setattr__, cls.__delattr__  # those of Policy do the same, and let users write @dataclass themselves
        for name in COMPILED:
            function = vars(cls).get(name)
            function = function.__func__ if isinstance(function, staticmethod) else function
            if isinstance(function, FunctionType):
                setattr(cls, name, staticmethod(jittable(function)))
        if "choose" in vars(cls) and "probabilities" not in vars(cls):  # not those of a base
            unknown = no_sparse_probabilities if sparse else Policy.probabilities
            cls.probabilities = staticmethod(unknown)  # type: ignore[method-assign]
        if sparse:
            cls.is_sparse = True
            cls.__base__._sparse_form = cls  # type: ignore[union-attr]
            return
        if not {"decide", "sample", "is_warming_up"}.isdisjoint(vars(cls)):
            defined = next((base for base in cls.__mro__ if not {"decide", "sample"}.isdisjoint(vars(base))), None)
            if defined is not None:
                _add_random_rule(cls) if "sample" in vars(defined) else _add_deterministic_rule(cls)

    def __post_init__(self) -> None:
        validate_settings(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(
            f"settings of a policy cannot be changed; make another one with replace(..., {name}=)"
        )

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"settings of a policy cannot be deleted; got {name}")

    @property
    def link(self) -> AnyLink:
        """How scores become expected rewards: a link, or the name of a built-in one."""
        return "identity"

    @property
    def keeps_history(self) -> bool:
        """Whether the state holds past observations, and so may grow with them. All others are of constant size."""
        return self.layout.has_history

    def implementation(self, dim: int) -> type["Policy"]:
        """The class whose compiled functions play for this dimension: its own, unless it has several of them."""
        return type(self)

    def sparse_implementation(self, dim: int) -> type["Policy"] | None:
        """The class that plays on sparse rows, made with the settings of this policy; None if there is none."""
        form: type[Policy] | None = vars(type(self)).get("_sparse_form")
        return form

    def init(self, dim: int) -> Floats:
        """The state before the first round."""
        return self.layout.allocate(dim)

    def packed_settings(self, dim: int) -> Floats:
        """The settings as the array that compiled code gets."""
        return packed_settings(self, self.implementation(dim), dim)

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        """Whether this array can be a state of this policy: asked before a loaded one is trusted."""
        return self.layout.is_valid(state, dim)

    def coefficients(self, state: Floats, dim: int) -> Coefficients | None:
        """A copy of the point estimate in a state: the vector named by `estimate`, and the scalar "intercept" if any.

        None if the state has no such vector of dim numbers.
        """
        parts = self.layout.parts(state, dim)
        theta = parts.get(self.estimate)
        if theta is None or theta.size != dim:
            return None
        return Coefficients(theta.copy(), float(parts["intercept"][0]) if "intercept" in parts else 0.0)

    def has_room(self, state: Floats, dim: int, features: Ints, most_numbers: int) -> Bools:
        """Which of these features a sparse form can learn so that its state has at most `most_numbers` numbers.

        All of them, or only those that it has learned already. All for a policy whose state does not grow.
        """
        return np.ones(len(features), dtype=bool)

    def bonus_rule(self, state: Floats, dim: int) -> BonusRule | None:
        """The rule of the next decision, if it is a `BonusRule`; None if it is another one."""
        return None

    @staticmethod
    @jittable
    def is_warming_up(state: Floats, settings: Any) -> bool:
        """Whether arms are still pulled at random: never, unless a policy says otherwise."""
        return False

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Not exact, unless a policy says otherwise."""
        return False


@jittable
def no_sparse_probabilities(
    state: Floats, settings: Any, indptr: Ints, indices: Ints, values: Floats, link: LinkFunctions, out: Floats
) -> bool:
    """Not exact, unless a sparse form says otherwise."""
    return False


def _add_deterministic_rule(kind: Any) -> None:
    decide, is_warming_up = kind.decide, kind.is_warming_up

    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm during the warm-up, then the arm that the rule decides for."""
        if is_warming_up(state, settings):
            return any_index(rng, arms.shape[0])
        return decide(state, settings, arms, link)  # type: ignore[no-any-return]

    def probabilities(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Uniform during the warm-up, then all on the arm that the rule decides for."""
        if is_warming_up(state, settings):
            uniform_mass(out)
        else:
            point_mass(out, decide(state, settings, arms, link))
        return True

    attach(kind, choose, probabilities)


def _add_random_rule(kind: Any) -> None:
    sample, is_warming_up = kind.sample, kind.is_warming_up

    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm during the warm-up, then an arm that the rule samples."""
        if is_warming_up(state, settings):
            return any_index(rng, arms.shape[0])
        return sample(state, settings, arms, rng, link)  # type: ignore[no-any-return]

    def probabilities(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Uniform during the warm-up; no exact form after it."""
        uniform_mass(out)
        return bool(is_warming_up(state, settings))

    attach(kind, choose, probabilities)


def unpacker(kind: Any) -> Callable[[Floats], Any]:
    """The function that gives the packed settings of a policy class their names, in compiled code too."""
    if "unpack" not in vars(kind):
        packed: Any = namedtuple("Packed", packed_names(kind) or ("unused",))  # type: ignore[misc]
        packed.__module__, packed.__qualname__ = kind.__module__, f"{kind.__qualname__}.Packed"
        kind.Packed, length = packed, len(packed._fields)

        def unpack(settings: Floats) -> Any:
            return packed(*fixed_tuple(settings, length))

        attach(kind, unpack)
    unpack_settings: Callable[[Floats], Any] = kind.unpack
    return unpack_settings


def attach(kind: type, *functions: Any) -> None:
    """Make these functions static methods of a class, found again by its name when compiled code is looked up."""
    for function in functions:
        function.__module__, function.__qualname__ = kind.__module__, f"{kind.__qualname__}.{function.__name__}"
        setattr(kind, function.__name__, staticmethod(jittable(function)))
