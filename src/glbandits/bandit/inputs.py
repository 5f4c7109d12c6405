"""Input of dense and sparse Bandits: checks, conversions and entry points."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np

from glbandits.bandit import entry_points, sparse_entry_points
from glbandits.bandit.input_checks import as_floats, check_usable
from glbandits.common.arrays import Floats, Generator
from glbandits.common.errors import InvalidInput
from glbandits.compilation.entry_point import EntryPoint, compile_now, entry_point
from glbandits.maths.links import Link, find_link
from glbandits.maths.sparse_rows import SparseRows, as_sparse_rows
from glbandits.policies.contract import Policy
from glbandits.policies.sparse_forms import sparse_form


class Call(Protocol):
    """The interface of an entry point that a Bandit uses."""

    @property
    def is_compiled(self) -> bool:
        """Whether `call` is machine code."""

    @property
    def call(self) -> Callable[..., Any]:
        """The machine code if it is compiled, the Python function until then."""

    def start(self) -> None:
        """Start compilation in the background."""

    def compiled(self) -> Callable[..., Any]:
        """The machine code. Blocks until it is compiled."""


class Inputs(Protocol):
    """Checks and entry points of one form of input: `DenseInputs` or `SparseInputs`.

    `Any` stands for an array or SparseRows. All conversions raise InvalidInput if the input is not valid.
    """

    kind: ClassVar[type]
    """The type of arms that the entry points accept. Entry points check the content themselves."""
    choose: Call
    learn: Call

    def batch(self) -> Call:
        """The entry point that learns many rows."""

    def probabilities(self) -> Call:
        """The entry point that computes exact probabilities."""

    def frequencies(self) -> Call:
        """The entry point that estimates probabilities."""

    def arms(self, values: Any) -> Any:
        """Convert the arms of a decision."""

    def are_usable(self, values: Any) -> bool:
        """Whether the entry points accept these arms without conversion."""

    def features(self, values: Any) -> Any:
        """Convert the features of one arm."""

    def rows(self, values: Any, count: int) -> Any:
        """Convert the features of a batch with this number of rows."""

    def row_range(self, rows: Any, start: int, end: int) -> Any:
        """A range of rows of a batch."""

    def row(self, rows: Any, index: int) -> Any:
        """One row of a batch, as `learn` accepts it."""

    def count(self, arms: Any) -> int:
        """The number of arms."""


class DenseInputs:
    """Arms as rows of a matrix."""

    kind: ClassVar[type] = np.ndarray

    def __init__(self, policy: type[Policy], link: Link, dim: int) -> None:
        self._dim, self._key = dim, (policy, link)
        self.choose: Call = entry_point(entry_points.choose_recipe, *self._key)
        self.learn: Call = entry_point(entry_points.learn_recipe, *self._key)

    def batch(self) -> Call:
        """The entry point that learns many rows."""
        return entry_point(entry_points.learn_batch_recipe, *self._key)

    def probabilities(self) -> Call:
        """The entry point that computes exact probabilities."""
        return entry_point(entry_points.probabilities_recipe, *self._key)

    def frequencies(self) -> Call:
        """The entry point that estimates probabilities."""
        return entry_point(entry_points.frequencies_recipe, *self._key)

    def arms(self, values: Any) -> Floats:
        """Convert arms to a matrix with a row for each arm."""
        checked = as_floats("arms", values)
        if checked.ndim != 2 or checked.shape[1] != self._dim:
            raise InvalidInput(f"arms must have shape (K, {self._dim}), a row for each arm; got {checked.shape}")
        if len(checked) == 0:
            raise InvalidInput(f"arms must have at least one row; got shape {checked.shape}")
        check_usable("arms", checked)
        return checked

    def are_usable(self, values: Any) -> bool:
        """Whether the entry points accept these arms without conversion. If not, call `arms`."""
        try:
            return type(values) is np.ndarray and bool(entry_points.arms_check().call(values, self._dim))
        except TypeError:  # an array of another type
            return False

    def features(self, values: Any) -> Floats:
        """Convert the features of one arm to a vector."""
        checked = as_floats("x", values)
        if checked.shape != (self._dim,):
            raise InvalidInput(f"x must have shape ({self._dim},), the features of one arm; got {checked.shape}")
        check_usable("x", checked)
        return checked

    def rows(self, values: Any, count: int) -> Floats:
        """Convert a batch to a matrix with this number of rows."""
        checked = as_floats("features", values)
        if checked.shape != (count, self._dim):
            raise InvalidInput(
                f"features must have shape (n, {self._dim}) and rewards (n,); got {checked.shape} and ({count},)"
            )
        check_usable("features", checked)
        return checked

    def row_range(self, rows: Floats, start: int, end: int) -> Floats:
        """A range of rows of a batch."""
        return rows[start:end]

    def row(self, rows: Floats, index: int) -> Floats:
        """One row of a batch."""
        row: Floats = rows[index]
        return row

    def count(self, arms: Floats) -> int:
        """The number of arms."""
        return len(arms)


class SparseInputs:
    """Arms as SparseRows. Converts scipy.sparse matrices and dense arrays."""

    kind: ClassVar[type] = SparseRows

    def __init__(self, policy: type[Policy], link: Link, dim: int) -> None:
        self._dim, self._key = dim, (policy, link)
        self.choose: Call = SparseCall(entry_point(sparse_entry_points.choose_recipe, *self._key))
        self.learn: Call = SparseLearnCall(entry_point(sparse_entry_points.learn_recipe, *self._key))

    def batch(self) -> Call:
        """The entry point that learns many rows."""
        return SparseCallWithTwoArguments(entry_point(sparse_entry_points.learn_batch_recipe, *self._key))

    def probabilities(self) -> Call:
        """The entry point that computes exact probabilities."""
        return SparseCall(entry_point(sparse_entry_points.probabilities_recipe, *self._key))

    def frequencies(self) -> Call:
        """The entry point that estimates probabilities."""
        return SparseCallWithTwoArguments(entry_point(sparse_entry_points.frequencies_recipe, *self._key))

    def arms(self, values: Any) -> SparseRows:
        """Convert arms to SparseRows with a row for each arm."""
        return as_sparse_rows(values, self._dim, "arms")

    def are_usable(self, values: Any) -> bool:
        """Whether the entry points accept these rows without conversion. If not, call `arms`."""
        try:
            check = entry_point(sparse_entry_points.rows_check_recipe)
            return type(values) is SparseRows and bool(check.call(*values, self._dim))
        except TypeError:  # arrays of another type
            return False

    def features(self, values: Any) -> SparseRows:
        """Convert the features of one arm."""
        return self.rows(values, 1, "x")

    def rows(self, values: Any, count: int, name: str = "features") -> SparseRows:
        """Convert a batch with this number of rows. Errors call it `name`."""
        checked = as_sparse_rows(values, self._dim, name, may_be_empty=count == 0)
        if checked.row_count != count:
            raise InvalidInput(f"{name} must have {count} rows, one for each reward; got {checked.row_count}")
        return checked

    def row_range(self, rows: SparseRows, start: int, end: int) -> SparseRows:
        """A range of rows of a batch."""
        return rows.rows(start, end)

    def row(self, rows: SparseRows, index: int) -> SparseRows:
        """One row of a batch."""
        return rows.row(index)

    def count(self, arms: SparseRows) -> int:
        """The number of arms."""
        return arms.row_count


class _SparseEntryPoint(ABC):
    """An entry point that accepts SparseRows and passes three arrays to compiled code.

    Subclasses differ in the number of arguments after the rows. A single class with variable arguments would make each
    call 0.3 microseconds slower.
    """

    def __init__(self, entry: EntryPoint) -> None:
        self._entry = entry

    @property
    def is_compiled(self) -> bool:
        """Whether `call` is machine code."""
        return self._entry.is_compiled

    @property
    @abstractmethod
    def call(self) -> Callable[..., Any]:
        """The machine code if it is compiled, the Python function until then."""

    def start(self) -> None:
        """Start compilation in the background."""
        self._entry.start()

    def compiled(self) -> Callable[..., Any]:
        """The machine code. Blocks until it is compiled."""
        self._entry.compiled()
        return self.call


class SparseCall(_SparseEntryPoint):
    """An entry point with one argument after the rows."""

    def call(self, state: Floats, settings: Floats, dim: int, rows: SparseRows, last: Any) -> Any:
        """Unpack the rows and call the entry point."""
        indptr, indices, values = rows
        return self._entry.call(state, settings, dim, indptr, indices, values, last)


class SparseCallWithTwoArguments(_SparseEntryPoint):
    """An entry point with two arguments after the rows."""

    def call(self, state: Floats, settings: Floats, dim: int, rows: SparseRows, first: Any, last: Any) -> Any:
        """Unpack the rows and call the entry point."""
        indptr, indices, values = rows
        return self._entry.call(state, settings, dim, indptr, indices, values, first, last)


class SparseLearnCall(_SparseEntryPoint):
    """An entry point that learns a reward of one row. `row` is its index, if there are several rows."""

    def call(
        self,
        state: Floats,
        settings: Floats,
        dim: int,
        rows: SparseRows,
        reward: float,
        rng: Generator,
        row: int = sparse_entry_points.ONLY_ROW,
    ) -> Any:
        """Unpack the rows and call the entry point."""
        indptr, indices, values = rows
        return self._entry.call(state, settings, dim, indptr, indices, values, row, reward, rng)


def compile_policy(policy: Policy, dim: int, *, sparse: bool = False) -> None:
    """Compile all entry points of a Bandit with this policy into the disk cache."""
    form, source = (sparse_form(policy, dim), sparse_entry_points) if sparse else (policy, entry_points)
    key = form.implementation(dim), find_link(policy.link)
    for recipe in (
        source.choose_recipe,
        source.learn_recipe,
        source.learn_batch_recipe,
        source.probabilities_recipe,
        source.frequencies_recipe,
    ):
        compile_now(recipe(*key))
    compile_now(sparse_entry_points.rows_check_recipe() if sparse else entry_points.arms_check_recipe())
