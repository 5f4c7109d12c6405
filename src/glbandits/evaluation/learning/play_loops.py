"""The compiled loops that play the rows of a log, for each class of policy and each link.

There are two ways to learn: from matched rows or from all rows. The arms of row i of the log are the rows of `arms`
from `starts[i]` on, as many as `counts[i]`. With `payoffs`, policies choose by payoff, and learn the rewards.
"""

from typing import Any

import numpy as np
from numba import types

from glbandits.bandit.entry_points import policy_recipe, work_of_rows
from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.compilation.numba_support import GENERATOR, READ_INTS, READ_VECTOR, VECTOR, borrowed
from glbandits.compilation.recipe import Recipe
from glbandits.evaluation.logs.payoffs import arms_argument, arms_of_row, rows_type
from glbandits.maths.arm_rows import arm_at, as_arms, as_payoff_arms, plain_arms
from glbandits.maths.links import Link, link_reader
from glbandits.maths.philox import uniform
from glbandits.policies.contract import Policy
from glbandits.policies.contract.compiled_calls import checked_arm, checked_bool, checked_state, policy_functions


def matched_recipe(policy: type[Policy], own: Link | None, payoffs: bool = False) -> Recipe:
    """Recipe of a loop that learns matched rows and returns the new state of the policy.

    A row is matched if the policy chooses the logged arm. A matched row is kept, and learned, with probability `keep`,
    by the generator `keeping`. The loop writes 1 or 0 for each row to `matched` and to `kept`.
    """
    choose, learn, _, _, unpack, name = policy_functions(policy, payoffs=payoffs)
    converted = as_payoff_arms if payoffs else as_arms
    link_of = link_reader(own)

    def play_matched(
        state: Floats,
        settings: Floats,
        rng: Generator,
        arms: Any,
        starts: Ints,
        counts: Ints,
        chosen: Ints,
        rewards: Floats,
        keep: Floats,
        keeping: Generator,
        matched: Floats,
        kept: Floats,
    ) -> Floats:
        functions, named = link_of(settings), unpack(settings)
        rows = converted(borrowed(arms))
        for i in range(chosen.shape[0]):
            start, count, arm = starts[i], counts[i], chosen[i]
            offered = arms_of_row(rows, i, start, count)
            agrees = checked_arm(choose(state, named, offered, rng, functions), count, name) == arm
            stays = agrees and (keep[i] >= 1.0 or uniform(keeping) < keep[i])
            if stays:
                state = checked_state(
                    learn(state, named, arm_at(plain_arms(rows), start + arm), rewards[i], rng, functions)
                )
            matched[i] = agrees
            kept[i] = stays
        return state

    signature = VECTOR(
        VECTOR, READ_VECTOR, GENERATOR, rows_type(policy, payoffs), READ_INTS, READ_INTS, READ_INTS, READ_VECTOR,
        READ_VECTOR, GENERATOR, VECTOR, VECTOR,
    )  # fmt: skip
    return policy_recipe(
        play_matched, signature, policy, own, more=", matched rows" + ", payoffs" * payoffs, work=_work
    )


def all_recipe(policy: type[Policy], own: Link | None, payoffs: bool = False) -> Recipe:
    """Recipe of a loop that learns all rows and returns the new state of the policy.

    The loop writes to `given` the probability that the policy, before it learned the row, gave to the logged arm: the
    exact probability if `exact` is true and the policy has one, else 1 or 0 for a decision that agrees or not.
    """
    choose, learn, probabilities, _, unpack, name = policy_functions(policy, payoffs=payoffs)
    converted = as_payoff_arms if payoffs else as_arms
    link_of = link_reader(own)

    def play_all(
        state: Floats,
        settings: Floats,
        rng: Generator,
        arms: Any,
        starts: Ints,
        counts: Ints,
        chosen: Ints,
        rewards: Floats,
        exact: bool,
        given: Floats,
    ) -> Floats:
        functions, named = link_of(settings), unpack(settings)
        rows = converted(borrowed(arms))
        for i in range(chosen.shape[0]):
            start, count, arm = starts[i], counts[i], chosen[i]
            offered, every = arms_of_row(rows, i, start, count), np.empty(count)
            if exact and checked_bool(probabilities(state, named, offered, functions, every)):
                given[i] = every[arm]
            else:
                given[i] = checked_arm(choose(state, named, offered, rng, functions), count, name) == arm
            state = checked_state(
                learn(state, named, arm_at(plain_arms(rows), start + arm), rewards[i], rng, functions)
            )
        return state

    signature = VECTOR(
        VECTOR, READ_VECTOR, GENERATOR, rows_type(policy, payoffs), READ_INTS, READ_INTS, READ_INTS, READ_VECTOR,
        types.boolean, VECTOR,
    )  # fmt: skip
    return policy_recipe(play_all, signature, policy, own, more=", all rows" + ", payoffs" * payoffs, work=_work)


def _work(
    state: Floats, _settings: Floats, _rng: Generator, rows: Any, starts: Ints, counts: Ints, *_rest: Any
) -> float:
    return work_of_rows(state, arms_argument(rows), starts, counts)
