"""Convert rows of a table to LoggedData."""

from typing import Any

import numpy as np
import polars as pl

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.arm_features import ArmFeatures, CrossedArms, FixedArms, RowArmNames, RowArms, UnreadArms
from glbandits.evaluation.logs.array_checks import check_probabilities
from glbandits.evaluation.logs.logged_data import LoggedData, trusted_rows
from glbandits.evaluation.logs.sparse_arms import SparseArms
from glbandits.evaluation.readers.column_values import (
    cluster_ids,
    column_error,
    column_values,
    float_values,
    int_values,
    name_indices,
)
from glbandits.evaluation.readers.columns import OF_EACH_ARM, OTHER_PROBABILITIES
from glbandits.evaluation.readers.pair_features import PairFeatures
from glbandits.evaluation.readers.reward_columns import checked_rewards
from glbandits.evaluation.readers.table_layout import TableLayout
from glbandits.features import FeatureMap
from glbandits.features.feature_map.combination import Combination, Entries
from glbandits.maths.links import find_link
from glbandits.maths.sparse_rows import SparseRows, as_sparse_rows, joined_rows

NOT_KNOWN = "If the propensities are not known, set Columns(propensity=None) and estimate them"
CHOSEN_WITH_ZERO = "The arm was chosen, so its probability was above 0. Log it without rounding, or drop such rows"
PAIRS_AT_ONCE = 2**16
"""Number of pairs of row and arm whose sparse features are computed together."""


def read_rows(rows: pl.DataFrame, layout: TableLayout, first_row: int = 0) -> LoggedData:
    """Convert rows of a table.

    `first_row` is the index of their first row in the whole table, for error messages.
    """
    columns = layout.columns
    arms, chosen, offered = (_fixed_arms if layout.fixed else _row_arms)(rows, layout, first_row)
    checked = layout.checked
    propensities = None
    if columns.propensity is not None:
        series = rows[columns.propensity]
        propensities = _plain(series) if checked else _propensities(series, first_row)
    probabilities, values, costs = (_of_each_arm(rows, layout, arms, role, first_row) for role in OF_EACH_ARM)
    if probabilities is not None and not checked:
        name, advice = f"column {columns.probabilities!r}", f". {OTHER_PROBABILITIES}"
        if "probabilities" in columns.patterns:
            advice = ". Name all arms in arm_table if some were never chosen"
        check_probabilities(probabilities, arms, chosen, propensities, name=name, first_row=first_row, advice=advice)
    if probabilities is not None and propensities is None:
        propensities = probabilities[np.arange(len(rows)), chosen]
    rewards = rows[columns.reward]
    return (trusted_rows if checked else LoggedData)(
        chosen=chosen,
        rewards=_plain(rewards) if checked else checked_rewards(rewards, find_link(layout.link), first_row),
        propensities=propensities,
        probabilities=probabilities,
        clusters=None if columns.cluster is None else cluster_ids(rows[columns.cluster], first_row),
        arms=arms,
        link=layout.link,
        arm_names=layout.arm_names if layout.fixed else None,
        feature_map=layout.feature_map,
        row_arm_names=offered,
        proposed={name: _proposed(rows[name], layout, arms, offered) for name in columns.proposed},
        other_rewards={name: _maybe_missing(rows[name]) for name in columns.other_rewards},
        values=values,
        costs=np.zeros_like(values) if values is not None and costs is None else costs,
    )


def _plain(series: pl.Series) -> Floats:
    """The numbers of a column that has been checked."""
    return np.ascontiguousarray(series.cast(pl.Float64).to_numpy(), dtype=np.float64)


def _maybe_missing(series: pl.Series) -> Floats:
    """The numbers of a column, NaN where they are missing."""
    return np.ascontiguousarray(series.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy(), dtype=np.float64)


