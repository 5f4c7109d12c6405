"""The feature map of a log: given, or learned from its columns and its table of arms."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from glbandits.errors import InvalidInput, lookup
from glbandits.evaluation.logs.column_values import column_values
from glbandits.evaluation.logs.columns import Columns
from glbandits.features import FeatureMap, Features, TransformerFeatures, Vector
from glbandits.features.feature_map.feature_map import MapOptions, closed_category, missing_share
from glbandits.features.kinds.column_kind import MISSING, ColumnKind
from glbandits.features.kinds.learned_kinds import learn_kinds
from glbandits.features.transformer_features import as_features

LEARN_ROWS = 100_000
"""Rows from which a feature map is learned, spread evenly over the log."""
MOST_ARMS = 1000
"""Arms that may have a block of features each. With more, arms need columns that describe them."""


class LogOptions(MapOptions, total=False):
    """How the columns of a log become features. All are optional."""

    features: Any
    """A feature map, or a fitted transformer of scikit-learn, instead of a map that is learned from the log."""
    per_arm_block: bool
    """Whether each arm has a block of features of its own. By default, if nothing is known of the arms but names."""
    sparse: bool | None
    """Whether arms are sparse rows, `SparseArms`. By default, if there are more than 4,096 features."""


class MapRequest(NamedTuple):
    """What is known of a log when its feature map is made."""

    columns: Columns
    arm_names: tuple[str, ...]
    arm_values: Mapping[str, Any]
    """The columns that describe the arms."""
    width: int | None
    """Of the features that each row brings for its arms, if it does."""
    rows: int


def features_of(table: pl.LazyFrame, request: MapRequest, options: LogOptions) -> Features:
    """The map that is given, or else one that is learned."""
    given = options.get("features")
    if given is None:
        return _learned(table, request, options)
    features = as_features(given)
    if len(options) > 1:
        other = next(name for name in options if name != "features")
        raise InvalidInput(f"{other} is for a feature map that is learned from the log; leave it out, or features")
    if isinstance(features, TransformerFeatures) and request.columns.features is not None:
        raise InvalidInput("a transformer makes features of columns; this log has a column of features already")
    if isinstance(features, FeatureMap):
        columns = request.columns
        known = {*columns.context, *columns.own, *request.arm_values, columns.arm, columns.features}
        missing = [name for name in features.kinds if name not in known]
        if missing:
            raise InvalidInput(
                f"the feature map needs column {missing[0]!r}, which is neither in the context of the log nor in its "
                "table of arms. Name it in Columns(context=...), or give arm_table"
            )
    return features


def _learned(table: pl.LazyFrame, request: MapRequest, options: LogOptions) -> FeatureMap:
    columns, crosses = request.columns, options.get("crosses", "all")
    values = {**request.arm_values, **_sample(table, request)}
    arm: dict[str, ColumnKind] = {}
    block = None
    if columns.features is not None:
        arm = {columns.features: Vector(request.width or 0)}
    elif options.get("per_arm_block", crosses == "all" and not request.arm_values) or not request.arm_values:
        _check_arms(request)
        arm = {columns.arm: closed_category(columns.arm, request.arm_names)}
        block = columns.arm if options.get("per_arm_block", crosses == "all") else None
    missing = lookup("way to treat missing values", options.get("missing", "indicator"), MISSING)
    kinds = dict(options.get("kinds", {}))
    unknown = [name for name in kinds if name not in values]
    if unknown:
        raise InvalidInput(f"kinds names {unknown[0]!r}, which is no column of features. Known: {', '.join(values)}")
    learned = learn_kinds(values, kinds, missing)
    return FeatureMap(
        arm=arm | {name: learned[name] for name in request.arm_values if name in learned},
        context={name: learned[name] for name in columns.context if name in learned},
        own={name: learned[name] for name in columns.own if name in learned},
        crosses=crosses,
        per_arm_block=block,
        expansions=options.get("expansions", ()),
        missing_shares=dict.fromkeys(arm, 0.0)
        | {name: missing_share(values[name], kind) for name, kind in learned.items()},
    )


def _sample(table: pl.LazyFrame, request: MapRequest) -> dict[str, Any]:
    """Values of the columns of the context, and of those of each arm together."""
    columns = request.columns
    groups = columns.of_arms(request.arm_names)
    names = list(dict.fromkeys([*columns.context, *(name for group in groups for name in group)]))
    if not names:
        return {}
    every = -(-request.rows // LEARN_ROWS)
    rows = table.select(names).gather_every(every).collect(engine="streaming")
    context = {name: column_values(rows[name]) for name in columns.context}
    return context | {
        own: _joined([column_values(rows[name]) for name in group])
        for own, group in zip(columns.own, groups, strict=True)
    }


def _joined(columns: list[Any]) -> Any:
    """The values of several columns, one after the other."""
    if all(isinstance(values, np.ndarray) for values in columns):
        return np.concatenate(columns)
    return [value for values in columns for value in values]


def _check_arms(request: MapRequest) -> None:
    columns, count = request.columns, len(request.arm_names)
    if count > MOST_ARMS:
        raise InvalidInput(
            f"column {columns.arms or columns.arm!r} names {count} different arms. If it is the right column, give "
            f"features of the arms as arm_table; without, each arm has features of its own, for {MOST_ARMS} at most"
        )
