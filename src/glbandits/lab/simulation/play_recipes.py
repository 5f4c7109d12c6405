"""The compiled function that plays consecutive rounds, one for each class of policy.

It serves all built-in links and noises. A user's link or noise has a function of its own.

Rounds with payoffs have a function of their own, so that others do not compile payoffs.
"""

from collections.abc import Callable
from typing import Any

from numba import types

from glbandits.bandit.entry_points import arms_type, policy_recipe
from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.compilation.entry_point import entry_point
from glbandits.compilation.numba_support import (
    GENERATOR,
    READ_INTS,
    READ_MATRIX,
    READ_VECTOR,
    VECTOR,
    borrowed,
    by_type,
    jittable,
)
from glbandits.compilation.recipe import Recipe
from glbandits.lab.environments import Noise
from glbandits.lab.environments.noise import own_noise, reward_function
from glbandits.maths.arm_rows import PayoffArms, arm_at, arm_range, as_arms, as_payoff_arms, plain_arms
from glbandits.maths.links import Link, link_reader, own_link
from glbandits.policies.contract import Policy
from glbandits.policies.contract.compiled_calls import checked_arm, checked_state, policy_functions


def play_entry(
    policy: type[Policy], link: Link, noise: Noise, compiled: bool, *, payoffs: bool = False
) -> Callable[..., Floats]:
    """Return the function of `play_recipe`, compiled or as plain Python."""
    entry = entry_point(play_recipe, policy, own_link(link), own_noise(noise), payoffs)
    function: Callable[..., Floats] = entry.compiled() if compiled else entry.recipe.function
    return function


def play_recipe(policy: type[Policy], own: Link | None, noise: Noise | None, payoffs: bool = False) -> Recipe:
    """Return the recipe of a function that plays rounds and returns the policy's state after them.

    The arms of round t are the rows of `arms` from `starts[t]` on, as many as `counts[t]`. The function writes the arm
    of each round to `choices`, and the cumulative regret to `regret`. The regret starts at `regret_before`. With
    `payoffs`, `arms` are a tuple of the arms, their values and their costs. `own` is a user's link, or None for all
    built-in links. The same holds for the noise, whose number the function takes.
    """
    choose, learn, _, _, unpack, name = policy_functions(policy, payoffs=payoffs)
    reward_of, as_rows = reward_function(noise), as_payoff_arms if payoffs else as_arms
    link_of = link_reader(own)

    def play(
        state: Floats,
        settings: Floats,
        rng: Generator,
        arms: Any,
        starts: Ints,
        counts: Ints,
        expected: Floats,
        expected_payoffs: Floats,
        best: Floats,
        noise_kind: int,
        noise_numbers: Floats,
        regret_before: float,
        choices: Ints,
        regret: Floats,
    ) -> Floats:
        functions, named = link_of(settings), unpack(settings)
        rows, total = as_rows(borrowed(arms)), regret_before
        for t in range(counts.shape[0]):
            offered = arms_between(rows, starts[t], starts[t] + counts[t])
            arm = checked_arm(choose(state, named, offered, rng, functions), counts[t], name)
            reward = reward_of(noise_kind, expected[t, arm], noise_numbers[t])
            x = arm_at(plain_arms(rows), starts[t] + arm)
            state = checked_state(learn(state, named, x, reward, rng, functions))
            total += best[t] - expected_payoffs[t, arm]
            choices[t] = arm
            regret[t] = total
        return state

    signature = VECTOR(
        VECTOR, READ_VECTOR, GENERATOR, arms_type(policy, payoffs), READ_INTS, READ_INTS, READ_MATRIX, READ_MATRIX,
        READ_VECTOR, types.int64, READ_VECTOR, types.float64, types.int64[::1], VECTOR,
    )  # fmt: skip
    more = f"{f', {noise.name}' if noise else ''}{', payoffs' if payoffs else ''}"
    return policy_recipe(play, signature, policy, own, more=more, is_ours=noise is None)


@jittable
def _payoff_arms_between(rows: PayoffArms, start: int, end: int) -> PayoffArms:
    return PayoffArms(arm_range(rows.arms, start, end), rows.values[start:end], rows.costs[start:end])


@by_type(PayoffArms, _payoff_arms_between)
def arms_between(rows: Any, start: int, end: int) -> Any:
    """Return the arms from `start` to `end`, exclusive, with their payoffs if they have any."""
    return arm_range(rows, start, end)
