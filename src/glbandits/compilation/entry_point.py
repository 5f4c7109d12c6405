"""Entry points: functions that run as plain Python at first, and as machine code as soon as it is compiled.

Numba needs seconds to compile a policy, once on each machine. A process does not have to wait: plain Python and machine
code give the same results bit for bit, so an entry point can switch from one to the other in the middle of a run
(docs/decisions/0015-start-uncompiled.md).

The parts:

- A `Recipe` describes a function and the argument types for which it is compiled.
- An `EntryPoint` has the attribute `call`, which is the plain function first and the machine code later.
- Large functions that several recipes call are recipes of their own (`needs`, see `shared_functions`).
- The `compiler_pool` sends entry points to other processes, which compile them into Numba's cache on disk. Then it
  loads the machine code from there.
- `compile_all` waits for several entry points that are compiled at the same time, and shows progress.

The environment variable `GLBANDITS_COMPILE` sets when an entry point is compiled:

| value | compiled |
|---|---|
| background (default) | in the background, from the first call on |
| now | in this process, before the first call |
| never | never |

In all modes except "never", code of users is compiled before the first call, and a call that would take long in plain
Python (LONG_CALL) waits for the machine code. Loops over rows of logs (`pieces`) start no compilation if plain Python
finishes sooner.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Any

import numba
import numpy as np
from numba import types

from glbandits.common.errors import GlbanditsError, InvalidInput
from glbandits.compilation.compile_progress import compile_progress, expected_seconds
from glbandits.compilation.compiler_pool import compiler_pool, core_count, forget_pool, is_in_pool
from glbandits.compilation.private_numba import compiler_lock
from glbandits.compilation.recipe import Job, Recipe, compile_now, is_cached, marker_file, needs

MODES = ("background", "now", "never")
LONG_CALL = 2e6
"""Elementary steps above which a call waits for machine code: about half a second of plain Python."""
POLL_SECONDS = 0.05
"""Seconds between two looks whether a function that others need is compiled."""
PIECE_SECONDS = 0.05
"""CPU seconds of a piece of rows (`EntryPoint.pieces`) that shows how long plain Python takes."""
PLAIN_SHARE = 1 / 3
"""Plain Python plays rows if it takes less than this share of the time of compilation. Below 1, because machine code
also serves later runs."""


class EntryPoint:
    """A function with fixed argument types that switches from plain Python to machine code.

    Use `call` for single calls: it is the machine code if that is ready, and else plain Python. It waits for
    compilation only if plain Python would take long. Use `pieces` for a loop over rows: it decides between plain Python
    and waiting. Use `compiled()` if speed matters in any case: it waits.
    """

    __slots__ = (
        "_is_submitted",
        "_lock",
        "_plain_seconds",
        "_ready",
        "call",
        "failure",
        "job",
        "recipe",
        "row_seconds",
    )

    def __init__(self, build: Callable[..., Recipe], arguments: tuple[Any, ...]) -> None:
        self.job, self.recipe = (build, arguments), build(*arguments)
        self._lock, self._is_submitted = threading.RLock(), False
        self._ready = threading.Event()  # set when compilation has succeeded or failed
        self.failure: Exception | None = None
        self.call: Callable[..., Any] = self._call_plain
        self.row_seconds = 0.0
        """CPU seconds that plain Python took for a row of the last piece."""
        self._plain_seconds = 0.0  # CPU seconds of all pieces
        if self.may_compile and is_cached(self.recipe):
            self.load()

    @property
    def may_compile(self) -> bool:
        """Whether the mode allows compilation."""
        return compile_mode() != "never"

    @property
    def is_ready(self) -> bool:
        """Whether compilation has succeeded or failed."""
        return self._ready.is_set()

    @property
    def is_compiled(self) -> bool:
        """Whether `call` is machine code."""
        return self._ready.is_set() and self.failure is None

    @property
    def family(self) -> Any:
        """The policy and the link, if it has any. Entry points of the same family call the same functions."""
        return self.job[1][:2]

    @property
    def is_cachable(self) -> bool:
        """Whether the machine code can be cached on disk, so that another process can compile it."""
        return marker_file(self.recipe) is not None

    def start(self) -> None:
        """Start compilation in the background, in the mode "background". Later calls do nothing."""
        with self._lock:
            if not self._is_submitted and not self.is_compiled and compile_mode() == "background":
                self._is_submitted = True
                compiler_pool().submit(self)

    def compiled(self) -> Callable[..., Any]:
        """Return the machine code, after waiting for it. In the mode "never" this is the plain function."""
        return self._machine_code() if self.may_compile else self.call

    def _machine_code(self) -> Callable[..., Any]:
        """Wait until the pool has compiled, or compile here; return the machine code."""
        _compile_missing([self])
        if self.failure is not None:
            raise self.failure
        return self.call

    @property
    def is_lost(self) -> bool:
        """Whether compilation was started, but the pool has ended without it."""
        return self._is_submitted and not is_in_pool(self) and not self._ready.is_set()

    def load(self) -> None:
        """Load the machine code from the cache on disk, or compile here. Every call raises an error of this."""
        with self._lock:
            if self._ready.is_set():
                return
            try:
                self.call = compile_now(self.recipe)
            except Exception as error:
                self.failure, self.call = error, self._raise_failure
            self._ready.set()

    def wait(self) -> None:
        """Wait until the pool has compiled, if it was started. Compile here if it was not, or has failed."""
        while self._is_submitted and not self._ready.wait(0.2) and not self.is_lost:
            pass
        self.load()

    def pieces(self, rows: int, rows_later: int = 0) -> Iterator[tuple[slice, Callable[..., Any]]]:
        """Yield ranges of rows, one after another, each with the function to call: plain Python if that is sooner.

        Machine code gets all rows at once. Plain Python gets few rows at first, and their time shows how long it would
        take for the rest. If that is long compared with compilation, this waits for the machine code.

        Args:
            rows: the number of rows of this loop.
            rows_later: the number of rows that later loops will have.
        """
        done, size = 0, 1 if self.may_compile else rows
        while done < rows and not self.is_compiled:
            piece = slice(done, min(done + size, rows))
            start = time.thread_time()
            yield piece, self._run_plain
            seconds = time.thread_time() - start
            done, self.row_seconds = piece.stop, seconds / (piece.stop - piece.start)
            self._plain_seconds += seconds
            if seconds < PIECE_SECONDS:
                size *= 2
            if self._plain_seconds > PIECE_SECONDS and self.may_compile and self.is_slow(rows_later + rows - done):
                self._machine_code()
            elif self._plain_seconds > PLAIN_SHARE * expected_seconds(self.recipe):  # this process runs for long
                self.start()
        if done < rows:
            yield slice(done, rows), self.call

    def is_slow(self, rows: int) -> bool:
        """Whether plain Python takes long for this number of rows, compared with compilation.

        Also if it has taken longer than compilation already.
        """
        seconds = expected_seconds(self.recipe)
        return rows > 0 and (self.row_seconds * rows > PLAIN_SHARE * seconds or self._plain_seconds > seconds)

    def _raise_failure(self, *arguments: Any) -> Any:  # noqa: ARG002
        assert self.failure is not None
        raise self.failure

    def forget_background(self) -> None:
        """Forget that compilation was started. Called in the child of a fork, which has no background compiler."""
        self._lock, self._is_submitted = threading.RLock(), False
        if not self.is_compiled:
            self._ready = threading.Event()

    @property
    def run(self) -> Callable[..., Any]:
        """As `call`, but compilation is not started unless a call would take long."""
        return self.call if self.is_ready else self._run_plain

    def _call_plain(self, *arguments: Any) -> Any:
        """Start compilation, and call the plain function."""
        self.start()
        return self._run_plain(*arguments)

    def _run_plain(self, *arguments: Any) -> Any:
        """Call the plain function; wait for the machine code instead if the call would take long.

        Python raises for a division by zero or an overflow, where machine code continues with inf or NaN. Then all
        arrays are restored, and the machine code is called instead.
        """
        typed = [as_typed(value, kind) for value, kind in zip(arguments, self.recipe.signature.args, strict=True)]
        if self.recipe.work is not None and self.recipe.work(*typed) > LONG_CALL and self.may_compile:
            return self._machine_code()(*arguments)
        saved = [(array, array.copy()) for array in arrays_of(typed) if array.flags.writeable]
        try:
            with np.errstate(all="ignore"):
                result = self.recipe.function(*typed)
        except Exception as error:
            for array, before in saved:
                array[...] = before
            if isinstance(error, GlbanditsError) or not self.may_compile:
                raise
            return self._machine_code()(*arguments)
        return int(result) if isinstance(result, np.integer) else result


def arrays_of(values: Iterable[Any]) -> Iterator[Any]:
    """Yield all arrays among these values, and in tuples among them."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, tuple):
            yield from arrays_of(value)


