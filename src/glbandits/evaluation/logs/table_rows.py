"""Rows of a table as LoggedData, by what a first look at the table told."""

from typing import Any

import numpy as np
import polars as pl

from glbandits.errors import InvalidInput
from glbandits.evaluation.logs.arm_features import ArmFeatures, CrossedArms, FixedArms, RowArms
from glbandits.evaluation.logs.column_values import cluster_numbers, codes, column_values, numbers, whole_numbers, wrong
from glbandits.evaluation.logs.logged_data import LoggedData, check_probabilities
from glbandits.evaluation.logs.sparse_arms import SparseArms
from glbandits.evaluation.logs.table_layout import OTHER_PROBABILITIES, Layout
from glbandits.features import FeatureMap
from glbandits.features.feature_map.combination import Combination, Entries
from glbandits.maths.links import find_link
from glbandits.maths.sparse_rows import SparseRows, as_sparse_rows, joined_rows
from glbandits.records import Floats, Ints

NOT_KNOWN = "If the propensities are not known, say Columns(propensity=None) and have them estimated"
PAIRS = 2**16
"""Arms of rows that are made at a time."""


def read_rows(rows: pl.DataFrame, layout: Layout, first: int = 0) -> LoggedData:
    """All that the rows say. `first` is the number of the first one in the whole table, for errors."""
    columns = layout.columns
    arms, chosen = _fixed_arms(rows, layout, first) if layout.fixed else _row_arms(rows, layout, first)
    propensities = None if columns.propensity is None else _propensities(rows[columns.propensity], first)
    probabilities = None if columns.probabilities is None else _probabilities(rows, layout, arms, first)
    if probabilities is not None:
        name, mend = f"column {columns.probabilities!r}", f". {OTHER_PROBABILITIES}"
        if columns.probability_of_arm:
            mend = ". Name all arms in arm_table if some were never chosen"
        check_probabilities(probabilities, arms, chosen, propensities, name=name, first=first, mend=mend)
    return LoggedData(
        chosen=chosen,
        rewards=_rewards(rows[columns.reward], layout, first),
        propensities=propensities,
        probabilities=probabilities,
        clusters=None if columns.cluster is None else cluster_numbers(rows[columns.cluster], first),
        arms=arms,
        link=layout.link,
        arm_names=layout.arm_names if layout.fixed else None,
        feature_map=layout.feature_map,
    )


def _rewards(series: pl.Series, layout: Layout, first: int) -> Floats:
    rewards, link = numbers(series, first), find_link(layout.link)
    outside = ~((rewards >= link.lowest_reward) & (rewards <= link.highest_reward))
    if outside.any():
        row = int(np.argmax(outside))
        try:
            link.check_reward(float(rewards[row]))
        except InvalidInput as error:
            raise InvalidInput(f"column {series.name!r}, row {first + row}: {error}") from None
    return rewards


def _propensities(series: pl.Series, first: int) -> Floats:
    propensities = numbers(series, first)
    outside = ~((propensities > 0.0) & (propensities <= 1.0))
    if outside.any():
        raise wrong(series, int(np.argmax(outside)), first, "must be a probability above 0 and at most 1", NOT_KNOWN)
    return propensities


def _probabilities(rows: pl.DataFrame, layout: Layout, arms: ArmFeatures, first: int) -> Floats:
    """Of all arms of all rows, (n, most)."""
    if not layout.fixed:
        series = rows[layout.columns.probabilities or ""]
        different = arms.counts != series.list.len().fill_null(0).to_numpy()
        if different.any():
            row = int(np.argmax(different))
            raise wrong(series, row, first, f"must have a number for each of the {arms.counts[row]} arms of the row")
        lists = np.zeros((len(rows), arms.most))
        row_numbers = first + np.repeat(np.arange(len(rows)), arms.counts)
        lists[np.arange(arms.most) < arms.counts[:, np.newaxis]] = numbers(series.explode(), row_numbers)
        return lists
    names, table = layout.probability_columns, rows
    if not names:  # a struct: an arm that it does not name has no probability
        none = pl.DataFrame({name: np.zeros(len(rows)) for name in layout.arm_names})
        table = none.update(rows[layout.columns.probabilities or ""].struct.unnest())
        names = list(layout.arm_names)
    return np.stack([numbers(table[name], first) for name in names], axis=1)


def _fixed_arms(rows: pl.DataFrame, layout: Layout, first: int) -> tuple[ArmFeatures, Ints]:
    chosen = codes(rows[layout.columns.arm], layout.arm_names, first, mend=layout.mend_unknown_arm)
    features = layout.features
    counts = np.full(len(rows), len(layout.arm_names))
    places = np.broadcast_to(np.arange(len(layout.arm_names)), (len(rows), len(layout.arm_names)))
    if layout.sparse:
        return _sparse_arms(rows, layout, counts, places, first), chosen
    if not isinstance(features, FeatureMap):
        return RowArms(_transformed(rows, layout, places), counts), chosen
    contexts, own = _contexts(rows, features, first), _own(rows, layout, first)
    if not contexts.shape[1] and own is None:
        return FixedArms(layout.arm_features, rows=len(rows)), chosen
    return CrossedArms(contexts, layout.arm_features, own, features.combination), chosen


