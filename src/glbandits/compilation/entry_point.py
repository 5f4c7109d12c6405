"""Entry points: functions that run as plain Python at first, and as machine code as soon as it is compiled.

Numba needs seconds to compile a policy, once on each machine. A process does not have to wait: plain Python and machine
code give the same results bit for bit, so an entry point can switch from one to the other in the middle of a run
(docs/decisions/0015-start-uncompiled.md).

The parts:

- A `Recipe` describes a function and the argument types for which it is compiled.
- An `EntryPoint` has the attribute `call`, which is the plain function first and the machine code later.
- Large functions that several recipes call are recipes of their own (`needs`, see `shared_functions`).
- A `_BackgroundCompiler` sends entry points to another process (`worker`), which compiles them into Numba's
  cache on disk. Then it loads the machine code from there.
- A marker file beside Numba's cache files records that a recipe is compiled (`is_cached`).

The environment variable `GLBANDITS_COMPILE` sets when an entry point is compiled:

| value | compiled |
|---|---|
| background (default) | in the background, from the first call on |
| now | in this process, before the first call |
| never | never |

In all modes except "never", code of users is compiled before the first call, and a call that would take long in plain
Python (LONG_CALL) waits for the machine code.
"""

import atexit
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import llvmlite.binding  # type: ignore[import-untyped]
import numba
import numpy as np
from numba import types

from glbandits.common.display.progress_lines import progress_lines
from glbandits.common.errors import GlbanditsError, InvalidInput
from glbandits.compilation.machine_code import cache_folder, compile_cached, entry_name
from glbandits.compilation.shared_functions import shared_form

MODES = ("background", "now", "never")
LONG_CALL = 2e6
"""Elementary steps above which a call waits for machine code: about half a second of plain Python."""


class Recipe(NamedTuple):
    """A function, and everything that is needed to compile it."""

    function: Callable[..., Any]
    """Plain Python code that Numba can compile."""
    signature: Any
    """The Numba types of the arguments and the result."""
    name: str
    """The name in messages and in the cache, such as "optimist, logistic"."""
    nogil: bool = True
    """Whether the machine code releases the GIL."""
    check_bounds: bool = False
    """Whether the code contains user code. It is then compiled with bounds checks, and at once, so that errors show."""
    work: Callable[..., float] | None = None
    """Returns about how many elementary steps a call with these arguments takes."""


