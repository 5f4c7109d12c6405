"""The identity of a value: a digest of its content, which is the same in every process.

A store of results finds a result by the identity of what made it. So two values may share an identity only if they
behave alike, and a value whose content cannot be read is refused.

- Numbers, text, arrays, frames and tuples count by content, and so do sets and frozen dataclasses. `0.0`, `-0.0`, `0`
  and `False` are four different values.
- Lists, dicts and other objects count by content too, and by which of them are the same object.
- Objects count by their class and by what `pickle` would store, without cached properties. A class with a method
  `__identity__` counts by what that method returns instead.
- Functions and classes count by name and content (`code_references.py`).
"""

import copyreg
import functools
from collections import deque
from collections.abc import Iterable
from enum import Enum
from hashlib import blake2b
from io import BytesIO
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from glbandits.common.code_references import (
    class_content,
    function_content,
    library_of,
    library_or_sources,
    module_content,
    module_of,
    name_of,
)
from glbandits.common.errors import InvalidInput
from glbandits.common.user_code import described_error

C_FUNCTIONS: tuple[type, ...] = tuple(
    type(each) for each in (str.join, str.__add__, "".__str__, FunctionType.__code__, FunctionType.__globals__,
                            dict.__dict__["fromkeys"], np.add)
)  # fmt: skip
"""Types of functions and attributes of classes that are written in C. They count by name."""
WITHOUT_DATA = ("_thread.lock", "_thread.RLock", "threading.RLock", "logging.Logger", "logging.RootLogger")
"""Classes of objects without data that a computation uses. They count by name."""
IMMUTABLE = (int, float, complex, str, bytes, tuple)
LONGEST_PATH = 300


def identity_of(value: object, name: str = "the value") -> str:
    """Return the identity of a value: 32 hexadecimal digits.

    Raises InvalidInput if the content of a part cannot be read, such as that of an open file. `name` is what the
    message calls the value.

    >>> identity_of([1, 2.0]) == identity_of([1, 2.0]), identity_of([1, 2]) == identity_of([1, 2.0])
    (True, False)
    >>> first, second = np.zeros(5000), np.zeros(5000)
    >>> second[2500] = 1.0
    >>> identity_of(first) == identity_of(second)
    False
    """
    try:
        return _Walk(name).run(value)
    except RecursionError:
        raise InvalidInput(
            f"{name} is nested too deeply to be identified; give its class a method __identity__() that returns the "
            "values which determine it"
        ) from None


class _Part(NamedTuple):
    """An object whose content is still to be added to the digest."""

    value: Any
    path: str


