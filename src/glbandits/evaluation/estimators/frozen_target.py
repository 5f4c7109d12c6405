"""FrozenTarget: a Bandit that decides and does not learn."""

from typing import Any

import numpy as np
from numba import types

from glbandits.bandit import Bandit
from glbandits.bandit.entry_points import policy_recipe, work_of_rows
from glbandits.bandit.predictions import expected_rewards, score_means
from glbandits.common.arrays import Bools, Floats, Generator, Ints
from glbandits.common.errors import InvalidInput, check_bool, check_int
from glbandits.compilation.entry_point import entry_point
from glbandits.compilation.numba_support import GENERATOR, READ_INTS, READ_VECTOR, VECTOR, borrowed
from glbandits.compilation.recipe import Recipe
from glbandits.evaluation.logs.arm_features import FixedArms
from glbandits.evaluation.logs.logged_data import LoggedData
from glbandits.evaluation.logs.payoffs import LogPayoffs, arms_argument, arms_of_row, rows_argument, rows_type
from glbandits.evaluation.logs.sparse_arms import packed_arms
from glbandits.features import FeatureMap
from glbandits.features.transformer_features import Features
from glbandits.maths.arm_rows import as_arms, as_payoff_arms
from glbandits.maths.links import Link, find_link, link_reader, own_link
from glbandits.maths.philox import generator
from glbandits.maths.sparse_rows import SparseRows
from glbandits.policies.contract import Policy
from glbandits.policies.contract.compiled_calls import checked_arm, checked_bool, policy_functions
from glbandits.policies.contract.decisions import check_has_scores
from glbandits.policies.sparse_forms import sparse_form

PART_STREAM = 2**61
"""The random streams of the parts of a log, from the second on."""
OPEN_WITH_MAP = "Open the log with open_log(..., features=bandit.features)"


