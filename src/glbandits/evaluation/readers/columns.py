"""Columns: the meaning of the columns of a table, and the check of their types."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import polars as pl

from glbandits.common.arrays import set_validated
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.readers.column_values import is_number, is_text
from glbandits.features.table_columns import check_present

EACH_ARM = "{arm}"
"""Placeholder for the name of an arm, in `Columns.per_arm` and the fields of OF_EACH_ARM."""
OF_EACH_ARM = ("probabilities", "values", "costs")
"""Fields of `Columns` with a number for each arm of the row."""


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
    proposed: tuple[str, ...] = ()
    """Columns with the arm that another system would have chosen, written as in `arm`. The target "column:NAME" chooses
    it. They are no features."""
    values: str | None = None
    """What a reward of 1 is worth, for each arm, in the form of `probabilities`. Estimates are then payoffs:
    value * reward - cost."""
    costs: str | None = None
    """The cost of each arm, in the same form; None for 0."""
    time: str | None = None
    """When the decision was taken: a number, a date or a time. Rows are read in this order."""
    id: str | None = None
    """Identifies a decision. A log that has an id twice is refused."""
    other_rewards: tuple[str, ...] = ()
    """Other rewards of the same decisions, which `LoggedData.other_rewards` keeps. Rows may lack them."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("context", "per_arm", "proposed", "other_rewards"):
                set_validated(self, **{field.name: _texts(field.name, value)})
            elif not (isinstance(value, str) or (value is None and field.name not in ("arm", "reward"))):
                raise InvalidInput(f"{field.name} must be the name of a column; got {value!r}")
        for pattern in self.per_arm:
            if EACH_ARM not in pattern:
                raise InvalidInput(
                    f"per_arm must be names of columns with {EACH_ARM} for the name of an arm, such as "
                    f"'affinity_{EACH_ARM}'; got {pattern!r}"
                )
        if self.patterns and (self.arms or self.features):
            role, pattern = next(iter(self.patterns.items()))
            raise InvalidInput(
                f"{role} must be one column of lists, with a number for each arm of the row, if the log has "
                f"columns arms or features; got {pattern!r}"
            )
        if self.costs is not None and self.values is None:
            raise InvalidInput(f"costs needs values, such as 'value_{EACH_ARM}'; got none", field="Columns.values")
        if self.per_arm and not self.arms and self.features:
            raise InvalidInput(
                "per_arm needs the names of the arms of each row. Set arms to the column that lists them"
            )
        for name in self.proposed:
            if name in self.context:
                raise InvalidInput(
                    f"context must not contain {name!r}, whose arm is a candidate (column:{name}). Leave it out of the "
                    "context",
                    field="Columns.context",
                )
        for name in self.other_rewards:
            if name == self.reward or name in self.context:
                raise InvalidInput(
                    f"other_rewards must not contain {name!r}, which is the reward or in the context. Leave it out",
                    field="Columns.other_rewards",
                )
        for role in ("arm", "reward", "propensity", "arms", "features", "probabilities"):
            if getattr(self, role) in self.proposed:
                raise InvalidInput(
                    f"column:{getattr(self, role)} is no candidate, because this is the {role} column. Name a column "
                    "with the arms that another system would have chosen",
                    field="Columns.proposed",
                )
            if getattr(self, role) in self.context:
                raise InvalidInput(
                    f"context must not contain the {role} column {getattr(self, role)!r}, which is not known before "
                    "the decision. Leave it out of the context",
                    field="Columns.context",
                )

    @property
    def single(self) -> tuple[str, ...]:
        """All columns that are not named by a pattern with `{arm}`, without repetitions."""
        return tuple(dict.fromkeys([*self.of_rows, *filter(None, [self.time, self.id])]))

    @property
    def of_rows(self) -> tuple[str, ...]:
        """Those of `single` that blocks of rows need. The order and the ids are known when the log is open."""
        names = (self.arm, self.reward, self.propensity, *self.context, self.cluster, self.arms, self.features)
        names += (*self.proposed, *self.other_rewards)
        whole = (getattr(self, role) for role in OF_EACH_ARM if role not in self.patterns)
        return tuple(dict.fromkeys(name for name in (*names, *whole) if name is not None))

    @property
    def patterns(self) -> dict[str, str]:
        """The patterns of the fields OF_EACH_ARM that have one column for each arm, by field."""
        given = {role: getattr(self, role) for role in OF_EACH_ARM}
        return {role: name for role, name in given.items() if name is not None and EACH_ARM in name}

    def without_absent_defaults(self, names: Collection[str]) -> "Columns":
        """Return a copy without those optional default columns that the table does not have."""
        default = Columns()
        missing = {name for name in ("propensity", "probabilities") if getattr(default, name) not in names}
        if self.probabilities == default.probabilities and "probabilities" in missing:
            return replace(self, probabilities=None)
        if self.probabilities is not None and self.propensity == default.propensity and "propensity" in missing:
            return replace(self, propensity=None)
        return self

    @property
    def renamed(self) -> list[str]:
        """The fields, such as "Columns.reward", that name a column and differ from their default."""
        default = Columns()
        return [
            f"Columns.{field.name}"
            for field in fields(self)
            if getattr(self, field.name) not in (None, (), getattr(default, field.name))
        ]

    def reads(self, name: str) -> bool:
        """Whether a column of this name may be read: it is named here, or it matches a pattern."""
        named = (*self.per_arm, *self.patterns.values())
        patterns = (re.escape(pattern).replace(re.escape(EACH_ARM), ".*") for pattern in named)
        return name in self.single or any(re.fullmatch(pattern, name, re.DOTALL) for pattern in patterns)

    @property
    def per_arm_names(self) -> tuple[str, ...]:
        """Names of `per_arm` values in the row of an arm: "affinity" for "affinity_{arm}"."""
        return tuple(pattern.replace(EACH_ARM, "").strip("_-. ") or pattern for pattern in self.per_arm)

    def of_arms(self, arm_names: Iterable[str]) -> list[list[str]]:
        """The columns of each `per_arm` pattern: for each pattern, one column for each arm."""
        return [columns_of(pattern, arm_names) for pattern in self.per_arm]


