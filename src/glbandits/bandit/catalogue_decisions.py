"""Decisions of a bandit among the arms of a catalogue.

They equal the decisions of the bandit on the matrix of all features, and take less time.
"""

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glbandits.bandit.arm_bounds import ArmBounds
from glbandits.bandit.catalogue import Catalogue
from glbandits.bandit.entry_points import choose_recipe, choose_stored_recipe, probabilities_recipe
from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.common.errors import InvalidInput
from glbandits.compilation.entry_point import entry_point
from glbandits.maths.philox import any_index, uniform
from glbandits.policies.contract import BonusRule
from glbandits.policies.contract.compiled_calls import convert_index_errors

WORTH_BOUNDS, LARGEST_DIM = 1e6, 128
"""Bounds are faster than the scores of all arms if arms * dim^2 is at least the first, and dim at most the second."""


class CatalogueDecisions:
    """Makes the decisions of one bandit among the arms of one catalogue. Its attributes are only a cache.

    The bandit passes its state to each call. Rows that are None mean all rows of the catalogue.
    """

    def __init__(self, policy: Any, dim: int, key: tuple[Any, ...], catalogue: Catalogue) -> None:
        self._policy, self._dim, self._key, self._catalogue = policy, dim, key, catalogue
        self._settings = self._settings_without_floor = policy.packed_settings(dim)
        if getattr(policy, "floor", 0.0):
            self._settings_without_floor = replace(policy, floor=0.0).packed_settings(dim)
        self._bounds = ArmBounds(catalogue)

    def choose(self, state: Floats, rng: Generator, context: ArrayLike | None, allowed: Ints | None) -> int:
        """Return the row of the chosen arm, one of the allowed rows."""
        rule, rows, settings = self._rule(state, context, allowed), allowed, self._settings
        if rule is not None:
            if rule.floor > 0.0 and uniform(rng) < rule.floor:
                index = any_index(rng, self._count(allowed))
                return index if allowed is None else int(allowed[index])
            rows, settings = self._bounds.contenders(rule, allowed), self._settings_without_floor
        arms = self.arms(rows, context)
        # Without a rule there may be very many arms, which `choose_stored_recipe` is for. Results are identical.
        recipe = choose_stored_recipe if rule is None else choose_recipe
        with convert_index_errors(self._policy, "choose"):
            index = entry_point(recipe, *self._key).call(state, settings, self._dim, arms, rng)
        return index if rows is None else int(rows[index])

    def exact_probabilities(self, state: Floats, context: ArrayLike | None, allowed: Ints | None) -> Floats | None:
        """Return the probability of every row, 0 for rows not allowed; None if the policy has no exact form."""
        rule, rows, settings, floor = self._rule(state, context, allowed), allowed, self._settings, 0.0
        if rule is not None:
            settings, floor = self._settings_without_floor, rule.floor
            rows = self._bounds.contenders(rule, allowed)
        arms = self.arms(rows, context)
        exact = np.empty(len(arms))
        if not entry_point(probabilities_recipe, *self._key).call(state, settings, self._dim, arms, exact):
            return None
        probabilities = np.zeros(len(self._catalogue))
        probabilities[_index(allowed)] = floor / self._count(allowed)
        probabilities[_index(rows)] += (1.0 - floor) * exact
        return probabilities

    def arms(self, rows: Ints | None, context: ArrayLike | None) -> Floats:
        """Return the features that the bandit receives for these rows."""
        arms = self._catalogue.combined(self._catalogue.features[_index(rows)], context)
        if arms.shape[1] != self._dim:
            raise InvalidInput(
                f"arms must have {self._dim} features, as the bandit has; those of {self._catalogue} have "
                f"{arms.shape[1]}"
            )
        return arms

    def _rule(self, state: Floats, context: ArrayLike | None, allowed: Ints | None) -> BonusRule | None:
        """Return the rule from which to compute bounds; None if there is none, or if bounds would not save time."""
        if self._catalogue.dim > LARGEST_DIM or self._count(allowed) * self._dim**2 < WORTH_BOUNDS:
            return None
        rule: BonusRule | None = self._policy.bonus_rule(state, self._dim)
        if rule is None:
            return None
        self.arms(np.zeros(1, dtype=np.int64), context)  # raises InvalidInput if the features do not fit the bandit
        largest = self._catalogue.packed.largest
        if context is None:
            return rule if (largest <= rule.limits).all() else None
        matrix = self._catalogue.combining_matrix(context)
        is_covered = (np.abs(matrix[:-1]) @ np.append(largest, 1.0) <= rule.limits).all()
        return rule.for_arms(matrix) if is_covered else None

    def _count(self, rows: Ints | None) -> int:
        return len(self._catalogue) if rows is None else len(rows)


def allowed_rows(catalogue: Catalogue, only: Iterable[Hashable] | None, excluded: Iterable[Hashable]) -> Ints | None:
    """Return the rows from which to choose, in ascending order; None for all. Raises InvalidInput if there are none.

    Args:
        catalogue: the arms.
        only: ids of the arms from which to choose; None for all.
        excluded: ids of arms not to choose. Ids that the catalogue does not have are ignored.
    """
    excluded_rows = {catalogue.row(arm) for arm in excluded if arm in catalogue}
    if only is not None:
        rows = np.array(sorted({catalogue.row(arm) for arm in only} - excluded_rows), dtype=np.int64)
    elif excluded_rows:
        rows = np.delete(np.arange(len(catalogue)), sorted(excluded_rows))
    else:
        rows = None
    if len(catalogue) == 0 or (rows is not None and len(rows) == 0):
        raise InvalidInput(f"a decision needs at least one arm; got none of the {len(catalogue)} of the catalogue")
    return rows


def _index(rows: Ints | None) -> Any:
    return slice(None) if rows is None else rows
