"""FeatureMap: encodes columns of tables, or fields of JSON objects, as features."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, Literal, TypedDict

import numpy as np

from glbandits.common.display.data_table import DataTable
from glbandits.common.errors import GlbanditsError, InvalidInput, lookup
from glbandits.features.feature_map.checks import (
    Crosses,
    check_names,
    check_row,
    checked_crosses,
    declared_kinds,
    send_null,
    similar_field,
)
from glbandits.features.feature_map.column_group import ColumnGroup, split_expansions
from glbandits.features.feature_map.combination import Combination, products_of
from glbandits.features.feature_map.random_fourier import RandomFourier
from glbandits.features.kinds.categorical import Category, Tags, as_category, natural_order
from glbandits.features.kinds.column_kind import ColumnKind, Missing, checked_missing
from glbandits.features.kinds.dates import Date
from glbandits.features.kinds.hashed_text import Hashed, Text
from glbandits.features.kinds.kind_inference import Kinds, learn_kinds, missing_count
from glbandits.features.kinds.numeric import Boolean, Number, Vector
from glbandits.features.table_columns import Table, Values, check_present, row_count, table_columns

VERSION = 1
"""The version of the JSON object that `FeatureMap.document` returns."""
KINDS: dict[str, type[ColumnKind]] = {
    kind.kind: kind for kind in (Number, Boolean, Vector, Date, Category, Hashed, Text, Tags)
}
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
        self.combination = Combination(
            arm=self.arm.width,
            context=self.context.width,
            own=self.own.width,
            context_alone=per_arm_block is None,
            products=products_of(self.crosses, self.context.spans, self.arm.spans, per_arm_block),
        )
        if not 0 < self.combination.dim <= LARGEST_DIM:
            raise InvalidInput(
                f"a feature map must have 1 to {LARGEST_DIM:,} features; got {self.combination.dim:,}. Change its "
                "columns or crosses, or the width of hashed columns: Text(4096), or text:4096 on the command line"
            )

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
        kinds, missing = kinds or {}, checked_missing(missing)
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
        )

    @classmethod
    def from_document(cls, document: Any) -> "FeatureMap":
        """Create a map from the JSON object that `document` returned.

        Raises:
            InvalidInput: if the object is damaged, or another version of glbandits wrote it.

        >>> FeatureMap.from_document(FeatureMap(context={"age": "number"}).document()).names
        ('age', 'age is missing')
        """
        version = document.get("version") if isinstance(document, dict) else None
        if version != VERSION:
            raise InvalidInput(
                f"the feature map has format version {version!r}; this version of glbandits reads {VERSION}. "
                "Upgrade glbandits"
            )
        try:
            groups = {group: _kinds(document[group]) for group in ("arm", "context", "own")}
            crosses, block = document["crosses"], document["per_arm_block"]
            if block is not None and not isinstance(block, str):
                raise InvalidInput(f"per_arm_block must be the name of a column; got {block!r}")
            return cls(
                **groups,
                crosses=crosses if crosses == "all" else [(left, right) for left, right in crosses],
                per_arm_block=block,
                expansions=[RandomFourier(**expansion) for expansion in document["expansions"]],
                missing_shares={str(name): float(share) for name, share in document["missing_shares"].items()},
            )
        except GlbanditsError as error:
            raise InvalidInput(f"the feature map is not valid: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidInput(f"the feature map is damaged: {type(error).__name__} {error}") from None

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

    def examples(self, column: str) -> tuple[Any, Any]:
        """Two JSON values that a column may hold, for examples of requests."""
        return self.kinds[column].examples

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

    @property
    def arm_names(self) -> tuple[str, ...]:
        """The names of all arms, if the map knows arms by their names alone; else ()."""
        known = self.arm.kinds.get(self.per_arm_block or "")
        return known.values if isinstance(known, Category) and len(self.arm.kinds) == 1 else ()

    def pairs(
        self, contexts: Table, arms: Table, own: Mapping[str, Values] | None = None, *, sparse: bool = False
    ) -> Any:
        """The features of each context with each arm, (contexts * arms, dim), those of the first context first.

        Every context and every arm is encoded once.

        Args:
            contexts: a table with the columns of the context.
            arms: a table with the columns of an arm.
            own: the columns of pairs, with a value for each pair.
            sparse: whether to return a CSR array.
        """
        of_context = table_columns(contexts, self.context.kinds)
        of_arm, of_pair = table_columns(arms, self.arm.kinds), dict(own or {})
        for group, found in ((self.context, of_context), (self.arm, of_arm), (self.own, of_pair)):
            check_present(group.kinds, found)
        n, count = row_count(contexts), row_count(arms)
        at_contexts = np.repeat(np.arange(n), count)
        if sparse:
            repeated = {name: [values[row] for row in at_contexts] for name, values in of_context.items()}
            return self.transform(
                repeated | {name: list(values) * n for name, values in of_arm.items()} | of_pair, sparse=True
            )
        context = self.context.encode(of_context, n)[:, np.newaxis]
        arm = self.arm.encode(of_arm, count)[np.newaxis]
        pair = None
        if self.own.width:
            pair = self.own.encode(of_pair, n * count, at_contexts.tolist()).reshape(n, count, -1)
        return self.combination.combine(arm, context, pair).reshape(n * count, self.dim)

    def _check_columns(self, rows: Table, columns: Mapping[str, Values]) -> None:
        """Raise InvalidInput if a row or a table lacks columns that it must have."""
        if not isinstance(rows, list | tuple):
            if len(columns) < len(self.kinds):
                present = list(table_columns(rows))
                name = next(name for name in self.kinds if name not in present)
                similar = similar_field(name, present, self.kinds)
                hint = "." if similar is None else f", but {similar!r}; did you mean {name!r}?"
                raise InvalidInput(f"the table has no column {name!r}{hint} {send_null(name)}")
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
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureMap) and self._encoding() == other._encoding()

    def __hash__(self) -> int:
        return hash(self.names)

    def _encoding(self) -> str:
        """The document without what does not change features, as a text that preserves the order of columns."""
        return json.dumps({**self.document(), "missing_shares": None})

    def __repr__(self) -> str:
        return f"FeatureMap({', '.join(self.kinds)}; {self.dim} features)"

    def __str__(self) -> str:
        rows = []
        for label, group in (("arm", self.arm), ("context", self.context), ("row and arm", self.own)):
            for name, kind in group.kinds.items():
                share = f"{self.missing_shares[name]:.0%}" if name in self.missing_shares else ""
                rows.append((name, label, kind.kind, f"{kind.width}", share))
            rows += [(each.name, label, "fourier", f"{each.features}", "") for each in group.expansions]
        table = DataTable(("column", "of", "kind", "features", "missing"), rows, ("of", "kind"))
        block = "" if self.per_arm_block is None else " Each arm has a block of its own."
        return f"{table.to_text()}\n{self.combination.summary()}.{block}"


def _kinds(document: dict[str, Any]) -> dict[str, ColumnKind]:
    """The kinds of a group of columns in a document."""
    kinds: dict[str, ColumnKind] = {}
    for name, settings in document.items():
        kind = lookup("kind of a column", settings["kind"], KINDS)
        known = {"kind", *(field.name for field in fields(kind) if field.init)}
        if known != set(settings):
            raise InvalidInput(f"a column of kind {kind.kind} has the settings {sorted(known)}; got {sorted(settings)}")
        kinds[name] = kind(**{setting: value for setting, value in settings.items() if setting != "kind"})
    return kinds


def closed_category(name: str, values: Values) -> Category:
    """The kind of a column with the names of all arms: a Category that accepts no other value."""
    categories = {as_category(value) for value in values}
    if None in categories:
        raise InvalidInput(f"column {name!r} has missing values, but names the arms. Fill them in, or drop these rows")
    return Category(natural_order(text for text in categories if text is not None), other=False, missing="error")


def missing_share(values: Values, kind: ColumnKind) -> float:
    """The share of missing values."""
    return missing_count(values, kind) / max(1, len(values))