def _proposed(series: pl.Series, layout: TableLayout, arms: ArmFeatures, offered: RowArmNames | None) -> Ints:
    """Index of the proposed arm in each row, (n,): -1 if it is missing or the row does not offer it."""
    if not layout.fixed and offered is None:  # rows give arms by index
        indices: Ints = series.cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
        return np.where((indices >= 0) & (indices < arms.counts), indices, -1)
    known = series.cast(pl.Enum(layout.arm_names), strict=False).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    if offered is None:
        return known
    matches = (offered.indices == known[:, np.newaxis]) & (known >= 0)[:, np.newaxis]
    return np.where(matches.any(axis=1), np.argmax(matches, axis=1), -1)


def _propensities(series: pl.Series, first_row: int) -> Floats:
    propensities = float_values(series, first_row)
    outside = ~((propensities > 0.0) & (propensities <= 1.0))
    if outside.any():
        row = int(np.argmax(outside))
        advice = NOT_KNOWN
        if propensities[row] == 0.0:
            advice = f"{CHOSEN_WITH_ZERO}. {NOT_KNOWN}"
        elif 1.0 < propensities[row] <= 100.0:
            advice = f"Divide percentages by 100. {NOT_KNOWN}"
        raise column_error(
            series, row, first_row, "must be a probability above 0 and at most 1", advice, field="Columns.propensity"
        )
    return propensities


def _of_each_arm(
    rows: pl.DataFrame, layout: TableLayout, arms: ArmFeatures, role: str, first_row: int
) -> Floats | None:
    """The numbers of one of OF_EACH_ARM for all arms of all rows, (n, max_arms); None if the log has none."""
    column = getattr(layout.columns, role)
    if column is None:
        return None
    if layout.fixed:
        numbers = _struct_or_columns(rows, layout, role, first_row)
    else:
        numbers = _lists(rows[column], arms, first_row)
    wrong = numbers < 0.0
    if role == "values" and wrong.any():
        row, arm = map(int, np.argwhere(wrong)[0])
        raise InvalidInput(
            f"column {column!r}, row {first_row + row}: values must be at least 0; got {numbers[row, arm]:g}. Write a "
            "loss as a cost",
            field="Columns.values",
        )
    return numbers


def _lists(series: pl.Series, arms: ArmFeatures, first_row: int) -> Floats:
    different = arms.counts != series.list.len().fill_null(0).to_numpy()
    if different.any():
        row = int(np.argmax(different))
        raise column_error(
            series, row, first_row, f"must have a number for each of the {arms.counts[row]} arms of the row"
        )
    lists = np.zeros((len(series), arms.max_arms))
    row_numbers = first_row + np.repeat(np.arange(len(series)), arms.counts)
    lists[np.arange(arms.max_arms) < arms.counts[:, np.newaxis]] = float_values(series.explode(), row_numbers)
    return lists


def _struct_or_columns(rows: pl.DataFrame, layout: TableLayout, role: str, first_row: int) -> Floats:
    names, table = layout.columns_of_each_arm(role), rows
    if not names:  # a struct: the probability of an arm without a field is 0, and so is its cost; it needs a value
        default = pl.repeat(None if role == "values" else 0.0, len(rows), dtype=pl.Float64, eager=True)
        names = list(layout.arm_names)
        table = pl.DataFrame(dict.fromkeys(names, default)).update(rows[getattr(layout.columns, role)].struct.unnest())
    return np.stack([_plain(table[n]) if layout.checked else float_values(table[n], first_row) for n in names], axis=1)


def _fixed_arms(rows: pl.DataFrame, layout: TableLayout, first_row: int) -> tuple[ArmFeatures, Ints, None]:
    chosen = name_indices(rows[layout.columns.arm], layout.arm_names, first_row, advice=layout.unknown_arm_advice)
    features = layout.features
    counts = np.full(len(rows), len(layout.arm_names))
    if not layout.reads_features:
        return UnreadArms(counts, layout.dim, len(layout.arm_names), same_arms=True), chosen, None
    arm_indices = np.broadcast_to(np.arange(len(layout.arm_names)), (len(rows), len(layout.arm_names)))
    if layout.sparse:
        return _sparse_arms(rows, layout, counts, arm_indices, first_row), chosen, None
    if not isinstance(features, FeatureMap):
        return RowArms(_transformed(rows, layout, arm_indices), counts, same_arms=True), chosen, None
    contexts, own = _contexts(rows, features, first_row), _per_arm_features(rows, layout, first_row)
    if not contexts.shape[1] and own is None:
        return FixedArms(layout.arm_features, rows=len(rows)), chosen, None
    return CrossedArms(contexts, layout.arm_features, own, features.combination), chosen, None


