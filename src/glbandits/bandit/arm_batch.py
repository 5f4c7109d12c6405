"""The arms of many decisions, read in blocks."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glbandits.bandit.input_checks import as_floats
from glbandits.bandit.inputs import Inputs
from glbandits.bandit.row_encoding import Rows, encode_rows
from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import MAX_ABS, InvalidInput, check_int, value_text
from glbandits.features import FeatureMap
from glbandits.features.table_columns import is_table, row_count, row_range
from glbandits.features.transformer_features import Features

BLOCK_NUMBERS = 2**17
"""About how many features a block of dense arms has, so that it fits into the cache of a processor."""


class ArmBlock(NamedTuple):
    """The arms of a few decisions."""

    rows: Any
    """The features of all their arms: a matrix, or SparseRows."""
    bounds: Ints
    """The arms of decision i are those from bounds[i] to bounds[i + 1]."""
    payoffs: Floats | None = None
    """The value and the cost of each arm, (2, arms)."""
    largest: float = math.inf
    """No absolute feature is above this."""

    def arms_of(self, decision: int) -> tuple[Any, Floats | None]:
        """Return the arms of a decision, and their payoffs."""
        start, end = int(self.bounds[decision]), int(self.bounds[decision + 1])
        rows = self.rows[start:end] if isinstance(self.rows, np.ndarray) else self.rows.rows(start, end)
        return rows, None if self.payoffs is None else self.payoffs[:, start:end]


class ArmBatch:
    """The arms of many decisions.

    Args:
        inputs: the conversions of a Bandit.
        features: its feature map.
        sparse: whether its arms are sparse rows.
        arms: an array (n, K, dim); or the rows of all arms, with `counts`; or a table with a row for each context,
            each of which may get any arm of the feature map.
        counts: the number of arms of each decision, (n,), or one number for all.
        values: what a reward of 1 is worth for each arm: (K,), (n, K), or one number for each row of arms.
        costs: in the same form.

    Raises InvalidInput if shapes do not fit. The features of a block are checked when it is read.
    """

    def __init__(
        self, inputs: Inputs, features: Features | None, *, sparse: bool, arms: Rows, counts: ArrayLike | None = None,
        values: ArrayLike | None = None, costs: ArrayLike | None = None,
    ) -> None:  # fmt: skip
        self._inputs, self._features, self._sparse = inputs, features, sparse
        self.names: tuple[str, ...] = ()
        """The names of the arms, of a table of contexts."""
        self._arms: Any = arms
        if counts is not None:
            if not is_table(arms):
                self._arms = inputs.arms(arms) if sparse else _array(arms)
            sizes = _sizes(counts, row_count(arms) if is_table(arms) else inputs.count(self._arms))
        elif is_table(arms):
            self.names = _names_of(features)
            sizes = np.full(row_count(arms), len(self.names))
        else:
            n, count = self._shape(arms)
            self._arms, sizes = _array(arms).reshape(n * count, inputs.dim), np.full(n, count)
        self.bounds: Ints = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        """As in ArmBlock, of all decisions."""
        self.same: int = int(sizes[0]) if len(sizes) and (sizes == sizes[0]).all() else 0
        """The number of arms of each decision; 0 if it differs."""
        self._payoffs = None if values is None and costs is None else self._checked_payoffs(values, costs)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def blocks(self) -> Iterator[tuple[slice, ArmBlock]]:
        """Yield the decisions in order, each time a few of them."""
        start, most = 0, max(1, BLOCK_NUMBERS // (64 if self._sparse else self._inputs.dim))
        while start < len(self):
            last_full = int(np.searchsorted(self.bounds, self.bounds[start] + most, side="right")) - 1
            part = slice(start, min(max(last_full, start + 1), len(self)))
            first, last = int(self.bounds[start]), int(self.bounds[part.stop])
            payoffs = None if self._payoffs is None else self._payoffs[:, first:last]
            rows, largest = self._rows(part, first, last)
            yield part, ArmBlock(rows, self.bounds[start : part.stop + 1] - first, payoffs, largest)
            start = part.stop

    def _rows(self, part: slice, first: int, last: int) -> tuple[Any, float]:
        """Return the checked features of some arms, which are those of a part of the decisions, and their largest."""
        if self.names and isinstance(self._features, FeatureMap):
            arms = {str(self._features.per_arm_block): self.names}
            contexts = row_range(self._arms, part.start, part.stop)
            rows = self._features.pairs(contexts, arms, sparse=self._sparse)
        elif is_table(self._arms):
            rows = encode_rows(self._features, row_range(self._arms, first, last), sparse=self._sparse)
        else:
            rows = self._arms.rows(first, last) if self._sparse else self._arms[first:last]
        if self._sparse:
            return self._inputs.arms(rows), math.inf
        if rows.dtype == np.float64 and rows.flags.c_contiguous and rows.shape[1:] == (self._inputs.dim,):
            largest = float(max(rows.max(), -rows.min()))
            if largest <= MAX_ABS:  # False for NaN
                return rows, largest
        return self._inputs.arms(rows), math.inf

    def _shape(self, arms: Any) -> tuple[int, int]:
        """Return the number of decisions, and of the arms of each. Raises InvalidInput if it is no array of both."""
        shape: tuple[int, ...] = np.shape(arms) if not hasattr(arms, "tocsr") and not self._sparse else ()
        if len(shape) != 3 or shape[2] != self._inputs.dim or not shape[1]:
            raise InvalidInput(
                f"arms of many decisions must have shape (n, K, {self._inputs.dim}), or be rows of arms together with "
                f"counts, the number of arms of each decision; got {f'shape {shape}' if shape else value_text(arms)}"
            )
        return shape[0], shape[1]

    def _checked_payoffs(self, values: Any, costs: Any) -> Floats:
        """Return the value and the cost of each arm, (2, arms)."""
        flat = []
        for name, each in (("values", values), ("costs", costs)):
            given = None if each is None else as_floats(name, each)
            if given is not None and self.same and given.shape in ((self.same,), (len(self), self.same)):
                given = np.broadcast_to(given, (len(self), self.same)).ravel()
            flat.append(given)
        return np.asarray(self._inputs.payoffs(int(self.bounds[-1]), *flat))


def _array(arms: Any) -> Any:
    """Return arms as an array. One of numbers is not copied, because it may be large."""
    return arms if isinstance(arms, np.ndarray) and arms.dtype.kind in "biuf" else as_floats("arms", arms)


def _sizes(counts: Any, rows: int) -> Ints:
    """Return the number of arms of each decision, (n,). Raises InvalidInput unless all rows of arms are used."""
    if np.ndim(counts) == 0:
        count = check_int("counts", counts, at_least=1)
        found = np.full(rows // count, count)
    else:
        given = as_floats("counts", counts)
        found = given.astype(np.int64)
        if given.ndim != 1 or (found != given).any() or (found < 1).any():
            raise InvalidInput(f"counts must be whole numbers of at least 1; got {value_text(counts)}", field="counts")
    if found.sum() != rows:
        raise InvalidInput(f"counts must add up to the {rows} rows of arms; they add up to {found.sum()}")
    return found


def _names_of(features: Features | None) -> tuple[str, ...]:
    """Return the arms that a feature map lists. Raises InvalidInput if it lists none."""
    names = features.arm_names if isinstance(features, FeatureMap) else ()
    if not names:
        raise InvalidInput(
            "a table of contexts needs a feature map that lists the arms (per_arm_block) and describes them by nothing "
            "else. Give the rows of all arms, and counts, the number of arms of each decision"
        )
    return names