class FrozenTarget:
    """A Bandit that does not learn during the evaluation.

    If its policy has no exact probabilities, one decision is drawn for each row and gets probability 1. Estimates
    remain unbiased, but have more variance.

    Args:
        bandit: it is not changed.
        seed: of drawn decisions.
        explore: as in `Bandit.choose`: False evaluates decisions by the point estimate alone.
    """

    def __init__(self, bandit: Bandit, seed: int = 0, *, explore: bool = True) -> None:
        policy = sparse_form(bandit.policy, bandit.dim) if bandit.sparse else bandit.policy
        self._dim, self._state, self._settings = bandit.dim, bandit.state, policy.packed_settings(bandit.dim)
        self._sparse, self._features = bandit.sparse, bandit.features
        self._seed = check_int("seed", seed, at_least=0)
        self.begin_part(0)
        self._policy, self._explores = policy, check_bool("explore", explore)

    def begin_part(self, part: int) -> None:
        """Draw the decisions of this part of a log by random numbers of its own."""
        self._rng = generator(self._seed, PART_STREAM + part if part else 0)

    def probabilities(self, block: LoggedData, first_row: int) -> Floats:  # noqa: ARG002
        self._check_features(block.feature_map)
        if block.dim != self._dim:
            advice = f". {OPEN_WITH_MAP}" if isinstance(self._features, FeatureMap) else ""
            raise InvalidInput(f"the log must have {self._dim} features, like the bandit; got {block.dim}{advice}")
        if block.sparse != self._sparse:
            kinds = ("sparse", "dense") if self._sparse else ("dense", "sparse")
            raise InvalidInput(
                f"the bandit is {kinds[0]}, but the arms of the log are {kinds[1]}. Read the log with "
                f"sparse={self._sparse}, or create the bandit with sparse={block.sparse}"
            )
        out, payoffs = np.zeros((len(block), block.arms.max_arms)), LogPayoffs.of_block(block)
        (arms, starts), counts = packed_arms(block.arms), block.arms.counts
        # Exact probabilities of one row are those of all rows with the same arms and payoffs.
        same = isinstance(block.arms, FixedArms) and (payoffs is None or payoffs.are_same)
        if same and self._explores and self._fill(arms, payoffs, starts[:1], counts[:1], out[:1]):
            return np.repeat(out[:1], len(block), axis=0)
        if self._explores:
            self._fill(arms, payoffs, starts, counts, out)
        else:
            self._fill_best(SparseRows(*arms) if self._sparse else arms, payoffs, starts, block.arm_mask, out)
        return out

    def _fill_best(self, arms: Any, payoffs: LogPayoffs | None, starts: Ints, arm_mask: Bools, out: Floats) -> None:
        """Write probability 1 for the arm of each row that the bandit chooses without exploration."""
        scores = score_means(self._policy, self._state, self._dim, arms)
        if payoffs is not None:
            scores = expected_rewards(find_link(self._policy.link), scores)
        of_rows = scores[np.minimum(starts[:, np.newaxis] + np.arange(out.shape[1]), len(scores) - 1)]
        if payoffs is not None:
            of_rows = payoffs.values * of_rows - payoffs.costs
        out[np.arange(len(out)), np.where(arm_mask, of_rows, -np.inf).argmax(axis=1)] = 1.0

    def _fill(self, arms: Any, payoffs: LogPayoffs | None, starts: Ints, counts: Ints, out: Floats) -> bool:
        """Write the probabilities of each row; return whether they are exact."""
        if payoffs is not None:
            check_has_scores(self._policy.implementation(self._dim), "payoffs")
        key = self._policy.implementation(self._dim), own_link(self._policy.link)
        exact = False
        for part, fill in entry_point(frozen_recipe, *key, payoffs is not None).pieces(len(counts)):
            rows = rows_argument(arms, payoffs, part)
            exact = fill(self._state, self._settings, rows, starts[part], counts[part], self._rng, out[part])
        return exact

    def _check_features(self, log_features: Features | None) -> None:
        own = self._features
        if own is log_features or not (isinstance(own, FeatureMap) and isinstance(log_features, FeatureMap)):
            return
        if own != log_features:
            raise InvalidInput(f"the bandit and the log have different feature maps. {OPEN_WITH_MAP}")


def frozen_recipe(policy: type[Policy], own: Link | None, payoffs: bool = False) -> Recipe:
    """Recipe of a function that writes the probabilities of each row of a log to `out`.

    The arms of row i are the rows of `arms` from `starts[i]` on, as many as `counts[i]`. The function returns whether
    the probabilities are exact. If not, each row has a 1 for one drawn arm. With `payoffs` it chooses by payoff.
    """
    choose, _, probabilities, _, unpack, name = policy_functions(policy, payoffs=payoffs)
    converted = as_payoff_arms if payoffs else as_arms
    link_of = link_reader(own)

    def fill(
        state: Floats, settings: Floats, arms: Any, starts: Ints, counts: Ints, rng: Generator, out: Floats
    ) -> bool:
        functions, named, exact = link_of(settings), unpack(settings), True
        rows = converted(borrowed(arms))
        for i in range(counts.shape[0]):
            count = counts[i]
            offered, filled = arms_of_row(rows, i, starts[i], count), out[i, :count]
            exact = checked_bool(probabilities(state, named, offered, functions, filled))
            if not exact:
                for arm in range(count):
                    filled[arm] = 0.0
                filled[checked_arm(choose(state, named, offered, rng, functions), count, name)] = 1.0
        return exact

    signature = types.boolean(
        VECTOR, READ_VECTOR, rows_type(policy, payoffs), READ_INTS, READ_INTS, GENERATOR, types.float64[:, ::1]
    )
    return policy_recipe(fill, signature, policy, own, more=", frozen" + ", payoffs" * payoffs, work=_work)


def _work(state: Floats, _settings: Floats, rows: Any, starts: Ints, counts: Ints, *_rest: Any) -> float:
    return work_of_rows(state, arms_argument(rows), starts, counts)
