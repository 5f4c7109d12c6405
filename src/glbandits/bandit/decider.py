"""Decider: a policy with a state that chooses and ranks arms."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glbandits.bandit.catalogue import Catalogue
from glbandits.bandit.inputs import Inputs
from glbandits.bandit.model_file import ParsedModel
from glbandits.bandit.row_encoding import Rows, encode_rows
from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.common.display.displayed import Displayed
from glbandits.common.errors import InvalidInput, check_int
from glbandits.maths.line_order import orders
from glbandits.maths.links import find_link
from glbandits.maths.philox import COUNTER, KEY, any_index, uniform
from glbandits.policies.contract import BonusRule, Coefficients
from glbandits.policies.contract.compiled_calls import InvalidArm, convert_index_errors, index_out_of_range
from glbandits.policies.contract.rules import NO_EXACT_FORM, check_has_scores

FIRST_PROBE_STREAM = np.uint64(1)
"""The first random stream for estimates of probabilities. It is separate, so that estimates change no decision."""
DEFAULT_DRAWS = 10_000
"""Trial decisions of an estimate of probabilities."""

WORTH_BOUNDS, LARGEST_DIM = 1e6, 128
"""Finding the arms of a catalogue that can win is faster than scoring all arms if arms * dim^2 is at least the first,
and the stored features of an arm are at most the second."""
LARGEST_RANKING = 1_000_000
"""The largest number of probabilities of `ranking_probabilities`."""


class Ranking(NamedTuple):
    """Different arms in order, the best first."""

    arms: Ints
    """The indices of the arms, (k,)."""
    probability: float
    """The probability of these arms in this order."""


class Decider(Displayed):
    """The decisions of a Bandit: choices, rankings, their probabilities, and the estimate behind them."""

    def _set(self, model: ParsedModel) -> None:
        policy, form, dim, self._state, self._rng, self.features, _ = model
        self.policy, self.dim, self._form, self._settings = policy, dim, form, form.packed_settings(dim)
        self._link = find_link(policy.link)
        self._is_sparse, self._inputs = form.is_sparse, Inputs(form.implementation(dim), self._link, dim)
        self._kind, self._choose = self._inputs.kind, self._inputs.choose
        self._has_scores = form.implementation(dim).rank is not None

    @property
    def sparse(self) -> bool:
        """Whether arms are sparse rows."""
        return self._is_sparse

    def choose(self, arms: Rows, *, values: ArrayLike | None = None, costs: ArrayLike | None = None) -> int:
        """The index of the arm to pull, a row of `arms` (K, dim).

        Advances the random generator, learns nothing. Without `values` the arm with the highest expected reward is
        wanted; with `values` the arm with the highest payoff, value * expected reward - cost.

        Args:
            arms: the features of each arm.
            values: what a reward of 1 is worth for each arm, (K,), at least 0.
            costs: what pulling each arm costs, (K,); 0 if it is left out. Only together with `values`.
        """
        if values is not None or costs is not None:
            return self._choose_by_payoff(arms, values, costs)
        if type(arms) is not self._kind:
            arms = self._arms(arms)
        packed: Any = tuple(arms) if self._is_sparse else arms  # type: ignore[arg-type]
        try:
            arm: int = self._choose.call(self._state, self._settings, self.dim, packed, self._rng)
        except InvalidArm:
            raise
        except IndexError as error:
            raise index_out_of_range(self.policy, "choose") from error
        except Exception:  # arms of another type, or invalid ones; the state is still unchanged
            packed = self._inputs.packed(self._arms(arms))
            arm = self._choose.call(self._state, self._settings, self.dim, packed, self._rng)
        return arm

    def _choose_by_payoff(self, arms: Rows, values: Any, costs: Any) -> int:
        if not self._has_scores:
            check_has_scores(self._form, self.dim, "payoffs")
        choose = self._inputs.choose_by_payoff.call
        try:
            packed: Any = tuple(arms) if self._is_sparse else arms  # type: ignore[arg-type]
            offered = packed, values, no_costs(len(values)) if costs is None else costs
            arm: int = choose(self._state, self._settings, self.dim, offered, self._rng)
        except InvalidArm:
            raise
        except IndexError as error:
            raise index_out_of_range(self.policy, "choose") from error
        except Exception:  # arguments of another type, or invalid ones; the state is still unchanged
            offered = self._offered(self._arms(arms), values, costs)
            arm = choose(self._state, self._settings, self.dim, offered, self._rng)
        return arm

    def rank(
        self,
        arms: Rows,
        k: int,
        *,
        values: ArrayLike | None = None,
        costs: ArrayLike | None = None,
        draws: int = DEFAULT_DRAWS,
    ) -> Ranking:
        """Rank the best k arms, each at most once, and return the probability of this ranking.

        Advances the random generator, learns nothing. `rank(arms, 1)` chooses as `choose(arms)` does. The probability
        is exact if the rule of the policy has an exact form. Otherwise it is estimated from `draws` trial rankings.

        Args:
            arms: the features of each arm.
            k: the number of arms in the ranking, from 1 to K.
            values: as for `choose`.
            costs: as for `choose`.
            draws: trial rankings of an estimate.

        >>> from glbandits import Bandit, Optimist
        >>> bandit = Bandit(Optimist(), dim=3, seed=7)
        >>> bandit.rank(np.eye(3), 2)
        Ranking(arms=array([2, 0]), probability=0.16666666666666666)
        """
        offered, count, payoffs = self._rankable(arms, values, costs)
        order, entry = (
            np.empty(check_int("k", k, at_least=1, at_most=count), np.int64),
            self._inputs.rank(payoffs=payoffs),
        )
        draws = check_int("draws", draws, at_least=1)
        with convert_index_errors(self.policy, "rank"):
            probability = entry.call(self._state, self._settings, self.dim, offered, self._rng, order)
            if probability == NO_EXACT_FORM:
                probe, trial, same = self._probe(), np.empty_like(order), 1.0 / orders(count, len(order))
                for _ in range(draws):
                    entry.call(self._state, self._settings, self.dim, offered, probe, trial)
                    same += np.array_equal(trial, order)
                probability = same / (draws + 1.0)
        return Ranking(order, float(probability))

    def ranking_probabilities(
        self,
        arms: Rows,
        k: int,
        *,
        values: ArrayLike | None = None,
        costs: ArrayLike | None = None,
        draws: int = DEFAULT_DRAWS,
    ) -> Floats:
        """The probability of each arm at each position of the next `rank(arms, k)`, (k, K).

        Changes no later decision. Exact or estimated, as the probability of `rank`. The first row is
        `probabilities(arms)`.
        """
        offered, count, payoffs = self._rankable(arms, values, costs)
        k, draws = check_int("k", k, at_least=1, at_most=count), check_int("draws", draws, at_least=1)
        if k * count > LARGEST_RANKING:
            raise InvalidInput(
                f"k times the number of arms must be at most {LARGEST_RANKING:,}; got {k * count:,}. Choose a smaller k"
            )
        out, probe = np.empty((k, count)), self._probe()
        with convert_index_errors(self.policy, "rank"):
            if not self._inputs.positions(payoffs=payoffs).call(self._state, self._settings, self.dim, offered, out):
                order, positions, entry = np.empty(k, np.int64), np.arange(k), self._inputs.rank(payoffs=payoffs)
                out[:] = 1.0 / count
                for _ in range(draws):
                    entry.call(self._state, self._settings, self.dim, offered, probe, order)
                    out[positions, order] += 1.0
                out /= draws + 1.0
        return out

    def _rankable(self, arms: Rows, values: Any, costs: Any) -> tuple[Any, int, bool]:
        """Return checked arms as entry points take them, their number, and whether they have payoffs."""
        if not self._has_scores:
            check_has_scores(self._form, self.dim, "rankings")
        checked = arms if self._inputs.are_usable(arms) else self._arms(arms)
        has_payoffs = values is not None or costs is not None
        return self._offered(checked, values, costs), self._inputs.count(checked), has_payoffs

    def _offered(self, arms: Any, values: Any, costs: Any) -> Any:
        """Return checked arms as entry points take them, with payoffs if there are any."""
        packed = self._inputs.packed(arms)
        if values is None and costs is None:
            return packed
        return packed, *self._inputs.payoffs(self._inputs.count(arms), values, costs)

    def _probe(self) -> Generator:
        """A generator for trial decisions. Another stream at each position of the generator of decisions."""
        return np.array([self._rng[KEY], FIRST_PROBE_STREAM + self._rng[COUNTER], 0], dtype=np.uint64)

    def probabilities(
        self,
        arms: Rows,
        *,
        values: ArrayLike | None = None,
        costs: ArrayLike | None = None,
        draws: int = DEFAULT_DRAWS,
    ) -> Floats:
        """The probabilities with which the next `choose` with the same arguments returns each arm, (K,).

        Changes no later decision.

        They are exact if the rule of the policy has an exact form. Otherwise (a new posterior draw for each decision)
        they are estimated from `draws` trial decisions, with a standard error of sqrt(p (1 - p) / draws), at most
        0.005 by default. An estimate is never 0: an arm that no trial decision chose has 1 / (K (draws + 1)).
        """
        checked, draws = self._arms(arms), check_int("draws", draws, at_least=1)
        exact = self._exact_probabilities(checked, values, costs)
        if exact is not None:
            return exact
        has_payoffs, count, probe = values is not None or costs is not None, self._inputs.count(checked), self._probe()
        entry = self._inputs.choose_by_payoff if has_payoffs else self._choose
        offered, frequencies = self._offered(checked, values, costs), np.full(count, 1.0 / count)
        with convert_index_errors(self.policy, "choose"):
            for _ in range(draws):
                frequencies[entry.call(self._state, self._settings, self.dim, offered, probe)] += 1.0
        return frequencies / (draws + 1.0)

    def exact_probabilities(
        self, arms: Rows, *, values: ArrayLike | None = None, costs: ArrayLike | None = None
    ) -> Floats | None:
        """As `probabilities` if the rule of the policy has an exact form; None if it has none."""
        return self._exact_probabilities(arms if self._inputs.are_usable(arms) else self._arms(arms), values, costs)

    def _exact_probabilities(
        self, arms: Any, values: Any = None, costs: Any = None, *, settings: Floats | None = None
    ) -> Floats | None:
        has_payoffs = values is not None or costs is not None
        if has_payoffs:
            check_has_scores(self._form, self.dim, "payoffs")
        out, offered = np.empty(self._inputs.count(arms)), self._offered(arms, values, costs)
        entry, settings = (
            self._inputs.probabilities(payoffs=has_payoffs),
            self._settings if settings is None else settings,
        )
        return out if entry.call(self._state, settings, self.dim, offered, out) else None

    def choose_from(
        self,
        catalogue: Catalogue,
        context: ArrayLike | None = None,
        *,
        values: ArrayLike | None = None,
        costs: ArrayLike | None = None,
        only: Iterable[Hashable] | None = None,
        excluded: Iterable[Hashable] = (),
    ) -> Any:
        """The id of the arm to pull: the same arm as `choose` on all arms, but faster.

        With payoffs it scores all arms, as `choose` does.

        Args:
            catalogue: the arms.
            context: the argument of the catalogue's `combine`; None if the catalogue has no `combine`.
            values: as for `choose`, in the order of `catalogue.ids`.
            costs: as for `choose`, in the order of `catalogue.ids`.
            only: ids among which to choose, which must be in the catalogue. The default is all ids.
            excluded: ids that must not be chosen. Unknown ids are ignored.
        """
        allowed = catalogue.allowed_rows(only, excluded)
        if values is not None or costs is not None:
            payoffs = self._inputs.payoffs(len(catalogue), values, costs)[:, _index(allowed)]
            arms = self._catalogue_arms(catalogue, context, allowed)
            index = self.choose(arms, values=payoffs[0], costs=payoffs[1])
            return catalogue.id_of(index if allowed is None else int(allowed[index]))
        rule, rows, settings = self._contenders(catalogue, context, allowed)
        if rule is not None and rule.floor > 0.0 and uniform(self._rng) < rule.floor:
            index = any_index(self._rng, len(catalogue) if allowed is None else len(allowed))
            return catalogue.id_of(index if allowed is None else int(allowed[index]))
        arms = self._catalogue_arms(catalogue, context, rows)
        with convert_index_errors(self.policy, "choose"):
            index = self._choose.call(self._state, settings, self.dim, arms, self._rng)
        return catalogue.id_of(index if rows is None else int(rows[index]))

    def probabilities_from(
        self,
        catalogue: Catalogue,
        context: ArrayLike | None = None,
        *,
        values: ArrayLike | None = None,
        costs: ArrayLike | None = None,
        only: Iterable[Hashable] | None = None,
        excluded: Iterable[Hashable] = (),
        draws: int = DEFAULT_DRAWS,
    ) -> Floats:
        """The probabilities of the arms in the next `choose_from`, in the order of the ids.

        As in `probabilities`, they are estimates if the rule of the policy has no exact form. An estimate takes as
        long as `draws` decisions.
        """
        has_payoffs = values is not None or costs is not None
        exact = None if has_payoffs else self.exact_probabilities_from(catalogue, context, only=only, excluded=excluded)
        if exact is not None:
            return exact
        rows, probabilities = catalogue.allowed_rows(only, excluded), np.zeros(len(catalogue))
        arms = self._catalogue_arms(catalogue, context, rows)
        if has_payoffs:
            values, costs = self._inputs.payoffs(len(catalogue), values, costs)[:, _index(rows)]
        probabilities[_index(rows)] = self.probabilities(arms, values=values, costs=costs, draws=draws)
        return probabilities

    def exact_probabilities_from(
        self,
        catalogue: Catalogue,
        context: ArrayLike | None = None,
        *,
        only: Iterable[Hashable] | None = None,
        excluded: Iterable[Hashable] = (),
    ) -> Floats | None:
        """As `probabilities_from` if the policy has an exact form; None if it has none."""
        allowed = catalogue.allowed_rows(only, excluded)
        rule, rows, settings = self._contenders(catalogue, context, allowed)
        exact = self._exact_probabilities(self._catalogue_arms(catalogue, context, rows), settings=settings)
        if exact is None:
            return None
        floor, probabilities = 0.0 if rule is None else rule.floor, np.zeros(len(catalogue))
        probabilities[_index(allowed)] = floor / (len(catalogue) if allowed is None else len(allowed))
        probabilities[_index(rows)] += (1.0 - floor) * exact
        return probabilities

    def _contenders(
        self, catalogue: Catalogue, context: ArrayLike | None, allowed: Ints | None
    ) -> tuple[BonusRule | None, Ints | None, Floats]:
        """Return the rows of a catalogue among which the policy decides, and its packed settings. None is all rows.

        If the first result is a rule, the rows are those that can win under it, and the settings have no floor.
        """
        self._catalogue_arms(catalogue, context, np.zeros(1, dtype=np.int64))  # raises if the features do not fit
        count = len(catalogue) if allowed is None else len(allowed)
        if catalogue.dim <= LARGEST_DIM and count * self.dim**2 >= WORTH_BOUNDS:
            rule = self.policy.bonus_rule(self._state, self.dim)
            rows = None if rule is None else catalogue.contenders(rule, context, allowed)
            if rule is not None and rows is not None:
                policy: Any = self.policy
                has_floor = rule.floor > 0.0
                settings = replace(policy, floor=0.0).packed_settings(self.dim) if has_floor else self._settings
                return rule, rows, settings
        return None, allowed, self._settings

    def _catalogue_arms(self, catalogue: Catalogue, context: ArrayLike | None, rows: Ints | None) -> Floats:
        """Return the features of these rows for the policy. Raises InvalidInput if this Bandit cannot use them."""
        if self.sparse:
            raise InvalidInput(
                "a catalogue has dense features, but this Bandit is sparse. Create the Bandit with sparse=False."
            )
        arms = catalogue.combined(catalogue.features[_index(rows)], context)
        if arms.shape[1] != self.dim:
            raise InvalidInput(
                f"arms must have {self.dim} features, as the bandit has; those of {catalogue} have {arms.shape[1]}"
            )
        return arms

    def coefficients(self) -> Coefficients | None:
        """A copy of the policy's estimate of theta; None if it has no single estimate.

        >>> from glbandits import Bandit, LinUcb
        >>> bandit = Bandit(LinUcb(), dim=2)
        >>> bandit.learn([1.0, 0.0], 1.0)
        >>> bandit.coefficients()
        Coefficients(theta=array([0.5, 0. ]), intercept=0.0, indices=None)
        """
        return self._form.coefficients(self._state, self.dim)

    def _arms(self, arms: Rows) -> Any:
        return self._inputs.arms(encode_rows(self.features, arms, sparse=self.sparse))


@lru_cache(maxsize=64)
def no_costs(count: int) -> Floats:
    """Return the costs of arms that cost nothing, read-only."""
    costs = np.zeros(count)
    costs.flags.writeable = False
    return costs


def _index(rows: Ints | None) -> Any:
    return slice(None) if rows is None else rows
