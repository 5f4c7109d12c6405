"""Columns: which column of a table means what."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches

from glbandits.errors import InvalidInput
from glbandits.records import set_validated

ARM = "{arm}"
"""What stands for the name of an arm in the names of `Columns.per_arm` and `Columns.probabilities`."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Names of the columns of a log, a row for each decision.

    >>> Columns(context=("age", "country"), propensity="p")
    Columns(arm='arm', reward='reward', propensity='p', context=('age', 'country'), per_arm=(), ...)
    >>> Columns(per_arm=("affinity",))
    Traceback (most recent call last):
    glbandits.errors.InvalidInput: per_arm must name columns with {arm} where the name of an arm stands, such as
    'affinity_{arm}'; got 'affinity'
    """

    arm: str = "arm"
    """The name of the arm that was chosen: text or whole numbers. The index of it (0 is the first) if there are
    `features` and no `arms`."""
    reward: str = "reward"
    propensity: str | None = "propensity"
    """The probability that the log's policy gave to the chosen arm; None if it is not known. A table that has
    `probabilities` need not have it."""
    context: tuple[str, ...] = ()
    """What was known of the row: numbers, true or false, categories, text, dates or lists (see `FeatureMap`)."""
    per_arm: tuple[str, ...] = ()
    """A value for each arm in each row, such as "affinity_{arm}": a column for each arm. A row that is decided has
    it as "affinity"."""
    cluster: str | None = None
    """Rows with the same value here were decided together. Of any type."""
    arms: str | None = None
    """A list of the names of the arms that the row had, where rows have different ones."""
    features: str | None = None
    """A list with a list of numbers for each arm that the row had."""
    probabilities: str | None = "probabilities"
    """The probability that the log's policy gave to each arm. Where rows have `arms` or `features`, a list of numbers
    in their order. Where all rows have the same arms, a struct (a dict) with the names of the arms, or a column for
    each arm, such as "p_{arm}". The default is read if the table has it; None reads none."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("context", "per_arm"):
                set_validated(self, **{field.name: _texts(field.name, value)})
            elif not (isinstance(value, str) or (value is None and field.name not in ("arm", "reward"))):
                raise InvalidInput(f"{field.name} must be the name of a column; got {value!r}")
        for pattern in self.per_arm:
            if ARM not in pattern:
                raise InvalidInput(
                    f"per_arm must name columns with {ARM} where the name of an arm stands, such as 'affinity_{ARM}'; "
                    f"got {pattern!r}"
                )
        if self.probability_of_arm and (self.arms or self.features):
            raise InvalidInput(
                "probabilities must be one column of lists, with a number for each arm of the row, where rows have "
                f"arms or features of their own; got {self.probabilities!r}"
            )
        if self.per_arm and not self.arms and self.features:
            raise InvalidInput("per_arm needs names of arms; name the column of lists of them as arms")

    @property
    def single(self) -> tuple[str, ...]:
        """All columns but those with a name for each arm, each once."""
        names = (self.arm, self.reward, self.propensity, *self.context, self.cluster, self.arms, self.features)
        whole = None if self.probability_of_arm else self.probabilities
        return tuple(dict.fromkeys(name for name in (*names, whole) if name is not None))

    @property
    def probability_of_arm(self) -> str | None:
        """The pattern for the columns of `probabilities`, if each arm has one of its own."""
        return self.probabilities if self.probabilities is not None and ARM in self.probabilities else None

    def found_in(self, names: Collection[str]) -> "Columns":
        """The same without defaults that the table may do without and lacks."""
        default = Columns()
        missing = {name for name in ("propensity", "probabilities") if getattr(default, name) not in names}
        if self.probabilities == default.probabilities and "probabilities" in missing:
            return replace(self, probabilities=None)
        if self.probabilities is not None and self.propensity == default.propensity and "propensity" in missing:
            return replace(self, propensity=None)
        return self

    def reads(self, name: str) -> bool:
        """Whether a column of this name may be read: it is named here, or some arm's name makes it of a pattern."""
        named = (*self.per_arm, *filter(None, [self.probability_of_arm]))
        patterns = (re.escape(pattern).replace(re.escape(ARM), ".*") for pattern in named)
        return name in self.single or any(re.fullmatch(pattern, name, re.DOTALL) for pattern in patterns)

    @property
    def own(self) -> tuple[str, ...]:
        """The names of the columns of `per_arm` in a row that belongs to one arm: without the name of the arm."""
        return tuple(pattern.replace(ARM, "").strip("_-. ") or pattern for pattern in self.per_arm)

    def of_arms(self, arm_names: Iterable[str]) -> list[list[str]]:
        """The columns of each pattern of `per_arm`, one for each arm."""
        return [columns_of(pattern, arm_names) for pattern in self.per_arm]


def columns_of(pattern: str, arm_names: Iterable[str]) -> list[str]:
    """The columns of a pattern with `{arm}`, one for each arm."""
    return [pattern.replace(ARM, name) for name in arm_names]


def _texts(name: str, value: object) -> tuple[str, ...]:
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, Iterable):
        raise InvalidInput(f"{name} must be names of columns, such as ('age', 'country'); got {value!r}")
    found = tuple(texts)
    if not all(isinstance(text, str) for text in found) or len(set(found)) < len(found):
        raise InvalidInput(f"{name} must be different names of columns, such as ('age', 'country'); got {found}")
    return found


def check_columns(columns: object) -> Columns:
    """They themselves, if that is what they are."""
    if not isinstance(columns, Columns):
        raise InvalidInput(f"columns must say which column is what, such as Columns(arm='item'); got {columns!r}")
    return columns


NAME_THEM = "Say what they are called: Columns(arm=..., reward=..., propensity=... or None if it is not known)"


def check_present(
    wanted: Iterable[str], found: Sequence[str], what: str = "the table", *, mend: str = NAME_THEM
) -> None:
    """An error that says which columns are missing, what they may be called, and what there is."""
    wanted = list(wanted)
    missing = [name for name in wanted if name not in found]
    if not missing:
        return
    guesses = {name: get_close_matches(name, found, n=1, cutoff=0.5) for name in missing}
    hints = [f"{name!r} (did you mean {near[0]!r}?)" if near else repr(name) for name, near in guesses.items()]
    raise InvalidInput(
        f"{what} has no column {', '.join(hints)}. Expected: {', '.join(_few(wanted))}. Found: "
        f"{', '.join(_few(found)) or 'none'}. {mend}"
    )


def _few(names: Sequence[str]) -> list[str]:
    """At most 40 of them, so that an error can be read."""
    return [*names[:40], f"and {len(names) - 40} more"] if len(names) > 40 else list(names)
