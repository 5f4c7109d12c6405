"""Catalogue: arms that are stored once and selected by their ids."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from glbandits.bandit.arm_bounds import ArmBounds, ArmRule
from glbandits.bandit.input_checks import as_floats, check_usable
from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput, value_text
from glbandits.policies.contract import BonusRule

Combine: TypeAlias = Callable[[Floats, Floats], ArrayLike]
"""A function of the features of n arms, (n, dim), and a context. Returns n rows of features for the bandit."""
SAMPLE = 16
"""The approximate number of arms on which `combining_matrix` checks that `combine` is linear."""


def cross_features(features: Floats, context: Floats) -> Floats:
    """Return the features of arms, those of the context, and all products of the two, (n, p + q + p q).

    >>> cross_features(np.array([[1.0, 2.0]]), np.array([3.0]))
    array([[1., 2., 3., 3., 6.]])
    """
    products = (features[:, :, np.newaxis] * context).reshape(len(features), -1)
    return np.concatenate([features, np.tile(context, (len(features), 1)), products], axis=1)


class Catalogue:
    """Arms with ids and features, stored once for many decisions by `Bandit.choose_from`.

    Arms can be added and retired between decisions. Rows are in the order in which arms were added, except that the
    last row moves to the index of a row that is retired. A catalogue must not be used by several threads at once.

    Without `combine` the bandit receives the stored features. With `combine` it receives features that are computed
    from the stored features and a context.

    Args:
        ids: the id of each arm: text, a number or any other value that can be the key of a dict.
        features: (K, dim), a row for each id. With `np.empty((0, dim))` the catalogue starts empty.
        combine: a function of the features of n arms and a context that returns the features for the bandit,
            (n, dim of the bandit). It must be linear in the features of an arm, plus a constant. `cross_features` is
            such a function.

    >>> from glbandits import Bandit, Catalogue, Optimist
    >>> catalogue = Catalogue(["news", "sports"], [[1.0, 0.0], [0.0, 1.0]])
    >>> catalogue.add(["music"], [[0.5, 0.5]])
    >>> catalogue.retire(["news"])
    >>> catalogue.ids
    ('music', 'sports')
    >>> catalogue["sports"]
    array([0., 1.])
    >>> bandit = Bandit(Optimist(), dim=2, seed=1)
    >>> arm = bandit.choose_from(catalogue)
    >>> bandit.learn(catalogue[arm], reward=1.0)
    """

    def __init__(self, ids: Iterable[Hashable], features: ArrayLike, combine: Combine | None = None) -> None:
        rows = as_floats("features", features)
        if rows.ndim != 2:
            raise InvalidInput(f"features must have shape (K, dim), a row for each id; got {rows.shape}")
        self.dim, self._combine = int(rows.shape[1]), combine
        self._ids: list[Hashable] = []
        self._rows: dict[Hashable, int] = {}
        self._features = np.empty((0, self.dim))
        self._digests: Ints = np.empty(0, dtype=np.int64)
        self._is_changed = np.empty(0, dtype=bool)  # whether the row has changed since the last use of `_bounds`
        self._bounds = ArmBounds()
        self._largest: Floats | None = None  # a cache of `largest`
        self._distinct: Ints | None = None  # a cache of `distinct_rows` for all rows
        self.add(ids, rows)

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, arm: object) -> bool:
        return arm in self._rows

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._ids)

    def __getitem__(self, arm: Hashable) -> Floats:
        """Return a copy of the features of an arm. Raises InvalidInput if the id is unknown."""
        features: Floats = self._features[self.row(arm)].copy()
        return features

    def features_for(self, arm: Hashable, context: ArrayLike | None = None) -> Floats:
        """Return the features of an arm in a context, as `Bandit.learn` takes them."""
        features: Floats = self.combined(self[arm][np.newaxis], context)[0]
        return features

    def combined(self, rows: Floats, context: ArrayLike | None) -> Floats:
        """Return the features that the bandit receives for arms with these stored features.

        Raises InvalidInput if the catalogue has `combine` and the context is None, or if it has no `combine` and the
        context is not None.
        """
        if (context is None) != (self._combine is None):
            rule = "must be None without combine" if self._combine is None else "is required with combine"
            raise InvalidInput(f"context of a catalogue {rule}; got {value_text(context, 80)}")
        if self._combine is None:
            return rows
        combined = as_floats("combine(features, context)", self._combine(rows, as_floats("context", context)))
        if combined.ndim != 2 or len(combined) != len(rows):
            raise InvalidInput(f"combine must return {len(rows)} rows, one for each arm; got shape {combined.shape}")
        check_usable("combine(features, context)", combined)
        return combined

    def combining_matrix(self, context: ArrayLike | None) -> Floats:
        """Return the matrix M with (combined features, 1) = M (features, 1) for every arm, in this context.

        Raises InvalidInput if `combine` is not linear on a sample of the arms and half the largest features.
        """
        if self._combine is None and context is None:
            return np.eye(self.dim + 1)
        units = np.where(self.largest > 0.0, self.largest, 1.0)  # smaller ones could vanish in the sum with a constant
        sample = np.vstack([self.features[:: max(1, len(self) // SAMPLE)], 0.5 * units])
        rows = self.combined(np.vstack([np.zeros(self.dim), np.diag(units), sample]), context)
        constant, combined = rows[0], rows[1 + self.dim :]
        slopes = (rows[1 : 1 + self.dim] - constant) / units[:, np.newaxis]
        matrix = np.zeros((rows.shape[1] + 1, self.dim + 1))
        matrix[:-1, :-1], matrix[:-1, -1], matrix[-1, -1] = slopes.T, constant, 1.0
        magnitudes = np.abs(sample) @ np.abs(slopes) + np.abs(constant)
        if (np.abs(combined - (sample @ slopes + constant)) > 1e-9 * magnitudes).any():
            raise InvalidInput("combine must be linear in the features of an arm, plus a constant. It is not linear")
        return matrix

    def contenders(self, rule: BonusRule, context: ArrayLike | None, allowed: Ints | None) -> Ints | None:
        """Return the allowed rows, in ascending order, that may have the highest score for some Z of the rule.

        Of arms with equal features, only the first is included. Returns None if the features of an arm may be above the
        limits of the rule.
        """
        arm_rule = ArmRule.of(rule, self.combining_matrix(context), self.largest)
        if arm_rule is None:
            return None
        is_changed = self._is_changed[: len(self)]
        if context is not None:  # the variances of another context are no use
            is_changed[:] = True
        rows, changed = self.distinct_rows(allowed), np.flatnonzero(is_changed)
        contenders = self._bounds.contenders(arm_rule, self.features, self.largest, changed, rows)
        is_changed[:] = False
        return contenders

    def __repr__(self) -> str:
        return f"Catalogue({len(self)} arms, dim={self.dim})"

    @property
    def ids(self) -> tuple[Hashable, ...]:
        """The ids, in the order of the rows."""
        return tuple(self._ids)

    @property
    def features(self) -> Floats:
        """The features, (K, dim), in the order of the ids. A read-only view that is valid until the next change."""
        view = self._features[: len(self)]
        view.flags.writeable = False
        return view

    @property
    def largest(self) -> Floats:
        """The largest absolute value of each feature, (dim,)."""
        if self._largest is None:
            self._largest = np.maximum(self.features.max(axis=0, initial=0.0), -self.features.min(axis=0, initial=0.0))
        return self._largest

    def distinct_rows(self, rows: Ints | None) -> Ints:
        """Return the rows without those whose features equal the features of an earlier one; None stands for all."""
        if self._distinct is None:
            self._distinct = np.sort(np.unique(self._digests[: len(self)], return_index=True)[1])
        if rows is None or len(self._distinct) == len(self):
            return self._distinct if rows is None else rows
        return rows[np.sort(np.unique(self._digests[rows], return_index=True)[1])]

    def allowed_rows(self, only: Iterable[Hashable] | None, excluded: Iterable[Hashable]) -> Ints | None:
        """Return the rows from which to choose, in ascending order; None for all.

        Raises InvalidInput if there are none.

        Args:
            only: ids of the arms from which to choose; None for all.
            excluded: ids of arms not to choose. Ids that the catalogue does not have are ignored.
        """
        rows, excluded_rows = None, {self.row(arm) for arm in excluded if arm in self}
        if only is not None:
            rows = np.array(sorted({self.row(arm) for arm in only} - excluded_rows), dtype=np.int64)
        elif excluded_rows:
            rows = np.delete(np.arange(len(self)), sorted(excluded_rows))
        if len(self) == 0 or (rows is not None and len(rows) == 0):
            raise InvalidInput(f"a decision needs at least one arm; got none of the {len(self)} of the catalogue")
        return rows

    def row(self, arm: Hashable) -> int:
        """Return the row of an arm. Raises InvalidInput if the id is unknown."""
        try:
            return self._rows[arm]
        except (KeyError, TypeError):
            raise InvalidInput(
                f"no arm {value_text(arm)} in the catalogue of {len(self)} arms. Add it first."
            ) from None

    def id_of(self, row: int) -> Hashable:
        """Return the id of the arm in a row."""
        return self._ids[row]

    def add(self, ids: Iterable[Hashable], features: ArrayLike) -> None:
        """Append arms: all of them or none. Raises InvalidInput if an id is in the catalogue already."""
        new_ids, rows = _as_ids(ids), as_floats("features", features)
        if rows.shape != (len(new_ids), self.dim):
            raise InvalidInput(
                f"features must have shape ({len(new_ids)}, {self.dim}), a row for each id; got {rows.shape}"
            )
        check_usable("features", rows)
        for arm in new_ids:
            if arm in self._rows:
                raise InvalidInput(
                    f"arm {value_text(arm)} is in the catalogue already. Retire it first to change its features."
                )
        start, end = len(self), len(self) + len(new_ids)
        self._reserve(end)
        self._largest = self._distinct = None
        self._features[start:end] = rows
        self._digests[start:end] = [hash(row.tobytes()) for row in rows]
        self._is_changed[start:end] = True
        self._ids += new_ids
        self._rows.update(zip(new_ids, range(start, end), strict=True))

    def retire(self, ids: Iterable[Hashable]) -> None:
        """Remove arms: all of them or none. Raises InvalidInput if an id is unknown."""
        retired = _as_ids(ids)
        for arm in retired:
            self.row(arm)
        self._largest = self._distinct = None
        for arm in retired:
            row, last = self._rows.pop(arm), len(self._ids) - 1
            moved = self._ids.pop()
            if row != last:
                self._ids[row], self._rows[moved] = moved, row
                self._features[row], self._digests[row] = self._features[last], self._digests[last]
                self._is_changed[row] = True

    def _reserve(self, count: int) -> None:
        """Enlarge the arrays to at least `count` rows. Doubles them, so that adding an arm takes amortised O(1)."""
        if count <= len(self._features):
            return
        size = max(count, 2 * len(self._features))
        self._features = _enlarged(self._features, size)
        self._digests = _enlarged(self._digests, size)
        self._is_changed = _enlarged(self._is_changed, size)


def _enlarged(array: Any, size: int) -> Any:
    """Return a copy with `size` rows; the added ones are zeros."""
    enlarged = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    enlarged[: len(array)] = array
    return enlarged


def _as_ids(ids: Iterable[Hashable]) -> list[Hashable]:
    """Return the ids as a list. Raises InvalidInput if an id is not hashable, or occurs twice."""
    if isinstance(ids, str | bytes):
        raise InvalidInput(f"ids must be a list of ids; got the text {ids!r}. Put it in a list.")
    arms = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    seen: set[Hashable] = set()
    for arm in arms:
        try:
            is_repeated = arm in seen
            seen.add(arm)
        except TypeError:
            raise InvalidInput(
                f"an id must be text or a number, not {type(arm).__name__}; got {value_text(arm)}"
            ) from None
        if is_repeated:
            raise InvalidInput(f"ids must differ from each other; got {value_text(arm)} twice")
    return arms
