"""The entry points behind a sparse Bandit: as those of `entry_points`, with arms as three arrays.

`borrowed` keeps slices cheap. A row to learn is copied without its zeros, so policies see none.
"""

from typing import Any

import numpy as np
from numba import types

from glbandits.bandit.entry_points import policy_recipe
from glbandits.compilation import Recipe
from glbandits.errors import MAX_ABS, InvalidInput
from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.sparse_rows import are_usable_rows, is_usable_row, nonzero_part
from glbandits.maths.vectors import uniform_mass
from glbandits.numba_support import GENERATOR, OPTIONAL_VECTOR, READ_INTS, READ_VECTOR, VECTOR, borrowed
from glbandits.policy import Policy
from glbandits.policy.compiled_calls import checked_arm, checked_bool, checked_state, policy_functions
from glbandits.records import Floats, Generator, Ints

ROWS = READ_INTS, READ_INTS, READ_VECTOR
ONLY_ROW = -1


def choose_recipe(policy: type[Policy], link: Link) -> Recipe:
    """`choose` on checked arms."""
    policy_choose, _, _, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def choose(
        state: Floats, settings: Floats, dim: int, indptr: Ints, indices: Ints, values: Floats, rng: Generator
    ) -> int:
        if not are_usable_rows(indptr, indices, values, dim):
            raise InvalidInput
        functions, count = LinkFunctions(mean, slope, antiderivative), indptr.shape[0] - 1
        rows, features, numbers = borrowed(indptr), borrowed(indices), borrowed(values)
        arm = policy_choose(state, unpack(settings), rows, features, numbers, rng, functions)
        return checked_arm(arm, count, name)

    signature = types.int64(VECTOR, READ_VECTOR, types.int64, *ROWS, GENERATOR)
    return policy_recipe(choose, signature, policy, link, more=", sparse", nogil=False, work=_work_of_rows)


def learn_recipe(policy: type[Policy], link: Link) -> Recipe:
    """`learn` from one row of several, or from the only one if `row` is ONLY_ROW.

    Returns the state only if it is a new array, not if it changed in place.
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
        features, numbers = nonzero_part(indices, values, indptr[row], indptr[row + 1])
        learned = checked_state(policy_learn(state, unpack(settings), features, numbers, reward, rng, functions))
        return None if learned.ctypes.data == state.ctypes.data and learned.shape == state.shape else learned

    signature = OPTIONAL_VECTOR(VECTOR, READ_VECTOR, types.int64, *ROWS, types.int64, types.float64, GENERATOR)
    return policy_recipe(learn, signature, policy, link, more=", sparse", nogil=False, work=_work_of_rows)


def learn_batch_recipe(policy: type[Policy], link: Link) -> Recipe:
    """`learn` for every row in turn, after all of them were checked."""
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
            features, numbers = nonzero_part(indices, values, indptr[row], indptr[row + 1])
            state = checked_state(policy_learn(state, named, features, numbers, rewards[row], rng, functions))
        return state

    signature = VECTOR(VECTOR, READ_VECTOR, types.int64, *ROWS, READ_VECTOR, GENERATOR)
    return policy_recipe(learn_batch, signature, policy, link, more=", sparse batch")


def probabilities_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The exact probabilities of a policy, where it has them: writes them to `out` and says whether it did."""
    _, _, policy_probabilities, unpack, _ = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def probabilities(
        state: Floats, settings: Floats, _dim: int, indptr: Ints, indices: Ints, values: Floats, out: Floats
    ) -> bool:
        functions = LinkFunctions(mean, slope, antiderivative)
        rows, features, numbers = borrowed(indptr), borrowed(indices), borrowed(values)
        return checked_bool(policy_probabilities(state, unpack(settings), rows, features, numbers, functions, out))

    signature = types.boolean(VECTOR, READ_VECTOR, types.int64, *ROWS, VECTOR)
    return policy_recipe(probabilities, signature, policy, link, more=", sparse", nogil=False)


def frequencies_recipe(policy: type[Policy], link: Link) -> Recipe:
    """Estimated probabilities of a rule that has no exact form, as `entry_points.frequencies_recipe`."""
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
        rows, features, numbers = borrowed(indptr), borrowed(indices), borrowed(values)
        count = indptr.shape[0] - 1
        counts = np.empty(count)
        uniform_mass(counts)
        for _ in range(draws):
            arm = checked_arm(policy_choose(state, named, rows, features, numbers, rng, functions), count, name)
            counts[arm] += 1.0
        for a in range(count):
            counts[a] /= draws + 1.0
        return counts

    signature = VECTOR(VECTOR, READ_VECTOR, types.int64, *ROWS, GENERATOR, types.int64)
    return policy_recipe(frequencies, signature, policy, link, more=", sparse frequencies", work=_always_long)


def play_recipe(policy: type[Policy], link: Link) -> Recipe:
    """A function that plays rounds whose rewards are known for every arm, and returns the state after them.

    The arms of round t are the rows `rounds[t]` to before `rounds[t + 1]`, and `rewards` has one number for each row.
    The function writes the index of each round's arm within the round to `choices`. The rows must be usable.
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
        rows, features, numbers = borrowed(indptr), borrowed(indices), borrowed(values)
        for t in range(choices.shape[0]):
            first, last = rounds[t], rounds[t + 1]
            arms = rows[first : last + 1]
            arm = policy_choose(state, named, arms, features, numbers, rng, functions)
            arm = checked_arm(arm, last - first, name)
            row = first + arm
            x, y = nonzero_part(indices, values, indptr[row], indptr[row + 1])
            state = checked_state(policy_learn(state, named, x, y, rewards[row], rng, functions))
            choices[t] = arm
        return state

    signature = VECTOR(VECTOR, READ_VECTOR, READ_INTS, *ROWS, READ_VECTOR, GENERATOR, types.int64[::1])
    return policy_recipe(play, signature, policy, link, more=", sparse play")


def rows_check_recipe() -> Recipe:
    """Whether compiled code can take these rows. Arrays of another type raise a TypeError."""

    def are_usable(indptr: Ints, indices: Ints, values: Floats, dim: int) -> bool:
        return are_usable_rows(indptr, indices, values, dim)

    return Recipe(are_usable, types.boolean(*ROWS, types.int64), "check of sparse rows", nogil=False)


def _work_of_rows(_state: Floats, _settings: Floats, _dim: int, _indptr: Ints, indices: Ints, *_rest: Any) -> float:
    return 16.0 * indices.size


def _always_long(*_arguments: Any) -> float:
    return np.inf
