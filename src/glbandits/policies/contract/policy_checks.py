"""Checks of a user's policy before its first use, with a message for each common mistake."""

import dis
import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, replace
from types import FunctionType, ModuleType
from typing import Any, cast

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import GlbanditsError, InvalidInput, check_int
from glbandits.compilation.entry_point import compile_mode
from glbandits.compilation.machine_code import check_is_unchanged
from glbandits.compilation.numba_support import check_reachable
from glbandits.maths.arm_rows import arm_at
from glbandits.maths.links import LINKS, PACKED, find_link, link_reader, own_link
from glbandits.maths.philox import generator
from glbandits.maths.sparse_rows import SparseRows
from glbandits.policies.contract.base import Policy
from glbandits.policies.contract.compiled_calls import checked_arm, checked_bool, checked_state, policy_functions
from glbandits.policies.contract.decisions import decisions_of
from glbandits.policies.contract.settings import packed_names

RANDOM_MODULES = ("random", "numpy.random", "secrets", "time", "uuid")
PARAMETERS = {
    "choose": ("state", "settings", "arms", "rng", "link"),
    "index": ("state", "settings", "arms", "link", "out"),
    "theta": ("state", "settings", "dim", "draw", "rng"),
    "scores": ("state", "settings", "arms", "draw", "rng", "link", "out"),
    "lines": ("state", "settings", "arms", "link", "levels", "slopes"),
    "learn": ("state", "settings", "x", "reward", "rng", "link"),
    "probabilities": ("state", "settings", "arms", "link", "out"),
    "random_share": ("state", "settings"),
    "draw_count": ("state", "settings"),
}


def check_is_policy(policy: object) -> Policy:
    """Return the policy. Raises InvalidInput if it is not an instance of Policy."""
    if isinstance(policy, type) and issubclass(policy, Policy):
        raise InvalidInput(f"policy must be an instance such as {policy.__name__}(); got the class. Add parentheses.")
    if not isinstance(policy, Policy):
        raise InvalidInput(f"policy must be an instance of a subclass of Policy, such as Optimist(); got {policy!r}.")
    return policy


def accepted_links(policy: Policy) -> list[str]:
    """Return the names of the built-in links that a policy accepts: its own alone if it has no setting `link`."""
    record = cast(Any, policy)
    if "link" not in {field.name for field in fields(record)}:
        return [find_link(policy.link).name]
    accepted = []
    for name in LINKS:
        with suppress(InvalidInput):
            replace(record, link=name)
            accepted.append(name)
    return accepted


def check_can_run(policy: object, dim: int) -> None:
    """Raise InvalidInput if this policy cannot run with `dim` features.

    Policies of this package are not tried. A user's policy makes two decisions and learns two rewards on a small trial
    problem, as plain Python.
    """
    policy = check_is_policy(policy)
    check_int("dim", dim, at_least=1)
    kind = policy.implementation(dim)
    if kind.__module__.split(".")[0] == __name__.split(".")[0]:
        return
    _check_class(kind)
    _check_trial(policy, kind, dim)


def _check_class(kind: type[Policy]) -> None:
    name = kind.__name__
    if not isinstance(getattr(kind, "name", None), str):
        raise InvalidInput(f'{name} has no name. Add a line such as `name: ClassVar[str] = "mine"`.')
    if decisions_of(kind).choose is None:
        raise InvalidInput(f"{name} has no rule. Define theta, index, lines or choose: see the docstring of Policy.")
    if not hasattr(kind, "learn"):
        raise InvalidInput(f"{name} has no learn. Define learn(state, settings, x, reward, rng, link) -> state.")
    for function_name, wanted in PARAMETERS.items():
        function = getattr(kind, function_name, None)
        if function is None:
            continue
        names = tuple(inspect.signature(function).parameters)
        if "self" in names:
            raise InvalidInput(
                f"{name}.{function_name} has a parameter self, but compiled code has no object. Remove it, put "
                "@staticmethod above, and read settings from `settings`."
            )
        if len(names) != len(wanted):
            raise InvalidInput(
                f"{name}.{function_name} must take ({', '.join(wanted)}); it takes ({', '.join(names)})."
            )
        digest = check_reachable(function, f"{name}.{function_name}")
        if compile_mode() != "never":
            check_is_unchanged(function, digest.value)


