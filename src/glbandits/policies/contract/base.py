"""`Policy`, the base class of every policy.

`Policy` makes every subclass a frozen dataclass of settings and lets Numba compile its functions.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, dataclass
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, TypeAlias, dataclass_transform

import numpy as np

from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.common.errors import InvalidInput
from glbandits.compilation.numba_support import jittable
from glbandits.policies.contract.decisions import PARTS
from glbandits.policies.contract.model_facts import Coefficients, Outliers
from glbandits.policies.contract.settings import (
    AnyLink,
    declared_settings,
    packed_settings,
    validate_settings,
)
from glbandits.policies.contract.state_layout import StateLayout

Grid: TypeAlias = Mapping[str, tuple[Any, ...]]
"""Values for some settings of a policy. An experiment runs every combination."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
COMPILED = ("choose", "learn", "probabilities", *PARTS)
"""The functions of a policy that run every round, as compiled code or as plain Python."""


class PolicyInfo(NamedTuple):
    """The overview of a policy: its row in docs/policies.md.

    Costs are orders of growth, where t counts the distinct arms pulled so far.
    """

    choose: str
    """Time to choose an arm."""
    learn: str
    """Time to learn a reward."""
    memory: str
    """Size of the state."""
    guarantee: str
    """The proven order of regret, with the settings of the theory and up to logarithms; or none."""
    use_when: str
    """When to prefer this policy."""
    page: str = ""
    """The page in docs/theory, if it is not named like the policy."""
    sparse: str = ""
    """Costs of the sparse form: time to choose, time to learn, memory, where n is the nonzeros of an arm."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Policy:
    """A bandit algorithm: settings, a state layout, and functions that choose and learn.

    A subclass becomes a frozen dataclass. Its annotated attributes are its settings, which are validated on creation.
    Everything that the policy learns is in one flat array, the state, whose parts `layout` declares. The functions
    below run every round. They are static, read no attribute, and may call only functions under `@jittable`:

    - `learn(state, settings, x, reward, rng, link) -> state` learns one reward in place and returns the state. To grow
      or shrink the state, it returns another array.
    - A rule, from which decisions, rankings, payoffs and probabilities follow (`policies.contract.decisions`):
      `theta(state, settings, dim, draw, rng) -> theta` returns the theta under which arms are scored by x'theta;
      `index(state, settings, arms, link, out)` writes the score of each arm to `out`, without randomness; or
      `lines(state, settings, arms, link, levels, slopes) -> ZRange` writes scores level + Z slope with one random Z.
      Scores are on the scale of x'theta: the expected reward of a score is link.mean(score).
    - Optionally `random_share(state, settings) -> float`, the probability that a decision is uniformly random, such as
      1 during a warm-up.

    A policy without a score for each arm defines `choose(state, settings, arms, rng, link) -> int` instead of a rule,
    and optionally `probabilities(state, settings, arms, link, out) -> bool`, which writes the probability of each arm
    and returns True. Without exact probabilities, callers estimate them by many calls of `choose`. Such a policy has
    neither rankings nor payoffs.

    Arguments of these functions: `settings` has an attribute for each numeric setting (None reads as NaN, a choice as
    its index), or for each name in `compiled_settings`. `rng` is a random generator (`maths.philox`). `arms` is a
    (K, d) matrix with K >= 1. `link` has the mean, slope and antiderivative of the policy's link. All arguments are
    valid: the caller has checked them.

    A subclass of a policy that is declared with `sparse=True` is the sparse form of that policy, which a Bandit with
    `sparse=True` runs. Its functions take `arms` as SparseRows, and `x` as a SparseRow without zeros
    (`maths.sparse_rows`). It inherits functions that accept both forms.
    """

    name: ClassVar[str]
    """The id in `POLICIES`, on the command line and in file names of compiled code."""
    layout: ClassVar[StateLayout] = StateLayout()
    """The parts of the state."""
    estimate: ClassVar[str] = "theta"
    """The name of the state vector that holds the point estimate of theta."""
    estimate_is_draw: ClassVar[bool] = False
    """Whether that vector is a random draw around an estimate which the policy does not store."""
    grid: ClassVar[Grid] = {}
    """The settings that experiments tune, and their values: those of the SGD-TS paper if it tunes this policy."""
    compiled_settings: ClassVar[tuple[str, ...] | None] = None
    """What the functions read from `settings`: numeric settings, and methods `name(self, dim) -> float`.

    None: all numeric settings. Policies that differ only in other settings share results in the result store.
    """
    info: ClassVar[PolicyInfo] = PolicyInfo("", "", "", "", "")
    """The row in docs/policies.md."""
    outliers_at: ClassVar[int | None] = None
    """The index in a state of the number of outliers that were limited; None if the policy limits none."""
    is_sparse: ClassVar[bool] = False
    """Whether the functions take sparse rows."""
    scores_are_rewards: ClassVar[bool] = False
    """Whether the rule writes expected rewards instead of scores."""
    draws_anew: ClassVar[bool] = False
    """Whether `theta` or `scores` draws random numbers for each decision, so that probabilities have no exact form."""

    choose: ClassVar[Callable[..., int]]
    learn: ClassVar[Callable[..., Floats]]
    probabilities: ClassVar[Callable[..., bool]]
    random_share: ClassVar[Callable[..., float] | None] = None
    """The probability that the next decision is uniformly random. None: 0."""
    draw_count: ClassVar[Callable[..., int] | None] = None
    """The number of equally likely draws in the state from which `theta` or `scores` uses one. None: 1."""

    def __init_subclass__(cls, *, sparse: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        name = vars(cls).get("name", "policy")
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            raise InvalidInput(
                f"the name of {cls.__name__} must be letters, digits, dots, dashes and underscores; got {name!r}"
            )
        dataclass(frozen=True, kw_only=True)(cls)
        del cls.__setattr__, cls.__delattr__  # Policy's do the same, and allow an explicit @dataclass on a subclass
        for name in COMPILED:
            function = vars(cls).get(name)
            function = function.__func__ if isinstance(function, staticmethod) else function
            if isinstance(function, FunctionType):
                setattr(cls, name, staticmethod(jittable(function)))
        if sparse:
            cls.is_sparse = True
            next(base for base in cls.__bases__ if issubclass(base, Policy))._sparse_form = cls  # type: ignore[attr-defined]

    def __post_init__(self) -> None:
        validate_settings(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(
            f"settings of a policy cannot be changed; create another one with dataclasses.replace(policy, {name}=...)"
        )

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"settings of a policy cannot be deleted; got {name}")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name, as scikit-learn's estimators do.

        A policy contains no estimators, so `deep` changes nothing.
        """
        kind: Any = type(self)
        return {setting.name: getattr(self, setting.name) for setting in declared_settings(kind)}

    @property
    def link(self) -> AnyLink:
        """The link from scores to expected rewards: a Link, or the name of a built-in one."""
        return "identity"

    @property
    def keeps_history(self) -> bool:
        """Whether the state stores past observations, and so may grow with them."""
        return self.layout.has_history

    def implementation(self, dim: int) -> type["Policy"]:
        """The class whose functions run for this dimension. A policy with variants overrides this."""
        return type(self)

    def sparse_implementation(self, dim: int) -> type["Policy"] | None:
        """The class of the sparse form, which takes the same settings; None if there is none."""
        form: type[Policy] | None = vars(type(self)).get("_sparse_form")
        return form

    def init(self, dim: int) -> Floats:
        """The state before the first round."""
        return self.layout.allocate(dim)

    def packed_settings(self, dim: int) -> Floats:
        """The settings as the array that compiled functions receive."""
        return packed_settings(self, self.implementation(dim), dim)

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        """Whether this array can be a state of this policy. Called on states that come from files."""
        return self.layout.is_valid(state, dim)

    def coefficients(self, state: Floats, dim: int) -> Coefficients | None:
        """Return a copy of the point estimate in a state; None if the state has none.

        The estimate is the vector named by the class attribute `estimate`, and the scalar "intercept" if there is one.
        """
        parts = self.layout.parts(state, dim)
        theta = parts.get(self.estimate)
        if theta is None or theta.size != dim:
            return None
        return Coefficients(theta.copy(), float(parts["intercept"][0]) if "intercept" in parts else 0.0)

    def score_means(self, state: Floats, dim: int, arms: Any, largest: float = math.inf) -> Floats | None:
        """Return the score of each arm under the point estimate; None if the policy has none.

        `arms` is a matrix, or SparseRows for a sparse form. A score depends on its own row alone, to the last bit. No
        absolute feature is above `largest`, so that checks can be left out.
        """
        found = None if self.estimate_is_draw else self.coefficients(state, dim)
        return None if found is None else found.scores(arms)

    def score_variances(self, state: Floats, dim: int, arms: Any) -> Floats | None:
        """Return the posterior variance of each arm's score. None without an override: there is no posterior."""
        return None

    def outliers(self, state: Floats, dim: int) -> Outliers:
        """Return how many rewards and features were limited. None are without an override."""
        return Outliers()

    def has_room(self, state: Floats, dim: int, features: Ints, max_size: int) -> Bools:
        """Whether a sparse form can learn each feature in a state of at most `max_size` numbers.

        True for all features if there is room, else only for features that were learned already. A policy whose state
        does not grow returns True for all.
        """
        return np.ones(len(features), dtype=bool)

    def random_start(self, dim: int) -> int:
        """The number of rewards before the first estimate. Until then, arms are chosen at random."""
        return 0