def _row_arms(rows: pl.DataFrame, layout: Layout, first: int) -> tuple[ArmFeatures, Ints]:
    columns, counts, features = layout.columns, _counts(rows, layout, first), layout.features
    there = np.arange(layout.most) < counts[:, np.newaxis]
    row_numbers = first + np.repeat(np.arange(len(rows)), counts)
    places, own = np.full(there.shape, -1), None
    if columns.arms is None:
        chosen = _chosen_place(rows[columns.arm], counts, first)
    else:
        places[there] = codes(rows[columns.arms].explode(), layout.arm_names, row_numbers, mend=layout.mend_unknown_arm)
        _check_once(rows[columns.arms], places, first)
        chosen = _chosen_among(rows[columns.arm], places, layout, first)
    if layout.sparse:
        return _sparse_arms(rows, layout, counts, places, first), chosen
    if not isinstance(features, FeatureMap):
        return RowArms(_transformed(rows, layout, places), counts), chosen
    if columns.arms is not None:
        own = _own(rows, layout, first)
        own = None if own is None else own[np.arange(len(rows))[:, np.newaxis], places]
    arms = np.zeros((*there.shape, features.arm.width))
    if columns.features is not None:
        vectors = _features(rows[columns.features], features.arm.kinds[columns.features].width, row_numbers)
        arms[there] = features.arm.with_expansions(vectors)
    else:
        arms[there] = layout.arm_features[places[there]]
    contexts = _contexts(rows, features, first)
    if contexts.shape[1] or own is not None or features.combination.products:
        arms = features.combination.combine(arms, contexts[:, np.newaxis], own)
        arms[~there] = 0.0
    return RowArms(arms, counts), chosen


def _sparse_arms(rows: pl.DataFrame, layout: Layout, counts: Ints, places: Ints, first: int) -> SparseArms:
    features = layout.features
    at_rows = np.repeat(np.arange(len(rows)), counts)
    if not isinstance(features, FeatureMap):
        made: Any = features.transform(_pairs(rows, layout, places), sparse=True)
        return SparseArms(made, counts, same_arms=layout.fixed, most=layout.most)
    context = features.context.encode_sparse(_context_columns(rows, features), len(rows), first)
    at_arms = places[np.arange(layout.most) < counts[:, np.newaxis]]
    if layout.columns.features is not None:
        width = features.arm.kinds[layout.columns.features].width
        vectors = features.arm.with_expansions(_features(rows[layout.columns.features], width, first + at_rows))
        at_arms, arm = np.arange(len(at_rows)), entries_of(vectors)
    else:
        arm = layout.arm_entries
    own = _own_entries(rows, layout, at_rows, at_arms, first)
    combined = combined_arms(features.combination, arm, context, own, at_arms, at_rows)
    return SparseArms(combined, counts, features.dim, same_arms=layout.fixed, most=layout.most)


