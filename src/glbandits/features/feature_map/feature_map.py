"""FeatureMap: encodes columns of tables, or fields of JSON objects, as features."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, TypedDict

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput, lookup
from glbandits.features.feature_map.checks import (
    Crosses,
    check_names,
    check_row,
    check_table,
    checked_crosses,
    declared_kinds,
)
from glbandits.features.feature_map.column_group import ColumnGroup, split_expansions
from glbandits.features.feature_map.combination import Combination, Part
from glbandits.features.feature_map.document import VERSION, check_version, constructor_arguments, document_errors
from glbandits.features.feature_map.random_fourier import RandomFourier
from glbandits.features.feature_map.summary import columns_text, summary_text
from glbandits.features.feature_map.typical_values import typical_values
from glbandits.features.kinds.categorical import Category, as_category
from glbandits.features.kinds.column_kind import MISSING, MISSING_TEXTS, ColumnKind, Missing, is_missing
from glbandits.features.kinds.hashed_text import Hashed, Text
from glbandits.features.kinds.kind_inference import Kinds, learn_kinds
from glbandits.features.natural_order import natural_order
from glbandits.features.table_columns import Table, Values, check_present, table_columns

LARGEST_DIM = 2**24
"""The largest number of features."""


class MapOptions(TypedDict, total=False):
    """Optional keyword arguments of `FeatureMap.learn`, and of functions that call it."""

    kinds: Kinds
    """The kinds of columns, by name, that should not be inferred."""
    missing: Missing
    """How to treat missing values."""
    crosses: Crosses
    """The products of columns."""
    expansions: Sequence[RandomFourier]
    """Random Fourier features of some columns."""


class FeatureMap:
    """Encodes rows of named values as features, for logs, Bandits and the service.

    The features of an arm are those of its own columns, those of the context, the products that `crosses` selects, and
    those of columns that describe a pair of context and arm. Declare the kinds of columns here, or infer them from a
    table by `FeatureMap.learn`.

    Args:
        arm: the kinds of the columns that describe an arm, by name.
        context: the kinds of the columns that describe the context, which all arms of a decision share.
        own: the kinds of the columns that describe a pair of context and arm, such as an affinity. They are not
            part of any product.
        crosses: the products of columns: "all" for each context column times each arm column, pairs of names for some
            products, or () for none.
        per_arm_block: the column with the name of the arm. Every arm then has its own block of features: a constant
            and the context. The kind of the column must be a Category with `other=False`.
        expansions: random Fourier features of some columns.
        missing_shares: the share of missing values of some columns, for `print` only.
        examples: typical values of some columns, for examples of requests only.

    >>> from glbandits.features import Category, FeatureMap, Number
    >>> features = FeatureMap(
    ...     arm={"topic": Category(("news", "sports"))}, context={"age": Number(mean=40, scale=10, missing="impute")}
    ... )
    >>> features.names
    ('topic=news', 'topic=sports', 'topic=other', 'age', 'age * topic=news', 'age * topic=sports', 'age * topic=other')
    >>> features.transform([{"topic": "sports", "age": 30}, {"topic": "chess", "age": 30}])
    array([[ 0.,  1.,  0., -1., -0., -1., -0.],
           [ 0.,  0.,  1., -1., -0., -0., -1.]])
    """

    def __init__(
        self,
        *,
        arm: Mapping[str, str | ColumnKind] | None = None,
        context: Mapping[str, str | ColumnKind] | None = None,
        own: Mapping[str, str | ColumnKind] | None = None,
        crosses: Crosses = "all",
        per_arm_block: str | None = None,
        expansions: Sequence[RandomFourier] = (),
        missing_shares: Mapping[str, float] | None = None,
        examples: Mapping[str, Any] | None = None,
    ) -> None:
        groups = {
            "arm": declared_kinds("arm", arm),
            "context": declared_kinds("context", context),
            "own": declared_kinds("own", own),
        }
        check_names(groups, per_arm_block)
        of_arm, of_context = split_expansions(expansions, groups["arm"], groups["context"])
        self.arm, self.context = ColumnGroup(groups["arm"], of_arm), ColumnGroup(groups["context"], of_context)
        self.own = ColumnGroup(groups["own"])
        self.crosses: Literal["all"] | tuple[tuple[str, str], ...] = checked_crosses(crosses)
        self.per_arm_block = per_arm_block
        self.missing_shares = dict(missing_shares or {})
        """The share of missing values of each column in the table from which the map was learned."""
        self.examples = dict(examples or {})
        """Typical values of columns in the table from which the map was learned."""
        self.combination = self._combine()
        if not 0 < self.combination.dim <= LARGEST_DIM:
            raise InvalidInput(
                f"a feature map must have 1 to {LARGEST_DIM:,} features; got {self.combination.dim:,}. "
                f"{self._advice_on_width()}"
            )

    def _combine(self) -> Combination:
        return Combination(
            arm=self.arm.width,
            context=self.context.width,
            own=self.own.width,
            context_alone=self.per_arm_block is None,
            products=tuple(self._products()),
        )

    def _advice_on_width(self) -> str:
        """What to do about too many features: which width of the hashed columns fits."""
        hashed = {name: kind for name, kind in self.kinds.items() if isinstance(kind, Hashed | Text)}
        widest = max((kind.size for kind in hashed.values()), default=0)
        for width in (1 << bits for bits in range(widest.bit_length() - 1, 7, -1)):
            narrow = {name: replace(kind, size=min(kind.size, width)) for name, kind in hashed.items()}
            trial = copy(self)
            for group in ("arm", "context", "own"):
                columns: ColumnGroup = getattr(self, group)
                kinds = {name: narrow.get(name, kind) for name, kind in columns.kinds.items()}
                setattr(trial, group, ColumnGroup(kinds, columns.expansions))
            if trial._combine().dim <= LARGEST_DIM:
                widths = ", ".join(f"{name!r}: {kind.kind.title()}({kind.size})" for name, kind in narrow.items())
                return f"These widths of hashed columns would fit: kinds={{{widths}}}. Or use fewer columns or crosses"
        return "Change its columns or crosses"

    @classmethod
    def learn(
        cls,
        table: Table,
        *,
        context: Sequence[str] = (),
        arm: Sequence[str] = (),
        own: Sequence[str] = (),
        per_arm_block: str | None = None,
        crosses: Crosses = "all",
        kinds: Kinds | None = None,
        missing: Missing = "indicator",
        expansions: Sequence[RandomFourier] = (),
    ) -> "FeatureMap":
        """Infer the kinds, means, scales and categories of columns from a table.

        >>> table = {"offer": ["a", "b", "a"], "age": [31, None, 52], "country": ["fr", "de", "fr"]}
        >>> print(FeatureMap.learn(table, context=("age", "country"), per_arm_block="offer"))
        column   of       kind      features  missing
        offer    arm      category         2       0%
        age      context  number           2      33%
        country  context  category         3       0%
        12 features: 2 of arms, 10 products. Each arm has a block of its own.

        Args:
            table: a data frame of pandas or polars, an Arrow table, a list of dicts or a dict of columns.
            context: the columns that describe the context.
            arm: the columns that describe an arm.
            own: the columns that describe a pair of context and arm.
            per_arm_block: the column with the name of the arm, if every arm should have its own block of features.
            crosses: the products of columns, as in the constructor.
            kinds: the kinds of columns that should not be inferred: "number", "raw" (a number that is not scaled),
                "decimal_comma" and "thousands_comma" (numbers with such commas), "boolean", "category", "hashed",
                "text", "date", "list", "vector", or "skip".
            missing: "indicator" adds a feature to columns with missing values, which is 1 for them; "impute" uses a
                default value; "error" raises an error for missing values.
            expansions: random Fourier features of some columns.

        Raises:
            InvalidInput: if the table lacks a column, or the kind of a column is ambiguous.
        """
        kinds, missing = kinds or {}, lookup("way to treat missing values", missing, MISSING)
        blocks = [] if per_arm_block is None else [per_arm_block]
        names = [*blocks, *(name for name in arm if name not in blocks), *context, *own]
        columns = table_columns(table, names)
        if any(name not in columns for name in names):
            check_present(names, table_columns(table))
        closed = {name: closed_category(name, columns[name]) for name in blocks}
        learned = closed | learn_kinds(
            {name: columns[name] for name in names if name not in closed}, kinds, missing, dict.fromkeys(names, 1)
        )
        return cls(
            arm={name: learned[name] for name in (*blocks, *arm) if name in learned},
            context={name: learned[name] for name in context if name in learned},
            own={name: learned[name] for name in own if name in learned},
            crosses=crosses,
            per_arm_block=per_arm_block,
            expansions=expansions,
            missing_shares={name: missing_share(columns[name], kind) for name, kind in learned.items()},
            examples=typical_values(columns, learned),
        )

    @classmethod
    def from_document(cls, document: Any) -> "FeatureMap":
        """Create a map from the JSON object that `document` returned.

        Raises:
            InvalidInput: if the object is damaged, or another version of glbandits wrote it.

        >>> FeatureMap.from_document(FeatureMap(context={"age": "number"}).document()).names
        ('age', 'age is missing')
        """
        check_version(document)
        with document_errors():
            return cls(**constructor_arguments(document))

    @property
    def dim(self) -> int:
        """The number of features of an arm."""
        return self.combination.dim

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the features, such as "age", "topic=sports" and "age * topic=sports"."""
        parts = (group.feature_names() for group in (self.arm, self.context, self.own))
        return tuple(self.combination.names(*parts))

    @cached_property
    def kinds(self) -> dict[str, ColumnKind]:
        """The kinds of all columns, by name."""
        return self.arm.kinds | self.context.kinds | self.own.kinds

    def example(self, column: str) -> Any:
        """A JSON value that a column may hold, typical of the table from which the map was learned.

        >>> FeatureMap.learn({"city": ["Rome", "Oslo", "Rome"]}, context=("city",)).example("city")
        'Rome'
        """
        return self.examples[column] if column in self.examples else self.kinds[column].example

    def transform(self, rows: Table, *, sparse: bool = False) -> Any:
        """The features of each row, (n, dim): a float64 array, or a scipy.sparse CSR array.

        A row has the columns of an arm and of its context. Columns that the map does not know are ignored.

        A dict may lack a column that can have missing values. It must not lack all columns of the context, or all of
        the arm, nor have an unknown field with a name similar to that of an absent column. A data frame and a dict of
        columns must have all columns.

        Args:
            rows: a list of dicts, a dict of columns, or a data frame of pandas, polars or Arrow.
            sparse: whether to return a CSR array.

        Raises:
            InvalidInput: if a column is absent or misspelt, or a value does not fit the kind of its column.
        """
        columns = table_columns(rows, self.kinds)
        self._check_columns(rows, columns)
        count = len(next(iter(columns.values()))) if columns else len(rows)
        if sparse:
            arm, context, own = (group.encode_sparse(columns, count) for group in (self.arm, self.context, self.own))
            return self.combination.combine_sparse(arm, context, own, count)
        contexts = 1 if count and self.context.is_constant(columns) else count
        distinct = {name: values[:contexts] for name, values in columns.items()} if contexts < count else columns
        own_features = self.own.encode(columns, count) if self.own.width else None
        arm_features = self.arm.encode(columns, count)
        return self.combination.combine(arm_features, self.context.encode(distinct, contexts), own_features)

    def _check_columns(self, rows: Table, columns: Mapping[str, Values]) -> None:
        """Raise InvalidInput if a row or a table lacks columns that it must have."""
        if not isinstance(rows, list | tuple):
            if len(columns) < len(self.kinds):
                check_table(list(table_columns(rows)), self.kinds)
            return
        for index, row in enumerate(rows):
            if not row.keys() >= self.kinds.keys():
                check_row(row, self._names_by_group, self.kinds, index)

    @cached_property
    def _names_by_group(self) -> dict[str, tuple[str, ...]]:
        groups = {"context": self.context, "arm": self.arm, "own": self.own}
        return {name: tuple(group.kinds) for name, group in groups.items()}

    def document(self) -> dict[str, Any]:
        """The map as a JSON object, from which `from_document` creates an equal map."""
        return {
            "version": VERSION,
            **{
                group: {name: kind.document() for name, kind in columns.kinds.items()}
                for group, columns in (("arm", self.arm), ("context", self.context), ("own", self.own))
            },
            "crosses": self.crosses if self.crosses == "all" else [list(pair) for pair in self.crosses],
            "per_arm_block": self.per_arm_block,
            "expansions": [
                {
                    "columns": list(expansion.columns),
                    "features": expansion.features,
                    "scale": expansion.scale,
                    "seed": expansion.seed,
                }
                for expansion in (*self.arm.expansions, *self.context.expansions)
            ],
            "missing_shares": self.missing_shares,
            "examples": self.examples,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureMap) and _ordered(self.document()) == _ordered(other.document())

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"FeatureMap({', '.join(self.kinds)}; {self.dim} features)"

    def __str__(self) -> str:
        groups = {"arm": self.arm, "context": self.context, "row and arm": self.own}
        return f"{columns_text(groups, self.missing_shares)}\n{summary_text(self.combination, self.per_arm_block)}"

    def _products(self) -> Iterable[tuple[Part, Part]]:
        if self.crosses == "all":
            if self.context.width and self.arm.width:
                yield Part(True, 0, self.context.width), Part(False, 0, self.arm.width)
            return
        if self.per_arm_block is not None and self.context.width:
            start, stop = self.arm.spans[self.per_arm_block]
            yield Part(True, 0, self.context.width), Part(False, start, stop)
        for pair in self.crosses:
            left, right = (self._part(name) for name in pair)
            yield (right, left) if right.of_context and not left.of_context else (left, right)

    def _part(self, name: str) -> Part:
        for of_context, group in ((True, self.context), (False, self.arm)):
            if name in group.spans:
                return Part(of_context, *group.spans[name])
        known = [*self.context.spans, *self.arm.spans]
        raise InvalidInput(
            f"crosses contains {name!r}, which is no column of the map. The columns are: {', '.join(known)}"
        )


def closed_category(name: str, values: Values) -> Category:
    """The kind of a column with the names of all arms: a Category that accepts no other value."""
    categories = {as_category(value) for value in values}
    if None in categories:
        raise InvalidInput(f"column {name!r} has missing values, but names the arms. Fill them in, or drop these rows")
    return Category(natural_order(text for text in categories if text is not None), other=False, missing="error")


def missing_share(values: Values, kind: ColumnKind) -> float:
    """The share of missing values. Texts such as "NA" count as missing, except in categories."""
    if isinstance(values, np.ndarray):
        absent: Floats = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values))
        return float(absent.mean()) if len(values) else 0.0
    texts = frozenset[str]() if isinstance(kind, Category) else MISSING_TEXTS
    count = sum(is_missing(value) or (type(value) is str and value.strip() in texts) for value in values)
    return count / max(1, len(values))


def _ordered(document: dict[str, Any]) -> Any:
    """The document without what does not change features, as lists that preserve the order of columns."""
    return [
        (name, list(value.items()) if isinstance(value, dict) else value)
        for name, value in document.items()
        if name not in ("missing_shares", "examples")
    ]
