"""Columns: the meaning of the columns of a table."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches

from glbandits.common.arrays import set_validated
from glbandits.common.errors import InvalidInput

ARM = "{arm}"
"""Placeholder for the name of an arm, in `Columns.per_arm` and `Columns.probabilities`."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Names of the columns of a log with one row for each decision.

    >>> Columns(context=("age", "country"), propensity="p")
    Columns(arm='arm', reward='reward', propensity='p', context=('age', 'country'), per_arm=(), ...)
    >>> Columns(per_arm=("affinity",))
    Traceback (most recent call last):
    glbandits.common.errors.InvalidInput: per_arm must be names of columns with {arm} for the name of an arm, such as
    'affinity_{arm}'; got 'affinity'
    """

    arm: str = "arm"
    """The chosen arm: its name, as text or a whole number; or its index in the row if the table has `features` and no
    `arms`."""
    reward: str = "reward"
    propensity: str | None = "propensity"
    """The probability that the logging policy gave to the chosen arm; None if unknown. Optional in a table with
    `probabilities`."""
    context: tuple[str, ...] = ()
    """Context of the row: numbers, booleans, categories, text, dates or lists (see `FeatureMap`)."""
    per_arm: tuple[str, ...] = ()
    """Values for each pair of row and arm, such as "affinity_{arm}": one column for each arm. When a Bandit chooses,
    the row of an arm has the value as "affinity"."""
    cluster: str | None = None
    """Rows with the same value belong to one cluster: they are not independent. Of any type."""
    arms: str | None = None
    """List of the names of the arms of the row, if rows have different arms."""
    features: str | None = None
    """List with one list of numbers for each arm of the row."""
    probabilities: str | None = "probabilities"
    """The probability that the logging policy gave to each arm. If rows have `arms` or `features`: a list of numbers in
    the same order. If all rows have the same arms: a struct (a dict) with a field for each arm, or a column for each
    arm, such as "p_{arm}". The default column is optional; None ignores it."""

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
                    f"per_arm must be names of columns with {ARM} for the name of an arm, such as 'affinity_{ARM}'; "
                    f"got {pattern!r}"
                )
        if self.probability_of_arm and (self.arms or self.features):
            raise InvalidInput(
                "probabilities must be one column of lists, with a number for each arm of the row, if the log has "
                f"columns arms or features; got {self.probabilities!r}"
            )
        if self.per_arm and not self.arms and self.features:
            raise InvalidInput(
                "per_arm needs the names of the arms of each row. Set arms to the column that lists them"
            )
        for role in ("arm", "reward", "propensity", "arms", "features", "probabilities"):
            if getattr(self, role) in self.context:
                raise InvalidInput(
                    f"context must not contain the {role} column {getattr(self, role)!r}, which is not known before "
                    "the decision. Leave it out of the context",
                    field="Columns.context",
                )

    @property
    def single(self) -> tuple[str, ...]:
        """All columns that are not named by a pattern with `{arm}`, without repetitions."""
        names = (self.arm, self.reward, self.propensity, *self.context, self.cluster, self.arms, self.features)
        whole = None if self.probability_of_arm else self.probabilities
        return tuple(dict.fromkeys(name for name in (*names, whole) if name is not None))

    @property
    def probability_of_arm(self) -> str | None:
        """The pattern of `probabilities` if each arm has its own column, else None."""
        return self.probabilities if self.probabilities is not None and ARM in self.probabilities else None

    def without_absent_defaults(self, names: Collection[str]) -> "Columns":
        """Return a copy without those optional default columns that the table does not have."""
        default = Columns()
        missing = {name for name in ("propensity", "probabilities") if getattr(default, name) not in names}
        if self.probabilities == default.probabilities and "probabilities" in missing:
            return replace(self, probabilities=None)
        if self.probabilities is not None and self.propensity == default.propensity and "propensity" in missing:
            return replace(self, propensity=None)
        return self

    def reads(self, name: str) -> bool:
        """Whether a column of this name may be read: it is named here, or it matches a pattern."""
        named = (*self.per_arm, *filter(None, [self.probability_of_arm]))
        patterns = (re.escape(pattern).replace(re.escape(ARM), ".*") for pattern in named)
        return name in self.single or any(re.fullmatch(pattern, name, re.DOTALL) for pattern in patterns)

    @property
    def per_arm_names(self) -> tuple[str, ...]:
        """Names of `per_arm` values in the row of an arm: "affinity" for "affinity_{arm}"."""
        return tuple(pattern.replace(ARM, "").strip("_-. ") or pattern for pattern in self.per_arm)

    def of_arms(self, arm_names: Iterable[str]) -> list[list[str]]:
        """The columns of each `per_arm` pattern: for each pattern, one column for each arm."""
        return [columns_of(pattern, arm_names) for pattern in self.per_arm]


def columns_of(pattern: str, arm_names: Iterable[str]) -> list[str]:
    """The columns of a pattern, one for each arm."""
    return [pattern.replace(ARM, name) for name in arm_names]


def _texts(name: str, value: object) -> tuple[str, ...]:
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, Iterable):
        raise InvalidInput(f"{name} must be names of columns, such as ('age', 'country'); got {value!r}")
    names = tuple(texts)
    if not all(isinstance(text, str) for text in names) or len(set(names)) < len(names):
        raise InvalidInput(f"{name} must be different names of columns, such as ('age', 'country'); got {names}")
    return names


def check_columns(columns: object) -> Columns:
    """Return the argument. Raises InvalidInput unless it is a `Columns`."""
    if not isinstance(columns, Columns):
        raise InvalidInput(f"columns must be a Columns object, such as Columns(arm='item'); got {columns!r}")
    return columns


NAME_THEM = (
    "Name the columns with Columns(arm=..., reward=..., propensity=...); if the propensities are not known, set "
    "Columns(propensity=None)"
)


def check_present(
    wanted: Iterable[str],
    found: Sequence[str],
    what: str = "the table",
    *,
    advice: str = NAME_THEM,
    field: str | None = "columns",
) -> None:
    """Raise InvalidInput if wanted columns are missing. The message suggests similar names."""
    wanted = list(wanted)
    missing = [name for name in wanted if name not in found]
    if not missing:
        return
    guesses = {name: get_close_matches(name, found, n=1, cutoff=0.5) for name in missing}
    hints = [f"{name!r} (did you mean {near[0]!r}?)" if near else repr(name) for name, near in guesses.items()]
    raise InvalidInput(
        f"{what} has no column {', '.join(hints)}. Expected: {', '.join(_few(wanted))}. Found: "
        f"{', '.join(_few(found)) or 'none'}. {advice}",
        field=field,
    )


def _few(names: Sequence[str]) -> list[str]:
    """At most 40 names, to keep the message readable."""
    return [*names[:40], f"and {len(names) - 40} more"] if len(names) > 40 else list(names)
