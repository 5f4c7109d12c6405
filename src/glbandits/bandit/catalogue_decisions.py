"""Decisions of a bandit among the arms of a catalogue: the same as on the matrix of its features, but faster."""

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from glbandits.bandit.arm_bounds import ArmBounds
from glbandits.bandit.catalogue import Catalogue
from glbandits.bandit.entries import choose_recipe, choose_stored_recipe, probabilities_recipe
from glbandits.compilation import entry_point
from glbandits.errors import InvalidInput
from glbandits.maths.philox import any_index, uniform
from glbandits.policy import BonusRule
from glbandits.policy.checked import index_errors_named
from glbandits.records import Floats, Generator, Ints

WORTH_BOUNDS = 1e6
"""Arms times dim^2 from which on bounds are faster than the scores of all arms."""


class CatalogueDecisions:
    """How one bandit decides among the arms of one catalogue. Holds nothing that cannot be computed again."""

    def __init__(self, policy: Any, dim: int, key: tuple[Any, ...], catalogue: Catalogue) -> None:
        if catalogue.dim != dim:
            raise InvalidInput(
                f"the arms of the catalogue must have {dim} features, as the bandit has; got {catalogue}"
            )
        self._policy, self._dim, self._key, self._catalogue = policy, dim, key, catalogue
        self._settings = self._settings_of_contenders = policy.packed_settings(dim)
        if getattr(policy, "floor", 0.0):
            self._settings_of_contenders = replace(policy, floor=0.0).packed_settings(dim)
        self._bounds = ArmBounds(catalogue)

    def choose(self, state: Floats, rng: Generator, allowed: Ints | None) -> int:
        """The row of the arm to play, one of the allowed rows."""
        rule, rows = self._rule(state, allowed), allowed
        if rule is None:
            entry, settings = entry_point(choose_stored_recipe, *self._key), self._settings
        elif rule.floor > 0.0 and uniform(rng) < rule.floor:
            index = any_index(rng, self._count(allowed))
            return index if allowed is None else int(allowed[index])
        else:
            entry, settings = entry_point(choose_recipe, *self._key), self._settings_of_contenders
            rows = self._bounds.contenders(rule, allowed)
        with index_errors_named(self._policy, "choose"):
            index = entry.call(state, settings, self._dim, self._features(rows), rng)
        return index if rows is None else int(rows[index])

    def exact_probabilities(self, state: Floats, allowed: Ints | None) -> Floats | None:
        """The probability of every row, 0 for those not allowed; None if the policy's rule has no exact form."""
        rule, rows, settings, floor = self._rule(state, allowed), allowed, self._settings, 0.0
        if rule is not None:
            settings, floor = self._settings_of_contenders, rule.floor
            rows = self._bounds.contenders(rule, allowed)
        arms = self._features(rows)
        exact = np.empty(len(arms))
        if not entry_point(probabilities_recipe, *self._key).call(state, settings, arms, exact):
            return None
        probabilities = np.zeros(len(self._catalogue))
        probabilities[_index(allowed)] = floor / self._count(allowed)
        probabilities[_index(rows)] += (1.0 - floor) * exact
        return probabilities

    def _rule(self, state: Floats, allowed: Ints | None) -> BonusRule | None:
        """The rule by which bounds are computed, if that pays."""
        pays = self._count(allowed) * self._dim**2 >= WORTH_BOUNDS
        return self._policy.bonus_rule(state, self._dim) if pays else None

    def _count(self, rows: Ints | None) -> int:
        return len(self._catalogue) if rows is None else len(rows)

    def _features(self, rows: Ints | None) -> Floats:
        features = self._catalogue.features
        return features if rows is None else features[rows]


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