def _own_entries(rows: pl.DataFrame, layout: Layout, at_rows: Ints, at_arms: Ints, first: int) -> Entries:
    """What belongs to one row and one arm, by the index of the pair."""
    own = _own(rows, layout, first)
    if own is None:
        return Entries(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
    return entries_of(own[at_rows, at_arms])


def _transformed(rows: pl.DataFrame, layout: Layout, places: Ints) -> Floats:
    """The features that a transformer makes of the columns of each row and arm, (n, most, dim)."""
    out = np.zeros((*places.shape, layout.dim))
    out[places >= 0] = layout.features.transform(_pairs(rows, layout, places))
    return out


def _pairs(rows: pl.DataFrame, layout: Layout, places: Ints) -> dict[str, Any]:
    """The columns of each row and arm."""
    columns, there = layout.columns, places >= 0
    at_rows, at_arms = np.nonzero(there)[0], places[there]
    table = {name: _taken(column_values(rows[name]), at_rows) for name in columns.context}
    table |= {name: _taken(values, at_arms) for name, values in layout.arm_values.items()}
    for own, group in zip(columns.own, columns.of_arms(layout.arm_names), strict=True):
        values = [column_values(rows[name]) for name in group]
        table[own] = [values[arm][row] for row, arm in zip(at_rows.tolist(), at_arms.tolist(), strict=True)]
    return table


def _taken(values: Any, indices: Ints) -> Any:
    return values[indices] if isinstance(values, np.ndarray) else [values[index] for index in indices.tolist()]


def _counts(rows: pl.DataFrame, layout: Layout, first: int) -> Ints:
    """Arms of each row, (n,)."""
    lists = [rows[name] for name in (layout.columns.arms, layout.columns.features) if name is not None]
    counts: Ints = lists[0].list.len().fill_null(0).cast(pl.Int64).to_numpy()
    if len(counts) and counts.min() == 0:
        raise wrong(lists[0], int(np.argmin(counts)), first, "must list at least one arm", "Drop rows without arms")
    for other in lists[1:]:
        different = counts != other.list.len().fill_null(0).to_numpy()
        if different.any():
            row = int(np.argmax(different))
            raise wrong(other, row, first, f"must have a list for each of the {counts[row]} arms of the row")
    return counts


def _check_once(series: pl.Series, places: Ints, first: int) -> None:
    """An error if a row lists an arm twice. -1 stands for no arm."""
    in_order = np.sort(places, axis=1)
    twice = ((in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)).any(axis=1)
    if twice.any():
        raise wrong(series, int(np.argmax(twice)), first, "must list each arm once", "Drop what is there twice")


def _chosen_among(series: pl.Series, places: Ints, layout: Layout, first: int) -> Ints:
    names = layout.arm_names
    chosen = codes(series, names, first, mend=layout.mend_unknown_arm)
    matches = places == chosen[:, np.newaxis]
    missing = ~matches.any(axis=1)
    if missing.any():
        row = int(np.argmax(missing))
        offered = ", ".join(repr(names[place]) for place in places[row] if place >= 0)
        mend = "Add the chosen arm to the list, or drop such rows"
        raise wrong(series, row, first, f"must be one of the arms of its row, {offered}", mend)
    places_of_chosen: Ints = np.argmax(matches, axis=1)
    return places_of_chosen


def _chosen_place(series: pl.Series, counts: Ints, first: int) -> Ints:
    chosen = whole_numbers(series, first)
    outside = (chosen < 0) | (chosen >= counts)
    if outside.any():
        row = int(np.argmax(outside))
        raise wrong(series, row, first, f"must be the index of an arm of its row, 0 to {counts[row] - 1}")
    return chosen


def _features(series: pl.Series, width: int, row_numbers: Ints) -> Floats:
    """Of all arms of all rows, one below the other, (arms, width)."""
    arms = series.explode()
    lengths = arms.list.len().fill_null(0).to_numpy()
    if (lengths != width).any():
        place = int(np.argmax(lengths != width))
        raise wrong(arms, place, row_numbers, f"must have {width} features for each arm, as the first row has")
    return numbers(arms.explode(), np.repeat(row_numbers, width)).reshape(-1, width)


def _contexts(rows: pl.DataFrame, features: FeatureMap, first: int) -> Floats:
    """(n, p)."""
    return features.context.encode(_context_columns(rows, features), len(rows), first)


def _context_columns(rows: pl.DataFrame, features: FeatureMap) -> dict[str, Any]:
    return {name: column_values(rows[name]) for name in features.context.kinds}


def _own(rows: pl.DataFrame, layout: Layout, first: int) -> Floats | None:
    """What belongs to one row and one arm, (n, K, r)."""
    columns, features = layout.columns, layout.features
    if not isinstance(features, FeatureMap) or not features.own.width:
        return None
    patterns = dict(zip(columns.own, columns.of_arms(layout.arm_names), strict=True))
    parts = []
    for arm in range(len(layout.arm_names)):
        labels = {own: group[arm] for own, group in patterns.items()}
        values = {own: column_values(rows[labels[own]]) for own in features.own.kinds}
        parts.append(features.own.encode(values, len(rows), first, labels))
    return np.stack(parts, axis=1)


def combined_arms(
    combination: Combination, arm: Entries, context: Entries, own: Entries, at_arms: Ints, at_rows: Ints
) -> SparseRows:
    """The features of an arm in a row, for each of several pairs of an arm and a row.

    Args:
        combination: how the parts become features.
        arm: features of arms; entry rows are counted as `at_arms` counts them.
        context: features of rows; entry rows are counted as `at_rows` counts them.
        own: features of the pairs.
        at_arms: the arm of each pair.
        at_rows: the row of each pair.
    """
    parts = []
    for start in range(0, len(at_rows), PAIRS):
        stop = min(start + PAIRS, len(at_rows))
        made = combination.combine_sparse(
            _select_rows(arm, at_arms[start:stop]),
            _select_rows(context, at_rows[start:stop]),
            _select_rows(own, np.arange(start, stop)),
            stop - start,
        )
        parts.append(as_sparse_rows(made, combination.dim, may_be_empty=True))
    return joined_rows(parts)


def _select_rows(entries: Entries, rows: Ints) -> Entries:
    """The entries of these rows, which are then counted from 0."""
    last = int(rows.max(initial=-1)) + 1
    pointers = np.searchsorted(entries.rows, np.arange(last + 1))
    found = SparseRows(pointers, entries.columns, entries.values).take(rows)
    return Entries(np.repeat(np.arange(len(rows)), np.diff(found.indptr)), found.indices, found.values)


def entries_of(array: Floats) -> Entries:
    """What is not 0 in an array, (n, width)."""
    at_rows, at_columns = np.nonzero(array)
    return Entries(at_rows, at_columns, array[at_rows, at_columns])
