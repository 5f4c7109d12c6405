"""Small classes whose methods compiled code can call, in the place of a tuple of functions.

A function that takes a tuple of functions is compiled for each of them. If it takes an object of such a class, which
holds a number, it is compiled once, and the methods decide by the number.
"""

from dataclasses import fields
from inspect import signature
from types import FunctionType
from typing import Any, TypeVar

import numba.extending
from numba import types

from glbandits.compilation.code_digest import compiled_methods
from glbandits.compilation.numba_support import OPTIONS_OF_CALLEES, register_python

Kind = TypeVar("Kind", bound=type)
extending: Any = numba.extending


def with_compiled_methods(kind: Kind) -> Kind:
    """Decorator of a frozen dataclass of one integer: compiled code may create objects, and call all public methods.

    Python code uses the class as it is, with the same results bit for bit.
    """
    methods = {name: each for name, each in vars(kind).items() if isinstance(each, FunctionType) and name[0] != "_"}
    compiled_methods[kind] = tuple(methods.values())
    numba_class = _numba_class(kind)
    for name, method in methods.items():
        _let_compiled_code_call_method(numba_class, name, register_python(method))
    return kind


def _numba_class(kind: Any) -> type:
    """Make the Numba type of a dataclass of one integer, with creation and the attribute."""
    (field,) = (each.name for each in fields(kind))
    own = {"instance_class": kind, "__reduce__": lambda _type: (numba_type_of, (kind,))}
    numba_class: Any = type(kind.__name__, (types.Type,), own)
    numba_type, layout = numba_class(f"{kind.__module__}.{kind.__qualname__}"), [(field, types.int64)]
    _numba_types[kind] = numba_type

    def set_layout(model: Any, manager: Any, of_type: Any) -> None:
        extending.models.StructModel.__init__(model, manager, of_type, layout)

    def type_of_call(_context: Any) -> Any:
        return lambda number: numba_type if isinstance(number, types.Integer) else None

    def create(context: Any, builder: Any, called: Any, arguments: Any) -> Any:
        value = context.make_helper(builder, numba_type)
        setattr(value, field, context.cast(builder, arguments[0], called.args[0], types.int64))
        return value._getvalue()

    model = type(f"{kind.__name__}Model", (extending.models.StructModel,), {"__init__": set_layout})
    extending.register_model(numba_class)(model)
    extending.type_callable(kind)(type_of_call)
    extending.lower_builtin(kind, types.Integer)(create)
    extending.make_attribute_wrapper(numba_class, field, field)
    return numba_class  # type: ignore[no-any-return]


def numba_type_of(kind: type) -> Any:
    """Return the Numba type of the objects of a class under `with_compiled_methods`."""
    return _numba_types[kind]


_numba_types: dict[type, Any] = {}


def _let_compiled_code_call_method(numba_class: type, name: str, method: FunctionType) -> None:
    def implementation(*_types: Any) -> FunctionType:
        return method

    implementation.__signature__ = signature(method)  # type: ignore[attr-defined]  # Numba matches arguments by it
    extending.overload_method(numba_class, name, jit_options=OPTIONS_OF_CALLEES, strict=False)(implementation)
