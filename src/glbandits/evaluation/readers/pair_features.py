"""Features of the pairs of row and arm in formats that define them: lists of numbers, sparse lists, and JSON."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import numpy as np
import polars as pl

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.readers.column_values import column_error
from glbandits.features import Hashing
from glbandits.features.table_columns import request_rows
from glbandits.features.transformer_features import Features
from glbandits.maths.sparse_rows import SparseRows, as_sparse_rows, joined_rows

PAIRS = 2**15
"""Number of pairs of row and arm that a feature map encodes together."""


class PairFeatures(Protocol):
    """How a format stores the features of the arms of a row."""

    @property
    def dim(self) -> int:
        """Number of features of an arm."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""

    def encode(self, rows: pl.DataFrame, counts: Ints, first_row: int, *, sparse: bool) -> Floats | SparseRows:
        """Return the features of all arms of all rows, stacked: `counts` arms of each row."""


@dataclass(frozen=True)
class NumberLists:
    """A list with one list of numbers for each arm."""

    dim: int
    columns: tuple[str, ...] = ("features",)

    def encode(self, rows: pl.DataFrame, counts: Ints, first_row: int, *, sparse: bool) -> Floats | SparseRows:
        """Return the features of all arms of all rows, stacked."""
        arms = rows[self.columns[0]].list.len().fill_null(0).to_numpy() != counts
        if arms.any():
            row = int(np.argmax(arms))
            need = f"must have a list for each of the {counts[row]} arms of the row"
            raise column_error(rows[self.columns[0]], row, first_row, need)
        values = rows[self.columns[0]].explode().explode()
        if len(values) != int(counts.sum()) * self.dim or values.null_count():
            raise InvalidInput(f"column {self.columns[0]!r} must have {self.dim} numbers for each arm")
        pairs: Floats = values.cast(pl.Float64).to_numpy().reshape(-1, self.dim)
        return as_sparse_rows(pairs, self.dim) if sparse else pairs


@dataclass(frozen=True)
class SparseLists:
    """Sparse rows as lists: the number of nonzero features of each arm, their indices and their values."""

    dim: int
    columns: tuple[str, ...] = ("feature_counts", "feature_indices", "feature_values")

    def encode(
        self,
        rows: pl.DataFrame,
        counts: Ints,  # noqa: ARG002  (SparseArms compares them)
        first_row: int,  # noqa: ARG002
        *,
        sparse: bool,  # noqa: ARG002
    ) -> SparseRows:
        """Return the features of all arms of all rows, stacked."""
        nonzeros, indices, values = (rows[name].explode().drop_nulls().to_numpy() for name in self.columns)
        return SparseRows(np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(nonzeros)]), indices, values)


@dataclass(frozen=True)
class RequestFields:
    """The fields of a request and of its actions as JSON, which a feature map encodes."""

    features: Features
    columns: tuple[str, ...] = ("event_id", "context", "action_fields", "actions")

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        return self.features.dim

    def encode(self, rows: pl.DataFrame, counts: Ints, first_row: int, *, sparse: bool) -> Floats | SparseRows:  # noqa: ARG002
        """Return the features of all arms of all rows, stacked."""
        most = int(counts.max(initial=1))
        parts = [self._encode(part, sparse) for part in rows.iter_slices(max(1, PAIRS // most))]
        if sparse:
            return joined_rows([as_sparse_rows(part, self.dim) for part in parts])
        pairs: Floats = np.concatenate(parts)
        return pairs

    def _encode(self, table: pl.DataFrame, sparse: bool) -> Any:
        """Encode the fields of a few rows. Raises InvalidInput with the event whose fields do not fit."""
        requests = table.select(self.columns).rows()

        def rows_of(context: str, own: Sequence[str], actions: Sequence[str]) -> list[dict[str, Any]]:
            return request_rows(self.features, json.loads(context), list(map(json.loads, own)), actions)

        try:
            rows = [row for _, *request in requests for row in rows_of(*request)]
            return self.features.transform(rows, sparse=sparse)
        except InvalidInput:
            for event_id, *request in requests:
                try:
                    self.features.transform(rows_of(*request), sparse=sparse)
                except InvalidInput as error:
                    raise InvalidInput(
                        f"the fields of event {event_id!r} do not fit the feature map: {error}", field=error.field
                    ) from None
            raise


@dataclass(frozen=True)
class HashedTexts:
    """The shared features and those of each action as JSON, which are hashed."""

    hashing: Hashing
    file: str
    """Its name, for messages."""
    columns: tuple[str, ...] = ("line", "shared", "actions")

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        return self.hashing.width

    def encode(self, rows: pl.DataFrame, counts: Ints, first_row: int, *, sparse: bool) -> Floats | SparseRows:  # noqa: ARG002
        """Return the features of all arms of all rows, stacked."""
        parts: Iterable[Any] = (
            self._encode(line, shared, actions, sparse)
            for line, shared, actions in rows.select(self.columns).iter_rows()
        )
        if sparse:
            return joined_rows(list(parts))
        pairs: Floats = np.concatenate(list(parts))
        return pairs

    def _encode(self, line: int, shared: str, actions: Sequence[str], sparse: bool) -> Any:
        hash_texts = self.hashing.rows_of_texts if sparse else self.hashing.vectors_of_texts
        try:
            return hash_texts(shared.encode(), [text.encode() for text in actions], msgspec.json.decode)
        except InvalidInput as error:
            raise InvalidInput(f"line {line} of {self.file}: {error}", field=error.field) from None
