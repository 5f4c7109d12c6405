"""Decisions of a bandit among the arms of a catalogue: the same as on the matrix of its features, but faster."""

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glbandits.bandit.arm_bounds import ArmBounds
from glbandits.bandit.catalogue import Catalogue
from glbandits.bandit.entry_points import choose_recipe, choose_stored_recipe, probabilities_recipe
from glbandits.compilation import entry_point
from glbandits.errors import InvalidInput
from glbandits.maths.philox import any_index, uniform
from glbandits.policy import BonusRule
from glbandits.policy.compiled_calls import convert_index_errors
from glbandits.records import Floats, Generator, Ints

WORTH_BOUNDS, LARGEST_DIM = 1e6, 128
"""Arms times dim^2 from which on bounds are faster than the scores of all arms, and features of an arm up to which."""


class CatalogueDecisions:
    """How one bandit decides among the arms of one catalogue. Holds nothing that cannot be computed again."""

    def __init__(self, policy: Any, dim: int, key: tuple[Any, ...], catalogue: Catalogue) -> None:
        self._policy, self._dim, self._key, self._catalogue = policy, dim, key, catalogue
        self._settings = self._settings_of_contenders = policy.packed_settings(dim)
        if getattr(policy, "floor", 0.0):
            self._settings_of_contenders = replace(policy, floor=0.0).packed_settings(dim)
        self._bounds = ArmBounds(catalogue)

    def choose(self, state: Floats, rng: Generator, context: ArrayLike | None, allowed: Ints | None) -> int:
        """The row of the arm to play, one of the allowed rows."""
        rule, rows, settings = self._rule(state, context, allowed), allowed, self._settings
        if rule is not None:
            if rule.floor > 0.0 and uniform(rng) < rule.floor:
                index = any_index(rng, self._count(allowed))
                return index if allowed is None else int(allowed[index])
            rows, settings = self._bounds.contenders(rule, allowed), self._settings_of_contenders
        arms = self.arms(rows, context)
        # A policy without a rule needs the entry point for very many arms; both entry points give the same bits.
        recipe = choose_stored_recipe if rule is None else choose_recipe
        with convert_index_errors(self._policy, "choose"):
            index = entry_point(recipe, *self._key).call(state, settings, self._dim, arms, rng)
        return index if rows is None else int(rows[index])

    def exact_probabilities(self, state: Floats, context: ArrayLike | None, allowed: Ints | None) -> Floats | None:
        """The probability of every row, 0 for those not allowed; None if the policy's rule has no exact form."""
        rule, rows, settings, floor = self._rule(state, context, allowed), allowed, self._settings, 0.0
        if rule is not None:
            settings, floor = self._settings_of_contenders, rule.floor
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
        """The features that the bandit sees; None means all rows."""
        arms = self._catalogue.combined(self._catalogue.features[_index(rows)], context)
        if arms.shape[1] != self._dim:
            raise InvalidInput(
                f"the bandit takes arms of {self._dim} features; those of {self._catalogue} have {arms.shape[1]}"
            )
        return arms

    def _rule(self, state: Floats, context: ArrayLike | None, allowed: Ints | None) -> BonusRule | None:
        """The rule by which bounds are computed, if that pays."""
        if self._catalogue.dim > LARGEST_DIM or self._count(allowed) * self._dim**2 < WORTH_BOUNDS:
            return None
        rule: BonusRule | None = self._policy.bonus_rule(state, self._dim)
        if rule is None:
            return None
        self.arms(np.zeros(1, dtype=np.int64), context)  # checks them
        return rule if context is None else rule.for_arms(self._catalogue.combining_matrix(context))

    def _count(self, rows: Ints | None) -> int:
        return len(self._catalogue) if rows is None else len(rows)


def allowed_rows(catalogue: Catalogue, only: Iterable[Hashable] | None, excluded: Iterable[Hashable]) -> Ints | None:
    """The rows among which a decision is taken, in order; None for all. Raises InvalidInput if there is none."""
    left_out = {catalogue.row(arm) for arm in excluded if arm in catalogue}
    if only is not None:
        rows = np.array(sorted({catalogue.row(arm) for arm in only} - left_out), dtype=np.int64)
    elif left_out:
        rows = np.delete(np.arange(len(catalogue)), sorted(left_out))
    else:
        rows = None
    if len(catalogue) == 0 or (rows is not None and len(rows) == 0):
        raise InvalidInput(f"a decision needs at least one arm; got none of the {len(catalogue)} of the catalogue")
    return rows


def _index(rows: Ints | None) -> Any:
    return slice(None) if rows is None else rows
