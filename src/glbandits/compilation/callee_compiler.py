"""Numba's compiler for functions that only compiled code calls.

Numba emits machine code and wrappers for every function on its own, although a callee is compiled again as a part of
each entry point that calls it. This compiler leaves both out, which saves a quarter of the time. The machine code of
entry points stays the same. It uses internals of Numba, so other versions than `KNOWN_VERSION` keep Numba's compiler.
"""

from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import _dynfunc  # type: ignore[attr-defined]
from numba.core.typed_passes import NativeLowering

KNOWN_VERSION = (0, 68)
"""The version of Numba for which this compiler was written and tested."""


class _CalleeLibrary(JITCodeLibrary):
    """Optimised code that is linked into entry points, and never emitted on its own."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._verify_declare_only_symbols()  # type: ignore[no-untyped-call]
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _CalleeLowering(NativeLowering):
    _name = "callee_lowering"

    def run_pass(self, state: Any) -> bool:
        context, flags = state.targetctx, state.flags
        library: Any = _CalleeLibrary(context.codegen(), state.func_id.func_qualname)  # type: ignore[no-untyped-call]
        state.library = library
        kept = flags.copy()
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        super().run_pass(state)  # type: ignore[no-untyped-call]
        state.flags = kept
        lowered = state["cr"]
        library.finalize()
        key = _dynfunc.make_function(
            lowered.fndesc.lookup_module(), state.func_id.func_name, "", 0, lowered.env, (library,)
        )
        context.insert_user_function(key, lowered.fndesc, [library])
        state.reload_init.extend(library._reload_init)
        state["cr"] = lowered._replace(cfunc=key)
        return True


class CalleeCompiler(Compiler):
    """Numba's compiler with the lowering above."""

    def define_pipelines(self) -> Any:
        """Return Numba's passes, with one replaced."""
        pipelines = super().define_pipelines()  # type: ignore[no-untyped-call]
        for manager in pipelines:
            manager.passes = [
                (_CalleeLowering if kind is NativeLowering else kind, text) for kind, text in manager.passes
            ]
            manager._finalized = False
            manager.finalize()
        return pipelines


def callee_compiler() -> type[Compiler]:
    """Return the compiler of callees for the installed version of Numba."""
    return CalleeCompiler if numba.version_info[:2] == KNOWN_VERSION else Compiler