def _row_arms(rows: pl.DataFrame, layout: TableLayout, first_row: int) -> tuple[ArmFeatures, Ints, RowArmNames | None]:
    columns, counts, features = layout.columns, _counts(rows, layout, first_row), layout.features
    arm_mask = np.arange(layout.max_arms) < counts[:, np.newaxis]
    row_numbers = first_row + np.repeat(np.arange(len(rows)), counts)
    arm_indices, own = np.full(arm_mask.shape, -1), None
    if columns.arms is None:
        chosen = _chosen_index(rows[columns.arm], counts, first_row)
    else:
        arm_indices[arm_mask] = name_indices(
            rows[columns.arms].explode(), layout.arm_names, row_numbers, advice=layout.unknown_arm_advice
        )
        _check_once(rows[columns.arms], arm_indices, first_row)
        chosen = _chosen_among(rows[columns.arm], arm_indices, layout, first_row)
    offered = None if columns.arms is None else RowArmNames(layout.arm_names, arm_indices)
    if not layout.reads_features:
        return UnreadArms(counts, layout.dim, layout.max_arms), chosen, offered
    if layout.pairs is not None:
        return _arms_of_pairs(layout.pairs, rows, layout, counts, first_row), chosen, offered
    if layout.sparse:
        return _sparse_arms(rows, layout, counts, arm_indices, first_row), chosen, offered
    if not isinstance(features, FeatureMap):
        return RowArms(_transformed(rows, layout, arm_indices), counts), chosen, offered
    if columns.arms is not None:
        own = _per_arm_features(rows, layout, first_row)
        own = None if own is None else own[np.arange(len(rows))[:, np.newaxis], arm_indices]
    arms = np.zeros((*arm_mask.shape, features.arm.width))
    if columns.features is not None:
        vectors = _features(rows[columns.features], features.arm.kinds[columns.features].width, row_numbers)
        arms[arm_mask] = features.arm.with_expansions(vectors)
    else:
        arms[arm_mask] = layout.arm_features[arm_indices[arm_mask]]
    contexts = _contexts(rows, features, first_row)
    if contexts.shape[1] or own is not None or features.combination.products:
        arms = features.combination.combine(arms, contexts[:, np.newaxis], own)
        arms[~arm_mask] = 0.0
    return RowArms(arms, counts), chosen, offered


def _arms_of_pairs(
    pairs: PairFeatures, rows: pl.DataFrame, layout: TableLayout, counts: Ints, first_row: int
) -> ArmFeatures:
    features: Any = pairs.encode(rows, counts, first_row, sparse=layout.sparse)
    if layout.sparse:
        return SparseArms(features, counts, layout.dim, max_arms=layout.max_arms)
    arms = np.zeros((len(rows), layout.max_arms, layout.dim))
    arms[np.arange(layout.max_arms) < counts[:, np.newaxis]] = features
    return RowArms(arms, counts)


