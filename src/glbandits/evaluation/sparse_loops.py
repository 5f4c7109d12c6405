"""The loops of `progressive_loop` and `targets` for sparse rows.

The arms of row i of a log are the sparse rows `starts[i]` to before `starts[i] + counts[i]`. `indptr` tells where the
features of each are in `indices` and `values`.
"""

import numpy as np
from numba import types

from glbandits.bandit.entries import policy_recipe
from glbandits.bandit.sparse_entries import ROWS
from glbandits.compilation import Recipe
from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.philox import uniform
from glbandits.maths.sparse_rows import nonzero_part
from glbandits.numba_support import GENERATOR, READ_INTS, READ_VECTOR, VECTOR, borrowed
from glbandits.policy import Policy
from glbandits.policy.compiled_calls import checked_arm, checked_bool, checked_state, policy_functions
from glbandits.records import Floats, Generator, Ints


def sparse_matched_recipe(policy: type[Policy], link: Link) -> Recipe:
    """As `matched_recipe`, for sparse rows."""
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
                x, y = nonzero_part(indices, values, indptr[start + arm], indptr[start + arm + 1])
                state = checked_state(learn(state, named, x, y, rewards[row], rng, functions))
            matched[row] = agrees
            kept[row] = stays
        return state

    signature = VECTOR(
        VECTOR, READ_VECTOR, GENERATOR, READ_INTS, *ROWS, READ_INTS, READ_INTS, READ_VECTOR,
        READ_VECTOR, GENERATOR, VECTOR, VECTOR,
    )  # fmt: skip
    return policy_recipe(play_matched, signature, policy, link, more=", matched sparse rows")


def sparse_all_recipe(policy: type[Policy], link: Link) -> Recipe:
    """As `all_recipe`, for sparse rows."""
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
            x, y = nonzero_part(indices, values, indptr[start + arm], indptr[start + arm + 1])
            state = checked_state(learn(state, named, x, y, rewards[row], rng, functions))
        return state

    signature = VECTOR(
        VECTOR, READ_VECTOR, GENERATOR, READ_INTS, *ROWS, READ_INTS, READ_INTS, READ_VECTOR, types.boolean, VECTOR
    )
    return policy_recipe(play_all, signature, policy, link, more=", all sparse rows")


def sparse_frozen_recipe(policy: type[Policy], link: Link) -> Recipe:
    """As `frozen_recipe`, for sparse rows."""
    choose, _, probabilities, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def fill(
        state: Floats,
        settings: Floats,
        starts: Ints,
        indptr: Ints,
        indices: Ints,
        values: Floats,
        counts: Ints,
        rng: Generator,
        out: Floats,
    ) -> bool:
        functions, named, exact = LinkFunctions(mean, slope, antiderivative), unpack(settings), True
        rows, features, numbers = borrowed(indptr), borrowed(indices), borrowed(values)
        for row in range(counts.shape[0]):
            count = counts[row]
            offered, filled = rows[starts[row] : starts[row] + count + 1], out[row, :count]
            exact = checked_bool(probabilities(state, named, offered, features, numbers, functions, filled))
            if not exact:
                filled[:] = 0.0
                arm = checked_arm(choose(state, named, offered, features, numbers, rng, functions), count, name)
                filled[arm] = 1.0
        return exact

    signature = types.boolean(VECTOR, READ_VECTOR, READ_INTS, *ROWS, READ_INTS, GENERATOR, types.float64[:, ::1])
    return policy_recipe(fill, signature, policy, link, more=", frozen, sparse rows")
