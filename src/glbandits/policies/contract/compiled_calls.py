"""The policy functions that entry points call, and checks of their return values.

Compiled code relies on the arm and the state that a policy returns, so every entry point passes both through a check
of this module. A wrong type is an error at compile time; a wrong arm is an error at run time. The checks take the
returned value. They do not wrap the policy, because Numba optimises a policy again at every level of calls.
"""

import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numba import TypingError, types
from numba.extending import overload

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.compilation.code_digest import digest_of_code
from glbandits.compilation.numba_support import MARKER, jittable, register_python
from glbandits.maths.links import PACKED
from glbandits.policies.contract.base import Policy
from glbandits.policies.contract.decisions import decisions_of
from glbandits.policies.contract.settings import packed_names


class InvalidArm(InvalidInput):
    """A policy chose an arm that does not exist."""

    def __init__(self, policy: str, arm: Any, count: int) -> None:
        super().__init__(f"policy {policy!r} chose arm {arm!r}; choose must return an integer from 0 to {count - 1}.")
        self.arguments = policy, arm, count

    def __reduce__(self) -> Any:
        return type(self), self.arguments


def index_out_of_range(policy: Policy, doing: str) -> InvalidInput:
    """Return the error that replaces an IndexError of a user's policy."""
    return InvalidInput(
        f"policy {policy.name!r} used an index out of range in {doing}, and its state may be damaged. Set "
        "GLBANDITS_COMPILE=never to see the line in Python."
    )


@contextmanager
def convert_index_errors(policy: Policy, doing: str) -> Iterator[None]:
    """Turn an IndexError of a policy into an InvalidInput that names the policy."""
    try:
        yield
    except IndexError as error:
        raise index_out_of_range(policy, doing) from error


class PolicyFunctions(NamedTuple):
    """The functions of a policy class that entry points call."""

    choose: Any
    learn: Any
    probabilities: Any
    rank: Any
    """Ranks arms or PayoffArms. None if the policy has no score for each arm."""
    unpack: Any
    """Converts packed settings to a named tuple."""
    name: str


def policy_functions(kind: Any, *, payoffs: bool = False) -> PolicyFunctions:
    """Return the functions of a policy class, for entry points to close over.

    With `payoffs`, `choose` and `probabilities` take PayoffArms. They are None if the policy has no score for each arm.
    """
    if kind not in _functions:
        functions: tuple[Any, ...] = *decisions_of(kind), kind.learn, unpacker(kind)
        if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
            functions = _findable_copies(kind.__name__, functions)
        _functions[kind] = functions
    choose, probabilities, choose_by_payoff, payoff_probabilities, rank, learn, unpack = _functions[kind]
    if payoffs:
        choose, probabilities = choose_by_payoff, payoff_probabilities
    return PolicyFunctions(choose, learn, probabilities, rank, unpack, kind.name)


_functions: WeakKeyDictionary[type, tuple[Any, ...]] = WeakKeyDictionary()


def unpacker(kind: Any) -> Callable[[Floats], Any]:
    """Return a function from packed settings to a named tuple. Compiled code can call it."""
    if "Packed" not in vars(kind):
        packed: Any = namedtuple("Packed", packed_names(kind) or ("unused",))  # type: ignore[misc]
        packed.__module__, packed.__qualname__ = kind.__module__, f"{kind.__qualname__}.Packed"
        kind.Packed = packed
    items = ", ".join(f"settings[{PACKED + index}]" for index in range(len(kind.Packed._fields)))
    scope = {"named": kind.Packed, "__name__": kind.__module__}
    unpack = eval(f"lambda settings: named({items})", scope)  # Numba cannot pass the items of an array as arguments
    unpack.__name__ = "unpack"
    unpack_settings: Callable[[Floats], Any] = jittable(unpack)
    return unpack_settings


def _findable_copies(name: str, functions: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy functions of a script or notebook into a module named by a digest of their code.

    Numba's cache finds a function by its module and name. Functions of `__main__` would be compiled in every process.
    """
    digest = "".join(digest_of_code(function).value for function in functions if function is not None)
    module = ModuleType(f"glbandits_{name}_{digest}")
    sys.modules[module.__name__] = module
    for original in filter(None, functions):
        copy = FunctionType(
            original.__code__, original.__globals__, original.__name__, original.__defaults__, original.__closure__
        )
        copy.__module__, copy.__qualname__ = module.__name__, original.__name__
        setattr(module, original.__name__, jittable(copy))
    return tuple(None if function is None else getattr(module, function.__name__) for function in functions)


@register_python
def checked_arm(arm: Any, count: int, policy: str) -> int:
    """Return the arm. Raises InvalidInput if it is not an integer from 0 to count - 1."""
    if not isinstance(arm, int | np.integer) or isinstance(arm, bool):
        raise InvalidInput(f"choose must return an integer, the index of an arm; got {arm!r}.")
    if arm < 0 or arm >= count:
        raise InvalidArm(policy, int(arm), count)
    return int(arm)


@overload(checked_arm)
def _compiled_checked_arm(arm: Any, count: int, policy: str) -> Any:
    if not isinstance(arm, types.Integer) or isinstance(arm, types.Boolean):
        raise TypingError(
            f"{MARKER}choose must return an integer, the index of an arm; it can return {arm}. Convert it by int(...)."
        )

    def implementation(arm: Any, count: int, policy: str) -> Any:
        if arm < 0 or arm >= count:
            raise InvalidArm(policy, arm, count)
        return arm

    return implementation


@register_python
def checked_state(learned: Any) -> Floats:
    """Return the state. Raises InvalidInput if it is not a contiguous float64 vector."""
    if (
        isinstance(learned, np.ndarray)
        and learned.dtype == np.float64
        and learned.ndim == 1
        and learned.flags.c_contiguous
    ):
        return learned
    got = f"{learned.dtype} of shape {learned.shape}" if isinstance(learned, np.ndarray) else repr(learned)
    raise InvalidInput(f"learn must return the state, a vector of float64; got {got}. End it with `return state`.")


@overload(checked_state)
def _compiled_checked_state(learned: Any) -> Any:
    if learned != types.float64[::1]:
        raise TypingError(
            f"{MARKER}learn must return the state, a vector of float64, on every path; it can return {learned}. "
            "End it with `return state`."
        )

    def implementation(learned: Any) -> Any:
        return learned

    return implementation


@register_python
def checked_bool(exact: Any) -> bool:
    """Return whether the probabilities are exact. Raises InvalidInput if it is not a bool."""
    if isinstance(exact, bool | np.bool_):
        return bool(exact)
    raise InvalidInput(f"probabilities must return True if it wrote exact probabilities, else False; got {exact!r}.")


@overload(checked_bool)
def _compiled_checked_bool(exact: Any) -> Any:
    if not isinstance(exact, types.Boolean):
        raise TypingError(
            f"{MARKER}probabilities must return True if it wrote exact probabilities, else False; it can return "
            f"{exact}."
        )

    def implementation(exact: Any) -> Any:
        return exact

    return implementation
