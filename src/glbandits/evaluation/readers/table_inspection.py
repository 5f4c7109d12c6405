"""Find the arms and sizes of a table, check its rows, and learn its feature map."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.arm_notes import arm_notes
from glbandits.evaluation.logs.logged_data import MAX_DENSE_FEATURES
from glbandits.evaluation.logs.reward_checks import AUTO_LINK, inferred_link
from glbandits.evaluation.readers.column_values import column_error, column_values, some_names
from glbandits.evaluation.readers.columns import Columns, columns_of
from glbandits.evaluation.readers.reward_columns import check_all_rewards, links_of_others, valid_rewards
from glbandits.evaluation.readers.table_checks import check_table
from glbandits.evaluation.readers.table_layout import TableLayout
from glbandits.features import Category, FeatureMap
from glbandits.features.feature_map.feature_map import MapOptions, closed_category, missing_share
from glbandits.features.kinds.categorical import natural_order, normalised
from glbandits.features.kinds.column_kind import ColumnKind, checked_missing
from glbandits.features.kinds.kind_inference import learn_kind, learn_kinds
from glbandits.features.kinds.numeric import Vector
from glbandits.features.table_columns import check_present
from glbandits.features.transformer_features import Features, TransformerFeatures, as_features
from glbandits.maths.links import Link, find_link

LEARN_ROWS = 100_000
"""Maximum number of rows from which a feature map is learned, evenly spaced over the log."""
ARM_BLOCKS = 1000
"""Maximum number of arms with their own block of features. A log with more arms needs an arm table."""
NO_CACHING = pl.QueryOptFlags(comm_subplan_elim=False)
"""Queries must not share a subplan: polars would cache its rows, and memory would grow with the table."""
ONE_FOR_EACH = "Columns(per_arm=...) needs a column for every arm"


class TableOptions(MapOptions, total=False):
    """Optional arguments of all functions that read a log from a table."""

    arm_table: Any
    """A table, or a CSV or Parquet file, with one row for each arm: features of the arms, and arms that were never
    chosen. Without it, each arm has its own block of features."""
    arm_id: str | None
    """The column of `arm_table` with the names of the arms. By default the first one. All others are features."""
    link: str | Link
    """Defines the valid rewards. By default "logistic" if rewards are 0 and 1, else "identity": any finite number."""
    features: Any
    """A feature map or a fitted scikit-learn transformer. By default a map is learned from the log."""
    per_arm_block: bool
    """Whether each arm has its own block of features. Default: yes, unless an arm table describes the arms."""
    sparse: bool | None
    """Whether arms are sparse rows, `SparseArms`. Default: yes, with more than 4,096 features."""


def inspect_table(
    table: pl.LazyFrame, columns: Columns, arm_table: pl.DataFrame | None, options: TableOptions
) -> TableLayout:
    """Find the arms and sizes of a prepared table, and learn its feature map unless given."""
    if columns.features is not None and arm_table is not None:
        raise InvalidInput(
            "the features of arms come from the column of features or from arm_table. Leave out one of them",
            field="arm_table",
        )
    schema, given = table.collect_schema(), options.get("link", AUTO_LINK)
    valid = find_link(inferred_link(given, are_binary=False))
    sizes = _scan_table(table, columns, valid, named=arm_table is None)
    if not sizes["rows"]:
        raise InvalidInput("the table has no rows. A log needs at least one decision")
    if not sizes["valid_rewards"]:
        sizes["binary"] = check_all_rewards(table, columns.reward, valid)
    if arm_table is not None:
        names, arm_values, arm_rows = _read_arms(arm_table, options.get("arm_id"), columns.arm)
    else:
        kind = schema.get(columns.probabilities or "")
        struct_names = [field.name for field in kind.fields] if isinstance(kind, pl.Struct) else []
        names, arm_values = natural_order({*sizes["names"], *struct_names}), {}
        arm_rows = list(range(len(names)))
    per_arm = [name for group in columns.of_arms(names) for name in group]
    check_present(per_arm, schema.names(), advice=ONE_FOR_EACH, field="Columns.per_arm")
    for role, pattern in columns.patterns.items():
        advice = f"Columns({role}=...) needs a column for every arm"
        check_present(columns_of(pattern, names), schema.names(), advice=advice, field=f"Columns.{role}")
    _check_arm_names(columns, names)
    _check_proposed(table, columns, names)
    features = _given_features(columns, arm_values, options)
    if features is None:
        features = _learned_features(table, columns, names, arm_values, sizes, options)
    if arm_table is None and columns.arms is None:
        for note in arm_notes(sizes["names"], columns.arm):
            warnings.warn(note, stacklevel=2)
    sparse = options.get("sparse")
    layout = TableLayout(
        columns=columns,
        link=inferred_link(given, are_binary=sizes["binary"]),
        link_inferred=given == AUTO_LINK,
        rows=sizes["rows"],
        max_arms=sizes.get("max_arms") or len(names),
        arm_names=names,
        arm_values={**arm_values, columns.arm: list(names)},
        arm_rows=arm_rows,
        features=features,
        has_arm_table=arm_table is not None,
        other_links=links_of_others(table, columns.other_rewards),
        sparse=features.dim > MAX_DENSE_FEATURES if sparse is None else bool(sparse),
    )
    return replace(layout, checked=check_table(table, layout))


def _check_proposed(table: pl.LazyFrame, columns: Columns, names: Sequence[str]) -> None:
    """Raise InvalidInput if a column of proposed arms names no arm of the log, or misses arms that it needs.

    Of rows with different arms, those without the proposed arm are found when their block is evaluated.
    """
    for name in columns.proposed if names else ():
        values = table.select(name).unique().collect(engine="streaming").to_series().drop_nulls().sort().to_list()
        if not set(values) & set(names):
            raise InvalidInput(
                f"column {name!r} must name arms of the log, such as {some_names(names)}; got "
                f"{some_names(values) or 'missing values only'}. Write the names as in column {columns.arm!r}",
                field="policy",
            )
        unknown = pl.col(name).is_null() | ~pl.col(name).is_in(names)
        if columns.propensity is None or columns.probabilities is not None or len(names) <= 2 or columns.arms:
            continue
        count, first = (
            table.select(unknown.sum(), unknown.arg_true().first().alias("first")).collect(engine="streaming").row(0)
        )
        if count:
            raise InvalidInput(
                f"column {name!r} is missing, or names no arm of the log, in {count:,} rows; the first is row {first}. "
                "Such rows are decided as the logging policy did, for which the log needs the probabilities of all "
                "arms. Fill it in, log or estimate the probabilities, or drop such rows",
                field="Columns.probabilities",
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
    for name in columns_of(columns.patterns.get("probabilities", ""), names):
        if name in columns.context:
            raise InvalidInput(
                f"context must not contain {name!r}, the probability of an arm. Leave it out of the context",
                field="Columns.context",
            )


def _scan_table(table: pl.LazyFrame, columns: Columns, link: Link, *, named: bool) -> dict[str, Any]:
    """Number of rows, of arms at most and of features, rows of each arm, and whether rewards are valid, in one pass."""
    sizes, lists = [pl.len().alias("rows")], columns.arms or columns.features
    sizes += valid_rewards(columns.reward, table.collect_schema()[columns.reward], link)
    if lists is not None:
        sizes.append(pl.col(lists).list.len().max().alias("max_arms"))
    if columns.features is not None:
        sizes.append(pl.col(columns.features).list.first().drop_nulls().first().list.len().alias("width"))
    name_columns = []
    if named and (columns.arms is not None or columns.features is None):
        name_columns.append(pl.col(columns.arm) if columns.arms is None else pl.col(columns.arms).explode())
    counts = [table.select(column.cast(pl.String).alias("name")).group_by("name").len() for column in name_columns]
    queries = [table.select(sizes), *counts]
    first, *different = pl.collect_all(queries, engine="streaming", optimizations=NO_CACHING)
    names = {name: rows for frame in different for name, rows in frame.iter_rows() if name is not None}
    return first.row(0, named=True) | {"names": names}


def _read_arms(
    table: pl.DataFrame, arm_id: str | None, arm_column: str
) -> tuple[tuple[str, ...], dict[str, Any], list[int]]:
    """Return the names of the arms of an arm table, sorted, and in that order its other columns and row numbers.

    The names are in the column `arm_id`, by default the first one. `arm_column` is the column of arms in the log.
    """
    if arm_id is None and arm_column in table.columns[1:]:
        raise InvalidInput(
            f"arm_table must have the names of the arms in its first column, which is {table.columns[0]!r}. Move the "
            f"column {arm_column!r} to the front, or set arm_id={arm_column!r}",
            field="arm_table",
        )
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


def _given_features(columns: Columns, arm_values: Mapping[str, Any], options: TableOptions) -> Features | None:
    """Return the feature map of the options after checking it against the log; None if there is none."""
    given = options.get("features")
    if given is None:
        return None
    features = as_features(given)
    for other in (*MapOptions.__optional_keys__, "per_arm_block"):
        if other in options:
            raise InvalidInput(
                f"a model or `features` already has a feature map, so {other} cannot be used. Leave out {other}, "
                "or the feature map",
                field=other,
            )
    if isinstance(features, TransformerFeatures) and columns.features is not None:
        raise InvalidInput(
            "a transformer cannot be used on a log with a column of features. Leave out Columns(features=...)"
        )
    known = {*columns.context, *columns.per_arm_names, *arm_values, columns.arm, columns.features}
    missing = [name for name in getattr(features, "kinds", ()) if name not in known]
    if missing:
        raise InvalidInput(
            f"the feature map needs column {missing[0]!r}, which is neither in the context of the log nor in its "
            f"table of arms. Name it in Columns(context=...), or give arm_table",
            field="Columns.context",
        )
    return features


def _arm_kinds(
    columns: Columns, names: Sequence[str], width: int | None, options: TableOptions, *, described: bool
) -> tuple[dict[str, ColumnKind], str | None]:
    """The kinds of arm columns that are not learned, and the column by which each arm has its own block.

    `described` means that an arm table has features of the arms.
    """
    if columns.features is not None:
        return {columns.features: Vector(width or 0)}, None
    if described and not options.get("per_arm_block", False):
        return {}, None
    if len(names) > ARM_BLOCKS:
        raise InvalidInput(
            f"column {columns.arms or columns.arm!r} names {len(names)} different arms. If it is the right column, "
            f"give features of the arms as arm_table; without, each arm has features of its own, for {ARM_BLOCKS} at "
            "most",
            field="arm_table",
        )
    has_block = options.get("per_arm_block", options.get("crosses", "all") == "all")
    return {columns.arm: closed_category(columns.arm, names)}, columns.arm if has_block else None


def _sample(table: pl.LazyFrame, columns: Columns, arm_names: Sequence[str], step: int) -> dict[str, Any]:
    """Values of each context column, and of all columns of each `per_arm` pattern together, in every `step`-th row."""
    groups = columns.of_arms(arm_names)
    names = list(dict.fromkeys([*columns.context, *(name for group in groups for name in group)]))
    if not names:
        return {}
    rows = table.select(names).gather_every(step).collect(engine="streaming")
    values = {name: column_values(rows[name]) for name in columns.context}
    for own, group in zip(columns.per_arm_names, groups, strict=True):
        parts = [column_values(rows[name]) for name in group]
        are_arrays = all(isinstance(part, np.ndarray) for part in parts)
        values[own] = np.concatenate(parts) if are_arrays else [value for part in parts for value in part]
    return values


def _distinct(table: pl.LazyFrame, names: Sequence[str]) -> dict[str, list[Any]]:
    """The distinct values of some columns, in all rows."""
    queries = [table.select(name).unique() for name in names]
    frames = pl.collect_all(queries, engine="streaming", optimizations=NO_CACHING)
    return {name: column_values(frame[name]) for name, frame in zip(names, frames, strict=True)}


def _learned_features(
    table: pl.LazyFrame,
    columns: Columns,
    arm_names: Sequence[str],
    arm_values: Mapping[str, Any],
    sizes: Mapping[str, Any],
    options: TableOptions,
) -> FeatureMap:
    """Learn a feature map from the columns of the arm table and a sample of the log."""
    arm, block = _arm_kinds(columns, arm_names, sizes.get("width"), options, described=bool(arm_values))
    step = -(-sizes["rows"] // LEARN_ROWS)
    values, kinds = {**arm_values, **_sample(table, columns, arm_names, step)}, dict(options.get("kinds", {}))
    unknown = [name for name in kinds if name not in values]
    if unknown:
        raise InvalidInput(
            f"kinds has {unknown[0]!r}, which is not a column of features. Columns of features: {', '.join(values)}"
        )
    missing = checked_missing(options.get("missing", "indicator"))
    learned = learn_kinds(values, kinds, missing, dict.fromkeys(columns.context, step))
    if step > 1:
        inferred = [name for name in columns.context if not isinstance(kinds.get(name), ColumnKind)]
        categories = [name for name in inferred if isinstance(learned.get(name), Category)]
        learned |= {
            name: learn_kind(name, values, "category", missing) for name, values in _distinct(table, categories).items()
        }
    shares = {name: missing_share(values[name], kind) for name, kind in learned.items()}
    return FeatureMap(
        arm={**arm, **{name: learned[name] for name in arm_values if name in learned}},
        context={name: learned[name] for name in columns.context if name in learned},
        own={name: learned[name] for name in columns.per_arm_names if name in learned},
        crosses=options.get("crosses", "all"),
        per_arm_block=block,
        expansions=options.get("expansions", ()),
        missing_shares={**dict.fromkeys(arm, 0.0), **shares},
    )