def _check_trial(policy: Policy, kind: type[Policy], dim: int) -> None:
    name = type(policy).__name__
    state = called(f"{name}.init", policy.init, dim)
    if not isinstance(state, np.ndarray) or state.ndim != 1 or state.dtype != np.float64:
        got = f"{state.dtype} of shape {state.shape}" if isinstance(state, np.ndarray) else repr(state)[:60]
        raise InvalidInput(f"{name}.init must return the state, a vector of float64; got {got}.")
    settings = called(f"{name}.packed_settings", policy.packed_settings, dim)
    if not isinstance(settings, np.ndarray) or settings.ndim != 1 or settings.dtype != np.float64:
        raise InvalidInput(f"{name}.packed_settings must return a vector of float64; got {settings!r}.")
    size = PACKED + max(len(packed_names(cast(Any, kind))), 1)
    if len(settings) != size:
        raise InvalidInput(
            f"{name}.packed_settings must return {size} numbers, {PACKED} of the link and one per name; got "
            f"{len(settings)}."
        )
    link = find_link(policy.link)
    functions = link_reader(own_link(link))(settings)
    choose, learn, probabilities, _, unpack, _ = policy_functions(kind)
    named = unpack(settings)
    arms = _trial_arms(policy, dim)
    rng, out = generator(1), np.zeros(3)
    reward = min(max(link.mean(0.0), link.lowest_reward), link.highest_reward)
    with np.errstate(all="ignore"):
        for _ in range(2):
            fixed = state.view()
            fixed.flags.writeable = False  # only `learn` may change the state
            arm = checked_arm(called(f"{name}.choose", choose, fixed, named, arms, rng, functions), 3, kind.name)
            _check_probabilities(name, probabilities, fixed, named, arms, functions, out)
            state = checked_state(
                called(f"{name}.learn", learn, state, named, arm_at(arms, arm), reward, rng, functions)
            )


def _trial_arms(policy: Policy, dim: int) -> Any:
    if not policy.is_sparse:
        arms = np.random.default_rng(1).uniform(-0.5, 0.5, (3, dim))
        arms.flags.writeable = False  # as in machine code, so that a policy that changes arms fails with its line
        return arms
    size = min(dim, 3)
    return SparseRows(np.arange(4) * size, np.tile(np.arange(size), 3), np.full(3 * size, 0.5))


def _check_probabilities(name: str, probabilities: Callable[..., bool], *arguments: Any) -> None:
    exact = checked_bool(called(f"{name}.probabilities", probabilities, *arguments))
    out = cast(Floats, arguments[-1])
    if exact and not (abs(out.sum() - 1.0) < 1e-6 and (out >= 0.0).all()):
        raise InvalidInput(
            f"{name}.probabilities must write numbers of at least 0 that sum to 1, or return False; it wrote {out}."
        )


def called(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a user. Any other error becomes an InvalidInput that names the function and the line."""
    try:
        return function(*arguments)
    except GlbanditsError:
        raise
    except Exception as error:
        if isinstance(error, AttributeError) and type(error.obj).__name__ == "Packed":
            names = ", ".join(cast(Any, error.obj)._fields)
            raise InvalidInput(
                f"{name} reads settings.{error.name}, but compiled code has only {names}. "
                "Correct the name, or add it to compiled_settings."
            ) from error
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise InvalidInput(
            f"{name} failed with {type(error).__name__}: {error}, in line {frame.lineno} of {frame.filename}: "
            f"{frame.line}"
        ) from error


def random_source_of(function: FunctionType) -> str | None:
    """Return the name of the module of random numbers or clocks that a function uses; None if it uses none."""
    return next(filter(None, map(_random_source, _values_read(function))), None)


def _values_read(function: FunctionType) -> Iterator[Any]:
    """Yield every global and closure variable that a function reads, and every attribute of a module."""
    yield from (cell.cell_contents for cell in function.__closure__ or ())
    value: Any = None
    for instruction in dis.get_instructions(function.__code__):
        if instruction.opname == "LOAD_GLOBAL":
            value = function.__globals__.get(instruction.argval)
            yield value
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, ModuleType):
            value = getattr(value, instruction.argval, None)
            yield value
        elif instruction.opname not in ("PRECALL", "CACHE", "PUSH_NULL"):
            value = None


def _random_source(value: Any) -> str | None:
    """Return the module of random numbers or clocks to which a module, function, method or generator belongs."""
    owner = getattr(value, "__self__", value)
    names = [owner.__name__] if isinstance(owner, ModuleType) else [type(owner).__module__]
    names.append(str(getattr(value, "__module__", "")))
    return next((name for name in names if name in RANDOM_MODULES or name.startswith("numpy.random")), None)
