"""The compiled loops that play the rows of a log, for each class of policy and each link.

There are two ways to learn, from matched rows or from all rows, and a dense and a sparse form of each loop. In the
sparse form, the arms of row i are the sparse rows `starts[i]` to `starts[i] + counts[i]` - 1, and `indptr`, `indices`
and `values` are the arrays of `SparseRows`.
"""

import numpy as np
from numba import types

from glbandits.bandit.entry_points import policy_recipe
from glbandits.bandit.sparse_entry_points import ROWS
from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.compilation.entry_point import Recipe
from glbandits.compilation.numba_support import GENERATOR, READ_CUBE, READ_INTS, READ_VECTOR, VECTOR, borrowed
from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.philox import uniform
from glbandits.maths.sparse_rows import nonzero_part
from glbandits.policies.contract import Policy
from glbandits.policies.contract.compiled_calls import checked_arm, checked_bool, checked_state, policy_functions


def matched_recipe(policy: type[Policy], link: Link) -> Recipe:
    """Recipe of a loop that learns matched rows and returns the new state of the policy.

    A row is matched if the policy chooses the logged arm. A matched row is kept, and learned, with probability `keep`,
    by the generator `keeping`. Row i has the arms `arms[i * stride]`; stride is 1, or 0 if all rows have the same arms.
    The loop writes 1 or 0 for each row to `matched` and to `kept`.
    """
    choose, learn, _, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def play_matched(
        state: Floats,
        settings: Floats,
        rng: Generator,
        arms: Floats,
        stride: int,
        counts: Ints,
        chosen: Ints,
        rewards: Floats,
        keep: Floats,
        keeping: Generator,
        matched: Floats,
        kept: Floats,
    ) -> Floats:
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        arms = borrowed(arms)
        for row in range(chosen.shape[0]):
            here, arm = row * stride, chosen[row]
            offered, count = arms[here, : counts[row]], counts[row]
            agrees = checked_arm(choose(state, named, offered, rng, functions), count, name) == arm
            stays = agrees and (keep[row] >= 1.0 or uniform(keeping) < keep[row])
            if stays:
                state = checked_state(learn(state, named, arms[here, arm], rewards[row], rng, functions))
            matched[row] = agrees
            kept[row] = stays
        return state

    signature = VECTOR(
        VECTOR, READ_VECTOR, GENERATOR, READ_CUBE, types.int64, READ_INTS, READ_INTS, READ_VECTOR,
        READ_VECTOR, GENERATOR, VECTOR, VECTOR,
    )  # fmt: skip
    return policy_recipe(play_matched, signature, policy, link, more=", matched rows")


def all_recipe(policy: type[Policy], link: Link) -> Recipe:
    """Recipe of a loop that learns all rows and returns the new state of the policy.

    The loop writes to `given` the probability that the policy, before it learned the row, gave to the logged arm: the
    exact probability if `exact` is true and the policy has one, else 1 or 0 for a decision that agrees or not.
    """
    choose, learn, probabilities, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def play_all(
        state: Floats,
        settings: Floats,
        rng: Generator,
        arms: Floats,
        stride: int,
        counts: Ints,
        chosen: Ints,
        rewards: Floats,
        exact: bool,
        given: Floats,
    ) -> Floats:
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        arms, every = borrowed(arms), np.empty(arms.shape[1])
        for row in range(chosen.shape[0]):
            here, arm, count = row * stride, chosen[row], counts[row]
            offered = arms[here, :count]
            if exact and checked_bool(probabilities(state, named, offered, functions, every[:count])):
                given[row] = every[arm]
            else:
                given[row] = checked_arm(choose(state, named, offered, rng, functions), count, name) == arm
            state = checked_state(learn(state, named, arms[here, arm], rewards[row], rng, functions))
        return state

    signature = VECTOR(
        VECTOR, READ_VECTOR, GENERATOR, READ_CUBE, types.int64, READ_INTS, READ_INTS, READ_VECTOR,
        types.boolean, VECTOR,
    )  # fmt: skip
    return policy_recipe(play_all, signature, policy, link, more=", all rows")


def sparse_matched_recipe(policy: type[Policy], link: Link) -> Recipe:
    """Like `matched_recipe`, for sparse rows."""
    choose, learn, _, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def play_matched(
        state: Floats,
        settings: Floats,
        rng: Generator,
        starts: Ints,
        indptr: Ints,
        indices: Ints,
        values: Floats,
        counts: Ints,
        chosen: Ints,
        rewards: Floats,
        keep: Floats,
        keeping: Generator,
        matched: Floats,
        kept: Floats,
    ) -> Floats:
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        rows, features, numbers = borrowed(indptr), borrowed(indices), borrowed(values)
        for row in range(chosen.shape[0]):
            start, count, arm = starts[row], counts[row], chosen[row]
            offered = rows[start : start + count + 1]
            agrees = checked_arm(choose(state, named, offered, features, numbers, rng, functions), count, name) == arm
            stays = agrees and (keep[row] >= 1.0 or uniform(keeping) < keep[row])
            if stays:
                row_indices, row_values = nonzero_part(indices, values, indptr[start + arm], indptr[start + arm + 1])
                state = checked_state(learn(state, named, row_indices, row_values, rewards[row], rng, functions))
            matched[row] = agrees
            kept[row] = stays
        return state

    signature = VECTOR(
        VECTOR, READ_VECTOR, GENERATOR, READ_INTS, *ROWS, READ_INTS, READ_INTS, READ_VECTOR,
        READ_VECTOR, GENERATOR, VECTOR, VECTOR,
    )  # fmt: skip
    return policy_recipe(play_matched, signature, policy, link, more=", matched sparse rows")


def sparse_all_recipe(policy: type[Policy], link: Link) -> Recipe:
    """Like `all_recipe`, for sparse rows."""
    choose, learn, probabilities, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def play_all(
        state: Floats,
        settings: Floats,
        rng: Generator,
        starts: Ints,
        indptr: Ints,
        indices: Ints,
        values: Floats,
        counts: Ints,
        chosen: Ints,
        rewards: Floats,
        exact: bool,
        given: Floats,
    ) -> Floats:
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        rows, features, numbers = borrowed(indptr), borrowed(indices), borrowed(values)
        for row in range(chosen.shape[0]):
            start, count, arm = starts[row], counts[row], chosen[row]
            offered, every = rows[start : start + count + 1], np.empty(count)
            if exact and checked_bool(probabilities(state, named, offered, features, numbers, functions, every)):
                given[row] = every[arm]
            else:
                pulled = checked_arm(choose(state, named, offered, features, numbers, rng, functions), count, name)
                given[row] = pulled == arm
            row_indices, row_values = nonzero_part(indices, values, indptr[start + arm], indptr[start + arm + 1])
            state = checked_state(learn(state, named, row_indices, row_values, rewards[row], rng, functions))
        return state

    signature = VECTOR(
        VECTOR, READ_VECTOR, GENERATOR, READ_INTS, *ROWS, READ_INTS, READ_INTS, READ_VECTOR, types.boolean, VECTOR
    )
    return policy_recipe(play_all, signature, policy, link, more=", all sparse rows")