def as_typed(value: Any, kind: Any) -> Any:
    """Return the argument as machine code receives it. Raises TypeError, as machine code does, for another type."""
    if hasattr(kind, "types"):  # of a tuple
        return tuple(as_typed(part, part_kind) for part, part_kind in zip(value, kind.types, strict=True))
    if isinstance(kind, types.Array):
        is_valid = (
            isinstance(value, np.ndarray)
            and value.dtype == np.dtype(str(kind.dtype))
            and value.ndim == kind.ndim
            and value.flags.c_contiguous
            and (value.flags.writeable or not kind.mutable)
        )
        if not is_valid:
            raise TypeError(f"no matching definition: expected an array of type {kind}")
        return value
    return float(value) if kind == types.float64 else value


_is_forbidden: ContextVar[bool] = ContextVar("_is_forbidden", default=False)


@contextmanager
def without_compilation() -> Iterator[None]:
    """Compile nothing in this thread: `compile_mode` is "never" inside. Machine code that is loaded already may run."""
    token = _is_forbidden.set(True)
    try:
        yield
    finally:
        _is_forbidden.reset(token)


def compile_mode() -> str:
    """Return the value of `GLBANDITS_COMPILE`. Raises InvalidInput if it is unknown.

    Return "never" if Numba is disabled, and inside `without_compilation`.
    """
    mode = os.environ.get("GLBANDITS_COMPILE", "background")
    if mode not in MODES:
        raise InvalidInput(f"GLBANDITS_COMPILE must be one of {', '.join(MODES)}; got {mode!r}.")
    return "never" if _is_forbidden.get() or numba.config.DISABLE_JIT else mode  # type: ignore[attr-defined]


