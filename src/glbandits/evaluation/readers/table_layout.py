"""TableLayout: the arms of a table and the encoding of its columns, found by a first pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from glbandits.common.arrays import Floats
from glbandits.common.errors import MAX_ABS, InvalidInput
from glbandits.evaluation.logs.logged_data import BLOCK, MAX_DENSE_FEATURES
from glbandits.evaluation.logs.reward_checks import check_rewards
from glbandits.evaluation.readers.column_values import (
    column_error,
    column_values,
    is_number,
    is_text,
    reward_values,
)
from glbandits.evaluation.readers.columns import ARM, Columns, check_present, columns_of
from glbandits.evaluation.readers.log_features import LogOptions, MapRequest, make_feature_map
from glbandits.features import FeatureMap, Features
from glbandits.features.feature_map.combination import Entries
from glbandits.features.kinds.categorical import normalised
from glbandits.features.natural_order import natural_order
from glbandits.maths.links import Link, find_link

CONTEXT_TYPES = (pl.Date, pl.Datetime, pl.List, pl.Array, pl.Null)
"""Types of context columns, besides numbers and text."""
ONE_FOR_EACH = "Columns(per_arm=...) needs a column for every arm"
PROBABILITY_FOR_EACH = "Columns(probabilities=...) needs a column for every arm"
OTHER_PROBABILITIES = "If it holds something else, set Columns(probabilities=None)"


@dataclass(frozen=True, eq=False, kw_only=True)
class TableLayout:
    """Properties of a table that are needed to read its rows."""

    columns: Columns
    link: str | Link
    rows: int
    max_arms: int
    """Largest number of arms in a row."""
    arm_names: tuple[str, ...]
    """Names of all arms, over all rows; empty if arms have no names."""
    arm_values: Mapping[str, Any]
    """The columns of the arm table, in the order of `arm_names`, and the names in the column of the arm."""
    arm_rows: Sequence[int]
    """The row of each arm in the arm table, in the order of `arm_names`."""
    features: Features
    """The map from columns to features."""
    has_arm_table: bool
    """Whether the names of the arms come from an arm table, not from the rows."""
    sparse: bool
    """Whether arms are `SparseArms`."""

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        return self.features.dim

    @property
    def feature_map(self) -> Features | None:
        """The map from columns to features; None if the table has all features as numbers."""
        return None if self.columns.features is not None and not self.columns.context else self.features

    @cached_property
    def arm_features(self) -> Floats:
        """Features of each named arm, (K, q)."""
        assert isinstance(self.features, FeatureMap)
        return self.features.arm.encode(self.arm_values, len(self.arm_names), self.arm_rows)

    @cached_property
    def arm_entries(self) -> Entries:
        """Nonzero features of each named arm."""
        assert isinstance(self.features, FeatureMap)
        return self.features.arm.encode_sparse(self.arm_values, len(self.arm_names), self.arm_rows)

    @property
    def wanted(self) -> list[str]:
        """All columns that are read, without repetitions."""
        per_arm = [name for group in self.columns.of_arms(self.arm_names) for name in group]
        return list(dict.fromkeys([*self.columns.single, *per_arm, *self.probability_columns]))

    @property
    def probability_columns(self) -> list[str]:
        """Columns with the probability of each arm, in the order of `arm_names`.

        The list is empty if a single column has all probabilities.
        """
        pattern = self.columns.probability_of_arm
        return [] if pattern is None else columns_of(pattern, self.arm_names)

    @property
    def unknown_arm_advice(self) -> str:
        """Advice for a row with an arm that is not in `arm_names`."""
        if self.has_arm_table:
            return "Add the arm to arm_table, or drop such rows"
        if self.columns.arms is not None:
            return "Add the chosen arm to the list, or drop such rows"
        return "The table has changed since it was opened; open it again"

    @property
    def fixed(self) -> bool:
        """Whether all rows have the same arms."""
        return self.columns.arms is None and self.columns.features is None


def prepare_table(table: pl.LazyFrame, columns: Columns) -> pl.LazyFrame:
    """Check the types of the columns, and cast names of arms to text and arrays to lists."""
    schema = table.collect_schema()
    check_present(columns.single, schema.names())
    changes = []
    if columns.arms is not None or columns.features is None:
        if schema[columns.arm].is_float() or schema[columns.arm].is_nested():
            raise InvalidInput(
                f"column {columns.arm!r} must name the chosen arm by text or a whole number; got "
                f"{schema[columns.arm]}. Cast it first"
            )
        changes.append(pl.col(columns.arm).cast(pl.String))
    for name, kind in ((columns.arms, pl.List(pl.String)), (columns.features, pl.List(pl.List(pl.Float64)))):
        if name is not None:
            depth, leaf = _lists(schema[name])
            if depth != _lists(kind)[0] or (depth == 2 and not is_number(leaf)):
                wanted = "names" if kind == pl.List(pl.String) else "lists of numbers, one for each arm"
                raise InvalidInput(f"column {name!r} must have a list of {wanted} in each row; got {schema[name]}")
            changes.append(pl.col(name).cast(kind))
    changes += _probability_lists(columns, schema)
    for name in columns.context:
        if not (is_text(schema[name]) or is_number(schema[name]) or isinstance(schema[name], CONTEXT_TYPES)):
            raise InvalidInput(
                f"column {name!r} of the context must have numbers, booleans, text, dates or lists; got "
                f"{schema[name]}. Cast it first"
            )
    return table.with_columns(changes)


def _probability_lists(columns: Columns, schema: pl.Schema) -> list[pl.Expr]:
    """The cast of the column of probabilities.

    Raises InvalidInput unless its type has a value for each arm.
    """
    name = columns.probabilities
    if name is None or columns.probability_of_arm is not None:
        return []
    kind = schema[name]
    if columns.arms is None and columns.features is None:
        # Fields of a schema have instances as types; polars declares also the class.
        if not (isinstance(kind, pl.Struct) and all(is_number(field.dtype) for field in kind.fields)):  # type: ignore[arg-type]
            raise InvalidInput(
                f"column {name!r} must hold a struct with a number for each arm, by the names of the arms; got {kind}. "
                f"Or give each arm a column of its own, such as Columns(probabilities='p_{ARM}'). "
                f"{OTHER_PROBABILITIES}",
                field="Columns.probabilities",
            )
        return []
    depth, leaf = _lists(kind)
    if depth != 1 or not is_number(leaf):
        raise InvalidInput(
            f"column {name!r} must hold a list with a number for each arm of the row; got {kind}. "
            f"{OTHER_PROBABILITIES}",
            field="Columns.probabilities",
        )
    return [pl.col(name).cast(pl.List(pl.Float64))]


def _lists(kind: Any) -> tuple[int, pl.DataType]:
    """Nesting depth of a list type, and the type of its elements."""
    if not isinstance(kind, pl.List | pl.Array):
        return 0, kind
    depth, leaf = _lists(kind.inner)
    return depth + 1, leaf


def inspect_table(
    table: pl.LazyFrame,
    columns: Columns,
    *,
    arm_table: pl.DataFrame | None = None,
    arm_id: str | None = None,
    link: str | Link = "identity",
    options: LogOptions,
) -> TableLayout:
    """Find the arms and sizes of a prepared table, and learn its feature map unless given."""
    if columns.features is not None and arm_table is not None:
        raise InvalidInput(
            "the features of arms come from the column of features or from arm_table. Leave out one of them",
            field="arm_table",
        )
    schema = table.collect_schema()
    sizes = _scan_table(table, columns, find_link(link), named=arm_table is None)
    if not sizes["rows"]:
        raise InvalidInput("the table has no rows. A log needs at least one decision")
    if not sizes["valid_rewards"]:
        _check_all_rewards(table, columns.reward, find_link(link))
    kind = schema.get(columns.probabilities or "")
    struct_names = [field.name for field in kind.fields] if isinstance(kind, pl.Struct) else []
    if arm_table is not None and arm_id is None and columns.arm in arm_table.columns[1:]:
        raise InvalidInput(
            f"arm_table must have the names of the arms in its first column, which is {arm_table.columns[0]!r}. Move "
            f"the column {columns.arm!r} to the front, or set arm_id={columns.arm!r}",
            field="arm_table",
        )
    if arm_table is not None:
        names, arm_values, arm_rows = read_arms(arm_table, arm_id)
    else:
        names, arm_values = natural_order({*sizes.get("names", []), *struct_names}), {}
        arm_rows = list(range(len(names)))
    per_arm = [name for group in columns.of_arms(names) for name in group]
    check_present(per_arm, schema.names(), advice=ONE_FOR_EACH, field="Columns.per_arm")
    if columns.probability_of_arm is not None:
        probability_names = columns_of(columns.probability_of_arm, names)
        check_present(probability_names, schema.names(), advice=PROBABILITY_FOR_EACH, field="Columns.probabilities")
    _check_arm_names(columns, names)
    request = MapRequest(columns, names, arm_values, sizes.get("width"), sizes["rows"])
    sparse = options.get("sparse")
    features = make_feature_map(table, request, _without_sparse(options))
    return TableLayout(
        columns=columns,
        link=link,
        rows=sizes["rows"],
        max_arms=sizes.get("max_arms") or len(names),
        arm_names=names,
        arm_values={**arm_values, columns.arm: list(names)},
        arm_rows=arm_rows,
        features=features,
        has_arm_table=arm_table is not None,
        sparse=features.dim > MAX_DENSE_FEATURES if sparse is None else bool(sparse),
    )


def _check_arm_names(columns: Columns, names: Sequence[str]) -> None:
    """Raise InvalidInput if two names are the same category, or if the context contains the probability of an arm."""
    by_category: dict[str, str] = {}
    for name in names:
        other = by_category.setdefault(normalised(name), name)
        if other == name:
            continue
        if other.strip() == name.strip():
            raise InvalidInput(
                f"the arms {other!r} and {name!r} differ only in spaces at the ends of their names. Remove the spaces"
            )
        raise InvalidInput(
            f"the arms {other!r} and {name!r} differ only in the Unicode form of their names ({other!a} and {name!a}). "
            "Convert all names to the form NFC"
        )
    for name in columns_of(columns.probability_of_arm or "", names):
        if name in columns.context:
            raise InvalidInput(
                f"context must not contain {name!r}, the probability of an arm. Leave it out of the context",
                field="Columns.context",
            )


def _without_sparse(options: LogOptions) -> LogOptions:
    rest = options.copy()
    rest.pop("sparse", None)
    return rest


def checked_rewards(series: pl.Series, link: Link, first_row: int) -> Floats:
    """Return the rewards of a column. Raises InvalidInput if one is outside the range of the link."""
    rewards = reward_values(series, first_row)
    check_rewards(rewards, link, lambda row: f"column {series.name!r}, row {first_row + row}")
    return rewards


def _check_all_rewards(table: pl.LazyFrame, name: str, link: Link) -> None:
    """Raise InvalidInput if a reward is invalid, before anything slow begins."""
    first_row = 0
    for rows in table.select(name).collect_batches(chunk_size=BLOCK, maintain_order=True):
        first_row += len(checked_rewards(rows[name], link, first_row))


def _valid_rewards(name: str, kind: pl.DataType, link: Link) -> pl.Expr:
    """Whether all rewards are valid numbers. False for text, which must be parsed."""
    if not is_number(kind):
        return pl.lit(False).alias("valid_rewards")
    reward, lowest, highest = pl.col(name).cast(pl.Float64), link.lowest_reward, link.highest_reward
    valid = reward.is_finite() & reward.is_between(max(lowest, -MAX_ABS), min(highest, MAX_ABS))
    return valid.fill_null(False).all().alias("valid_rewards")


def _scan_table(table: pl.LazyFrame, columns: Columns, link: Link, *, named: bool) -> dict[str, Any]:
    """Number of rows, of arms at most and of features, names of arms, and whether rewards are valid, in one pass."""
    sizes, lists = [pl.len().alias("rows")], columns.arms or columns.features
    sizes.append(_valid_rewards(columns.reward, table.collect_schema()[columns.reward], link))
    if lists is not None:
        sizes.append(pl.col(lists).list.len().max().alias("max_arms"))
    if columns.features is not None:
        sizes.append(pl.col(columns.features).list.first().drop_nulls().first().list.len().alias("width"))
    name_columns = []
    if named and (columns.arms is not None or columns.features is None):
        name_columns.append(pl.col(columns.arm) if columns.arms is None else pl.col(columns.arms).explode())
    # The queries must not share a subplan: polars would cache its rows, and memory would grow with the table.
    queries = [table.select(sizes), *(table.select(column.cast(pl.String)).unique() for column in name_columns)]
    no_caching = pl.QueryOptFlags(comm_subplan_elim=False)
    first, *different = pl.collect_all(queries, engine="streaming", optimizations=no_caching)
    names = [name for frame in different for name in frame.to_series().drop_nulls().to_list()]
    return first.row(0, named=True) | {"names": names}


def read_arms(table: pl.DataFrame, arm_id: str | None = None) -> tuple[tuple[str, ...], dict[str, Any], list[int]]:
    """Return the names of the arms of an arm table, sorted, and in that order its other columns and row numbers.

    The names are in the column `arm_id`, by default the first one.
    """
    if not len(table):
        raise InvalidInput("arm_table must have a row for each arm; got none", field="arm_table")
    arm_id = table.columns[0] if arm_id is None else arm_id
    check_present([arm_id], table.columns, "arm_table", advice="Set arm_id to the column of names", field="arm_table")
    ids = table[arm_id].cast(pl.String)
    for bad in (ids.is_null(), ids.is_duplicated()):
        if bad.any():
            advice = "The names of the arms are in the first column, or in the one that arm_id names"
            row = int(bad.arg_max() or 0)
            raise column_error(table[arm_id], row, 0, "must name each arm of arm_table once", advice, field="arm_table")
    indices = {name: index for index, name in enumerate(ids)}
    names = natural_order(indices)
    rows = [indices[name] for name in names]
    in_order = table[rows]
    return names, {name: column_values(in_order[name]) for name in table.columns if name != arm_id}, rows
