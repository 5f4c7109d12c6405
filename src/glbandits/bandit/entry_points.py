"""Entry points of a Bandit: policy functions with a link and input checks, for dense and for sparse arms.

One entry point serves all built-in links: it reads the link from the packed settings. A user's link has its own.

Compiled code checks the input before it changes the state, which takes very little time. The checks raise an
InvalidInput without a message. `Bandit` then repeats them in Python, with a message.
"""

from collections.abc import Callable
from typing import Any

from numba import types

from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.common.errors import InvalidInput
from glbandits.compilation.numba_support import (
    GENERATOR,
    OPTIONAL_VECTOR,
    READ_INTS,
    READ_MATRIX,
    READ_ROW,
    READ_ROWS,
    READ_VECTOR,
    VECTOR,
    borrowed,
)
from glbandits.compilation.recipe import Recipe
from glbandits.maths.arm_rows import (
    are_usable_arms,
    are_usable_payoffs,
    arm_at,
    arm_count,
    as_arm,
    as_arms,
    as_payoff_arms,
    is_usable_arm,
    offered_range,
    plain_arms,
)
from glbandits.maths.links import Link, is_allowed, link_reader
from glbandits.policies.contract import Policy
from glbandits.policies.contract.compiled_calls import (
    checked_arm,
    checked_bool,
    checked_state,
    policy_functions,
)


def arms_type(policy: type[Policy], payoffs: bool = False) -> Any:
    """The Numba type of the arms that an entry point of this policy takes.

    With `payoffs` it is the type of a tuple of the arms, their values and their costs.
    """
    arms = READ_ROWS if policy.is_sparse else READ_MATRIX
    return types.Tuple([arms, READ_VECTOR, READ_VECTOR]) if payoffs else arms  # type: ignore[no-untyped-call]


def _by_payoff(payoffs: bool) -> str:
    return ", payoffs" if payoffs else ""