def _sparse_arms(
    rows: pl.DataFrame, layout: TableLayout, counts: Ints, arm_indices: Ints, first_row: int
) -> SparseArms:
    features = layout.features
    at_rows = np.repeat(np.arange(len(rows)), counts)
    assert features is not None
    if not isinstance(features, FeatureMap):
        features_of_pairs: Any = features.transform(_pairs(rows, layout, arm_indices), sparse=True)
        return SparseArms(features_of_pairs, counts, same_arms=layout.fixed, max_arms=layout.max_arms)
    context = features.context.encode_sparse(_context_columns(rows, features), len(rows), first_row)
    at_arms = arm_indices[np.arange(layout.max_arms) < counts[:, np.newaxis]]
    if layout.columns.features is not None:
        width = features.arm.kinds[layout.columns.features].width
        vectors = features.arm.with_expansions(_features(rows[layout.columns.features], width, first_row + at_rows))
        at_arms, arm = np.arange(len(at_rows)), Entries.of(vectors)  # each pair has features of its own
    else:
        arm = layout.arm_entries
    own = _per_arm_entries(rows, layout, at_rows, at_arms, first_row)
    combined = combined_arms(features.combination, arm, context, own, at_arms, at_rows)
    return SparseArms(combined, counts, features.dim, same_arms=layout.fixed, max_arms=layout.max_arms)


