"""Combination: combine features of arms and context, and their products."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput


class Part(NamedTuple):
    """A range of features of the context or of the arm."""

    of_context: bool
    start: int
    stop: int

    @property
    def width(self) -> int:
        """The number of features."""
        return self.stop - self.start


class Entries(NamedTuple):
    """The non-zero entries of a matrix, sorted by row, without duplicates."""

    rows: Ints
    columns: Ints
    values: Floats

    @classmethod
    def of(cls, array: Floats) -> "Entries":
        """The non-zero entries of an array, (n, width)."""
        at_rows, at_columns = np.nonzero(array)
        return cls(at_rows, at_columns, array[at_rows, at_columns])

    def within(self, part: Part) -> "Entries":
        """The entries in a range of columns, with columns counted from the start of the range."""
        here = (self.columns >= part.start) & (self.columns < part.stop)
        return Entries(self.rows[here], self.columns[here] - part.start, self.values[here])


@dataclass(frozen=True)
class Combination:
    """The layout of the features of a policy.

    The order is: features of the arm, features of the context, products, features of the pair of context and arm.

    Arrays have the features in their last axis. The other axes are broadcast.
    """

    arm: int
    """The number of features of an arm."""
    context: int
    """The number of features of the context."""
    own: int
    """The number of features of a pair of row and arm."""
    context_alone: bool
    """Whether the features of the context are also features without a product."""
    products: tuple[tuple[Part, Part], ...]
    """Pairs of parts. Every feature of the first part is multiplied by every feature of the second."""

    @property
    def dim(self) -> int:
        """The number of features."""
        alone = self.arm + self.own + self.context * self.context_alone
        return alone + sum(left.width * right.width for left, right in self.products)

    def summary(self) -> str:
        """The number of features, and of those of each part."""
        context = self.context * self.context_alone
        products = self.dim - self.arm - self.own - context
        counts = {"of arms": self.arm, "of the context": context, "products": products, "of a row and an arm": self.own}
        return f"{self.dim:,} features: {', '.join(f'{count:,} {what}' for what, count in counts.items() if count)}"

    def combine(self, arm: Floats, context: Floats, own: Floats | None) -> Floats:
        """All features, (..., dim)."""
        shape = np.broadcast_shapes(arm.shape[:-1], context.shape[:-1], () if own is None else own.shape[:-1])
        out = np.empty((*shape, self.dim))
        out[..., : self.arm] = arm
        at = self.arm
        if self.context_alone:
            out[..., at : at + self.context] = context
            at += self.context
        for left, right in self.products:
            first, second = (
                (context if part.of_context else arm)[..., part.start : part.stop] for part in (left, right)
            )
            width = left.width * right.width
            here = out[..., at : at + width].reshape(
                *shape, left.width, right.width
            )  # a view: reshape only splits an axis
            np.multiply(first[..., :, np.newaxis], second[..., np.newaxis, :], out=here)
            at += width
        if own is not None:
            out[..., at:] = own
        return out

    def combine_sparse(self, arm: Entries, context: Entries, own: Entries, rows: int) -> Any:
        """As `combine`, for non-zero entries. Returns a CSR array with this number of rows."""
        parts, at = [(0, arm)], self.arm
        if self.context_alone:
            parts.append((at, context))
            at += self.context
        for left, right in self.products:
            first, second = ((context if part.of_context else arm).within(part) for part in (left, right))
            parts.append((at, _row_products(first, second, rows, right.width)))
            at += left.width * right.width
        parts.append((at, own))
        at_rows = np.concatenate([entries.rows for _, entries in parts])
        columns = np.concatenate([entries.columns + start for start, entries in parts])
        values = np.concatenate([entries.values for _, entries in parts])
        return sparse.csr_array((values, (at_rows, columns)), shape=(rows, self.dim))

    def names(self, arm: Sequence[str], context: Sequence[str], own: Sequence[str]) -> Iterator[str]:
        """The names of all features, given the names in each group."""
        yield from arm
        if self.context_alone:
            yield from context
        for left, right in self.products:
            first, second = ((context if part.of_context else arm)[part.start : part.stop] for part in (left, right))
            yield from (f"{left_name} * {right_name}" for left_name in first for right_name in second)
        yield from own


Spans: TypeAlias = Mapping[str, tuple[int, int]]
"""The range of features, start and stop, of each column."""


def products_of(
    crosses: Literal["all"] | Sequence[tuple[str, str]], context: Spans, arm: Spans, per_arm_block: str | None
) -> tuple[tuple[Part, Part], ...]:
    """The products that the arguments `crosses` and `per_arm_block` of a feature map select.

    Raises InvalidInput if `crosses` has an unknown column.
    """
    context_width, arm_width = (max((stop for _, stop in spans.values()), default=0) for spans in (context, arm))
    all_context = Part(True, 0, context_width)
    if crosses == "all":
        return ((all_context, Part(False, 0, arm_width)),) if context_width and arm_width else ()
    products = [] if per_arm_block is None or not context_width else [(all_context, Part(False, *arm[per_arm_block]))]
    for pair in crosses:
        unknown = [name for name in pair if name not in context and name not in arm]
        if unknown:
            raise InvalidInput(
                f"crosses contains {unknown[0]!r}, which is no column of the map. The columns are: "
                f"{', '.join([*context, *arm])}"
            )
        left, right = (Part(True, *context[name]) if name in context else Part(False, *arm[name]) for name in pair)
        products.append((right, left) if right.of_context and not left.of_context else (left, right))
    return tuple(products)


def _row_products(left: Entries, right: Entries, rows: int, width: int) -> Entries:
    """The products of all pairs of entries in the same row.

    `width` is the number of columns of `right`.
    """
    counts = np.bincount(right.rows, minlength=rows)
    starts = np.cumsum(counts) - counts
    repeats = counts[left.rows]
    first = np.repeat(np.arange(len(left.rows)), repeats)
    within = np.arange(len(first)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    second = starts[left.rows[first]] + within
    columns = left.columns[first] * width + right.columns[second]
    return Entries(left.rows[first], columns, left.values[first] * right.values[second])
