"""Entry points of a sparse Bandit: those of `entry_points`, with arms as the three arrays of SparseRows.

A row to learn is copied without stored zeros, so the functions of policies receive none.
"""

from typing import Any

import numpy as np
from numba import types

from glbandits.bandit.entry_points import policy_recipe
from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.common.errors import MAX_ABS, InvalidInput
from glbandits.compilation.entry_point import Recipe
from glbandits.compilation.numba_support import GENERATOR, OPTIONAL_VECTOR, READ_INTS, READ_VECTOR, VECTOR, borrowed
from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.sparse_rows import are_usable_rows, is_usable_row, nonzero_part
from glbandits.maths.vectors import uniform_mass
from glbandits.policies.contract import Policy
from glbandits.policies.contract.compiled_calls import checked_arm, checked_bool, checked_state, policy_functions

ROWS = READ_INTS, READ_INTS, READ_VECTOR
"""The Numba types of indptr, indices and values."""
ONLY_ROW = -1
"""The argument `row` of `learn` for arrays with a single row."""


def choose_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of `choose`, with a check of the arms."""
    policy_choose, _, _, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def choose(
        state: Floats, settings: Floats, dim: int, indptr: Ints, indices: Ints, values: Floats, rng: Generator
    ) -> int:
        if not are_usable_rows(indptr, indices, values, dim):
            raise InvalidInput
        functions, count = LinkFunctions(mean, slope, antiderivative), indptr.shape[0] - 1
        pointers, features, feature_values = borrowed(indptr), borrowed(indices), borrowed(values)
        arm = policy_choose(state, unpack(settings), pointers, features, feature_values, rng, functions)
        return checked_arm(arm, count, name)

    signature = types.int64(VECTOR, READ_VECTOR, types.int64, *ROWS, GENERATOR)
    return policy_recipe(choose, signature, policy, link, more=", sparse", nogil=False, work=_work_of_rows)


def learn_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of `learn` for one of several rows, with a check of the row and the reward.

    Returns None if the state was changed in place.
    """
    _, policy_learn, _, unpack, _ = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative
    lowest, highest = link.lowest_reward, link.highest_reward

    def learn(
        state: Floats,
        settings: Floats,
        dim: int,
        indptr: Ints,
        indices: Ints,
        values: Floats,
        row: int,
        reward: float,
        rng: Generator,
    ) -> Floats | None:
        if row == ONLY_ROW and indptr.shape[0] == 2:
            row = 0
        if not is_usable_row(indptr, indices, values, row, dim):
            raise InvalidInput
        if not lowest <= reward <= highest or not abs(reward) <= MAX_ABS:
            raise InvalidInput
        functions = LinkFunctions(mean, slope, antiderivative)
        x_indices, x_values = nonzero_part(indices, values, indptr[row], indptr[row + 1])
        learned = checked_state(policy_learn(state, unpack(settings), x_indices, x_values, reward, rng, functions))
        return None if learned.ctypes.data == state.ctypes.data and learned.shape == state.shape else learned

    signature = OPTIONAL_VECTOR(VECTOR, READ_VECTOR, types.int64, *ROWS, types.int64, types.float64, GENERATOR)
    return policy_recipe(learn, signature, policy, link, more=", sparse", nogil=False, work=_work_of_rows)


