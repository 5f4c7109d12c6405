"""Input of a Bandit: checks and conversions of dense and sparse arms, and the entry points that take them."""

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from glbandits.bandit import entry_points
from glbandits.bandit.input_checks import as_floats, check_usable
from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput, value_text
from glbandits.compilation.entry_point import EntryPoint, entry_point
from glbandits.compilation.recipe import Job, Recipe
from glbandits.maths.arm_rows import ONLY_ROW
from glbandits.maths.links import Link, own_link
from glbandits.maths.sparse_rows import SparseRows, as_sparse_rows
from glbandits.policies.contract import Policy
from glbandits.policies.contract.decisions import check_has_scores


class Inputs:
    """Entry points of a policy, and conversions of arms to arrays or SparseRows.

    Entry points take SparseRows as a plain tuple, which `packed` and `packed_row` create. All conversions raise
    InvalidInput if the input is not valid.
    """

    def __init__(self, policy: type[Policy], link: Link, dim: int) -> None:
        self.dim, self._key, self._is_sparse = dim, (policy, own_link(link)), policy.is_sparse
        self.kind: type = SparseRows if policy.is_sparse else np.ndarray
        """The type of arms that need no conversion. Entry points check the content themselves."""
        self.choose = entry_point(entry_points.choose_recipe, *self._key)
        self.learn = entry_point(entry_points.learn_recipe, *self._key)

    def batch(self) -> EntryPoint:
        """The entry point that learns many rows."""
        return entry_point(entry_points.learn_batch_recipe, *self._key)

    def probabilities(self, *, payoffs: bool = False) -> EntryPoint:
        """The entry point that computes exact probabilities."""
        return self._entry(entry_points.probabilities_recipe, payoffs)

    def choose_batch(self, *, payoffs: bool) -> EntryPoint:
        """The entry point that chooses an arm for each of many decisions."""
        return self._entry(entry_points.choose_batch_recipe, payoffs)

    @cached_property
    def choose_by_payoff(self) -> EntryPoint:
        """The entry point that chooses an arm by its payoff."""
        return self._entry(entry_points.choose_recipe, True)

    def rank(self, *, payoffs: bool) -> EntryPoint:
        """The entry point that ranks arms."""
        check_has_scores(self._key[0], "rankings")
        return self._entry(entry_points.rank_recipe, payoffs)

    def _entry(self, recipe: Callable[..., Recipe], payoffs: bool) -> EntryPoint:
        if not payoffs:
            return entry_point(recipe, *self._key)
        check_has_scores(self._key[0], "payoffs")
        return entry_point(recipe, *self._key, payoffs)

    def packed(self, arms: Any) -> Any:
        """Arms as entry points take them."""
        return tuple(arms) if self._is_sparse else arms

    def packed_row(self, x: Any) -> Any:
        """One arm as the entry point `learn` takes it."""
        return (*x, ONLY_ROW) if self._is_sparse else x

    def offered(self, arms: Any, values: Any, costs: Any) -> Any:
        """Checked arms as entry points take them, with payoffs if there are any."""
        packed = self.packed(arms)
        if values is None and costs is None:
            return packed
        return packed, *self.payoffs(self.count(arms), values, costs)

    def payoffs(self, count: int, values: Any, costs: Any) -> Floats:
        """Convert values and costs of arms to a matrix, (2, K)."""
        if values is None:
            raise InvalidInput(
                f"costs need values, the value of a reward of each arm; got only costs, {value_text(costs)}"
            )
        checked = np.zeros((2, count))
        for row, (name, given) in enumerate((("values", values), ("costs", costs))):
            if given is None:
                continue
            numbers = as_floats(name, given)
            if numbers.shape != (count,):
                raise InvalidInput(f"{name} must have shape ({count},), a number for each arm; got {numbers.shape}")
            check_usable(name, numbers)
            if row == 0 and (numbers < 0.0).any():
                raise InvalidInput(f"values must be at least 0; got {numbers.min():g}. Pass what an arm costs as costs")
            checked[row] = numbers
        return checked

    def arms(self, values: Any) -> Any:
        """Convert the arms of a decision."""
        if self._is_sparse:
            return as_sparse_rows(values, self.dim, "arms")
        checked = as_floats("arms", values)
        if checked.ndim != 2 or checked.shape[1] != self.dim:
            raise InvalidInput(f"arms must have shape (K, {self.dim}), a row for each arm; got {checked.shape}")
        if len(checked) == 0:
            raise InvalidInput(f"arms must have at least one row; got shape {checked.shape}")
        check_usable("arms", checked)
        return checked

    def are_usable(self, values: Any) -> bool:
        """Whether the entry points accept these arms without conversion. If not, call `arms`."""
        if type(values) is not self.kind:
            return False
        try:
            check = entry_point(entry_points.arms_check_recipe, self._is_sparse)
            return bool(check.call(self.packed(values), self.dim))
        except TypeError:  # arrays of another type
            return False

    def features(self, values: Any) -> Any:
        """Convert the features of one arm."""
        if self._is_sparse:
            return self._sparse_rows(values, 1, "x")
        checked = as_floats("x", values)
        if checked.shape != (self.dim,):
            raise InvalidInput(f"x must have shape ({self.dim},), the features of one arm; got {checked.shape}")
        check_usable("x", checked)
        return checked

    def rows(self, values: Any, count: int) -> Any:
        """Convert the features of a batch with this number of rows."""
        if self._is_sparse:
            return self._sparse_rows(values, count, "features")
        checked: Floats = as_floats("features", values)
        if checked.shape != (count, self.dim):
            raise InvalidInput(
                f"features must have shape (n, {self.dim}) and rewards (n,); got {checked.shape} and ({count},)"
            )
        check_usable("features", checked)
        return checked

    def _sparse_rows(self, values: Any, count: int, name: str) -> SparseRows:
        checked = as_sparse_rows(values, self.dim, name, may_be_empty=count == 0)
        if checked.row_count != count:
            raise InvalidInput(f"{name} must have {count} rows, one for each reward; got {checked.row_count}")
        return checked

    def row_range(self, rows: Any, start: int, end: int) -> Any:
        """A range of rows of a batch."""
        return rows.rows(start, end) if self._is_sparse else rows[start:end]

    def selected(self, rows: Any, indices: Ints) -> Any:
        """Some rows of a batch, in this order."""
        if not self._is_sparse:
            return rows[indices]
        parts = [rows.row(int(index)) for index in indices]
        sizes = np.cumsum([0, *(part.indices.size for part in parts)])
        return SparseRows(sizes, *(np.concatenate([part[i] for part in parts]) for i in (1, 2)))

    def row(self, rows: Any, index: int) -> Any:
        """One row of a batch."""
        return rows.row(index) if self._is_sparse else rows[index]

    def count(self, arms: Any) -> int:
        """The number of arms."""
        return arms.row_count if self._is_sparse else len(arms)


@lru_cache(maxsize=64)
def no_costs(count: int) -> Floats:
    """Return the costs of arms that cost nothing, read-only."""
    costs = np.zeros(count)
    costs.flags.writeable = False
    return costs


def policy_jobs(policy: Policy, dim: int) -> list[Job]:
    """Return the entry points of a dense Bandit with this policy, for `compile_all`."""
    key = policy.implementation(dim), own_link(policy.link)
    recipes = (
        entry_points.choose_recipe,
        entry_points.learn_recipe,
        entry_points.learn_batch_recipe,
        entry_points.probabilities_recipe,
    )
    return [*((recipe, *key) for recipe in recipes), (entry_points.arms_check_recipe, False)]
