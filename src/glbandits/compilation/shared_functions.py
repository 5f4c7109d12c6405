"""Shared functions: large functions that are compiled once, and called by all compiled code.

Numba compiles a `@jittable` function again into each entry point that calls it. A `@shared` function is compiled alone,
once for each link, into a cache file of its own. Other machine code calls it by a symbol that is named after a digest
of its code, and that `compile_cached` defines before it compiles or loads a caller. For Python it stays a plain
function, with the same results bit for bit.
"""

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from numba import types

from glbandits.compilation import private_numba
from glbandits.compilation.numba_support import jittable, let_compiled_code_call

Signature: TypeAlias = Any
"""The Numba types of a result and of arguments, such as `types.float64(types.int64)`."""
Function = TypeVar("Function", bound=Callable[..., Any])
Link = tuple[Any, ...]
"""A named tuple of functions, or () for a shared function without a link."""


class SharedForm(NamedTuple):
    """A shared function for one link."""

    function: Any
    link: Link
    check_bounds: bool
    code: Any
    """What is compiled. It takes a tuple of all arguments except the link."""

    @property
    def signature(self) -> Signature:
        """The Numba types of the result and of all arguments except the link."""
        return _signatures[self.function]

    @property
    def code_signature(self) -> Signature:
        """The Numba types of the result and of the argument of `code`."""
        arguments: Any = types.Tuple(self.signature.args)  # type: ignore[no-untyped-call]
        return self.signature.return_type(arguments)

    @property
    def name(self) -> str:
        """The name in messages and in the cache, such as "refit, logistic"."""
        return f"{self.function.__name__}, {_links[self.link]}" if self.link else self.function.__name__


Key = tuple[FunctionType, Link, bool]
"""The function, the link and whether bounds are checked."""

_signatures: dict[FunctionType, Signature] = {}
"""The shared functions, and the types of their arguments except the link."""
_links: dict[Link, str] = {}
"""The links for which shared functions are compiled, and their names."""
_forms: dict[Key, SharedForm] = {}
_loaded: dict[Key, tuple[str, Any]] = {}
"""The symbols and Numba's compiled functions of the forms that machine code of this process can call."""


def shared(signature: Signature) -> Callable[[Function], Function]:
    """Decorator, instead of `jittable`: compile this function once, for all code that calls it.

    A call takes a few nanoseconds, and the compiler cannot optimise across it.

    Args:
        signature: the Numba types of the result and of the arguments. A last argument for the link is left out. A
            caller with other types, or with a link of functions that belong to no `Link`, gets the function compiled
            into its own code.
    """

    def decorate(function: Function) -> Function:
        plain = cast(FunctionType, function)

        def implementation(*numba_types: Any, **named_types: Any) -> Any:
            if named_types or not _are_convertible(numba_types, signature.args):
                return plain
            key = _key_of(plain, numba_types)
            return private_numba.call_of(_loaded[key][0], signature) if key in _loaded else plain

        let_compiled_code_call(plain, implementation)
        _signatures[plain] = signature
        return function

    return decorate


def share_for_link(link: Link, name: str) -> None:
    """Let shared functions be compiled for a link, a named tuple of functions."""
    _links[link] = name


def needed_forms(reached: Sequence[FunctionType], check_bounds: bool) -> list[SharedForm]:
    """Return the forms that machine code may call if it consists of these functions. Public Numba can call none."""
    if not private_numba.IS_KNOWN:
        return []
    functions = set(reached)
    links = [link for link in list(_links) if functions.issuperset(link)]
    return [
        shared_form(function, link, check_bounds)
        for function in reached
        if function in _signatures
        for link in (links if _takes_link(function) else [()])
    ]


def shared_form(function: Any, link: Link, check_bounds: bool) -> SharedForm:
    """Return the form of a shared function for a link."""
    key = function, link, check_bounds
    if key not in _forms:
        # The form calls a copy, because compiled code that calls the function itself calls the form.
        body = jittable(FunctionType(function.__code__, function.__globals__, function.__name__))
        form = SharedForm(*key, _with_link(body, link) if link else _without_link(body))
        _forms.setdefault(key, form)  # another thread may have been faster
    return _forms[key]


def _without_link(body: FunctionType) -> FunctionType:
    def form(arguments: Any) -> Any:
        return body(*arguments)

    return cast(FunctionType, form)


def _with_link(body: FunctionType, link: Link) -> FunctionType:
    kind: Any = type(link)
    mean, slope, antiderivative = link

    def form(arguments: Any) -> Any:
        return body(*arguments, kind(mean, slope, antiderivative))

    return cast(FunctionType, form)


def form_with(code: Callable[..., Any]) -> SharedForm | None:
    """Return the form that consists of this code; None if there is none."""
    return next((form for form in list(_forms.values()) if form.code is code), None)


def loaded_code(form: SharedForm) -> Any:
    """Return Numba's compiled function if machine code of this process can call this form; else None."""
    return _loaded[form[:3]][1] if form[:3] in _loaded else None


def define_symbol(form: SharedForm, symbol: str, compiled: Any) -> None:
    """Let machine code call this form by a symbol. `compiled` is Numba's compiled function."""
    private_numba.define_symbol(symbol, compiled)
    _loaded[form[:3]] = symbol, compiled


def _takes_link(function: FunctionType) -> bool:
    return function.__code__.co_argcount > len(_signatures[function].args)


def _key_of(function: FunctionType, numba_types: Sequence[Any]) -> Key:
    """Return the key of the form that a caller with arguments of these types needs."""
    link: Link = ()
    if _takes_link(function):
        link = tuple(getattr(part, "typing_key", None) for part in getattr(numba_types[-1], "types", ()))
    return function, link, private_numba.caller_checks_bounds()


def _are_convertible(numba_types: Sequence[Any], needed: Sequence[Any]) -> bool:
    """Return whether arguments can be passed without a loss, as a writable array for a read-only one."""
    return all(
        kind == wanted or kind.can_convert_to(None, wanted) is not None
        for kind, wanted in zip(map(types.unliteral, numba_types), needed, strict=False)
    )
