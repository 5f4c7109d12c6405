"""ColumnGroup: columns that are encoded together, such as those of the context."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.features.feature_map.combination import Entries
from glbandits.features.feature_map.random_fourier import RandomFourier
from glbandits.features.kinds.column_kind import BadValue, ColumnKind
from glbandits.features.kinds.numeric import Number
from glbandits.features.table_columns import Values

DEDUPLICATE_FROM = 1000
"""The number of values of a column from which on each distinct value is encoded only once."""
DEDUPLICATE_WIDTH = 64
"""The largest number of features of a column with this optimisation."""
RowNumbers: TypeAlias = int | Sequence[int]
"""Row numbers for error messages: of the first row, or of each row."""
SCALARS = frozenset({str, int, float, bool, type(None)})


class ColumnGroup:
    """Columns with their kinds, and the random Fourier features of some of them.

    Args:
        kinds: the kind of each column, by name.
        expansions: random Fourier features of some of these columns.
    """

    def __init__(self, kinds: Mapping[str, ColumnKind], expansions: Sequence[RandomFourier] = ()) -> None:
        self.kinds, self.expansions = dict(kinds), tuple(expansions)
        self.spans: dict[str, tuple[int, int]] = {}
        """The range of features, start and stop, of each column and expansion."""
        at = 0
        for name, width in [(name, kind.width) for name, kind in kinds.items()]:
            self.spans[name] = (at, at + width)
            at += width
        self._column_width = at
        for expansion in self.expansions:
            self.spans[expansion.name] = (at, at + expansion.features)
            at += expansion.features
        self.width = at

    def feature_names(self) -> list[str]:
        """The names of all features."""
        names = [name for column, kind in self.kinds.items() for name in kind.feature_names(column)]
        return names + [name for expansion in self.expansions for name in expansion.feature_names()]

    def encode(
        self,
        columns: Mapping[str, Values],
        rows: int,
        row_numbers: RowNumbers = 0,
        labels: Mapping[str, str] | None = None,
    ) -> Floats:
        """The features of all rows, (rows, width). All values of an absent column are missing.

        Args:
            columns: the values of each column.
            rows: the number of rows.
            row_numbers: the number of the first row, or of each row, in error messages.
            labels: names of columns in error messages, where they differ.

        Raises:
            InvalidInput: if a column cannot hold one of its values.
        """
        indices, numbers, dense = self._encode_columns(columns, rows, row_numbers, labels or {})
        width = self._column_width
        sums: Any = np.bincount(indices, weights=numbers, minlength=rows * width)
        # Without any index, bincount returns integers.
        out: Floats = sums.astype(np.float64, copy=False).reshape(rows, width)
        for start, block in dense:
            out[:, start : start + block.shape[1]] = block
        return self.with_expansions(out)

    def encode_sparse(self, columns: Mapping[str, Values], rows: int, row_numbers: RowNumbers = 0) -> Entries:
        """As `encode`, but returns only the non-zero features."""
        if self.expansions:
            return Entries.of(self.encode(columns, rows, row_numbers))
        indices, numbers, dense = self._encode_columns(columns, rows, row_numbers, {})
        for start, block in dense:
            at_rows, at_columns, entries = Entries.of(block)
            indices += (at_rows * self._column_width + start + at_columns).tolist()
            numbers += entries.tolist()
        at, inverse = np.unique(np.asarray(indices, dtype=np.int64), return_inverse=True)
        values: Any = np.bincount(inverse, weights=numbers, minlength=len(at)).astype(np.float64, copy=False)
        width = max(1, self._column_width)
        return Entries(at // width, at % width, values)

    def is_constant(self, columns: Mapping[str, Values]) -> bool:
        """Whether all rows are equal, so that encoding one row is enough.

        False if a comparison would be slow.
        """
        for name in self.kinds:
            values = columns.get(name)
            if values is not None and (
                type(values) is not list
                or type(values[0]) not in SCALARS
                or values.count(values[0]) < len(values)
                or len(set(map(type, values))) > 1  # True and 1 are equal
            ):
                return False
        return True

    def _encode_columns(
        self, columns: Mapping[str, Values], rows: int, row_numbers: RowNumbers, labels: Mapping[str, str]
    ) -> tuple[list[int], list[float], list[tuple[int, Floats]]]:
        """Encode all columns.

        Returns the indices and values of non-zero features, and (start, features) of columns that were encoded as
        arrays.
        """
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
                if len(values) >= DEDUPLICATE_FROM and (block := _encode_distinct(kind, values)) is not None:
                    dense.append((start, block))
                    continue
                kind.encode(values, start, self._column_width, indices, numbers)
            except BadValue as bad:
                raise bad.as_invalid_input(labels.get(name, name), row_numbers) from None
        return indices, numbers, dense

    def with_expansions(self, encoded: Floats) -> Floats:
        """Append the random Fourier features to the encoded columns."""
        if not self.expansions:
            return encoded
        spans = [[self.spans[name] for name in expansion.columns] for expansion in self.expansions]
        expanded = [
            expansion.expand(np.hstack([encoded[:, start:stop] for start, stop in each]))
            for expansion, each in zip(self.expansions, spans, strict=True)
        ]
        return np.hstack([encoded, *expanded])


def _encode_distinct(kind: ColumnKind, values: list[Any]) -> Floats | None:
    """Encode each distinct value once.

    Returns (n, width), or None if too many values are distinct for a gain.
    """
    types = set(map(type, values)) - {type(None)}
    if kind.width > DEDUPLICATE_WIDTH or not (types == {str} or types == {bool}):  # True and 1 are equal keys
        return None
    distinct = {value: index for index, value in enumerate(dict.fromkeys(values))}
    if len(distinct) > len(values) // 4:
        return None
    indices: list[int] = []
    numbers: list[float] = []
    try:
        kind.encode(list(distinct), 0, kind.width, indices, numbers)
    except BadValue as bad:
        bad.row = values.index(list(distinct)[bad.row])
        raise
    sums: Any = np.bincount(indices, weights=numbers, minlength=len(distinct) * kind.width)
    rows = np.fromiter(map(distinct.__getitem__, values), np.int64, len(values))
    block: Floats = sums.astype(np.float64, copy=False).reshape(len(distinct), kind.width)[rows]
    return block


def split_expansions(
    expansions: Sequence[RandomFourier], arm: Mapping[str, ColumnKind], context: Mapping[str, ColumnKind]
) -> tuple[list[RandomFourier], list[RandomFourier]]:
    """Split the expansions into those of arm columns and those of context columns."""
    of_arm = [each for each in expansions if set(each.columns) <= set(arm)]
    of_context = [each for each in expansions if set(each.columns) <= set(context)]
    for each in expansions:
        if each not in of_arm and each not in of_context:
            raise InvalidInput(
                f"the columns of RandomFourier must all be context columns, or all arm columns; got {each.columns}. "
                f"Context: {', '.join(context) or 'none'}. Arm: {', '.join(arm) or 'none'}"
            )
    return of_arm, of_context
