"""Decider: a policy with a state that chooses and ranks arms."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glbandits.bandit.inputs import Inputs
from glbandits.bandit.model_file import ParsedModel
from glbandits.bandit.row_encoding import Rows, encode_rows
from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.common.display.displayed import Displayed
from glbandits.common.errors import check_int
from glbandits.maths.line_order import orders
from glbandits.maths.links import find_link
from glbandits.maths.philox import COUNTER, KEY
from glbandits.policies.contract import Coefficients
from glbandits.policies.contract.compiled_calls import InvalidArm, convert_index_errors, index_out_of_range
from glbandits.policies.contract.decisions import NO_EXACT_FORM, check_has_scores, has_scores

FIRST_PROBE_STREAM = np.uint64(1)
"""The first random stream for estimates of probabilities. It is separate, so that estimates change no decision."""
DEFAULT_DRAWS = 10_000
"""Trial decisions of an estimate of probabilities."""


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
        self._has_scores = has_scores(form.implementation(dim))

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

    def _exact_probabilities(self, arms: Any, values: Any, costs: Any) -> Floats | None:
        has_payoffs = values is not None or costs is not None
        if has_payoffs:
            check_has_scores(self._form, self.dim, "payoffs")
        out, offered = np.empty(self._inputs.count(arms)), self._offered(arms, values, costs)
        entry = self._inputs.probabilities(payoffs=has_payoffs)
        return out if entry.call(self._state, self._settings, self.dim, offered, out) else None

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