class EntryPoint:
    """A function with fixed argument types that switches from plain Python to machine code.

    Use `call` for single calls: it is the machine code if that is ready, and else plain Python. It waits for
    compilation only if plain Python would take long. Use `compiled()` if many calls follow: it waits.
    """

    __slots__ = ("_is_submitted", "_lock", "_ready", "call", "failure", "job", "recipe")

    def __init__(self, build: Callable[..., Recipe], arguments: tuple[Any, ...]) -> None:
        self.job, self.recipe = (build, arguments), build(*arguments)
        self._lock, self._is_submitted = threading.RLock(), False
        self._ready = threading.Event()  # set when compilation has succeeded or failed
        self.failure: Exception | None = None
        self.call: Callable[..., Any] = self._call_plain
        if self._may_compile and (compile_mode() == "now" or self.recipe.check_bounds or is_cached(self.recipe)):
            self._machine_code()

    @property
    def _may_compile(self) -> bool:
        return compile_mode() != "never"

    @property
    def is_compiled(self) -> bool:
        """Whether `call` is machine code."""
        return self._ready.is_set() and self.failure is None

    def start(self) -> None:
        """Start compilation in the background, in the mode "background". Later calls do nothing."""
        with self._lock:
            if not self._is_submitted and not self.is_compiled and compile_mode() == "background":
                self._is_submitted = True
                _background_compiler().submit(self)

    def compiled(self) -> Callable[..., Any]:
        """Return the machine code, after waiting for it. In the mode "never" this is the plain function."""
        return self._machine_code() if self._may_compile else self.call

    def _machine_code(self) -> Callable[..., Any]:
        """Wait until the background has compiled, or compile here; return the machine code."""
        if self._is_submitted:
            with _compile_notice(self.recipe.name):
                while not self._ready.wait(0.2) and _background_is_running():
                    pass
        if not self.is_compiled:
            self.load()
        if self.failure is not None:
            raise self.failure
        return self.call

    def load(self) -> None:
        """Load the machine code from the cache on disk, or compile here. A failure is raised, now and at every call."""
        with self._lock:
            if self._ready.is_set():
                return
            try:
                self.call = compile_now(self.recipe)
            except Exception as error:
                self.failure, self.call = error, self._raise_failure
                raise
            finally:
                self._ready.set()

    def _raise_failure(self, *arguments: Any) -> Any:  # noqa: ARG002
        assert self.failure is not None
        raise self.failure

    def forget_background(self) -> None:
        """Forget that compilation was started. Called in the child of a fork, which has no background compiler."""
        self._lock, self._is_submitted = threading.RLock(), False
        if not self.is_compiled:
            self._ready = threading.Event()

    def _call_plain(self, *arguments: Any) -> Any:
        """Call the plain function; wait for the machine code instead if the call would take long.

        Python raises for a division by zero or an overflow, where machine code continues with inf or NaN. Then all
        arrays are restored, and the machine code is called instead.
        """
        self.start()
        typed = [_as_typed(value, kind) for value, kind in zip(arguments, self.recipe.signature.args, strict=True)]
        if self.recipe.work is not None and self.recipe.work(*typed) > LONG_CALL and self._may_compile:
            return self._machine_code()(*arguments)
        saved = [(array, array.copy()) for array in _arrays(typed) if array.flags.writeable]
        try:
            with np.errstate(all="ignore"):
                result = self.recipe.function(*typed)
        except Exception as error:
            for array, before in saved:
                array[...] = before
            if isinstance(error, GlbanditsError) or not self._may_compile:
                raise
            return self._machine_code()(*arguments)
        return int(result) if isinstance(result, np.integer) else result