def columns_of(pattern: str, arm_names: Iterable[str]) -> list[str]:
    """The columns of a pattern, one for each arm."""
    return [pattern.replace(EACH_ARM, name) for name in arm_names]


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


CONTEXT_TYPES = (pl.Date, pl.Datetime, pl.List, pl.Array, pl.Null)
"""Types of context columns, besides numbers and text."""
OTHER_PROBABILITIES = "If it holds something else, set Columns(probabilities=None)"
OR_A_TABLE = "If they are the same in all rows, set payoffs to a table with the columns arm, value and cost"
NAME_THEM = (
    "Name the columns with Columns(arm=..., reward=..., propensity=...); if the propensities are not known, set "
    "Columns(propensity=None)"
)


def prepare_table(table: pl.LazyFrame, columns: Columns) -> pl.LazyFrame:
    """Check the types of the columns, and cast names of arms to text and arrays to lists."""
    schema = table.collect_schema()
    check_present(columns.single, schema.names(), advice=NAME_THEM, field="columns")
    changes = []
    if columns.arms is not None or columns.features is None:
        for column in (columns.arm, *columns.proposed):
            if schema[column].is_nested() or (schema[column].is_float() and column == columns.arm):
                raise InvalidInput(
                    f"column {column!r} must name the chosen arm by text or a whole number; got {schema[column]}. Cast "
                    "it first"
                )
        changes.append(pl.col(columns.arm).cast(pl.String))
        changes += [_names(name, schema[name]) for name in columns.proposed]
    for lists, kind in ((columns.arms, pl.List(pl.String)), (columns.features, pl.List(pl.List(pl.Float64)))):
        if lists is not None:
            depth, leaf = _lists(schema[lists])
            if depth != _lists(kind)[0] or (depth == 2 and not is_number(leaf)):
                wanted = "names" if kind == pl.List(pl.String) else "lists of numbers, one for each arm"
                raise InvalidInput(f"column {lists!r} must have a list of {wanted} in each row; got {schema[lists]}")
            changes.append(pl.col(lists).cast(kind))
    for role in OF_EACH_ARM:
        changes += _lists_of_numbers(columns, role, schema)
    for name in columns.context:
        if not (is_text(schema[name]) or is_number(schema[name]) or isinstance(schema[name], CONTEXT_TYPES)):
            raise InvalidInput(
                f"column {name!r} of the context must have numbers, booleans, text, dates or lists; got "
                f"{schema[name]}. Cast it first"
            )
    return table.with_columns(changes)


