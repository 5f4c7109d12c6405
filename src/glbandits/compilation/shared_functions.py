"""Shared functions: large functions that are compiled once, and called by all compiled code.

Numba compiles a `@jittable` function again into each entry point that calls it. A `@shared` function is compiled alone,
once for all built-in links and once for each user's link, into a cache file of its own. Other machine code calls it by
a symbol that is named after a digest of its code, and that `compile_cached` defines before it compiles or loads a
caller. For Python it stays a plain function, with the same results bit for bit.
"""

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from numba import types

from glbandits.compilation import private_numba
from glbandits.compilation.code_digest import compiled_methods
from glbandits.compilation.compiled_classes import numba_type_of
from glbandits.compilation.numba_support import jittable, let_compiled_code_call

Signature: TypeAlias = Any
"""The Numba types of a result and of arguments, such as `types.float64(types.int64)`."""
Function = TypeVar("Function", bound=Callable[..., Any])
Link: TypeAlias = tuple[Any, ...] | type
"""The functions of a user's link, the class of all built-in links, or () for a shared function without a link."""


class SharedForm(NamedTuple):
    """A shared function for one user's link, or for all built-in links."""

    function: Any
    link: Link
    check_bounds: bool
    code: Any
    """What is compiled: a copy of the function; for a user's link, a function of a tuple of all other arguments."""

    @property
    def signature(self) -> Signature:
        """The Numba types of the result and of the arguments: with a built-in link, without a user's."""
        return _signature_with(self.function, self.link)

    @property
    def is_packed(self) -> bool:
        """Whether `code` takes a tuple of the arguments."""
        return bool(self.link) and not isinstance(self.link, type)

    @property
    def code_signature(self) -> Signature:
        """The Numba types of the result and of the arguments of `code`."""
        signature = self.signature
        return signature.return_type(types.Tuple(signature.args)) if self.is_packed else signature  # type: ignore[no-untyped-call]

    @property
    def name(self) -> str:
        """The name in messages and in the cache, such as "refit", or "refit, cauchit" for a user's link."""
        return ", ".join(filter(None, [self.function.__name__, _links.get(self.link)]))


Key = tuple[FunctionType, Link, bool]
"""The function, the link and whether bounds are checked."""

_signatures: dict[FunctionType, Signature] = {}
"""The shared functions, and the types of their arguments except the link."""
_links: dict[Link, str] = {}
"""The links for which shared functions are compiled, and the names of users' links."""
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
            if key not in _loaded:
                return plain
            form = _forms[key]
            return private_numba.call_of(_loaded[key][0], form.signature, packed=form.is_packed)

        let_compiled_code_call(plain, implementation)
        _signatures[plain] = signature
        return function

    return decorate


def share_for_link(link: tuple[Any, ...], name: str) -> None:
    """Let shared functions be compiled for a user's link, a named tuple of functions."""
    _links[link] = name


def share_for_built_in_links(kind: type) -> None:
    """Let shared functions be compiled for all objects of this class, which is under `with_compiled_methods`."""
    _links[kind] = ""


def _functions_of(link: Link) -> Sequence[Any]:
    return compiled_methods[link] if isinstance(link, type) else link


def _signature_with(function: FunctionType, link: Link) -> Signature:
    """Return the types of a shared function for a link: with a built-in link, but without a user's."""
    signature = _signatures[function]
    return signature.return_type(*signature.args, numba_type_of(link)) if isinstance(link, type) else signature


def needed_forms(reached: Sequence[FunctionType], check_bounds: bool) -> list[SharedForm]:
    """Return the forms that machine code may call if it consists of these functions. Public Numba can call none."""
    if not private_numba.IS_KNOWN:
        return []
    functions = set(reached)
    links = [link for link in list(_links) if functions.issuperset(_functions_of(link))]
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
        # A form is a copy, because compiled code that calls the function itself calls the form.
        body = jittable(FunctionType(function.__code__, function.__globals__, function.__name__))
        if isinstance(link, type):
            body.__defaults__ = (link,)  # never used, but the digest of the code thus has the methods of the class
        form = SharedForm(*key, _packed_form(body, link) if link and not isinstance(link, type) else body)
        _forms.setdefault(key, form)  # another thread may have been faster
    return _forms[key]


def _packed_form(body: FunctionType, link: tuple[Any, ...]) -> FunctionType:
    kind: Any = type(link)
    mean, slope, antiderivative = link

    def form(arguments: Any) -> Any:
        return body(*arguments, kind(mean, slope, antiderivative))

    return cast(FunctionType, form)


def form_with(code: Callable[..., Any]) -> SharedForm | None:
    """Return the form that consists of this code; None if there is none."""
    return next((form for form in list(_forms.values()) if form.code is code), None)


def is_loaded(form: SharedForm) -> bool:
    """Return whether machine code of this process can call this form."""
    return form[:3] in _loaded


def define_symbol(form: SharedForm, symbol: str, compiled: Any) -> None:
    """Let machine code call this form by a symbol. `compiled` is Numba's compiled function."""
    private_numba.define_symbol(symbol, compiled)
    _loaded[form[:3]] = symbol, compiled


def _takes_link(function: FunctionType) -> bool:
    return function.__code__.co_argcount > len(_signatures[function].args)


def _key_of(function: FunctionType, numba_types: Sequence[Any]) -> Key:
    """Return the key of the form that a caller with arguments of these types needs."""
    link: Any = ()
    if _takes_link(function):
        link = getattr(numba_types[-1], "instance_class", None)
        if link not in _links:
            link = tuple(getattr(part, "typing_key", None) for part in getattr(numba_types[-1], "types", ()))
    return function, link, private_numba.caller_checks_bounds()


def _are_convertible(numba_types: Sequence[Any], needed: Sequence[Any]) -> bool:
    """Return whether arguments can be passed without a loss, as a writable array for a read-only one."""
    return all(
        kind == wanted or kind.can_convert_to(None, wanted) is not None
        for kind, wanted in zip(map(types.unliteral, numba_types), needed, strict=False)
    )
