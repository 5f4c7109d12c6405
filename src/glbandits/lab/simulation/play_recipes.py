"""The compiled functions that play consecutive rounds, one for each class of policy, link and noise."""

from collections.abc import Callable

from numba import types

from glbandits.bandit.entry_points import policy_recipe
from glbandits.bandit.sparse_entry_points import ROWS
from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.compilation.entry_point import Recipe, entry_point
from glbandits.compilation.numba_support import GENERATOR, READ_CUBE, READ_MATRIX, READ_VECTOR, VECTOR, borrowed
from glbandits.lab.environments import Noise
from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.sparse_rows import nonzero_part
from glbandits.policies.contract import Policy
from glbandits.policies.contract.compiled_calls import checked_arm, checked_state, policy_functions


def play_entry(policy: type[Policy], link: Link, noise: Noise, compiled: bool) -> Callable[..., Floats]:
    """Return the function of `play_recipe` or `sparse_play_recipe`, compiled or as plain Python."""
    entry = entry_point(sparse_play_recipe if policy.is_sparse else play_recipe, policy, link, noise)
    function: Callable[..., Floats] = entry.compiled() if compiled else entry.recipe.function
    return function


def play_recipe(policy: type[Policy], link: Link, noise: Noise) -> Recipe:
    """Return the recipe of a function that plays rounds and returns the policy's state after them.

    The function writes the arm of each round to `choices`, and the cumulative regret to `regret`. The regret starts at
    `regret_before`.
    """
    choose, learn, _, unpack, name = policy_functions(policy)
    reward_of = noise.reward
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def play(
        state: Floats,
        settings: Floats,
        rng: Generator,
        arms: Floats,
        counts: Ints,
        expected: Floats,
        values: Floats,
        best: Floats,
        noise_numbers: Floats,
        regret_before: float,
        choices: Ints,
        regret: Floats,
    ) -> Floats:
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        arms, total = borrowed(arms), regret_before
        for t in range(counts.shape[0]):
            arm = checked_arm(choose(state, named, arms[t, : counts[t]], rng, functions), counts[t], name)
            reward = reward_of(expected[t, arm], noise_numbers[t])
            state = checked_state(learn(state, named, arms[t, arm], reward, rng, functions))
            total += best[t] - values[t, arm]
            choices[t] = arm
            regret[t] = total
        return state

    counts, choices = types.Array(types.int64, 1, "C", readonly=True), types.int64[::1]
    signature = VECTOR(
        VECTOR, READ_VECTOR, GENERATOR, READ_CUBE, counts, READ_MATRIX, READ_MATRIX, READ_VECTOR, READ_VECTOR,
        types.float64, choices, VECTOR,
    )  # fmt: skip
    return policy_recipe(play, signature, policy, link, more=f", {noise.name}", is_ours=noise.built_in)


def sparse_play_recipe(policy: type[Policy], link: Link, noise: Noise) -> Recipe:
    """Return the recipe of the same function for sparse rows. The arms of round t are the rows from `starts[t]` on.

    `numbers` are the values of features; `values` are those of arms, from which regret is computed.
    """
    choose, learn, _, unpack, name = policy_functions(policy)
    reward_of = noise.reward
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def play(
        state: Floats,
        settings: Floats,
        rng: Generator,
        starts: Ints,
        indptr: Ints,
        indices: Ints,
        numbers: Floats,
        counts: Ints,
        expected: Floats,
        values: Floats,
        best: Floats,
        noise_numbers: Floats,
        regret_before: float,
        choices: Ints,
        regret: Floats,
    ) -> Floats:
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        pointers, features, feature_values = borrowed(indptr), borrowed(indices), borrowed(numbers)
        total = regret_before
        for t in range(counts.shape[0]):
            first, count = starts[t], counts[t]
            arms = pointers[first : first + count + 1]
            arm = checked_arm(choose(state, named, arms, features, feature_values, rng, functions), count, name)
            reward = reward_of(expected[t, arm], noise_numbers[t])
            x_indices, x_values = nonzero_part(indices, numbers, indptr[first + arm], indptr[first + arm + 1])
            state = checked_state(learn(state, named, x_indices, x_values, reward, rng, functions))
            total += best[t] - values[t, arm]
            choices[t] = arm
            regret[t] = total
        return state

    counts, choices = types.Array(types.int64, 1, "C", readonly=True), types.int64[::1]
    signature = VECTOR(
        VECTOR, READ_VECTOR, GENERATOR, counts, *ROWS, counts, READ_MATRIX, READ_MATRIX, READ_VECTOR, READ_VECTOR,
        types.float64, choices, VECTOR,
    )  # fmt: skip
    return policy_recipe(play, signature, policy, link, more=f", {noise.name}, sparse", is_ours=noise.built_in)
