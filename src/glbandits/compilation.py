"""Entry points: functions that start as plain Python and become machine code when it is ready.

Compiling a policy takes seconds, once on each machine. The compiled and the plain form give the same bits, so a process
may begin to decide at once with the plain form, while a background process fills Numba's cache on disk, and change
over in the middle of a run (docs/decisions/0015-start-uncompiled.md).

`GLBANDITS_COMPILE` chooses when: "background" (the default), "on-demand" (here, once the plain form has taken as long
as compiling would, or would take long), "now" (before the first call), or "never".
"""

import atexit
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import llvmlite.binding  # type: ignore[import-untyped]
import numba
import numpy as np
from numba import types

from glbandits.errors import GlbanditsError, InvalidInput
from glbandits.numba_support import cache_folder, compile_cached, entry_name

MODES = ("background", "on-demand", "now", "never")
WORTH_COMPILING = 5.0
"""Seconds in the plain form after which an entry point is compiled on demand."""


class Recipe(NamedTuple):
    """All that is needed to run or to compile an entry point."""

    function: Callable[..., Any]
    signature: Any
    name: str
    """What it is called in messages and in the cache, such as "optimist, logistic"."""
    nogil: bool = True
    check_bounds: bool = False
    """Whether user code takes part: it is then compiled with bounds checks, and at once, so that errors show."""
    work: Callable[..., float] | None = None
    """About how many elementary steps a call with these arguments takes."""


class EntryPoint:
    """A function of fixed argument types. `call` is its fastest form so far.

    It never blocks for compilation while the plain form is quick enough. Use `compiled()` where many calls follow.
    """

    __slots__ = ("_is_submitted", "_lock", "_ready", "_spent", "build", "call", "failure", "recipe")

    def __init__(self, build: Callable[..., Recipe], arguments: tuple[Any, ...]) -> None:
        self.build, self.recipe = (build, arguments), build(*arguments)
        self._lock, self._ready, self._is_submitted = threading.RLock(), threading.Event(), False
        self.failure: Exception | None = None
        self._spent = 0.0
        self.call: Callable[..., Any] = self._plain
        mode = compile_mode()
        if mode == "now" or (mode != "never" and (self.recipe.check_bounds or is_cached(self.recipe))):
            self._machine_code()

    @property
    def is_compiled(self) -> bool:
        """Whether `call` is machine code."""
        return self._ready.is_set() and self.failure is None

    def start(self) -> None:
        """Have it compiled in the background, unless it is compiled or on its way."""
        with self._lock:
            if not self._is_submitted and not self.is_compiled and compile_mode() == "background":
                self._is_submitted = True
                _background_compiler().submit(self)

    def compiled(self) -> Callable[..., Any]:
        """The machine code; waits for it. The plain form where `GLBANDITS_COMPILE` is "never".

        With "on-demand", calls with small arrays use the plain form until they have taken as long as compiling.
        """
        mode = compile_mode()
        if mode == "never" or self.is_compiled:
            return self.call
        return self._call_on_demand if mode == "on-demand" else self._machine_code()

    def _call_on_demand(self, *arguments: Any) -> Any:
        if max((value.size for value in arguments if isinstance(value, np.ndarray)), default=0) > LARGE:
            self._machine_code()
        return self.call(*arguments)

    def _machine_code(self) -> Callable[..., Any]:
        if self._is_submitted:
            with _notice(self.recipe.name):
                while not self._ready.wait(0.2) and is_compiling():
                    pass
        if not self.is_compiled:
            self.load()
        if self.failure is not None:
            raise self.failure
        return self.call

    def load(self) -> None:
        """Get the machine code from the cache on disk, or compile it here."""
        with self._lock:
            if self._ready.is_set():
                return
            try:
                self.call = compile_now(self.recipe)
            except Exception as error:
                self.failure, self.call = error, self._fail
                raise
            finally:
                self._ready.set()

    def _fail(self, *arguments: Any) -> Any:  # noqa: ARG002
        assert self.failure is not None
        raise self.failure

    def forget_background(self) -> None:
        """After a fork: what compiles in the background belongs to the parent."""
        self._lock, self._is_submitted = threading.RLock(), False
        if not self.is_compiled:
            self._ready = threading.Event()

    def _plain(self, *arguments: Any) -> Any:
        """Run the plain form; wait for machine code where it would take long, or where Python raises for an overflow.

        Python raises an error for a division by zero or an overflow, where compiled code goes on with inf or NaN. Then
        all arrays are put back as they were, and the compiled form decides.
        """
        self.start()
        given = [_as_typed(value, kind) for value, kind in zip(arguments, self.recipe.signature.args, strict=True)]
        if self.recipe.work is not None and self.recipe.work(*given) > LONG and compile_mode() != "never":
            return self._machine_code()(*arguments)
        began = time.perf_counter()
        saved = [(array, array.copy()) for array in given if isinstance(array, np.ndarray) and array.flags.writeable]
        try:
            with np.errstate(all="ignore"):
                result = self.recipe.function(*given)
        except Exception as error:
            for array, before in saved:
                array[...] = before
            if isinstance(error, GlbanditsError) or compile_mode() == "never":
                raise
            return self._machine_code()(*arguments)
        self._spent += time.perf_counter() - began
        if self._spent > WORTH_COMPILING and compile_mode() == "on-demand":
            self._machine_code()
        return int(result) if isinstance(result, np.integer) else result


LARGE = 20_000
"""Numbers of an array above which an entry point is compiled on demand."""
LONG = 2e6
"""Elementary steps, about half a second in plain Python, above which a call waits for machine code."""


