"""A first look at a table: which arms there are, and how its columns become features."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from glbandits.errors import InvalidInput
from glbandits.evaluation.logs.column_values import column_values, is_number, is_text, wrong
from glbandits.evaluation.logs.columns import ARM, Columns, check_present, columns_of
from glbandits.evaluation.logs.log_features import LogOptions, MapRequest, features_of
from glbandits.evaluation.logs.logged_data import LARGEST_DENSE
from glbandits.features import FeatureMap, Features
from glbandits.features.feature_map.combination import Entries
from glbandits.features.natural_order import natural_order
from glbandits.maths.links import Link, find_link
from glbandits.records import Floats

CONTEXT_TYPES = (pl.Date, pl.Datetime, pl.List, pl.Array, pl.Null)
"""Of columns of the context, beside numbers and text."""
ONE_FOR_EACH = "Columns(per_arm=...) needs a column for every arm"
PROBABILITY_FOR_EACH = "Columns(probabilities=...) needs a column for every arm"
OTHER_PROBABILITIES = "If it holds something else, say Columns(probabilities=None)"


@dataclass(frozen=True, eq=False, kw_only=True)
class Layout:
    """All that must be known of a table before any of its rows can be read."""

    columns: Columns
    link: str | Link
    rows: int
    most: int
    """Arms of the row that has most."""
    arm_names: tuple[str, ...]
    """Of all rows; none if the arms of a row have no names."""
    arm_values: Mapping[str, Any]
    """The columns of arm_table, in the order of `arm_names`, and the names themselves as the column of the arm."""
    features: Features
    """What makes features of the columns."""
    has_arm_table: bool
    """Whether arm_table named the arms, and not the rows."""
    sparse: bool
    """Whether arms are sparse rows."""

    @property
    def dim(self) -> int:
        """Features of an arm."""
        return self.features.dim

    @property
    def feature_map(self) -> Features | None:
        """What makes features of the columns; None if each row brings all features of its arms."""
        return None if self.columns.features is not None and not self.columns.context else self.features

    @cached_property
    def arm_features(self) -> Floats:
        """Of each named arm, (K, q)."""
        assert isinstance(self.features, FeatureMap)
        return self.features.arm.encode(self.arm_values, len(self.arm_names))

    @cached_property
    def arm_entries(self) -> Entries:
        """The features of each named arm that are not 0."""
        assert isinstance(self.features, FeatureMap)
        return self.features.arm.encode_sparse(self.arm_values, len(self.arm_names))

    @property
    def wanted(self) -> list[str]:
        """All columns that are read, each once."""
        per_arm = [name for group in self.columns.of_arms(self.arm_names) for name in group]
        return list(dict.fromkeys([*self.columns.single, *per_arm, *self.probability_columns]))

    @property
    def probability_columns(self) -> list[str]:
        """The columns with the probability of each arm, in the order of `arm_names`; none if one column has all."""
        pattern = self.columns.probability_of_arm
        return [] if pattern is None else columns_of(pattern, self.arm_names)

    @property
    def mend_unknown_arm(self) -> str:
        """What to do about a row that names another arm than `arm_names`."""
        if self.has_arm_table:
            return "Add the arm to arm_table, or drop such rows"
        if self.columns.arms is not None:
            return "Add the chosen arm to the list, or drop such rows"
        return "The table has changed since it was opened; open it again"

    @property
    def fixed(self) -> bool:
        """Whether all rows have the same arms."""
        return self.columns.arms is None and self.columns.features is None


def prepared(table: pl.LazyFrame, columns: Columns) -> pl.LazyFrame:
    """The table with few types: names of arms as text, lists as lists. Checked as far as types tell."""
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
                raise InvalidInput(f"column {name!r} must hold a list of {wanted} in each row; got {schema[name]}")
            changes.append(pl.col(name).cast(kind))
    changes += _probability_lists(columns, schema)
    for name in columns.context:
        if not (is_text(schema[name]) or is_number(schema[name]) or isinstance(schema[name], CONTEXT_TYPES)):
            raise InvalidInput(
                f"column {name!r} of the context must hold numbers, true or false, text, dates or lists; got "
                f"{schema[name]}. Make one of these of it"
            )
    return table.with_columns(changes)


def _probability_lists(columns: Columns, schema: pl.Schema) -> list[pl.Expr]:
    """The change to a column of lists of probabilities; an error if they cannot be told apart by arm."""
    name = columns.probabilities
    if name is None or columns.probability_of_arm is not None:
        return []
    kind = schema[name]
    if columns.arms is None and columns.features is None:
        if not (isinstance(kind, pl.Struct) and all(is_number(field.dtype) for field in kind.fields)):  # type: ignore[arg-type]
            raise InvalidInput(
                f"column {name!r} must hold a struct with a number for each arm, by the names of the arms; got {kind}. "
                f"Or give each arm a column of its own, such as Columns(probabilities='p_{ARM}'). {OTHER_PROBABILITIES}"
            )
        return []
    depth, leaf = _lists(kind)
    if depth != 1 or not is_number(leaf):
        raise InvalidInput(
            f"column {name!r} must hold a list with a number for each arm of the row; got {kind}. {OTHER_PROBABILITIES}"
        )
    return [pl.col(name).cast(pl.List(pl.Float64))]


def _lists(kind: Any) -> tuple[int, pl.DataType]:
    """How many lists there are within each other, and of what."""
    if not isinstance(kind, pl.List | pl.Array):
        return 0, kind
    depth, leaf = _lists(kind.inner)
    return depth + 1, leaf


def look_at(
    table: pl.LazyFrame,
    columns: Columns,
    *,
    arm_table: pl.DataFrame | None = None,
    arm_id: str | None = None,
    link: str | Link = "identity",
    options: LogOptions,
) -> Layout:
    """Read the columns of a prepared table that need it once, and learn the feature map if none is given."""
    find_link(link)
    if columns.features is not None and arm_table is not None:
        raise InvalidInput("an arm's features come from the column of features or from arm_table; give one of them")
    schema = table.collect_schema()
    found = _first_look(table, columns, named=arm_table is None)
    if not found["rows"]:
        raise InvalidInput("the table has no rows; a log needs at least one decision")
    kind = schema.get(columns.probabilities or "")
    struct_names = [field.name for field in kind.fields] if isinstance(kind, pl.Struct) else []
    arms = read_arms(arm_table, arm_id) if arm_table is not None else {}
    names = arms.pop(NAMES, None) or natural_order({*found.get("names", []), *struct_names})
    per_arm = [name for group in columns.of_arms(names) for name in group]
    check_present(per_arm, schema.names(), mend=ONE_FOR_EACH)
    if columns.probability_of_arm is not None:
        check_present(columns_of(columns.probability_of_arm, names), schema.names(), mend=PROBABILITY_FOR_EACH)
    request = MapRequest(columns, names, arms, found.get("width"), found["rows"])
    given = options.get("sparse")
    features = features_of(table, request, _without_sparse(options))
    return Layout(
        columns=columns,
        link=link,
        rows=found["rows"],
        most=found.get("most") or len(names),
        arm_names=names,
        arm_values={**arms, columns.arm: list(names)},
        features=features,
        has_arm_table=arm_table is not None,
        sparse=features.dim > LARGEST_DENSE if given is None else bool(given),
    )


def _without_sparse(options: LogOptions) -> LogOptions:
    rest = options.copy()
    rest.pop("sparse", None)
    return rest


def _first_look(table: pl.LazyFrame, columns: Columns, *, named: bool) -> dict[str, Any]:
    """Rows, the most arms of one, the width of features, and all different names of arms, in one pass."""
    sizes, lists = [pl.len().alias("rows")], columns.arms or columns.features
    if lists is not None:
        sizes.append(pl.col(lists).list.len().max().alias("most"))
    if columns.features is not None:
        sizes.append(pl.col(columns.features).list.first().drop_nulls().first().list.len().alias("width"))
    looks = []
    if named and (columns.arms is not None or columns.features is None):
        looks.append(pl.col(columns.arm) if columns.arms is None else pl.col(columns.arms).explode())
    # Queries that share nothing: only then does polars forget what it has seen, so that memory does not grow.
    queries = [table.select(sizes), *(table.select(look.cast(pl.String)).unique() for look in looks)]
    apart = pl.QueryOptFlags(comm_subplan_elim=False)
    first, *different = pl.collect_all(queries, engine="streaming", optimizations=apart)
    names = [name for frame in different for name in frame.to_series().drop_nulls().to_list()]
    return first.row(0, named=True) | {"names": names}


NAMES = ""
"""The entry of `read_arms` that holds the names."""


def read_arms(table: pl.DataFrame, arm_id: str | None = None) -> dict[str, Any]:
    """The columns of a table of arms, in the order of the names of the arms, and these names."""
    if not len(table):
        raise InvalidInput("arm_table must have a row for each arm; got none")
    arm_id = table.columns[0] if arm_id is None else arm_id
    check_present([arm_id], table.columns, "arm_table", mend="Say which by arm_id")
    ids = table[arm_id].cast(pl.String)
    for bad in (ids.is_null(), ids.is_duplicated()):
        if bad.any():
            raise wrong(table[arm_id], int(bad.arg_max() or 0), 0, "must name each arm of arm_table once")
    places = {name: place for place, name in enumerate(ids)}
    names = natural_order(places)
    in_order = table[[places[name] for name in names]]
    return {NAMES: names} | {name: column_values(in_order[name]) for name in table.columns if name != arm_id}
