"""Entry points of a Bandit: policy functions with a link and input checks, for dense and for sparse arms.

Compiled code checks the input before it changes the state, which takes very little time. The checks raise an
InvalidInput without a message. `Bandit` then repeats them in Python, with a message.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.common.errors import MAX_ABS, InvalidInput
from glbandits.compilation.numba_support import (
    GENERATOR,
    OPTIONAL_VECTOR,
    READ_MATRIX,
    READ_ROW,
    READ_ROWS,
    READ_VECTOR,
    VECTOR,
    borrowed,
)
from glbandits.compilation.recipe import Recipe
from glbandits.maths.arm_rows import are_usable_arms, arm_at, arm_count, as_arm, as_arms, is_usable_arm, usable
from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.vectors import uniform_mass
from glbandits.policies.contract import Policy
from glbandits.policies.contract.compiled_calls import checked_arm, checked_bool, checked_state, policy_functions


def arms_type(policy: type[Policy]) -> Any:
    """The Numba type of the arms that an entry point of this policy takes."""
    return READ_ROWS if policy.is_sparse else READ_MATRIX


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
    name = f"{policy.name}, {link.name}{', sparse' if policy.is_sparse else ''}{more}"
    return Recipe(function, signature, name, nogil=nogil, check_bounds=not is_ours, work=work)


def choose_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of `choose`, with a check of the arms."""
    policy_choose, _, _, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def choose(state: Floats, settings: Floats, dim: int, arms: Any, rng: Generator) -> int:
        offered = as_arms(borrowed(arms))
        if not are_usable_arms(offered, dim):
            raise InvalidInput
        functions = LinkFunctions(mean, slope, antiderivative)
        return checked_arm(policy_choose(state, unpack(settings), offered, rng, functions), arm_count(offered), name)

    signature = types.int64(VECTOR, READ_VECTOR, types.int64, arms_type(policy), GENERATOR)
    return policy_recipe(choose, signature, policy, link, nogil=False, work=_work_of_choosing)


def learn_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of `learn`, with a check of arm and reward.

    Returns None if the state was changed in place.
    """
    _, policy_learn, _, unpack, _ = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative
    lowest, highest = link.lowest_reward, link.highest_reward

    def learn(state: Floats, settings: Floats, dim: int, x: Any, reward: float, rng: Generator) -> Floats | None:
        arm = borrowed(x)
        if not is_usable_arm(arm, dim) or not lowest <= reward <= highest or not abs(reward) <= MAX_ABS:
            raise InvalidInput
        functions = LinkFunctions(mean, slope, antiderivative)
        learned = checked_state(policy_learn(state, unpack(settings), as_arm(arm), reward, rng, functions))
        # Returning an array to Python takes as long as learning a reward.
        return None if learned.ctypes.data == state.ctypes.data and learned.shape == state.shape else learned

    x_type = READ_ROW if policy.is_sparse else READ_VECTOR
    signature = OPTIONAL_VECTOR(VECTOR, READ_VECTOR, types.int64, x_type, types.float64, GENERATOR)
    return policy_recipe(learn, signature, policy, link, nogil=False, work=_work_of_learning)


def learn_batch_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of a function that checks all rows, and then learns each of them."""
    _, policy_learn, _, unpack, _ = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative
    lowest, highest = link.lowest_reward, link.highest_reward

    def learn_batch(
        state: Floats, settings: Floats, dim: int, features: Any, rewards: Floats, rng: Generator
    ) -> Floats:
        rows = as_arms(borrowed(features))
        if arm_count(rows) != rewards.shape[0] or not are_usable_arms(rows, dim) or not usable(rewards):
            raise InvalidInput
        for reward in rewards:
            if not lowest <= reward <= highest:
                raise InvalidInput
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        for row in range(rewards.shape[0]):
            state = checked_state(policy_learn(state, named, arm_at(rows, row), rewards[row], rng, functions))
        return state

    signature = VECTOR(VECTOR, READ_VECTOR, types.int64, arms_type(policy), READ_VECTOR, GENERATOR)
    return policy_recipe(learn_batch, signature, policy, link, more=", batch", work=_work_of_batch)