def _as_typed(value: Any, kind: Any) -> Any:
    """The argument itself if the compiled form would take it; a TypeError like Numba's if not."""
    if isinstance(kind, types.Array):
        fits = (
            isinstance(value, np.ndarray)
            and value.dtype == np.dtype(str(kind.dtype))
            and value.ndim == kind.ndim
            and value.flags.c_contiguous
            and (value.flags.writeable or not kind.mutable)
        )
        if not fits:
            raise TypeError(f"no matching definition: an array of {kind} is needed")
        return value
    return float(value) if kind == types.float64 else value


def compile_mode() -> str:
    """The mode that `GLBANDITS_COMPILE` chooses."""
    mode = os.environ.get("GLBANDITS_COMPILE", "background")
    if mode not in MODES:
        raise InvalidInput(f"GLBANDITS_COMPILE must be one of {', '.join(MODES)}; got {mode!r}.")
    return mode


def entry_point(build: Callable[..., Recipe], *arguments: Any) -> EntryPoint:
    """The entry point that a module-level function `build(*arguments)` describes; one for each process."""
    key = (build, *arguments)
    entry = _entries.get(key)
    if entry is None:
        with _entries_lock:
            entry = _entries.get(key) or EntryPoint(build, arguments)
            _entries[key] = entry
    return entry


_entries: dict[tuple[Any, ...], EntryPoint] = {}
_entries_lock = threading.RLock()


def compile_now(recipe: Recipe) -> Callable[..., Any]:
    """Compile in this process, or load what is on disk; says so on a terminal if it takes its time."""
    with _notice(recipe.name) if not is_cached(recipe) else nullcontext():
        compiled = compile_cached(
            recipe.function,
            signature=recipe.signature,
            name=recipe.name,
            nogil=recipe.nogil,
            check_bounds=recipe.check_bounds,
        )
    marker = _marker(recipe)
    if marker is not None:
        marker.touch()
    return compiled


def is_cached(recipe: Recipe) -> bool:
    """Whether the machine code is on disk, made by this version of everything on this kind of processor."""
    marker = _marker(recipe)
    return marker is not None and marker.exists()


def _marker(recipe: Recipe) -> Path | None:
    """An empty file beside Numba's own, whose name tells all that the machine code depends on."""
    name = entry_name(recipe.function, recipe.name, recipe.check_bounds)
    folder = cache_folder(recipe.function) if name.is_complete else None
    if folder is None:
        return None
    source = Path(recipe.function.__code__.co_filename).stat()
    parts = (
        name.text,
        numba.__version__,
        llvmlite.binding.get_host_cpu_name(),
        " ".join(str(getattr(numba.config, name)) for name in ("CPU_NAME", "CPU_FEATURES", "BOUNDSCHECK")),
        sys.implementation.cache_tag,
        f"{source.st_mtime_ns} {source.st_size}",
    )
    return folder / f"glbandits-{sha256(repr(parts).encode()).hexdigest()[:24]}.compiled"


@contextmanager
def _notice(name: str) -> Iterator[None]:
    """Say on a terminal what is compiled, if it takes more than half a second; print nothing in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    text = f"Compiling {name} once, about 10 s ..."
    timer = threading.Timer(0.5, lambda: sys.stderr.write(f"{text}\n"))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _Background:
    """A thread that hands entry points, one after another, to a process that compiles them into Numba's cache.

    The process ends with its parent: its standard input is then closed. If it cannot be started or dies, the thread
    compiles in this process instead, which is slower for everything else but gives the same result.
    """

    def __init__(self) -> None:
        self._entries: SimpleQueue[EntryPoint | None] = SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_broken, self._is_stopped = False, False
        self._thread = threading.Thread(target=self._run, name="glbandits-compilation", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it goes on compiling what was submitted."""
        return self._thread.is_alive()

    def submit(self, entry: EntryPoint) -> None:
        """Compile an entry point after those that were submitted before."""
        self._entries.put(entry)

    def stop(self) -> None:
        """Terminate the process and end the thread. Entry points that are not compiled yet stay in their plain form."""
        self._is_stopped = True
        self._entries.put(None)
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while True:
            entry = self._entries.get()
            if entry is None:
                return
            if not self._is_broken:
                self._compile_elsewhere(entry)
            if self._is_stopped:
                return
            with suppress(Exception):  # kept in `failure`, and raised where somebody waits for it
                entry.load()

    def _compile_elsewhere(self, entry: EntryPoint) -> None:
        """Have the process compile; returns when it is done or dead."""
        try:
            job = pickle.dumps(entry.build)
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "glbandits.compile_worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "GLBANDITS_COMPILE": "now"},
                    start_new_session=True,
                )
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(len(job).to_bytes(4, "big") + job)
            self._process.stdin.flush()
            self._is_broken = not self._process.stdout.readline()
        except Exception:  # the process is gone, or the job cannot be pickled
            self._is_broken = True


_background_lock = threading.Lock()
_background: list[_Background] = []


def is_compiling() -> bool:
    """Whether something compiles in the background."""
    return bool(_background) and _background[0].is_alive


def _background_compiler() -> _Background:
    with _background_lock:
        if not _background:
            _background.append(_Background())
            atexit.register(_background[0].stop)
        return _background[0]


def _after_fork() -> None:
    """The thread and the process of the parent do not serve its child."""
    global _background_lock, _entries_lock
    _background_lock, _entries_lock = threading.Lock(), threading.RLock()
    for background in _background:
        atexit.unregister(background.stop)
    _background.clear()
    for entry in _entries.values():
        entry.forget_background()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
