"""The feature map of a log: given, or learned from the columns and the arm table."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from glbandits.common.errors import InvalidInput, lookup
from glbandits.evaluation.readers.column_values import column_values
from glbandits.evaluation.readers.columns import Columns
from glbandits.features import FeatureMap, Features, TransformerFeatures, Vector
from glbandits.features.feature_map.feature_map import MapOptions, closed_category, missing_share
from glbandits.features.feature_map.typical_values import typical_values
from glbandits.features.kinds.column_kind import MISSING, ColumnKind
from glbandits.features.kinds.kind_inference import learn_kinds
from glbandits.features.kinds.numeric import Number
from glbandits.features.transformer_features import as_features

LEARN_ROWS = 100_000
"""Maximum number of rows from which a feature map is learned, evenly spaced over the log."""
MAX_ARMS = 1000
"""Maximum number of arms with their own block of features. A log with more arms needs an arm table."""


class LogOptions(MapOptions, total=False):
    """Options for encoding the columns of a log as features."""

    features: Any
    """A feature map or a fitted scikit-learn transformer. By default a map is learned from the log."""
    per_arm_block: bool
    """Whether each arm has its own block of features. Default: yes, unless an arm table describes the arms."""
    sparse: bool | None
    """Whether arms are sparse rows, `SparseArms`. Default: yes, with more than 4,096 features."""


def declared_texts(options: LogOptions) -> list[str]:
    """The columns whose declared kind needs the text of a CSV file.

    "1.234" is 1234 with decimal commas, and "12" is an error in a column of percentages.
    """
    kinds = {**getattr(options.get("features"), "kinds", {}), **options.get("kinds", {})}
    return [
        name
        for name, kind in kinds.items()
        if kind == "decimal_comma" or (isinstance(kind, Number) and (kind.decimal_comma or kind.percent))
    ]


class MapRequest(NamedTuple):
    """Properties of a log that determine its feature map."""

    columns: Columns
    arm_names: tuple[str, ...]
    arm_values: Mapping[str, Any]
    """The columns of the arm table, except the names."""
    width: int | None
    """Number of features of an arm in `Columns.features`; None without that column."""
    rows: int


def make_feature_map(table: pl.LazyFrame, request: MapRequest, options: LogOptions) -> Features:
    """Return the given feature map after checking it against the log, or learn one."""
    given = options.get("features")
    if given is None:
        return _learned(table, request, options)
    features = as_features(given)
    if len(options) > 1:
        other = next(name for name in options if name != "features")
        raise InvalidInput(
            f"a model or `features` already has a feature map, so {other} cannot be used. Leave out {other}, or the "
            "feature map",
            field=other,
        )
    if isinstance(features, TransformerFeatures) and request.columns.features is not None:
        raise InvalidInput(
            "a transformer cannot be used on a log with a column of features. Leave out Columns(features=...)"
        )
    if isinstance(features, FeatureMap):
        columns = request.columns
        known = {*columns.context, *columns.per_arm_names, *request.arm_values, columns.arm, columns.features}
        missing = [name for name in features.kinds if name not in known]
        if missing:
            raise InvalidInput(
                f"the feature map needs column {missing[0]!r}, which is neither in the context of the log nor in its "
                "table of arms. Name it in Columns(context=...), or add it to arm_table",
                field="Columns.context",
            )
    return features


def _learned(table: pl.LazyFrame, request: MapRequest, options: LogOptions) -> FeatureMap:
    columns, crosses = request.columns, options.get("crosses", "all")
    values = {**request.arm_values, **_sample(table, request)}
    arm: dict[str, ColumnKind] = {}
    block = None
    if columns.features is not None:
        arm = {columns.features: Vector(request.width or 0)}
    elif not request.arm_values or options.get("per_arm_block", False):
        _check_arms(request)
        arm = {columns.arm: closed_category(columns.arm, request.arm_names)}
        block = columns.arm if options.get("per_arm_block", crosses == "all") else None
    missing = lookup("way to treat missing values", options.get("missing", "indicator"), MISSING)
    kinds = dict(options.get("kinds", {}))
    unknown = [name for name in kinds if name not in values]
    if unknown:
        raise InvalidInput(
            f"kinds has {unknown[0]!r}, which is not a column of features. Columns of features: {', '.join(values)}"
        )
    learned = learn_kinds(values, kinds, missing, dict.fromkeys(columns.context, _sample_step(request)))
    return FeatureMap(
        arm=arm | {name: learned[name] for name in request.arm_values if name in learned},
        context={name: learned[name] for name in columns.context if name in learned},
        own={name: learned[name] for name in columns.per_arm_names if name in learned},
        crosses=crosses,
        per_arm_block=block,
        expansions=options.get("expansions", ()),
        missing_shares=dict.fromkeys(arm, 0.0)
        | {name: missing_share(values[name], kind) for name, kind in learned.items()},
        examples=typical_values(values, learned),
    )


def _sample(table: pl.LazyFrame, request: MapRequest) -> dict[str, Any]:
    """Sampled values of each context column and of each `per_arm` pattern.

    The columns of a pattern are concatenated.
    """
    columns = request.columns
    groups = columns.of_arms(request.arm_names)
    names = list(dict.fromkeys([*columns.context, *(name for group in groups for name in group)]))
    if not names:
        return {}
    rows = table.select(names).gather_every(_sample_step(request)).collect(engine="streaming")
    context = {name: column_values(rows[name]) for name in columns.context}
    return context | {
        own: _joined([column_values(rows[name]) for name in group])
        for own, group in zip(columns.per_arm_names, groups, strict=True)
    }


def _sample_step(request: MapRequest) -> int:
    """The distance between two sampled rows."""
    return -(-request.rows // LEARN_ROWS)


def _joined(columns: list[Any]) -> Any:
    """Concatenate the values of several columns."""
    if all(isinstance(values, np.ndarray) for values in columns):
        return np.concatenate(columns)
    return [value for values in columns for value in values]


def _check_arms(request: MapRequest) -> None:
    columns, count = request.columns, len(request.arm_names)
    if count > MAX_ARMS:
        raise InvalidInput(
            f"column {columns.arms or columns.arm!r} names {count} different arms. If it is the right column, give "
            f"features of the arms as arm_table; without, each arm has features of its own, for {MAX_ARMS} at most",
            field="arm_table",
        )