def _arrays(values: Iterable[Any]) -> Iterator[Any]:
    """Yield all arrays among these values, and in tuples among them."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, tuple):
            yield from _arrays(value)


def _as_typed(value: Any, kind: Any) -> Any:
    """Return the argument as machine code receives it. Raises TypeError, as machine code does, for another type."""
    if hasattr(kind, "types"):  # of a tuple
        return tuple(_as_typed(part, part_kind) for part, part_kind in zip(value, kind.types, strict=True))
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


def compile_mode() -> str:
    """Return the value of `GLBANDITS_COMPILE`. Raises InvalidInput if it is unknown."""
    mode = os.environ.get("GLBANDITS_COMPILE", "background")
    if mode not in MODES:
        raise InvalidInput(f"GLBANDITS_COMPILE must be one of {', '.join(MODES)}; got {mode!r}.")
    return mode


def entry_point(build: Callable[..., Recipe], *arguments: Any) -> EntryPoint:
    """Return the entry point of the recipe `build(*arguments)`. A process has one entry point for each recipe.

    `build` is a function of a module, so that the background process can import it.
    """
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
    """Return the machine code: loaded from the cache on disk, or compiled here.

    Prints lines on a terminal or in a notebook if compilation takes more than half a second.
    """
    with _compile_notice(recipe.name) if not is_cached(recipe) else nullcontext():
        compiled = compile_cached(
            recipe.function,
            signature=recipe.signature,
            name=recipe.name,
            nogil=recipe.nogil,
            check_bounds=recipe.check_bounds,
        )
    for marker in _markers(recipe):
        if marker is not None:
            marker.touch()
    return compiled


def needs(recipe: Recipe) -> list[tuple[Callable[..., Recipe], tuple[Any, ...]]]:
    """Return jobs that compile the shared functions which a recipe needs, each after those that it needs itself.

    A job is a function of a module that builds a recipe, and its arguments. `compile_now` does these jobs too.
    """
    forms = entry_name(recipe.function, recipe.name, recipe.check_bounds).needs
    return [(shared_recipe, (form.function, form.link, form.check_bounds)) for form in forms]


def shared_recipe(function: Callable[..., Any], link: tuple[Any, ...], check_bounds: bool) -> Recipe:
    """The recipe of a shared function for a link."""
    form = shared_form(function, link, check_bounds)
    return Recipe(form.code, form.code_signature, form.name, check_bounds=check_bounds)


def is_cached(recipe: Recipe) -> bool:
    """Return whether the cache on disk has machine code of this version of the code, for this processor."""
    return all(marker is not None and marker.exists() for marker in _markers(recipe))


def _markers(recipe: Recipe) -> Iterator[Path | None]:
    """Yield the marker files of a recipe and of what it needs."""
    yield from (_marker(build(*arguments)) for build, arguments in needs(recipe))
    yield _marker(recipe)


def _marker(recipe: Recipe) -> Path | None:
    """Return the path of the marker file; None if the machine code cannot be cached.

    Its name is a hash of everything that the machine code depends on.
    """
    name = entry_name(recipe.function, recipe.name, recipe.check_bounds)
    folder = cache_folder(recipe.function) if name.is_complete else None
    if folder is None:
        return None
    source = Path(recipe.function.__code__.co_filename).stat()
    parts = (
        name.text,
        numba.__version__,
        llvmlite.binding.get_host_cpu_name(),
        " ".join(str(getattr(numba.config, option)) for option in ("CPU_NAME", "CPU_FEATURES", "BOUNDSCHECK")),
        sys.implementation.cache_tag,
        f"{source.st_mtime_ns} {source.st_size}",
    )
    return folder / f"glbandits-{sha256(repr(parts).encode()).hexdigest()[:24]}.compiled"


def _compile_notice(name: str) -> AbstractContextManager[None]:
    """Print on a terminal or in a notebook what is being compiled, if the block takes more than half a second."""
    return progress_lines(lambda: f"Compiling {name} once; later runs load the machine code", first=0.5)


class _BackgroundCompiler:
    """A thread that sends entry points, one after another, to a process that compiles them into Numba's cache.

    The process ends when its standard input is closed, and so at the latest with its parent. If the process cannot be
    started or dies, the thread compiles in this process instead, which slows down the other threads.
    """

    def __init__(self) -> None:
        self._entries: SimpleQueue[EntryPoint | None] = SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_broken, self._is_stopped = False, False
        self._thread = threading.Thread(target=self._run, name="glbandits-compilation", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether submitted entry points are still being compiled."""
        return self._thread.is_alive()

    def submit(self, entry: EntryPoint) -> None:
        """Add an entry point to the queue."""
        self._entries.put(entry)

    def stop(self) -> None:
        """End the process and the thread. Entry points that are not compiled yet stay plain Python."""
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
                self._compile_in_process(entry)
            if self._is_stopped:
                return
            with suppress(Exception):  # `failure` has the error, and a call raises it
                entry.load()

    def _compile_in_process(self, entry: EntryPoint) -> None:
        """Let the process compile; return when it has finished or died."""
        try:
            job = pickle.dumps(entry.job)
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "glbandits.compilation.worker"],
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
        except Exception:  # the process has died, or the job cannot be pickled
            self._is_broken = True


_background_lock = threading.Lock()
_background: list[_BackgroundCompiler] = []
"""The background compiler of this process, once it is started."""


def _background_is_running() -> bool:
    """Return whether this process has a background compiler, busy or idle."""
    return bool(_background) and _background[0].is_alive


def _background_compiler() -> _BackgroundCompiler:
    """Return the background compiler of this process; start it if needed."""
    with _background_lock:
        if not _background:
            _background.append(_BackgroundCompiler())
            atexit.register(_background[0].stop)
        return _background[0]


def _after_fork() -> None:
    """Forget the background compiler in the child of a fork: its thread and process belong to the parent."""
    global _background_lock, _entries_lock
    _background_lock, _entries_lock = threading.Lock(), threading.RLock()
    for background in _background:
        atexit.unregister(background.stop)
    _background.clear()
    for entry in _entries.values():
        entry.forget_background()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