def _names(name: str, kind: pl.DataType) -> pl.Expr:
    """The names of arms in a column. Whole numbers with missing values are floats in pandas."""
    column = pl.col(name)
    if kind.is_float():
        column = pl.when(column == column.floor()).then(column.cast(pl.Int64, strict=False)).alias(name)
    return column.cast(pl.String)


def _lists_of_numbers(columns: Columns, role: str, schema: pl.Schema) -> list[pl.Expr]:
    """The cast of the column of one of OF_EACH_ARM.

    Raises InvalidInput unless its type has a value for each arm.
    """
    name = getattr(columns, role)
    if name is None or role in columns.patterns:
        return []
    kind, field = schema[name], f"Columns.{role}"
    advice = OTHER_PROBABILITIES if role == "probabilities" else OR_A_TABLE
    if columns.arms is None and columns.features is None:
        # Fields of a schema have instances as types; polars declares also the class.
        if not (isinstance(kind, pl.Struct) and all(is_number(field.dtype) for field in kind.fields)):  # type: ignore[arg-type]
            raise InvalidInput(
                f"column {name!r} must hold a struct with a number for each arm, by the names of the arms; got {kind}. "
                f"Or give each arm a column of its own, such as Columns({role}='{role[0]}_{EACH_ARM}'). {advice}",
                field=field,
            )
        return []
    depth, leaf = _lists(kind)
    if depth != 1 or not is_number(leaf):
        raise InvalidInput(
            f"column {name!r} must hold a list with a number for each arm of the row; got {kind}. {advice}", field=field
        )
    return [pl.col(name).cast(pl.List(pl.Float64))]


def _lists(kind: Any) -> tuple[int, pl.DataType]:
    """Nesting depth of a list type, and the type of its elements."""
    if not isinstance(kind, pl.List | pl.Array):
        return 0, kind
    depth, leaf = _lists(kind.inner)
    return depth + 1, leaf


def concat_files(tables: Mapping[Path, pl.LazyFrame], columns: Columns) -> pl.LazyFrame:
    """Join the tables of several files, by the names of their columns.

    Files may differ in columns that are not read, and in the types of numbers. Raises InvalidInput if only some files
    have a named column.
    """
    schemas = {file: table.collect_schema() for file, table in tables.items()}
    names = list(dict.fromkeys(name for schema in schemas.values() for name in schema))
    check_present(columns.without_absent_defaults(names).single, names, advice=NAME_THEM, field="columns")
    known = list(filter(columns.reads, names))
    for name in known:
        absent = [file for file, schema in schemas.items() if name not in schema]
        if absent and name in columns.single:
            has = next(file for file, schema in schemas.items() if name in schema)
            raise InvalidInput(f"{absent[0]} has no column {name!r}, but {has} has one. Leave out such files")
        text = next((file for file, schema in schemas.items() if schema.get(name) == pl.String), None)
        number = next((file for file, schema in schemas.items() if name in schema and schema[name].is_numeric()), None)
        if text is not None and number is not None:
            raise InvalidInput(
                f"column {name!r} is text in {text}, but {schemas[number][name]} in {number}. Write one type to all "
                "files"
            )
    parts = [table.select([name for name in known if name in schemas[file]]) for file, table in tables.items()]
    return pl.concat(parts, how="diagonal_relaxed")
