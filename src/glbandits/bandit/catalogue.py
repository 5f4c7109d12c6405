"""Catalogue: arms that are stored once and referred to by an id."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from glbandits.bandit.input_checks import as_floats, check_usable
from glbandits.bandit.packed_arms import PackedArms
from glbandits.errors import InvalidInput
from glbandits.records import Floats, Ints

Combine: TypeAlias = Callable[[Floats, Floats], ArrayLike]
"""From the features of arms, (n, dim), and a context to the features that a bandit sees, (n, its dim)."""
SAMPLE = 16
"""Arms, about, on which it is checked that a function is linear."""


def cross_features(features: Floats, context: Floats) -> Floats:
    """The features of arms, those of the context, and all products of the two: (n, p + q + p q).

    >>> cross_features(np.array([[1.0, 2.0]]), np.array([3.0]))
    array([[1., 2., 3., 3., 6.]])
    """
    products = (features[:, :, np.newaxis] * context).reshape(len(features), -1)
    return np.concatenate([features, np.tile(context, (len(features), 1)), products], axis=1)


class Catalogue:
    """Arms with their ids and features, stored once for many decisions: see `Bandit.choose_from`.

    Arms are added and retired between decisions. The order of rows is that of adding, except that the last row takes
    the place of one that is retired. Not for use by several threads at the same time.

    With `combine` the arms have features of their own here, and the bandit sees those of the arm in a context.

    Args:
        ids: the name of each arm: text, a number or anything else that can be the key of a dict.
        features: (K, dim), a row for each id. With `np.empty((0, dim))` the catalogue starts empty.
        combine: gives the features that the bandit sees, (n, its dim), from those of n arms and a context. It must be
            linear in the features of an arm, apart from a constant: `cross_features` is.

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
        self._changes: Ints = np.empty(0, dtype=np.int64)
        self._distinct: Ints | None = None
        self._packed, self._packed_version = PackedArms(), -1
        self.version = 0
        """The number of changes so far."""
        self.add(ids, rows)
        self._packed.update(self.features, self.rows_changed_since(-1))  # now, so that no decision has to wait for it
        self._packed_version = self.version

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, arm: object) -> bool:
        return arm in self._rows

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._ids)

    def __getitem__(self, arm: Hashable) -> Floats:
        """A copy of the features of an arm. Raises InvalidInput if the id is unknown."""
        features: Floats = self._features[self.row(arm)].copy()
        return features

    def features_for(self, arm: Hashable, context: ArrayLike | None = None) -> Floats:
        """The features of an arm in a context, as the bandit learns them."""
        features: Floats = self.combined(self[arm][np.newaxis], context)[0]
        return features

    def combined(self, rows: Floats, context: ArrayLike | None) -> Floats:
        """The features that the bandit sees of arms with these features, in a context.

        Raises InvalidInput if a context is missing, or if there is one and no `combine`.
        """
        if (context is None) != (self._combine is None):
            needed = "must be None without combine" if self._combine is None else "is needed, because it has combine"
            raise InvalidInput(f"context of a catalogue {needed}; got {repr(context)[:80]}")
        if self._combine is None:
            return rows
        combined = as_floats("combine(features, context)", self._combine(rows, as_floats("context", context)))
        if combined.ndim != 2 or len(combined) != len(rows):
            raise InvalidInput(f"combine must give a row for each of the {len(rows)} arms; got shape {combined.shape}")
        check_usable("combine(features, context)", combined)
        return combined

    def combining_matrix(self, context: ArrayLike) -> Floats:
        """The matrix that turns (features, 1) of any arm into (combined features, 1) in this context.

        Raises InvalidInput if `combine` is not linear in some of the arms.
        """
        sample = self.features[:: max(1, len(self) // SAMPLE)]
        units = np.maximum(np.abs(sample).max(axis=0), 1e-100)
        rows = self.combined(np.vstack([np.zeros(self.dim), np.diag(units), sample]), context)
        constant, combined = rows[0], rows[1 + self.dim :]
        slopes = (rows[1 : 1 + self.dim] - constant) / units[:, np.newaxis]
        matrix = np.zeros((rows.shape[1] + 1, self.dim + 1))
        matrix[:-1, :-1], matrix[:-1, -1], matrix[-1, -1] = slopes.T, constant, 1.0
        sizes = np.abs(sample) @ np.abs(slopes) + np.abs(constant)
        if (np.abs(combined - (sample @ slopes + constant)) > 1e-9 * sizes).any():
            raise InvalidInput("combine must be linear in the features of an arm, apart from a constant; it is not")
        return matrix

    def __repr__(self) -> str:
        return f"Catalogue({len(self)} arms, dim={self.dim})"

    @property
    def ids(self) -> tuple[Hashable, ...]:
        """The ids, in the order of the rows."""
        return tuple(self._ids)

    @property
    def features(self) -> Floats:
        """The features, (K, dim), in the order of the ids: a read-only view that the next change makes invalid."""
        view = self._features[: len(self)]
        view.flags.writeable = False
        return view

    def first_of_equals(self, rows: Ints) -> Ints:
        """These rows, in order, without those whose features are equal to those of a row before."""
        if len(rows) < len(self):
            return rows[np.sort(np.unique(self._digests[rows], return_index=True)[1])]
        if self._distinct is None:
            self._distinct = np.sort(np.unique(self._digests[: len(self)], return_index=True)[1])
        return self._distinct

    @property
    def packed(self) -> PackedArms:
        """The arms as float32 panels, made when they are needed first and up to date with the last change."""
        if self._packed_version != self.version:
            self._packed.update(self.features, self.rows_changed_since(self._packed_version))
            self._packed_version = self.version
        return self._packed

    def rows_changed_since(self, version: int) -> Ints:
        """The rows whose features changed after this version."""
        return np.flatnonzero(self._changes[: len(self)] > version)

    def row(self, arm: Hashable) -> int:
        """The row of an arm. Raises InvalidInput if the id is unknown."""
        try:
            return self._rows[arm]
        except (KeyError, TypeError):
            raise InvalidInput(f"no arm {arm!r} in the catalogue of {len(self)} arms. Add it first.") from None

    def id_of(self, row: int) -> Hashable:
        """The id of a row."""
        return self._ids[row]

    def add(self, ids: Iterable[Hashable], features: ArrayLike) -> None:
        """Add arms at the end: all of them or none. Raises InvalidInput if an id is in the catalogue already."""
        new_ids, rows = _as_ids(ids), as_floats("features", features)
        if rows.shape != (len(new_ids), self.dim):
            raise InvalidInput(
                f"features must have shape ({len(new_ids)}, {self.dim}), a row for each id; got {rows.shape}"
            )
        check_usable("features", rows)
        for arm in new_ids:
            if arm in self._rows:
                raise InvalidInput(f"arm {arm!r} is in the catalogue already. Retire it first to change its features.")
        start, end = len(self), len(self) + len(new_ids)
        self._reserve(end)
        self.version, self._distinct = self.version + 1, None
        self._features[start:end] = rows
        self._digests[start:end] = [hash(row.tobytes()) for row in rows]
        self._changes[start:end] = self.version
        self._ids += new_ids
        self._rows.update(zip(new_ids, range(start, end), strict=True))

    def retire(self, ids: Iterable[Hashable]) -> None:
        """Remove arms: all of them or none. Raises InvalidInput if an id is unknown."""
        retired = _as_ids(ids)
        for arm in retired:
            self.row(arm)
        self.version, self._distinct = self.version + 1, None
        for arm in retired:
            row, last = self._rows.pop(arm), len(self._ids) - 1
            moved = self._ids.pop()
            if row != last:
                self._ids[row], self._rows[moved] = moved, row
                self._features[row], self._digests[row] = self._features[last], self._digests[last]
                self._changes[row] = self.version

    def _reserve(self, count: int) -> None:
        """Make room for so many arms; doubles the arrays, so that adding one by one costs O(1) each."""
        if count <= len(self._features):
            return
        size = max(count, 2 * len(self._features))
        self._features = _enlarged(self._features, size)
        self._digests = _enlarged(self._digests, size)
        self._changes = _enlarged(self._changes, size)


def _enlarged(array: Any, size: int) -> Any:
    """The array with zeros behind it."""
    enlarged = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    enlarged[: len(array)] = array
    return enlarged


def _as_ids(ids: Iterable[Hashable]) -> list[Hashable]:
    """The ids as a list; an error if they cannot be keys of a dict, or if one occurs twice."""
    if isinstance(ids, str | bytes):
        raise InvalidInput(f"ids must be a list of ids; got the text {ids!r}. Put it in a list.")
    listed = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    seen: set[Hashable] = set()
    for arm in listed:
        try:
            repeated = arm in seen
            seen.add(arm)
        except TypeError:
            raise InvalidInput(f"an id must be text or a number, not {type(arm).__name__}; got {arm!r}") from None
        if repeated:
            raise InvalidInput(f"ids must differ from each other; got {arm!r} twice")
    return listed
