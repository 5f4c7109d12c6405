"""The functions of a policy as entry points call them: settings unpacked, and what they return checked.

What a user's policy returns is used as an index and as a state. A wrong type is an error when it is compiled, a wrong
index when it is played; both name the policy.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.core.errors import TypingError
from numba.extending import overload

from glbandits.code_digest import digest_of_code
from glbandits.errors import InvalidInput
from glbandits.maths.links import LinkFunctions
from glbandits.numba_support import MESSAGE, register_python
from glbandits.policy.base import Policy, attach, unpacker
from glbandits.records import Floats, Generator


class InvalidArm(InvalidInput):
    """A policy chose an arm that does not exist."""

    def __init__(self, policy: str, arm: Any, count: int) -> None:
        super().__init__(f"policy {policy!r} chose arm {arm!r}; choose must return an integer from 0 to {count - 1}.")
        self.arguments = policy, arm, count

    def __reduce__(self) -> Any:
        return type(self), self.arguments


def out_of_range(policy: Policy, doing: str) -> InvalidInput:
    """The error for an IndexError that a user's policy caused."""
    return InvalidInput(
        f"policy {policy.name!r} used an index out of range in {doing}, and its state may be damaged. Set "
        "GLBANDITS_COMPILE=never to see the line in Python."
    )


@contextmanager
def index_errors_named(policy: Policy, doing: str) -> Iterator[None]:
    """Turn an IndexError of a policy into an error that names it."""
    try:
        yield
    except IndexError as error:
        raise out_of_range(policy, doing) from error


class CheckedFunctions(NamedTuple):
    """The functions of a policy on packed settings."""

    choose: Any
    learn: Any
    probabilities: Any


def checked_functions(kind: Any) -> CheckedFunctions:
    """The functions of a policy class, made once for each class."""
    if "checked_choose" not in vars(kind):
        _make(kind)
    return CheckedFunctions(kind.checked_choose, kind.checked_learn, kind.checked_probabilities)


def _make(kind: type[Policy]) -> None:
    choose, learn, probabilities = kind.choose, kind.learn, kind.probabilities
    unpack, name = unpacker(kind), kind.name

    def checked_choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        arm = integer(choose(state, unpack(settings), arms, rng, link))
        if arm < 0 or arm >= arms.shape[0]:
            raise InvalidArm(name, arm, arms.shape[0])
        return arm

    def checked_learn(
        state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions
    ) -> Floats:
        return state_array(learn(state, unpack(settings), x, reward, rng, link))

    def checked_probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        return truth(probabilities(state, unpack(settings), arms, link, out))

    attach(kind, checked_choose, checked_learn, checked_probabilities)
    if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
        _make_findable(kind, checked_choose, checked_learn, checked_probabilities)


def _make_findable(kind: type[Policy], *functions: Any) -> None:
    """Put functions of a script or a notebook into a module named for their code.

    Numba's cache knows a function by its module and name. Those of `__main__` would be new in every process.
    """
    digest = "".join(digest_of_code(function).value for function in functions)
    module = ModuleType(f"glbandits_{kind.__name__}_{digest}")
    sys.modules[module.__name__] = module
    for function in functions:
        function.__module__, function.__qualname__ = module.__name__, function.__name__
        setattr(module, function.__name__, function)


@register_python
def integer(arm: Any) -> int:
    """The arm itself; an error if it is not an integer."""
    if isinstance(arm, int | np.integer) and not isinstance(arm, bool):
        return int(arm)
    raise InvalidInput(f"choose must return an integer, the index of an arm; got {arm!r}.")


@overload(integer)
def _compiled_integer(arm: Any) -> Any:
    if not isinstance(arm, types.Integer) or isinstance(arm, types.Boolean):
        raise TypingError(
            f"{MESSAGE}choose must return an integer, the index of an arm; it can return {arm}. Convert it by int(...)."
        )

    def implementation(arm: Any) -> Any:
        return arm

    return implementation


@register_python
def state_array(learned: Any) -> Floats:
    """The state itself; an error if it is not one."""
    if (
        isinstance(learned, np.ndarray)
        and learned.dtype == np.float64
        and learned.ndim == 1
        and learned.flags.c_contiguous
    ):
        return learned
    got = f"{learned.dtype} of shape {learned.shape}" if isinstance(learned, np.ndarray) else repr(learned)
    raise InvalidInput(f"learn must return the state, a vector of float64; got {got}. End it with `return state`.")


@overload(state_array)
def _compiled_state_array(learned: Any) -> Any:
    if learned != types.float64[::1]:
        raise TypingError(
            f"{MESSAGE}learn must return the state, a vector of float64, on every path; it can return {learned}. "
            "End it with `return state`."
        )

    def implementation(learned: Any) -> Any:
        return learned

    return implementation


@register_python
def truth(exact: Any) -> bool:
    """Whether the probabilities are exact; an error if the policy returned no bool."""
    if isinstance(exact, bool | np.bool_):
        return bool(exact)
    raise InvalidInput(f"probabilities must return True if it wrote exact probabilities, else False; got {exact!r}.")


@overload(truth)
def _compiled_truth(exact: Any) -> Any:
    if not isinstance(exact, types.Boolean):
        raise TypingError(
            f"{MESSAGE}probabilities must return True if it wrote exact probabilities, else False; it can return "
            f"{exact}."
        )

    def implementation(exact: Any) -> Any:
        return exact

    return implementation
