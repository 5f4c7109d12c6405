"""Entry points of a dense Bandit: policy functions with a link and input checks.

Compiled code checks the input before it changes the state, which takes very little time. The checks raise an
InvalidInput without a message. `Bandit` then repeats them in Python, with a message.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from glbandits.common.arrays import Floats, Generator
from glbandits.common.errors import MAX_ABS, InvalidInput
from glbandits.compilation.entry_point import EntryPoint, Recipe, entry_point
from glbandits.compilation.numba_support import (
    GENERATOR,
    OPTIONAL_VECTOR,
    READ_MATRIX,
    READ_VECTOR,
    VECTOR,
    borrowed,
    jittable,
)
from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.vectors import uniform_mass
from glbandits.policies.contract import Policy
from glbandits.policies.contract.compiled_calls import checked_arm, checked_bool, checked_state, policy_functions


@jittable
def usable(values: Floats) -> bool:
    """Whether every absolute value is at most MAX_ABS."""
    valid = True
    for value in values.flat:
        valid &= bool(abs(value) <= MAX_ABS)
    return valid


def policy_recipe(
    function: Callable[..., Any],
    signature: Any,
    policy: type[Policy],
    link: Link,
    *,
    more: str = "",
    is_ours: bool = True,
    nogil: bool = True,
    work: Callable[..., float] | None = None,
) -> Recipe:
    """The recipe of an entry point of a policy. Code of users is compiled with bounds checks.

    Args:
        function: the Python function to compile.
        signature: its Numba signature.
        policy: the policy that the function calls.
        link: the link of the policy.
        more: a suffix of the name of the entry point.
        is_ours: False if the function calls other code of users than the policy and the link.
        nogil: whether the compiled function releases the GIL.
        work: estimates the number of operations of a call, from its arguments.
    """
    is_ours = is_ours and link.built_in and policy.__module__.split(".")[0] == __name__.split(".")[0]
    name = f"{policy.name}, {link.name}{more}"
    return Recipe(function, signature, name, nogil=nogil, check_bounds=not is_ours, work=work)


def choose_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of `choose`, with a check of the arms."""
    policy_choose, _, _, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def choose(state: Floats, settings: Floats, dim: int, arms: Floats, rng: Generator) -> int:
        if arms.shape[0] == 0 or arms.shape[1] != dim or not usable(arms):
            raise InvalidInput
        functions = LinkFunctions(mean, slope, antiderivative)
        return checked_arm(policy_choose(state, unpack(settings), borrowed(arms), rng, functions), arms.shape[0], name)

    signature = types.int64(VECTOR, READ_VECTOR, types.int64, READ_MATRIX, GENERATOR)
    return policy_recipe(choose, signature, policy, link, nogil=False, work=_work_of_choosing)


def learn_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of `learn`, with a check of arm and reward.

    Returns None if the state was changed in place.
    """
    _, policy_learn, _, unpack, _ = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative
    lowest, highest = link.lowest_reward, link.highest_reward

    def learn(state: Floats, settings: Floats, dim: int, x: Floats, reward: float, rng: Generator) -> Floats | None:
        if x.shape[0] != dim or not usable(x) or not lowest <= reward <= highest or not abs(reward) <= MAX_ABS:
            raise InvalidInput
        functions = LinkFunctions(mean, slope, antiderivative)
        learned = checked_state(policy_learn(state, unpack(settings), x, reward, rng, functions))
        # Returning an array to Python takes as long as learning a reward.
        return None if learned.ctypes.data == state.ctypes.data and learned.shape == state.shape else learned

    signature = OPTIONAL_VECTOR(VECTOR, READ_VECTOR, types.int64, READ_VECTOR, types.float64, GENERATOR)
    return policy_recipe(learn, signature, policy, link, nogil=False, work=_work_of_learning)


def learn_batch_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of a function that checks all rows, and then learns each of them."""
    _, policy_learn, _, unpack, _ = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative
    lowest, highest = link.lowest_reward, link.highest_reward

    def learn_batch(
        state: Floats, settings: Floats, dim: int, features: Floats, rewards: Floats, rng: Generator
    ) -> Floats:
        if features.shape != (rewards.shape[0], dim) or not usable(features) or not usable(rewards):
            raise InvalidInput
        for reward in rewards:
            if not lowest <= reward <= highest:
                raise InvalidInput
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        features = borrowed(features)
        for row in range(rewards.shape[0]):
            state = checked_state(policy_learn(state, named, features[row], rewards[row], rng, functions))
        return state

    signature = VECTOR(VECTOR, READ_VECTOR, types.int64, READ_MATRIX, READ_VECTOR, GENERATOR)
    return policy_recipe(learn_batch, signature, policy, link, more=", batch")


def probabilities_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of a function that writes exact probabilities to `out`.

    Returns False if there is no exact form.
    """
    _, _, policy_probabilities, unpack, _ = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def probabilities(state: Floats, settings: Floats, _dim: int, arms: Floats, out: Floats) -> bool:
        functions = LinkFunctions(mean, slope, antiderivative)
        return checked_bool(policy_probabilities(state, unpack(settings), borrowed(arms), functions, out))

    signature = types.boolean(VECTOR, READ_VECTOR, types.int64, READ_MATRIX, VECTOR)
    return policy_recipe(probabilities, signature, policy, link, nogil=False, work=_work_of_choosing)


def frequencies_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of a function that estimates probabilities by trial decisions.

    An arm that was never chosen has 1 / (K (draws + 1)), because its probability need not be 0.
    """
    policy_choose, _, _, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def frequencies(state: Floats, settings: Floats, _dim: int, arms: Floats, rng: Generator, draws: int) -> Floats:
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        arms, count = borrowed(arms), arms.shape[0]
        counts = np.empty(count)
        uniform_mass(counts)
        for _ in range(draws):
            counts[checked_arm(policy_choose(state, named, arms, rng, functions), count, name)] += 1.0
        for a in range(count):
            counts[a] /= draws + 1.0
        return counts

    signature = VECTOR(VECTOR, READ_VECTOR, types.int64, READ_MATRIX, GENERATOR, types.int64)
    return policy_recipe(frequencies, signature, policy, link, more=", frequencies", work=_work_of_drawing)


def arms_check_recipe() -> Recipe:
    """The recipe of a check that arms are (K, dim) with valid numbers.

    Other types of arrays raise TypeError.
    """

    def are_usable(arms: Floats, dim: int) -> bool:
        return arms.shape[0] > 0 and arms.shape[1] == dim and usable(arms)

    signature = types.boolean(READ_MATRIX, types.int64)
    return Recipe(are_usable, signature, "check of arms", nogil=False)


def arms_check() -> EntryPoint:
    """The entry point that checks arms."""
    return entry_point(arms_check_recipe)


def _work_of_choosing(state: Floats, _settings: Floats, dim: int, arms: Floats, *_rest: Any) -> float:
    return float(arms.shape[0] * min(state.size, dim * dim))


def _work_of_drawing(state: Floats, settings: Floats, dim: int, arms: Floats, _rng: Generator, draws: int) -> float:
    return draws * (200.0 + _work_of_choosing(state, settings, dim, arms))


def _work_of_learning(state: Floats, _settings: Floats, dim: int, *_rest: Any) -> float:
    """O(size dim) if the state has a matrix or a history, for a fit.

    Otherwise a few passes over the state.
    """
    return float(state.size * (dim if state.size >= dim * dim else 16))