class _Walk:
    """A walk over a value and all that it refers to.

    Objects with an identity of their own are numbered in the order in which the walk meets them. Where one is met, its
    number is added to the digest; its content is added once, later. So cycles end.
    """

    def __init__(self, name: str) -> None:
        self._digest = blake2b(digest_size=16)
        self._name = name
        self._numbers: dict[int, int] = {}
        self._pending: deque[_Part] = deque()
        self._kept: list[object] = []  # so that no id is used twice

    def run(self, value: object) -> str:
        self._add(value, self._name)
        while self._pending:
            part = self._pending.popleft()
            self._text("content")
            self._content(part.value, part.path)
        return self._digest.hexdigest()

    def _text(self, *texts: str) -> None:
        for text in texts:
            data = text.encode("utf-8", "surrogatepass")
            self._digest.update(b"%d:" % len(data) + data)

    def _bytes(self, kind: str, data: Any) -> None:
        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        self._text(kind, str(view.nbytes))
        self._digest.update(view)

    def _add(self, value: Any, path: str) -> None:
        """Add a value: scalars and immutable values with their content, other objects with their number."""
        kind = type(value)
        if value is None or value is Ellipsis or value is NotImplemented or kind in (bool, int):
            self._text(kind.__name__, str(value))
        elif kind is float:
            self._text("float", value.hex())
        elif kind is complex:
            self._text("complex", value.real.hex(), value.imag.hex())
        elif kind is str:
            self._text("str", value)
        elif kind in (bytes, bytearray):
            self._bytes(kind.__name__, value)
        elif kind is tuple:
            self._items("tuple", value, path)
        elif kind in (set, frozenset):
            self._text(kind.__name__, *sorted(_Walk(f"an element of {path}").run(item) for item in value))
        elif kind is np.ndarray:
            self._array(value, path)
        elif isinstance(value, np.generic):
            self._text("scalar")
            self._array(np.asarray(value), path)
        elif isinstance(value, Enum):
            self._text("enum", value.name)
            self._add(kind, f"the class of {path}")
        elif kind is CodeType:
            self._code(value, path)
        elif isinstance(value, IMMUTABLE) or _is_frozen_dataclass(kind):
            self._text("immutable")
            self._content(value, path)
        else:
            number = self._numbers.setdefault(id(value), len(self._numbers))
            self._text("object", str(number))
            if number == len(self._kept):
                self._kept.append(value)
                short = path if len(path) <= LONGEST_PATH else f"{path[:100]} ... {path[-100:]}"
                self._pending.append(_Part(value, short))

    def _items(self, kind: str, items: Any, path: str) -> None:
        self._text(kind, str(len(items)))
        for index, item in enumerate(items):
            self._add(item, f"{path}[{index}]")

    def _array(self, array: np.ndarray[Any, Any], path: str) -> None:
        self._text("array", repr(array.dtype.descr if array.dtype.names else array.dtype.str), str(array.shape))
        if array.dtype.hasobject:
            self._items("objects", array.ravel().tolist(), path)
        else:
            self._bytes("numbers", np.ascontiguousarray(array).reshape(-1).view(np.uint8))

    def _code(self, code: CodeType, path: str) -> None:
        self._bytes("code", code.co_code)
        signature = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        self._add((signature, code.co_names, code.co_varnames, code.co_freevars, code.co_consts), path)
        self._bytes("exceptions", code.co_exceptiontable)

    def _content(self, value: Any, path: str) -> None:
        """Add the content of an object."""
        kind = type(value)
        method = getattr(kind, "__identity__", None)
        if method is not None:
            self._add(kind, f"the class of {path}")
            try:
                returned = method(value)
            except RecursionError:
                raise
            except Exception as error:
                raise _refused(value, path, f"__identity__ raised {described_error(error)}") from error
            self._add(returned, f"{path}.__identity__()")
        elif kind is list:
            self._items("list", value, path)
        elif kind in (dict, MappingProxyType):
            self._text(kind.__name__, str(len(value)))
            for key, item in value.items():
                self._pair(key, item, path)
        elif isinstance(value, set | frozenset):
            self._parts("a set", [("class", kind), ("items", frozenset(value)), *_attributes(value)], path)
        elif isinstance(value, FunctionType):
            self._parts("function", function_content(value), path)
        elif isinstance(value, type):
            self._parts("class", class_content(value), path)
        elif isinstance(value, ModuleType):
            self._parts("module", module_content(value), path)
        elif isinstance(getattr(value, "py_func", None), FunctionType):  # compiled by Numba
            self._add(value.py_func, path)
        elif isinstance(value, MethodType):
            self._parts("method", [("function", value.__func__), ("self", value.__self__)], path)
        elif isinstance(value, BuiltinFunctionType):
            self._parts(f"builtin {value.__qualname__}", _builtin_content(value), path)
        elif isinstance(value, np.ufunc) and value.__name__.endswith("(vectorized)"):
            raise _refused(value, path, "numpy.frompyfunc hides the function that it calls")
        elif isinstance(value, C_FUNCTIONS):
            owner, plain = getattr(value, "__objclass__", None), getattr(value, "__name__", "")
            self._parts(f"C function {getattr(value, '__qualname__', plain)}", [("owner", owner)], path)
        elif isinstance(value, staticmethod | classmethod):
            self._parts(kind.__name__, [("function", value.__func__)], path)
        elif isinstance(value, property):
            self._parts("property", [("get", value.fget), ("set", value.fset), ("delete", value.fdel)], path)
        elif isinstance(value, functools._lru_cache_wrapper):
            self._parts("cache", [("function", value.__wrapped__)], path)
        elif name_of(kind) in WITHOUT_DATA:
            self._text(name_of(kind), str(getattr(value, "name", "")))
        elif (table := _table_content(value)) is not None:
            self._parts("table", [("class", kind), *table], path)
        else:
            self._instance(value, path)

    def _pair(self, key: object, item: object, path: str) -> None:
        self._add(key, f"a key of {path}")
        self._add(item, f"{path}[{key!r:.50}]" if isinstance(key, str | int) else f"an item of {path}")

    def _parts(self, kind: str, parts: Iterable[tuple[str, Any]], path: str) -> None:
        self._text(kind)
        for name, part in parts:
            self._text(name)
            self._add(part, f"{path}.{name}" if name else path)

    def _instance(self, value: Any, path: str) -> None:
        """Add the class of an object, and what `pickle` would store of it."""
        kind = type(value)
        self._text("instance")
        self._add(kind, f"the class of {path}")
        try:
            reduce = copyreg.dispatch_table.get(kind)  # as `pickle` does
            reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
            if isinstance(reduced, str):
                module = module_of(value)
                self._text("global", reduced, module, str(library_of(module)))
                return
            build, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        except RecursionError:
            raise
        except Exception as error:
            raise _refused(value, path, f"{type(error).__name__}: {error}") from None
        self._add(build, path)
        self._add(arguments, path)
        self._state(value, state, path)
        self._items("items", list(items or ()), path)
        for key, item in pairs or ():
            self._pair(key, item, path)

    def _state(self, value: Any, state: Any, path: str) -> None:
        """Add the attributes of an object by name, without cached properties; a state of another form as it is."""
        kind: Any = type(value)
        is_default = kind.__getstate__ is object.__getstate__  # a dict, or a pair of dicts: the second of slots
        parts = state if is_default and isinstance(state, tuple) else (state,)
        if not all(part is None or _is_named(part) for part in parts):
            self._add(state, path)
            return
        cached = {name for base in kind.__mro__ for name, attribute in vars(base).items()
                  if isinstance(attribute, functools.cached_property)}  # fmt: skip
        attributes = [pair for part in parts for pair in (part or {}).items() if pair[0] not in cached]
        self._parts(f"state of {len(attributes)}", sorted(attributes, key=lambda pair: pair[0]), path)


