"""ColumnGroup: the columns of the context, or of the arm, as one block of features."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glbandits.errors import InvalidInput
from glbandits.features.kinds.column_kind import BadValue, ColumnKind, Values
from glbandits.features.feature_map.combination import Entries
from glbandits.features.kinds.numeric import Number
from glbandits.features.feature_map.random_fourier import RandomFourier
from glbandits.records import Floats

MANY = 1000
"""Values of a column from which on equal ones are encoded once."""
WIDEST_BLOCK = 64
"""Features of a column for which that is done."""
SCALARS = frozenset({str, int, float, bool, type(None)})


class ColumnGroup:
    """Columns with their kinds, and random Fourier features of some of them."""

    def __init__(self, kinds: Mapping[str, ColumnKind], expansions: Sequence[RandomFourier] = ()) -> None:
        self.kinds, self.expansions = dict(kinds), tuple(expansions)
        self.spans: dict[str, tuple[int, int]] = {}
        """The first feature of each column and expansion, and the one after its last."""
        at = 0
        for name, width in [(name, kind.width) for name, kind in kinds.items()]:
            self.spans[name] = (at, at + width)
            at += width
        self._encoded = at
        for expansion in self.expansions:
            self.spans[expansion.name] = (at, at + expansion.features)
            at += expansion.features
        self.width = at

    def feature_names(self) -> list[str]:
        """The names of all features."""
        names = [name for column, kind in self.kinds.items() for name in kind.feature_names(column)]
        return names + [name for expansion in self.expansions for name in expansion.feature_names()]

    def encode(
        self, columns: Mapping[str, Values], rows: int, first_row: int = 0, labels: Mapping[str, str] | None = None
    ) -> Floats:
        """The features of all rows, (rows, width). A column that is not there is missing in all rows.

        Args:
            columns: the values of each column.
            rows: how many there are.
            first_row: the number of the first row, for errors.
            labels: other names of columns, for errors.
        """
        indices, numbers, dense = self._cells(columns, rows, first_row, labels or {})
        width = self._encoded
        added: Any = np.bincount(indices, weights=numbers, minlength=rows * width)
        out: Floats = added.astype(np.float64, copy=False).reshape(
            rows, width
        )  # NumPy counts nothing with whole numbers
        for start, block in dense:
            out[:, start : start + block.shape[1]] = block
        return self.with_expansions(out)

    def encode_sparse(self, columns: Mapping[str, Values], rows: int, first_row: int = 0) -> Entries:
        """As `encode`, but only what is not 0."""
        if self.expansions:
            whole = self.encode(columns, rows, first_row)
            at_rows, at_columns = np.nonzero(whole)
            return Entries(at_rows, at_columns, whole[at_rows, at_columns])
        indices, numbers, dense = self._cells(columns, rows, first_row, {})
        for start, block in dense:
            at_row, at_column = np.nonzero(block)
            indices += (at_row * self._encoded + start + at_column).tolist()
            numbers += block[at_row, at_column].tolist()
        at, inverse = np.unique(np.asarray(indices, dtype=np.int64), return_inverse=True)
        values: Any = np.bincount(inverse, weights=numbers, minlength=len(at)).astype(np.float64, copy=False)
        width = max(1, self._encoded)
        return Entries(at // width, at % width, values)

    def is_same_in_all(self, columns: Mapping[str, Values]) -> bool:
        """Whether all rows are plainly the same, so that encoding one is enough."""
        for name in self.kinds:
            values = columns.get(name)
            if values is not None and (
                type(values) is not list or type(values[0]) not in SCALARS or values.count(values[0]) < len(values)
            ):
                return False
        return True

    def _cells(
        self, columns: Mapping[str, Values], rows: int, first_row: int, labels: Mapping[str, str]
    ) -> tuple[list[int], list[float], list[tuple[int, Floats]]]:
        """Indices and values of the features that are not 0, and the columns that were encoded as arrays."""
        indices: list[int] = []
        numbers: list[float] = []
        dense: list[tuple[int, Floats]] = []
        for name, kind in self.kinds.items():
            start, _ = self.spans[name]
            values = columns.get(name)
            if values is None:
                values = [None] * rows
            try:
                if isinstance(values, np.ndarray):
                    if isinstance(kind, Number):
                        dense.append((start, kind.encode_array(values.astype(np.float64, copy=False))))
                        continue
                    values = values.tolist()
                if len(values) >= MANY and (block := _repeated(kind, values)) is not None:
                    dense.append((start, block))
                    continue
                kind.encode(values, start, self._encoded, indices, numbers)
            except BadValue as bad:
                raise bad.named(labels.get(name, name), first_row) from None
        return indices, numbers, dense

    def with_expansions(self, encoded: Floats) -> Floats:
        """The features of columns, and their expansions beside them."""
        if not self.expansions:
            return encoded
        spans = [[self.spans[name] for name in expansion.columns] for expansion in self.expansions]
        expanded = [
            expansion.expand(np.hstack([encoded[:, start:stop] for start, stop in each]))
            for expansion, each in zip(self.expansions, spans, strict=True)
        ]
        return np.hstack([encoded, *expanded])


def _repeated(kind: ColumnKind, values: list[Any]) -> Floats | None:
    """The features of many values of which few are different, (n, width): each is encoded once. None if many are."""
    types = set(map(type, values)) - {type(None)}
    if kind.width > WIDEST_BLOCK or not (types == {str} or types == {bool}):  # True and 1 would be the same
        return None
    different = {value: index for index, value in enumerate(dict.fromkeys(values))}
    if len(different) > len(values) // 4:
        return None
    indices: list[int] = []
    numbers: list[float] = []
    try:
        kind.encode(list(different), 0, kind.width, indices, numbers)
    except BadValue as bad:
        bad.row = values.index(list(different)[bad.row])
        raise
    added: Any = np.bincount(indices, weights=numbers, minlength=len(different) * kind.width)
    codes = np.fromiter(map(different.__getitem__, values), np.int64, len(values))
    block: Floats = added.astype(np.float64, copy=False).reshape(len(different), kind.width)[codes]
    return block


def split_expansions(
    expansions: Sequence[RandomFourier], arm: Mapping[str, ColumnKind], context: Mapping[str, ColumnKind]
) -> tuple[list[RandomFourier], list[RandomFourier]]:
    """The expansions of columns of the arm, and those of columns of the context."""
    of_arm = [each for each in expansions if set(each.columns) <= set(arm)]
    of_context = [each for each in expansions if set(each.columns) <= set(context)]
    for each in expansions:
        if each not in of_arm and each not in of_context:
            raise InvalidInput(
                f"the columns of RandomFourier must all be of the context, or all of the arm; got {each.columns}. "
                f"Context: {', '.join(context) or 'none'}. Arm: {', '.join(arm) or 'none'}"
            )
    return of_arm, of_context