def learn_batch_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of a function that checks all rows, and then learns each of them."""
    _, policy_learn, _, unpack, _ = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative
    lowest, highest = link.lowest_reward, link.highest_reward

    def learn_batch(
        state: Floats,
        settings: Floats,
        dim: int,
        indptr: Ints,
        indices: Ints,
        values: Floats,
        rewards: Floats,
        rng: Generator,
    ) -> Floats:
        if indptr.shape[0] != rewards.shape[0] + 1 or not are_usable_rows(indptr, indices, values, dim):
            raise InvalidInput
        for reward in rewards:
            if not lowest <= reward <= highest or not abs(reward) <= MAX_ABS:
                raise InvalidInput
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        for row in range(rewards.shape[0]):
            x_indices, x_values = nonzero_part(indices, values, indptr[row], indptr[row + 1])
            state = checked_state(policy_learn(state, named, x_indices, x_values, rewards[row], rng, functions))
        return state

    signature = VECTOR(VECTOR, READ_VECTOR, types.int64, *ROWS, READ_VECTOR, GENERATOR)
    return policy_recipe(learn_batch, signature, policy, link, more=", sparse batch")


def probabilities_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of a function that writes exact probabilities to `out`.

    Returns False if there is no exact form.
    """
    _, _, policy_probabilities, unpack, _ = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def probabilities(
        state: Floats, settings: Floats, _dim: int, indptr: Ints, indices: Ints, values: Floats, out: Floats
    ) -> bool:
        functions = LinkFunctions(mean, slope, antiderivative)
        pointers, features, feature_values = borrowed(indptr), borrowed(indices), borrowed(values)
        named = unpack(settings)
        return checked_bool(policy_probabilities(state, named, pointers, features, feature_values, functions, out))

    signature = types.boolean(VECTOR, READ_VECTOR, types.int64, *ROWS, VECTOR)
    return policy_recipe(probabilities, signature, policy, link, more=", sparse", nogil=False)


def frequencies_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of a function that estimates probabilities, as `entry_points.frequencies_recipe`."""
    policy_choose, _, _, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def frequencies(
        state: Floats,
        settings: Floats,
        _dim: int,
        indptr: Ints,
        indices: Ints,
        values: Floats,
        rng: Generator,
        draws: int,
    ) -> Floats:
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        pointers, features, feature_values = borrowed(indptr), borrowed(indices), borrowed(values)
        count = indptr.shape[0] - 1
        counts = np.empty(count)
        uniform_mass(counts)
        for _ in range(draws):
            arm = policy_choose(state, named, pointers, features, feature_values, rng, functions)
            counts[checked_arm(arm, count, name)] += 1.0
        for a in range(count):
            counts[a] /= draws + 1.0
        return counts

    signature = VECTOR(VECTOR, READ_VECTOR, types.int64, *ROWS, GENERATOR, types.int64)
    return policy_recipe(frequencies, signature, policy, link, more=", sparse frequencies", work=_always_long)


def play_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of a function that plays rounds with known rewards of all arms, and returns the last state.

    The arms of round t are the rows from `rounds[t]` to `rounds[t + 1]`, exclusive. `rewards` has a reward for each
    row. The function writes the chosen arm of each round, counted from 0 in the round, to `choices`. It does not check
    the rows.
    """
    policy_choose, policy_learn, _, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def play(
        state: Floats,
        settings: Floats,
        rounds: Ints,
        indptr: Ints,
        indices: Ints,
        values: Floats,
        rewards: Floats,
        rng: Generator,
        choices: Ints,
    ) -> Floats:
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        pointers, features, feature_values = borrowed(indptr), borrowed(indices), borrowed(values)
        for t in range(choices.shape[0]):
            first, last = rounds[t], rounds[t + 1]
            arms = pointers[first : last + 1]
            arm = policy_choose(state, named, arms, features, feature_values, rng, functions)
            arm = checked_arm(arm, last - first, name)
            row = first + arm
            x_indices, x_values = nonzero_part(indices, values, indptr[row], indptr[row + 1])
            state = checked_state(policy_learn(state, named, x_indices, x_values, rewards[row], rng, functions))
            choices[t] = arm
        return state

    signature = VECTOR(VECTOR, READ_VECTOR, READ_INTS, *ROWS, READ_VECTOR, GENERATOR, types.int64[::1])
    return policy_recipe(play, signature, policy, link, more=", sparse play")


def rows_check_recipe() -> Recipe:
    """The recipe of `maths.sparse_rows.are_usable_rows`. Arrays of other types raise TypeError."""

    def are_usable(indptr: Ints, indices: Ints, values: Floats, dim: int) -> bool:
        return are_usable_rows(indptr, indices, values, dim)

    return Recipe(are_usable, types.boolean(*ROWS, types.int64), "check of sparse rows", nogil=False)


def _work_of_rows(_state: Floats, _settings: Floats, _dim: int, _indptr: Ints, indices: Ints, *_rest: Any) -> float:
    return 16.0 * indices.size


def _always_long(*_arguments: Any) -> float:
    return np.inf