def _per_arm_entries(rows: pl.DataFrame, layout: TableLayout, at_rows: Ints, at_arms: Ints, first_row: int) -> Entries:
    """Nonzero `per_arm` features of each pair of row and arm."""
    own = _per_arm_features(rows, layout, first_row)
    if own is None:
        return Entries(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
    return Entries.of(own[at_rows, at_arms])


def _transformed(rows: pl.DataFrame, layout: TableLayout, arm_indices: Ints) -> Floats:
    """Features of all arms of all rows from a transformer, (n, max_arms, dim)."""
    out = np.zeros((*arm_indices.shape, layout.dim))
    assert layout.features is not None
    out[arm_indices >= 0] = layout.features.transform(_pairs(rows, layout, arm_indices))
    return out


def _pairs(rows: pl.DataFrame, layout: TableLayout, arm_indices: Ints) -> dict[str, Any]:
    """A table with one row for each pair of row and arm."""
    columns, arm_mask = layout.columns, arm_indices >= 0
    at_rows, at_arms = np.nonzero(arm_mask)[0], arm_indices[arm_mask]
    table = {name: _take(column_values(rows[name]), at_rows) for name in columns.context}
    table |= {name: _take(values, at_arms) for name, values in layout.arm_values.items()}
    for own, group in zip(columns.per_arm_names, columns.of_arms(layout.arm_names), strict=True):
        values = [column_values(rows[name]) for name in group]
        table[own] = [values[arm][row] for row, arm in zip(at_rows.tolist(), at_arms.tolist(), strict=True)]
    return table


def _take(values: Any, indices: Ints) -> Any:
    return values[indices] if isinstance(values, np.ndarray) else [values[index] for index in indices.tolist()]


def _counts(rows: pl.DataFrame, layout: TableLayout, first_row: int) -> Ints:
    """Number of arms of each row, (n,)."""
    lists = [rows[name] for name in (layout.columns.arms, layout.columns.features) if name in rows.columns]
    counts: Ints = lists[0].list.len().fill_null(0).cast(pl.Int64).to_numpy()
    if len(counts) and counts.min() == 0:
        raise column_error(
            lists[0], int(np.argmin(counts)), first_row, "must list at least one arm", "Drop rows without arms"
        )
    for other in lists[1:]:
        different = counts != other.list.len().fill_null(0).to_numpy()
        if different.any():
            row = int(np.argmax(different))
            raise column_error(other, row, first_row, f"must have a list for each of the {counts[row]} arms of the row")
    return counts


def _check_once(series: pl.Series, arm_indices: Ints, first_row: int) -> None:
    """Raise InvalidInput if a row lists an arm twice. Index -1 means no arm."""
    in_order = np.sort(arm_indices, axis=1)
    twice = ((in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)).any(axis=1)
    if twice.any():
        raise column_error(series, int(np.argmax(twice)), first_row, "must list each arm once", "Drop the repetitions")


def _chosen_among(series: pl.Series, arm_indices: Ints, layout: TableLayout, first_row: int) -> Ints:
    names = layout.arm_names
    chosen = name_indices(series, names, first_row, advice=layout.unknown_arm_advice)
    matches = arm_indices == chosen[:, np.newaxis]
    missing = ~matches.any(axis=1)
    if missing.any():
        row = int(np.argmax(missing))
        offered = ", ".join(repr(names[index]) for index in arm_indices[row] if index >= 0)
        advice = "Add the chosen arm to the list, or drop such rows"
        raise column_error(series, row, first_row, f"must be one of the arms of its row, {offered}", advice)
    chosen_indices: Ints = np.argmax(matches, axis=1)
    return chosen_indices


def _chosen_index(series: pl.Series, counts: Ints, first_row: int) -> Ints:
    chosen = int_values(series, first_row)
    outside = (chosen < 0) | (chosen >= counts)
    if outside.any():
        row = int(np.argmax(outside))
        raise column_error(series, row, first_row, f"must be the index of an arm of its row, 0 to {counts[row] - 1}")
    return chosen


def _features(series: pl.Series, width: int, row_numbers: Ints) -> Floats:
    """Features of all arms of all rows, stacked, (arms, width)."""
    arms = series.explode()
    lengths = arms.list.len().fill_null(0).to_numpy()
    if (lengths != width).any():
        index = int(np.argmax(lengths != width))
        raise column_error(arms, index, row_numbers, f"must have {width} features for each arm, as the first row has")
    return float_values(arms.explode(), np.repeat(row_numbers, width)).reshape(-1, width)


def _contexts(rows: pl.DataFrame, features: FeatureMap, first_row: int) -> Floats:
    """Encoded context of each row, (n, p)."""
    return features.context.encode(_context_columns(rows, features), len(rows), first_row)


def _context_columns(rows: pl.DataFrame, features: FeatureMap) -> dict[str, Any]:
    return {name: column_values(rows[name]) for name in features.context.kinds}


def _per_arm_features(rows: pl.DataFrame, layout: TableLayout, first_row: int) -> Floats | None:
    """Encoded `per_arm` columns of each pair of row and arm, (n, K, r); None without them."""
    columns, features = layout.columns, layout.features
    if not isinstance(features, FeatureMap) or not features.own.width:
        return None
    patterns = dict(zip(columns.per_arm_names, columns.of_arms(layout.arm_names), strict=True))
    parts = []
    for arm in range(len(layout.arm_names)):
        labels = {own: group[arm] for own, group in patterns.items()}
        values = {own: column_values(rows[labels[own]]) for own in features.own.kinds}
        parts.append(features.own.encode(values, len(rows), first_row, labels))
    return np.stack(parts, axis=1)


def combined_arms(
    combination: Combination, arm: Entries, context: Entries, own: Entries, at_arms: Ints, at_rows: Ints
) -> SparseRows:
    """Combine arm, context and `per_arm` features of pairs of row and arm into sparse rows.

    Args:
        combination: which features and products there are.
        arm: features of arms, indexed by `at_arms`.
        context: features of rows, indexed by `at_rows`.
        own: features of the pairs.
        at_arms: the arm of each pair.
        at_rows: the row of each pair.
    """
    parts = []
    for start in range(0, len(at_rows), PAIRS_AT_ONCE):
        stop = min(start + PAIRS_AT_ONCE, len(at_rows))
        features_of_pairs = combination.combine_sparse(
            _select_rows(arm, at_arms[start:stop]),
            _select_rows(context, at_rows[start:stop]),
            _select_rows(own, np.arange(start, stop)),
            stop - start,
        )
        parts.append(as_sparse_rows(features_of_pairs, combination.dim, may_be_empty=True))
    return joined_rows(parts)


def _select_rows(entries: Entries, rows: Ints) -> Entries:
    """The entries of the selected rows, renumbered from 0."""
    last = int(rows.max(initial=-1)) + 1
    pointers = np.searchsorted(entries.rows, np.arange(last + 1))
    selected = SparseRows(pointers, entries.columns, entries.values).take(rows)
    return Entries(np.repeat(np.arange(len(rows)), np.diff(selected.indptr)), selected.indices, selected.values)
