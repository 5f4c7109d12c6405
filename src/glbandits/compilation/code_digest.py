"""A digest of a function with all functions and constants that it uses.

The digest is part of the name under which machine code is cached, so that an edit anywhere leads to a new compilation.
"""

import dis
from collections.abc import Callable, Iterator
from hashlib import sha256
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numba.extending import is_jitted

PLAIN = (int, float, complex, str, bytes, bool, type(None), np.generic)
"""Types of constants whose repr identifies the value."""
compiled_methods: dict[type, tuple[FunctionType, ...]] = {}
"""The classes whose objects compiled code can create, and their methods that it can call."""


class CodeDigest(NamedTuple):
    """The digest of an entry point."""

    value: str
    is_complete: bool
    """False if the code uses an object that cannot be digested. Machine code must then not be cached on disk."""
    functions: tuple[FunctionType, ...]
    """Every Python function that the entry point calls, directly or indirectly."""


def digest_of_code(function: Callable[..., Any]) -> CodeDigest:
    """Digest a function with everything that it and the functions it calls refer to.

    >>> def half(x):
    ...     return x / 2
    >>> def entry(x):
    ...     return half(x) + 1
    >>> [called.__name__ for called in digest_of_code(entry).functions]
    ['half']
    """
    assert isinstance(function, FunctionType)
    walk = _CodeWalk()
    walk.function(function)
    return CodeDigest(walk.digest.hexdigest()[:16], walk.is_complete, tuple(walk.functions[1:]))


class _CodeWalk:
    """A recursive walk over functions and their constants, all of which it adds to one digest."""

    def __init__(self) -> None:
        self.digest = sha256()
        self.functions: list[FunctionType] = []
        self.is_complete = True
        self._seen: set[int] = set()

    def function(self, function: FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        self.functions.append(function)
        self._text(function.__name__)
        self._code(function.__code__)
        for default in function.__defaults__ or ():
            self._value(default)
        cells = function.__closure__ or ()
        for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
            self._text(name)
            self._value(cell.cell_contents)
        for name, value in _values_read_by(function):
            self._text(name)
            self._value(value)

    def _code(self, code: CodeType) -> None:
        self.digest.update(code.co_code)
        self._text(" ".join(code.co_names))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant)
            else:
                self._value(constant)

    def _value(self, value: Any) -> None:
        if is_jitted(value):
            value = value.py_func
        if isinstance(value, FunctionType):
            self.function(value)
        elif isinstance(value, PLAIN):
            self._text(f"{type(value).__name__} {value!r}")
        elif isinstance(value, tuple | frozenset):
            for item in sorted(value, key=repr) if isinstance(value, frozenset) else value:
                self._value(item)
        elif isinstance(value, np.ndarray):
            self._text(f"{value.dtype} {value.shape}")
            self.digest.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, type):
            self._text(f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', '')}")
            for method in compiled_methods.get(value, ()):
                self.function(method)
        elif isinstance(value, ModuleType) or type(value).__name__ in ("builtin_function_or_method", "ufunc"):
            self._text(repr(getattr(value, "__name__", "")))
        else:
            self._text(type(value).__qualname__)
            self.is_complete = False

    def _text(self, text: str) -> None:
        self.digest.update(text.encode() + b"\0")


def _values_read_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each global and module attribute that a function reads.

    For a module of which it does not read an attribute at once, the value is an object that cannot be digested.
    """
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    enclosing = {name: cell.cell_contents for name, cell in cells}
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        loaded: Any = None
        for instruction in dis.get_instructions(code):
            name, operation = instruction.argval, instruction.opname
            if operation in ("PRECALL", "CACHE", "PUSH_NULL", "EXTENDED_ARG"):
                continue
            if isinstance(loaded, ModuleType):
                if operation in ("LOAD_ATTR", "LOAD_METHOD"):
                    loaded = getattr(loaded, name, None)
                    if not isinstance(loaded, ModuleType) and not _belongs_to_a_library(loaded):
                        yield name, loaded
                    continue
                yield loaded.__name__, object()
            loaded = None
            if operation == "LOAD_GLOBAL" and name in function.__globals__:
                loaded = function.__globals__[name]
                yield name, loaded
            elif operation == "LOAD_DEREF":
                loaded = enclosing.get(name)


def _belongs_to_a_library(value: Any) -> bool:
    """Return whether Numba has its own implementation of this function, as for NumPy and math."""
    module = getattr(value, "__module__", None) or ""
    return not isinstance(value, (*PLAIN, tuple, frozenset, np.ndarray)) and module.split(".")[0] in (
        "numpy",
        "math",
        "builtins",
        "numba",
        "_operator",
        "",
    )
