"""The compiled functions behind a Bandit: a policy's own, with its link bound and its input checked.

The checks are made where they cost next to nothing, in compiled code, before anything changes. They raise a bare
InvalidInput; `Bandit` then looks again, slowly, to say what was wrong.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from glbandits.numba_support import (
    GENERATOR,
    OPTIONAL_VECTOR,
    READ_MATRIX,
    READ_VECTOR,
    VECTOR,
    compile_cached,
    jittable,
)
from glbandits.errors import LARGEST, InvalidInput
from glbandits.maths.links import Link, LinkFunctions
from glbandits.policies import POLICIES, Policy
from glbandits.records import Floats, Generator


@jittable
def usable(values: Floats) -> bool:
    """Whether every number is finite and not absurdly large."""
    fine = True
    for value in values.flat:
        fine &= bool(abs(value) <= LARGEST)
    return fine


def compile_entry(
    function: Callable[..., Any],
    signature: Any,
    policy: type[Policy],
    link: Link,
    *,
    more: str = "",
    cached: bool = True,
    nogil: bool = True,
) -> Callable[..., Any]:
    """Compile, and cache unless the code of the policy or of the link is not ours to know about."""
    ours = cached and link.built_in and POLICIES.get(policy.name) is policy
    name = f"{policy.name},{link.name}{more}"
    return compile_cached(function, signature=signature, name=name, cached=ours, nogil=nogil)


@cache
def choose_entry(policy: type[Policy], link: Link) -> Callable[..., int]:
    """The checked `choose` of a policy."""
    policy_choose, mean, slope, antiderivative = policy.choose, link.mean, link.slope, link.antiderivative

    def choose(state: Floats, settings: Floats, dim: int, arms: Floats, rng: Generator) -> int:
        if arms.shape[0] == 0 or arms.shape[1] != dim or not usable(arms):
            raise InvalidInput
        return policy_choose(state, settings, arms, rng, LinkFunctions(mean, slope, antiderivative))

    signature = types.int64(VECTOR, READ_VECTOR, types.int64, READ_MATRIX, GENERATOR)
    return compile_entry(choose, signature, policy, link, nogil=False)


@cache
def learn_entry(policy: type[Policy], link: Link) -> Callable[..., Floats | None]:
    """The checked `learn` of a policy. Gives the state only if it is a new array, not if it changed in place."""
    policy_learn, mean, slope, antiderivative = policy.learn, link.mean, link.slope, link.antiderivative
    lowest, highest = link.lowest_reward, link.highest_reward

    def learn(state: Floats, settings: Floats, dim: int, x: Floats, reward: float, rng: Generator) -> Floats | None:
        if x.shape[0] != dim or not usable(x) or not lowest <= reward <= highest or not abs(reward) <= LARGEST:
            raise InvalidInput
        learned = policy_learn(state, settings, x, reward, rng, LinkFunctions(mean, slope, antiderivative))
        # Handing an array back to Python costs as much as learning a reward.
        return None if learned.ctypes.data == state.ctypes.data else learned

    signature = OPTIONAL_VECTOR(VECTOR, READ_VECTOR, types.int64, READ_VECTOR, types.float64, GENERATOR)
    return compile_entry(learn, signature, policy, link, nogil=False)


@cache
def learn_batch_entry(policy: type[Policy], link: Link) -> Callable[..., Floats]:
    """`learn` for every row in turn, after all of them were checked."""
    policy_learn, mean, slope, antiderivative = policy.learn, link.mean, link.slope, link.antiderivative
    lowest, highest = link.lowest_reward, link.highest_reward

    def learn_batch(
        state: Floats, settings: Floats, dim: int, features: Floats, rewards: Floats, rng: Generator
    ) -> Floats:
        if features.shape != (rewards.shape[0], dim) or not usable(features) or not usable(rewards):
            raise InvalidInput
        for reward in rewards:
            if not lowest <= reward <= highest:
                raise InvalidInput
        link_functions = LinkFunctions(mean, slope, antiderivative)
        for row in range(rewards.shape[0]):
            state = policy_learn(state, settings, features[row], rewards[row], rng, link_functions)
        return state

    signature = VECTOR(VECTOR, READ_VECTOR, types.int64, READ_MATRIX, READ_VECTOR, GENERATOR)
    return compile_entry(learn_batch, signature, policy, link)


@cache
def probabilities_entry(policy: type[Policy], link: Link) -> Callable[..., bool]:
    """The exact chances of a policy, where it has them: writes them into `out` and says whether it did."""
    policy_probabilities, mean, slope, antiderivative = policy.probabilities, link.mean, link.slope, link.antiderivative

    def probabilities(state: Floats, settings: Floats, arms: Floats, out: Floats) -> bool:
        return policy_probabilities(state, settings, arms, LinkFunctions(mean, slope, antiderivative), out)

    signature = types.boolean(VECTOR, READ_VECTOR, READ_MATRIX, VECTOR)
    return compile_entry(probabilities, signature, policy, link, nogil=False)


@cache
def frequencies_entry(policy: type[Policy], link: Link) -> Callable[..., Floats]:
    """How often `choose` picks each arm: the chances of a rule that has no exact form, by its own draws."""
    policy_choose, mean, slope, antiderivative = policy.choose, link.mean, link.slope, link.antiderivative

    def frequencies(state: Floats, settings: Floats, arms: Floats, rng: Generator, draws: int) -> Floats:
        link_functions = LinkFunctions(mean, slope, antiderivative)
        shares = np.zeros(arms.shape[0])
        for _ in range(draws):
            shares[policy_choose(state, settings, arms, rng, link_functions)] += 1.0
        return shares / draws

    signature = VECTOR(VECTOR, READ_VECTOR, READ_MATRIX, GENERATOR, types.int64)
    return compile_entry(frequencies, signature, policy, link)