def _refused(value: object, path: str, reason: str) -> InvalidInput:
    return InvalidInput(
        f"{path} is a {name_of(type(value))}, which cannot be identified ({reason}); remove it, or give the class that "
        "holds it a method __identity__() that returns the values which determine it"
    )


def _builtin_content(function: Any) -> list[tuple[str, Any]]:
    """Return the module of a function that is written in C, or the object of which it is a method."""
    owner = function.__self__
    if owner is not None and not isinstance(owner, ModuleType):
        return [("owner", owner)]
    module = module_of(function) if owner is None else owner.__name__
    return [("module", module), ("library", library_or_sources(module))]


def _attributes(value: object) -> list[tuple[str, Any]]:
    return sorted(getattr(value, "__dict__", {}).items())


def _is_named(state: object) -> bool:
    return type(state) is dict and all(type(name) is str for name in state)


def _is_frozen_dataclass(kind: type) -> bool:
    settings = getattr(kind, "__dataclass_params__", None)
    return settings is not None and bool(settings.frozen)


def _table_content(value: Any) -> list[tuple[str, Any]] | None:
    """Return the content of a table of pandas or Polars or of a sparse matrix of SciPy; None for other objects."""
    kind, package = type(value), type(value).__module__.partition(".")[0]
    if package == "polars" and kind.__name__ in ("DataFrame", "Series"):
        stream = BytesIO()
        (value if kind.__name__ == "DataFrame" else value.to_frame()).write_ipc(stream)
        return [("rows", stream.getvalue())]
    if package == "pandas" and kind.__name__ == "DataFrame":
        columns = [value.iloc[:, index].reset_index(drop=True) for index in range(value.shape[1])]
        return [("columns", value.columns), ("index", value.index), ("values", columns), ("attrs", value.attrs)]
    if package == "pandas" and hasattr(value, "to_numpy") and hasattr(value, "dtype"):  # a Series or an Index
        labels, categories = getattr(value, "index", None), getattr(value.dtype, "categories", None)
        return [
            ("names", [*getattr(value, "names", [value.name])]),
            ("type", str(value.dtype)),
            ("ordered", getattr(value.dtype, "ordered", None)),
            ("attrs", getattr(value, "attrs", None)),
            ("values", value.to_numpy() if categories is None else value.to_numpy(dtype=object)),
            ("categories", None if categories is None else categories.to_numpy()),
            ("labels", str(labels) if type(labels).__name__ == "RangeIndex" else labels),
        ]
    if package == "scipy" and hasattr(value, "tocsr") and hasattr(value, "nnz"):
        rows = value.tocsr()
        return [("shape", rows.shape), ("starts", rows.indptr), ("columns", rows.indices), ("values", rows.data)]
    return None
