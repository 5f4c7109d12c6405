"""Compilation of entry points and shared functions into machine code, which is cached on disk."""

import re
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

import numba

from glbandits.common.code_references import is_own
from glbandits.common.errors import InvalidInput
from glbandits.compilation.code_digest import digest_of_code
from glbandits.compilation.compile_errors import COMPILE_ERRORS, explained
from glbandits.compilation.numba_support import check_reachable
from glbandits.compilation.private_numba import NO_C_WRAPPER, ONLY_SYMBOL, cache_only_with, compiler_lock
from glbandits.compilation.shared_functions import SharedForm, define_symbol, form_with, is_loaded, needed_forms

Function = TypeVar("Function", bound=Callable[..., Any])


class EntryName(NamedTuple):
    """The name of an entry point or shared form in Numba's cache."""

    text: str
    """The name with a digest of all code that the function calls. An edit of any of that code changes the name."""
    is_complete: bool
    """Whether the digest covers all of that code. If not, the machine code is not cached on disk."""
    needs: list[SharedForm]
    """The shared forms that the machine code may call, each after those that it may call itself."""
    functions: frozenset[FunctionType]
    """The functions that are compiled into the machine code, without those of shared forms."""


def entry_name(function: Callable[..., Any], name: str, check_bounds: bool) -> EntryName:
    """Name an entry point. Raises InvalidInput if it calls a function without `@jittable`."""
    assert isinstance(function, FunctionType)
    known = _names.get(function)
    if known is None:
        digest = check_reachable(function, name)
        needs = sorted(needed_forms(digest.functions, check_bounds), key=lambda form: len(_name_of(form).needs))
        code = sha256(" ".join([digest.value, *map(_symbol, needs)]).encode()).hexdigest()[:16]
        checked = ",checked" if check_bounds else ""
        safe = re.sub(r"[^\w ,.+=()-]", "_", name)[:100]  # names of links and policies come from users
        scope = re.sub("[<>]", "", function.__code__.co_qualname)  # Numba leaves them out of the names of files
        text = f"{scope}[{safe}]({code}{checked})"
        elsewhere = frozenset[FunctionType]().union(*(_name_of(form).functions for form in needs))
        own = frozenset(digest.functions) - elsewhere
        known = _names.setdefault(function, EntryName(text, digest.is_complete, needs, own))
        function.__qualname__ = known.text  # Numba names its cache files by it
    return known


def _name_of(form: SharedForm) -> EntryName:
    return entry_name(form.code, form.name, form.check_bounds)


def _symbol(form: SharedForm) -> str:
    """Return the name by which machine code calls a form. It identifies the code and the types of the arguments."""
    name = _name_of(form)
    identity = (name.text, str(form.signature), None if name.is_complete else id(form))
    return f"glbandits_{form.function.__name__}_{sha256(repr(identity).encode()).hexdigest()[:24]}"


_names: WeakKeyDictionary[FunctionType, EntryName] = WeakKeyDictionary()


_digests: WeakKeyDictionary[FunctionType, str] = WeakKeyDictionary()
"""The digest of each function of users when it was compiled first."""


def check_is_unchanged(function: FunctionType, digest: str) -> None:
    """Raise InvalidInput if a function has another digest than when it was compiled: machine code keeps old values."""
    if _digests.get(function, digest) != digest:
        raise InvalidInput(
            f"a variable or function that {function.__qualname__} reads has changed since it was compiled, and "
            "compiled code keeps the old value. Make it a setting, define the class again, or restart Python"
        )


def _note_compiled(functions: Iterable[FunctionType]) -> None:
    """Note the digests of functions of users before they are compiled. Raises InvalidInput if one has changed."""
    for function in filter(is_own, functions):
        digest = digest_of_code(function).value
        check_is_unchanged(function, digest)
        _digests[function] = digest


def cache_folder(function: Callable[..., Any]) -> Path | None:
    """Return the folder of Numba's cache for an entry point; None if no folder is writable."""
    try:
        dispatcher: Any = numba.njit(cache=True)(function)
    except RuntimeError:
        return None
    return Path(dispatcher.stats.cache_path)


def cache_files(function: Callable[..., Any]) -> list[Path]:
    """Return Numba's files with the machine code of an entry point that `entry_name` has named."""
    folder = cache_folder(function)
    if folder is None or not folder.is_dir():
        return []
    return [file for file in folder.iterdir() if f".{function.__qualname__}-" in file.name]


def compile_cached(
    function: Function, *, signature: Any, name: str, nogil: bool = True, check_bounds: bool = False
) -> Function:
    """Compile an entry point for exactly one signature, and cache the machine code on disk.

    The compiled function raises TypeError for arguments of another type; it never compiles a second version. Callers
    can therefore try first, and convert their arguments only after a TypeError. With `nogil` the function releases the
    GIL. Reacquiring the GIL takes 0.1 microseconds, so short functions should keep it. Only machine code calls the form
    of a shared function, so a form is returned as it is. Raises InvalidInput if the code cannot be compiled.
    """
    with compiler_lock:
        form = form_with(function)
        if form is not None and is_loaded(form):
            return function
        entry = entry_name(function, name, check_bounds)
        _note_compiled(entry.functions)
        for needed in entry.needs:  # an error gets the name of the caller
            compile_cached(needed.code, signature=needed.code_signature, name=name, check_bounds=check_bounds)
        is_cachable = entry.is_complete and cache_folder(function) is not None
        options: dict[str, Any] = {
            "nogil": nogil,
            "error_model": "numpy",
            "boundscheck": check_bounds,
            "cache": is_cachable,
            **(NO_C_WRAPPER if form is None else ONLY_SYMBOL),
        }
        try:
            compiled: Any = numba.njit(**options)(function)
            if is_cachable:
                cache_only_with(compiled, map(_symbol, entry.needs))
            compiled.compile(signature)
            compiled.disable_compile()
        except COMPILE_ERRORS as error:
            raise explained(error, name, digest_of_code(function).functions) from None
        except Exception:
            if not (is_cachable and (files := cache_files(function))):
                raise
            for file in files:  # one of them is damaged
                file.unlink(missing_ok=True)
            return compile_cached(function, signature=signature, name=name, nogil=nogil, check_bounds=check_bounds)
        if form is None:
            return cast(Function, compiled)
        define_symbol(form, _symbol(form), compiled)
        return function
