"""The compiled function that plays consecutive rounds, one for each class of policy, link and noise."""

from collections.abc import Callable
from typing import Any

from numba import types

from glbandits.bandit.entry_points import arms_type, policy_recipe
from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.compilation.entry_point import entry_point
from glbandits.compilation.numba_support import GENERATOR, READ_INTS, READ_MATRIX, READ_VECTOR, VECTOR, borrowed
from glbandits.compilation.recipe import Recipe
from glbandits.lab.environments import Noise
from glbandits.maths.arm_rows import arm_at, arm_range, as_arms
from glbandits.maths.links import Link, LinkFunctions
from glbandits.policies.contract import Policy
from glbandits.policies.contract.compiled_calls import checked_arm, checked_state, policy_functions


def play_entry(policy: type[Policy], link: Link, noise: Noise, compiled: bool) -> Callable[..., Floats]:
    """Return the function of `play_recipe`, compiled or as plain Python."""
    entry = entry_point(play_recipe, policy, link, noise)
    function: Callable[..., Floats] = entry.compiled() if compiled else entry.recipe.function
    return function


def play_recipe(policy: type[Policy], link: Link, noise: Noise) -> Recipe:
    """Return the recipe of a function that plays rounds and returns the policy's state after them.

    The arms of round t are the rows of `arms` from `starts[t]` on, as many as `counts[t]`. The function writes the arm
    of each round to `choices`, and the cumulative regret to `regret`. The regret starts at `regret_before`.
    """
    choose, learn, _, unpack, name = policy_functions(policy)
    reward_of = noise.reward
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def play(
        state: Floats,
        settings: Floats,
        rng: Generator,
        arms: Any,
        starts: Ints,
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
        rows, total = as_arms(borrowed(arms)), regret_before
        for t in range(counts.shape[0]):
            offered = arm_range(rows, starts[t], starts[t] + counts[t])
            arm = checked_arm(choose(state, named, offered, rng, functions), counts[t], name)
            reward = reward_of(expected[t, arm], noise_numbers[t])
            state = checked_state(learn(state, named, arm_at(rows, starts[t] + arm), reward, rng, functions))
            total += best[t] - values[t, arm]
            choices[t] = arm
            regret[t] = total
        return state

    signature = VECTOR(
        VECTOR, READ_VECTOR, GENERATOR, arms_type(policy), READ_INTS, READ_INTS, READ_MATRIX, READ_MATRIX, READ_VECTOR,
        READ_VECTOR, types.float64, types.int64[::1], VECTOR,
    )  # fmt: skip
    return policy_recipe(play, signature, policy, link, more=f", {noise.name}", is_ours=noise.built_in)