def probabilities_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of a function that writes exact probabilities to `out`.

    Returns False if there is no exact form.
    """
    _, _, policy_probabilities, unpack, _ = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def probabilities(state: Floats, settings: Floats, _dim: int, arms: Any, out: Floats) -> bool:
        functions, offered = LinkFunctions(mean, slope, antiderivative), as_arms(borrowed(arms))
        return checked_bool(policy_probabilities(state, unpack(settings), offered, functions, out))

    signature = types.boolean(VECTOR, READ_VECTOR, types.int64, arms_type(policy), VECTOR)
    return policy_recipe(probabilities, signature, policy, link, nogil=False, work=_work_of_choosing)


def frequencies_recipe(policy: type[Policy], link: Link) -> Recipe:
    """The recipe of a function that estimates probabilities by trial decisions.

    An arm that was never chosen has 1 / (K (draws + 1)), because its probability need not be 0.
    """
    policy_choose, _, _, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def frequencies(state: Floats, settings: Floats, _dim: int, arms: Any, rng: Generator, draws: int) -> Floats:
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        offered = as_arms(borrowed(arms))
        count = arm_count(offered)
        counts = np.empty(count)
        uniform_mass(counts)
        for _ in range(draws):
            counts[checked_arm(policy_choose(state, named, offered, rng, functions), count, name)] += 1.0
        for a in range(count):
            counts[a] /= draws + 1.0
        return counts

    signature = VECTOR(VECTOR, READ_VECTOR, types.int64, arms_type(policy), GENERATOR, types.int64)
    return policy_recipe(frequencies, signature, policy, link, more=", frequencies", work=_work_of_drawing)


def arms_check_recipe(sparse: bool) -> Recipe:
    """The recipe of a check of arms: their shape and their numbers. Other types of arrays raise TypeError."""

    def are_usable(arms: Any, dim: int) -> bool:
        return are_usable_arms(as_arms(arms), dim)

    signature = types.boolean(READ_ROWS if sparse else READ_MATRIX, types.int64)
    return Recipe(are_usable, signature, "check of sparse arms" if sparse else "check of arms", nogil=False)


def _work_of_choosing(state: Floats, _settings: Floats, dim: int, arms: Any, *_rest: Any) -> float:
    if isinstance(arms, tuple):
        return 16.0 * float(arms[1].size)
    return float(arms.shape[0] * min(state.size, dim * dim))


def work_of_rows(state: Floats, arms: Any, starts: Ints, counts: Ints) -> float:
    """About how many elementary steps the choices of all rows take.

    The arms of row i are the rows of `arms` from `starts[i]` on, as many as `counts[i]`.
    """
    if isinstance(arms, tuple):
        bounds = arms[0]
        return 16.0 * float((bounds[starts + counts] - bounds[starts]).sum())
    return float(counts.sum() * min(state.size, arms.shape[1] ** 2))


def _work_of_batch(state: Floats, _settings: Floats, dim: int, features: Any, *_rest: Any) -> float:
    if isinstance(features, tuple):
        return 16.0 * float(features[1].size)
    return float(features.shape[0] * min(state.size, dim * dim))


def _work_of_drawing(state: Floats, settings: Floats, dim: int, arms: Any, _rng: Generator, draws: int) -> float:
    return draws * (200.0 + _work_of_choosing(state, settings, dim, arms))


def _work_of_learning(state: Floats, _settings: Floats, dim: int, x: Any, *_rest: Any) -> float:
    """O(size dim) if the state has a matrix or a history, for a fit.

    Otherwise a few passes over the state, or over the features of a sparse arm.
    """
    if isinstance(x, tuple):
        return 16.0 * float(x[1].size)
    return float(state.size * (dim if state.size >= dim * dim else 16))