def policy_recipe(
    function: Callable[..., Any],
    signature: Any,
    policy: type[Policy],
    own: Link | None,
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
        own: the link for which the function is compiled (`own_link`), or None for all built-in links.
        more: a suffix of the name of the entry point.
        is_ours: False if the function calls other code of users than the policy and the link.
        nogil: whether the compiled function releases the GIL.
        work: estimates the number of operations of a call, from its arguments.
    """
    is_ours = is_ours and own is None and policy.__module__.split(".")[0] == __name__.split(".")[0]
    name = f"{policy.name}{f', {own.name}' if own else ''}{', sparse' if policy.is_sparse else ''}{more}"
    return Recipe(function, signature, name, nogil=nogil, check_bounds=not is_ours, work=work)


def choose_recipe(policy: type[Policy], own: Link | None, payoffs: bool = False) -> Recipe:
    """The recipe of `choose`, with a check of the arms. With `payoffs` it takes arms, values and costs."""
    policy_choose, _, _, _, unpack, name = policy_functions(policy, payoffs=payoffs)
    converted = as_payoff_arms if payoffs else as_arms
    link_of = link_reader(own)

    def choose(state: Floats, settings: Floats, dim: int, arms: Any, rng: Generator) -> int:
        offered = converted(borrowed(arms))
        if not are_usable_arms(plain_arms(offered), dim) or not are_usable_payoffs(offered):
            raise InvalidInput
        functions, count = link_of(settings), arm_count(plain_arms(offered))
        return checked_arm(policy_choose(state, unpack(settings), offered, rng, functions), count, name)

    signature = types.int64(VECTOR, READ_VECTOR, types.int64, arms_type(policy, payoffs), GENERATOR)
    return policy_recipe(choose, signature, policy, own, more=_by_payoff(payoffs), nogil=False, work=_work_of_choosing)


def choose_batch_recipe(policy: type[Policy], own: Link | None, payoffs: bool = False) -> Recipe:
    """The recipe of a function that writes the choices of many decisions to `out`.

    The arms of decision i are those from bounds[i] to bounds[i + 1], exclusive. They are checked already.
    """
    policy_choose, _, _, _, unpack, name = policy_functions(policy, payoffs=payoffs)
    converted = as_payoff_arms if payoffs else as_arms
    link_of = link_reader(own)

    def choose_batch(
        state: Floats, settings: Floats, _dim: int, arms: Any, bounds: Ints, rng: Generator, out: Ints
    ) -> None:
        rows, functions, named = converted(borrowed(arms)), link_of(settings), unpack(settings)
        for i in range(out.shape[0]):
            offered = offered_range(rows, bounds[i], bounds[i + 1])
            chosen = policy_choose(state, named, offered, rng, functions)
            out[i] = checked_arm(chosen, bounds[i + 1] - bounds[i], name)

    signature = types.void(
        VECTOR, READ_VECTOR, types.int64, arms_type(policy, payoffs), READ_INTS, GENERATOR, types.int64[::1]
    )
    more = f", choices{_by_payoff(payoffs)}"
    return policy_recipe(choose_batch, signature, policy, own, more=more, work=_work_of_choosing)


def means_recipe(own: Link | None) -> Recipe:
    """The recipe of a function that writes the expected reward of each score to `out`."""
    link_of = link_reader(own)

    def means(settings: Floats, scores: Floats, out: Floats) -> None:
        link = link_of(settings)
        for i in range(scores.shape[0]):
            out[i] = link.mean(scores[i])

    name = f"expected rewards{f', {own.name}' if own else ''}"
    return Recipe(means, types.void(READ_VECTOR, READ_VECTOR, VECTOR), name, check_bounds=own is not None)


def learn_recipe(policy: type[Policy], own: Link | None) -> Recipe:
    """The recipe of `learn`, with a check of arm and reward.

    Returns None if the state was changed in place.
    """
    _, policy_learn, _, _, unpack, _ = policy_functions(policy)
    link_of = link_reader(own)

    def learn(state: Floats, settings: Floats, dim: int, x: Any, reward: float, rng: Generator) -> Floats | None:
        arm = borrowed(x)
        if not is_usable_arm(arm, dim) or not is_allowed(settings, reward):
            raise InvalidInput
        functions = link_of(settings)
        learned = checked_state(policy_learn(state, unpack(settings), as_arm(arm), reward, rng, functions))
        # Returning an array to Python takes as long as learning a reward.
        return None if learned.ctypes.data == state.ctypes.data and learned.shape == state.shape else learned

    x_type = READ_ROW if policy.is_sparse else READ_VECTOR
    signature = OPTIONAL_VECTOR(VECTOR, READ_VECTOR, types.int64, x_type, types.float64, GENERATOR)
    return policy_recipe(learn, signature, policy, own, nogil=False, work=_work_of_learning)


def learn_batch_recipe(policy: type[Policy], own: Link | None) -> Recipe:
    """The recipe of a function that checks all rows, and then learns each of them."""
    _, policy_learn, _, _, unpack, _ = policy_functions(policy)
    link_of = link_reader(own)

    def learn_batch(
        state: Floats, settings: Floats, dim: int, features: Any, rewards: Floats, rng: Generator
    ) -> Floats:
        rows = as_arms(borrowed(features))
        if arm_count(rows) != rewards.shape[0] or not are_usable_arms(rows, dim):
            raise InvalidInput
        for reward in rewards:
            if not is_allowed(settings, reward):
                raise InvalidInput
        functions, named = link_of(settings), unpack(settings)
        for row in range(rewards.shape[0]):
            state = checked_state(policy_learn(state, named, arm_at(rows, row), rewards[row], rng, functions))
        return state

    signature = VECTOR(VECTOR, READ_VECTOR, types.int64, arms_type(policy), READ_VECTOR, GENERATOR)
    return policy_recipe(learn_batch, signature, policy, own, more=", batch", work=_work_of_choosing)


def probabilities_recipe(policy: type[Policy], own: Link | None, payoffs: bool = False) -> Recipe:
    """The recipe of a function that writes exact probabilities to `out`.

    Returns False if there is no exact form.
    """
    _, _, write, _, unpack, _ = policy_functions(policy, payoffs=payoffs)
    converted = as_payoff_arms if payoffs else as_arms
    link_of = link_reader(own)

    def probabilities(state: Floats, settings: Floats, _dim: int, arms: Any, out: Floats) -> bool:
        functions, offered = link_of(settings), converted(borrowed(arms))
        return checked_bool(write(state, unpack(settings), offered, functions, out))

    signature = types.boolean(VECTOR, READ_VECTOR, types.int64, arms_type(policy, payoffs), VECTOR)
    more = _by_payoff(payoffs)
    return policy_recipe(probabilities, signature, policy, own, more=more, nogil=False, work=_work_of_choosing)


def rank_recipe(policy: type[Policy], own: Link | None, payoffs: bool = False) -> Recipe:
    """The recipe of a function that writes a ranking to `order` and returns its probability.

    Returns NO_EXACT_FORM if there is no exact probability.
    """
    _, _, _, policy_rank, unpack, _ = policy_functions(policy)
    converted = as_payoff_arms if payoffs else as_arms
    link_of = link_reader(own)

    def rank(state: Floats, settings: Floats, _dim: int, arms: Any, rng: Generator, order: Ints) -> float:
        functions, offered = link_of(settings), converted(borrowed(arms))
        return float(policy_rank(state, unpack(settings), offered, rng, functions, order))

    signature = types.float64(VECTOR, READ_VECTOR, types.int64, arms_type(policy, payoffs), GENERATOR, types.int64[::1])
    more = f", ranking{_by_payoff(payoffs)}"
    return policy_recipe(rank, signature, policy, own, more=more, nogil=False, work=_work_of_choosing)


def arms_check_recipe(sparse: bool) -> Recipe:
    """The recipe of a check of arms: their shape and their numbers. Other types of arrays raise TypeError."""

    def are_usable(arms: Any, dim: int) -> bool:
        return are_usable_arms(as_arms(arms), dim)

    signature = types.boolean(READ_ROWS if sparse else READ_MATRIX, types.int64)
    return Recipe(are_usable, signature, "check of sparse arms" if sparse else "check of arms", nogil=False)


def _work_of_choosing(state: Floats, _settings: Floats, dim: int, arms: Any, *_rest: Any) -> float:
    if isinstance(arms, tuple) and (isinstance(arms[0], tuple) or arms[0].ndim == 2):  # with payoffs
        arms = arms[0]
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


def _work_of_learning(state: Floats, _settings: Floats, dim: int, x: Any, *_rest: Any) -> float:
    """O(size dim) if the state has a matrix or a history, for a fit.

    Otherwise a few passes over the state, or over the features of a sparse arm.
    """
    if isinstance(x, tuple):
        return 16.0 * float(x[1].size)
    return float(state.size * (dim if state.size >= dim * dim else 16))
