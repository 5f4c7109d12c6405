"""What differs between a dense and a sparse Bandit: how its input is checked, and which entry points take it."""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np

from glbandits.bandit import entries, sparse_entries
from glbandits.bandit.input_checks import as_floats, check_usable
from glbandits.compilation import EntryPoint, compile_now, entry_point
from glbandits.errors import InvalidInput
from glbandits.maths.links import Link, find_link
from glbandits.maths.sparse_rows import SparseRows, as_sparse_rows
from glbandits.policy import Policy
from glbandits.records import Floats, Generator
from glbandits.sparse_policies import sparse_form


class Call(Protocol):
    """An entry point, as a Bandit uses it."""

    @property
    def is_compiled(self) -> bool:
        """Whether `call` is machine code."""

    @property
    def call(self) -> Callable[..., Any]:
        """Its fastest form so far."""

    def start(self) -> None:
        """Have it compiled in the background."""

    def compiled(self) -> Callable[..., Any]:
        """The machine code; waits for it."""


class Inputs(Protocol):
    """The input of a Bandit. Arms are an array or SparseRows; `Any` stands for either."""

    kind: ClassVar[type]
    """What the entry points take. They check it themselves."""
    choose: Call
    learn: Call

    def batch(self) -> Call:
        """Learn many rows."""

    def probabilities(self) -> Call:
        """Write exact probabilities."""

    def frequencies(self) -> Call:
        """Estimate probabilities."""

    def arms(self, given: Any) -> Any:
        """Arms that the entry points take. Raises InvalidInput."""

    def are_usable(self, given: Any) -> bool:
        """Whether the entry points take these arms as they are."""

    def features(self, given: Any) -> Any:
        """The features of one arm, likewise."""

    def rows(self, given: Any, count: int) -> Any:
        """The features of so many arms to learn, likewise."""

    def part(self, rows: Any, start: int, end: int) -> Any:
        """Some of the rows to learn."""

    def one(self, rows: Any, row: int) -> Any:
        """One of the rows to learn, as `learn` takes it."""

    def count(self, arms: Any) -> int:
        """The number of arms."""


class DenseInputs:
    """Arms are the rows of a matrix."""

    kind: ClassVar[type] = np.ndarray

    def __init__(self, policy: type[Policy], link: Link, dim: int) -> None:
        self._dim, self._key = dim, (policy, link)
        self.choose: Call = entry_point(entries.choose_recipe, *self._key)
        self.learn: Call = entry_point(entries.learn_recipe, *self._key)

    def batch(self) -> Call:
        """Learn many rows."""
        return entry_point(entries.learn_batch_recipe, *self._key)

    def probabilities(self) -> Call:
        """Write exact probabilities."""
        return entry_point(entries.probabilities_recipe, *self._key)

    def frequencies(self) -> Call:
        """Estimate probabilities."""
        return entry_point(entries.frequencies_recipe, *self._key)

    def arms(self, given: Any) -> Floats:
        """A matrix of numbers with a row for each arm."""
        checked = as_floats("arms", given)
        if checked.ndim != 2 or checked.shape[1] != self._dim:
            raise InvalidInput(f"arms must have shape (K, {self._dim}), a row for each arm; got {checked.shape}")
        if len(checked) == 0:
            raise InvalidInput(f"arms must have at least one row; got shape {checked.shape}")
        check_usable("arms", checked)
        return checked

    def are_usable(self, given: Any) -> bool:
        """Whether these arms can be used as they are; if not, it is for `arms` to say why or to make them so."""
        try:
            return type(given) is np.ndarray and bool(entries.arms_check().call(given, self._dim))
        except TypeError:  # an array of another type
            return False

    def features(self, given: Any) -> Floats:
        """A vector of numbers."""
        checked = as_floats("x", given)
        if checked.shape != (self._dim,):
            raise InvalidInput(f"x must have shape ({self._dim},), the features of one arm; got {checked.shape}")
        check_usable("x", checked)
        return checked

    def rows(self, given: Any, count: int) -> Floats:
        """A matrix of so many rows."""
        checked = as_floats("features", given)
        if checked.shape != (count, self._dim):
            raise InvalidInput(
                f"features must have shape (n, {self._dim}) and rewards (n,); got {checked.shape} and ({count},)"
            )
        check_usable("features", checked)
        return checked

    def part(self, rows: Floats, start: int, end: int) -> Floats:
        """A slice."""
        return rows[start:end]

    def one(self, rows: Floats, row: int) -> Floats:
        """A row."""
        one: Floats = rows[row]
        return one

    def count(self, arms: Floats) -> int:
        """The rows."""
        return len(arms)