def entry_point(build: Callable[..., Recipe], *arguments: Any) -> EntryPoint:
    """Return the entry point of the recipe `build(*arguments)`. A process has one entry point for each recipe.

    `build` is a function of a module, so that other processes can import it. Code of users is compiled at once, so that
    errors show; in the mode "now", all code is.
    """
    entry = _entries.get((build, *arguments))
    if entry is None:
        entry = uncompiled_entry(build, *arguments)
    if not entry.is_ready and entry.may_compile and (entry.recipe.check_bounds or compile_mode() == "now"):
        _compile_missing([entry])
    if entry.failure is not None:
        raise entry.failure
    return entry


def uncompiled_entry(build: Callable[..., Recipe], *arguments: Any) -> EntryPoint:
    """Return the same without compiling anything. Machine code in the cache is loaded."""
    with _entries_lock:
        key = (build, *arguments)
        entry = _entries.get(key) or EntryPoint(build, arguments)
        _entries[key] = entry
    return entry


_entries: dict[Job, EntryPoint] = {}
_entries_lock = threading.RLock()


def compile_all(jobs: Iterable[Job]) -> None:
    """Compile entry points that are not in the cache, in as many processes as there are cores, and wait for all.

    Shows one line of progress. Code of users is compiled in this process, because others may not be able to import it.
    Raises InvalidInput if code cannot be compiled. In the mode "never" nothing happens.

    Args:
        jobs: for each entry point the arguments of `entry_point`.
    """
    if compile_mode() == "never":
        return
    entries = [uncompiled_entry(*job) for job in dict.fromkeys(jobs)]
    _compile_missing(entries)
    for entry in entries:
        entry.compiled()


def _compile_missing(entries: Sequence[EntryPoint]) -> None:
    """Compile, or wait for, all entry points that are not ready. The largest are first."""
    missing = [entry for entry in entries if not entry.is_ready]
    if not missing:
        return
    ours = [entry for entry in missing if not entry.recipe.check_bounds]
    needed = {entry: _needed_entries(entry) for entry in ours}
    shared = [each for each in dict.fromkeys(chain(*needed.values())) if not each.is_ready]
    uses_pool = len(ours) > 1 and core_count() > 1 and compile_mode() == "background"
    waiting = {each: _needed_entries(each) for each in shared} | needed if uses_pool else {}

    def seconds(entry: EntryPoint) -> float:
        """About how long it takes to compile this, and then the longest entry point that needs it."""
        own = expected_seconds(entry.recipe)
        return own + max(
            (expected_seconds(each.recipe) for each, before in needed.items() if entry in before), default=0
        )

    waiting = dict(sorted(waiting.items(), key=lambda item: seconds(item[0]), reverse=True))

    def start() -> None:
        """Start all entry points whose shared functions are compiled, the longest first."""
        for entry in [entry for entry, before in waiting.items() if all(each.is_ready for each in before)]:
            entry.start()
            del waiting[entry]

    with compile_progress(list(dict.fromkeys([*waiting, *shared, *missing])), core_count() if uses_pool else 1):
        start()
        for entry in missing:
            if entry.recipe.check_bounds:
                entry.load()
        while waiting:
            time.sleep(POLL_SECONDS)
            for entry in shared:
                if entry.is_lost:
                    entry.load()
            start()
        for entry in ours:
            entry.wait()


def _needed_entries(entry: EntryPoint) -> list[EntryPoint]:
    """Return the shared functions that an entry point needs."""
    return [uncompiled_entry(*job) for job in needs(entry.recipe)]


def _after_fork() -> None:
    """Forget the pool in the child of a fork."""
    global _entries_lock
    _entries_lock = threading.RLock()
    forget_pool()
    for entry in _entries.values():
        entry.forget_background()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
    # A fork waits while a thread compiles: in the child, the lock and LLVM would stay as that thread left them.
    os.register_at_fork(
        before=compiler_lock.acquire,
        after_in_parent=compiler_lock.release,
        after_in_child=compiler_lock.release,
    )
