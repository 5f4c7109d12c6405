"""All private parts of Numba and llvmlite that the package uses. No other module names one.

They save time: functions that are compiled once for all callers, and slices without reference counting. If the
installed Numba lacks one of them (`PARTS`), or is of a version that was not tested (`TESTED`), `IS_KNOWN` is False.
Then public Numba does the work: the results are the same bits, user code keeps its bounds checks, and compilation takes
longer.

Public, and used by other modules too, is what Numba documents: `njit`, `types`, `config`, the errors that `numba`
exports, `numba.extending`, and of a compiled function `compile`, `disable_compile`, `py_func`, `stats`.
"""

import re
import threading
from collections.abc import Callable, Iterable
from pkgutil import resolve_name
from typing import Any

import numba
from numba import types
from numba.extending import intrinsic

TESTED = (0, 61), (0, 69)
"""The oldest tested version of Numba, and the first that is not tested. pyproject.toml has the same."""
PARTS = (
    "llvmlite.binding:add_symbol",
    "llvmlite.binding:get_host_cpu_name",
    "numba.core.caching:FunctionCache._impl_class.check_cachable",
    "numba.core.callconv:CPUCallConv.call_function",
    "numba.core.callconv:CPUCallConv.get_function_type",
    "numba.core.callconv:CPUCallConv.return_status_propagate",
    "numba.core.cgutils:get_or_insert_function",
    "numba.core.codegen:JITCodeLibrary.get_llvm_str",
    "numba.core.codegen:JITCodeLibrary.get_pointer_to_function",
    "numba.core.compiler:CompileResult.fndesc",
    "numba.core.compiler:CompileResult.library",
    "numba.core.compiler_lock:global_compiler_lock",
    "numba.core.options:DefaultOptions.no_cfunc_wrapper",
    "numba.core.options:DefaultOptions.no_cpython_wrapper",
    "numba.core.targetconfig:ConfigStack.top_or_none",
)


def missing_part() -> str | None:
    """Return the first private part that the installed Numba lacks; None if it has all and was tested."""
    if not TESTED[0] <= numba.version_info[:2] < TESTED[1]:
        return f"a tested version (it is {numba.__version__})"
    for part in PARTS:
        try:
            resolve_name(part)
        except (AttributeError, ImportError):
            return part
    return None


IS_KNOWN = missing_part() is None
"""Whether the private parts are used."""


compiler_lock: Any = resolve_name("numba.core.compiler_lock:global_compiler_lock") if IS_KNOWN else threading.RLock()
"""The lock that a thread holds while it compiles."""


def processor() -> str:
    """Return LLVM's name of the processor of this machine."""
    return str(resolve_name("llvmlite.binding:get_host_cpu_name")()) if IS_KNOWN else ""


class _CallersChoice:
    """True while a function is compiled for a caller with bounds checks. Numba does not pass this option on itself."""

    def __bool__(self) -> bool:
        return caller_checks_bounds()


BOUNDS_CHECKS_OF_CALLER: Any = _CallersChoice() if IS_KNOWN else True
"""The compiler option `boundscheck` of functions that compiled code calls. Public Numba can only check always."""


def caller_checks_bounds() -> bool:
    """Return whether the function that is being compiled in this thread has bounds checks."""
    if not IS_KNOWN:
        return True
    flags = resolve_name("numba.core.targetconfig:ConfigStack.top_or_none")()
    return bool(flags is not None and flags.boundscheck)


NO_C_WRAPPER: dict[str, Any] = {"no_cfunc_wrapper": True} if IS_KNOWN else {}
"""Compiler options of functions that no C code calls."""
ONLY_SYMBOL: dict[str, Any] = NO_C_WRAPPER | {"no_cpython_wrapper": True} if IS_KNOWN else {}
"""Compiler options of functions that are called by their symbol alone. A call from Python is a segmentation fault."""


def cache_only_with(compiled: Any, symbols: Iterable[str]) -> None:
    """Let Numba cache machine code only if it calls no other symbols than these: a loader defines only these."""
    if not IS_KNOWN:
        return  # machine code calls no symbols
    implementation, known = compiled._cache._impl, set(symbols)
    check = implementation.check_cachable

    def is_cachable(result: Any) -> bool:
        return known.issuperset(re.findall(r"@(glbandits_\w+)", result.library.get_llvm_str())) and check(result)

    implementation.check_cachable = is_cachable


def define_symbol(symbol: str, compiled: Any) -> None:
    """Let machine code of this process call a compiled function by this symbol."""
    (result,) = compiled.overloads.values()
    resolve_name("llvmlite.binding:add_symbol")(
        symbol, result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    )


def call_of(symbol: str, signature: Any, *, packed: bool) -> Callable[..., Any]:
    """Return a function, for compiled code, that calls the symbol with the arguments of this signature.

    The symbol has Numba's calling convention, so that errors reach the caller. With `packed` it takes one tuple of the
    arguments. Further arguments are dropped.
    """
    tuple_type: Any = types.Tuple(signature.args)  # type: ignore[no-untyped-call]
    taken = [tuple_type] if packed else list(signature.args)
    insert_function = resolve_name("numba.core.cgutils:get_or_insert_function")

    @intrinsic
    def call(_typing_context: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            passed = [
                context.cast(builder, builder.extract_value(values[0], i), arguments.types[i], kind)
                for i, kind in enumerate(signature.args)
            ]
            if packed:
                passed = [context.make_tuple(builder, tuple_type, passed)]
            result, convention = signature.return_type, context.call_conv
            function = insert_function(builder.module, convention.get_function_type(result, taken), symbol)
            status, value = convention.call_function(builder, function, result, taken, passed)
            with builder.if_then(status.is_error, likely=False):
                convention.return_status_propagate(builder, status)
            return value

        return signature.return_type(arguments), generate

    def implementation(*arguments: Any) -> Any:
        return call(arguments)  # type: ignore[call-arg]

    # Numba names machine code by qualified name, types and a counter of the process. Of equal names from the caches of
    # two processes, a third one that loads both runs one code for both. So the name must identify the code.
    implementation.__qualname__ = f"call_of_{symbol}"
    return implementation


@intrinsic
def without_owner(_typing_context: Any, array: Any) -> Any:
    """Return the array, or tuple of arrays, without reference counting. Memory is unsafe if its owner is released."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def disowned(kind: Any, value: Any) -> Any:
            if hasattr(kind, "types"):  # of a tuple
                parts = [disowned(part, builder.extract_value(value, i)) for i, part in enumerate(kind.types)]
                return context.make_tuple(builder, kind, parts)
            if not isinstance(kind, types.Array):
                return value
            copy = context.make_array(kind)(context, builder, value)
            copy.meminfo, copy.parent = copy.meminfo.type(None), copy.parent.type(None)
            return copy._getvalue()

        return disowned(signature.args[0], arguments[0])

    return array(array), generate