class SparseInputs:
    """Arms are SparseRows. scipy.sparse rows and dense arrays are converted."""

    kind: ClassVar[type] = SparseRows

    def __init__(self, policy: type[Policy], link: Link, dim: int) -> None:
        self._dim, self._key = dim, (policy, link)
        self.choose: Call = RowsCall(entry_point(sparse_entries.choose_recipe, *self._key))
        self.learn: Call = LearnRowCall(entry_point(sparse_entries.learn_recipe, *self._key))

    def batch(self) -> Call:
        """Learn many rows."""
        return LongRowsCall(entry_point(sparse_entries.learn_batch_recipe, *self._key))

    def probabilities(self) -> Call:
        """Write exact probabilities."""
        return RowsCall(entry_point(sparse_entries.probabilities_recipe, *self._key))

    def frequencies(self) -> Call:
        """Estimate probabilities."""
        return LongRowsCall(entry_point(sparse_entries.frequencies_recipe, *self._key))

    def arms(self, given: Any) -> SparseRows:
        """Rows, one for each arm."""
        return as_sparse_rows(given, self._dim, "arms")

    def are_usable(self, given: Any) -> bool:
        """Whether these rows can be used as they are; if not, it is for `arms` to say why or to make them so."""
        try:
            check = entry_point(sparse_entries.rows_check_recipe)
            return type(given) is SparseRows and bool(check.call(*given, self._dim))
        except TypeError:  # arrays of another type
            return False

    def features(self, given: Any) -> SparseRows:
        """One row."""
        return self.rows(given, 1, "x")

    def rows(self, given: Any, count: int, name: str = "features") -> SparseRows:
        """So many rows."""
        checked = as_sparse_rows(given, self._dim, name, may_be_empty=count == 0)
        if checked.row_count != count:
            raise InvalidInput(f"{name} must have {count} rows, one for each reward; got {checked.row_count}")
        return checked

    def part(self, rows: SparseRows, start: int, end: int) -> SparseRows:
        """Some rows."""
        return rows.rows(start, end)

    def one(self, rows: SparseRows, row: int) -> SparseRows:
        """A row."""
        return rows.row(row)

    def count(self, arms: SparseRows) -> int:
        """The rows."""
        return arms.row_count


class RowsEntry:
    """An entry point that takes SparseRows behind the state, the settings and dim; compiled code takes three arrays.

    Its subclasses differ in the number of arguments behind the rows. A call with any number of them would take 0.3
    microseconds longer.
    """

    def __init__(self, entry: EntryPoint) -> None:
        self._entry = entry

    @property
    def is_compiled(self) -> bool:
        """Whether `call` is machine code."""
        return self._entry.is_compiled

    @property
    def call(self) -> Callable[..., Any]:
        """Its fastest form so far."""
        raise NotImplementedError

    def start(self) -> None:
        """Have it compiled in the background."""
        self._entry.start()

    def compiled(self) -> Callable[..., Any]:
        """The machine code; waits for it."""
        self._entry.compiled()
        return self.call


class RowsCall(RowsEntry):
    """With one argument behind the rows."""

    def call(self, state: Floats, settings: Floats, dim: int, rows: SparseRows, last: Any) -> Any:
        """Run its fastest form so far."""
        indptr, indices, values = rows
        return self._entry.call(state, settings, dim, indptr, indices, values, last)


class LongRowsCall(RowsEntry):
    """With two arguments behind the rows."""

    def call(self, state: Floats, settings: Floats, dim: int, rows: SparseRows, given: Any, last: Any) -> Any:
        """Run its fastest form so far."""
        indptr, indices, values = rows
        return self._entry.call(state, settings, dim, indptr, indices, values, given, last)


class LearnRowCall(RowsEntry):
    """With two arguments behind the rows, and the index of a row if there are several."""

    def call(
        self,
        state: Floats,
        settings: Floats,
        dim: int,
        rows: SparseRows,
        reward: float,
        rng: Generator,
        row: int = sparse_entries.ONLY_ROW,
    ) -> Any:
        """Run its fastest form so far."""
        indptr, indices, values = rows
        return self._entry.call(state, settings, dim, indptr, indices, values, row, reward, rng)


def compile_policy(policy: Policy, dim: int, *, sparse: bool = False) -> None:
    """Compile everything that a Bandit with this policy and dimension calls, into the cache on disk."""
    form, source = (sparse_form(policy, dim), sparse_entries) if sparse else (policy, entries)
    key = form.implementation(dim), find_link(policy.link)
    for recipe in (
        source.choose_recipe,
        source.learn_recipe,
        source.learn_batch_recipe,
        source.probabilities_recipe,
        source.frequencies_recipe,
    ):
        compile_now(recipe(*key))
    if sparse:
        compile_now(sparse_entries.rows_check_recipe())
        return
    compile_now(entries.choose_stored_recipe(*key))
    for shared in (entries.arms_check_recipe, entries.scan_panels_recipe, entries.bound_scores_recipe):
        compile_now(shared())
