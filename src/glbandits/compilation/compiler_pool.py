"""Processes that compile entry points into Numba's cache, as many as there are cores.

Each process (`worker`) has a thread in this process, which sends it one entry point after another, and then loads the
machine code from the cache. A process ends when its standard input is closed: after some idle seconds, and at the
latest with its parent.
"""

import atexit
import os
import pickle
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any, Protocol

IDLE_SECONDS = 10.0
"""Seconds without work after which a process ends, because it uses about 200 MB."""


class Compilable(Protocol):
    """An entry point."""

    recipe: Any
    job: tuple[Any, ...]
    """A function that builds a recipe, and its arguments."""

    @property
    def is_ready(self) -> bool:
        """Whether compilation has ended."""

    @property
    def family(self) -> Any:
        """Entry points of the same family call the same functions, which a process compiles once."""

    @property
    def is_cachable(self) -> bool:
        """Whether another process can compile it, into the cache."""

    def load(self) -> None:
        """Load the machine code from the cache, or compile it in this process. Raises no error of the compiler."""


def core_count() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class CompilerPool:
    """Threads that send entry points to processes. They are started as needed, at most one for each core.

    If a process cannot be started or dies, its thread compiles the entry point in this process instead.
    """

    def __init__(self) -> None:
        self._size, self._changed, self._unfinished = core_count(), threading.Condition(), 0
        self._waiting: list[Compilable] = []
        self._threads: list[_CompilerThread] = []
        self._is_stopped = False

    @property
    def is_alive(self) -> bool:
        """Whether submitted entry points are still being compiled."""
        return any(thread.is_alive() for thread in self._threads)

    def submit(self, entry: Compilable) -> None:
        """Add an entry point to the queue."""
        with self._changed:
            self._waiting.append(entry)
            self._unfinished += 1
            self._changed.notify()
            if self._unfinished > len(self._threads) < self._size:
                self._threads.append(_CompilerThread(self))
                self._threads[-1].start()

    def take(self, own: set[Any], timeout: float | None) -> Compilable | None:
        """Remove and return the next entry point for a process. Return None after the timeout, and if stopped.

        Args:
            own: the families of which the process has compiled some already. They come first. Those of other processes
                come last.
            timeout: in seconds; None for no timeout.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting or self._is_stopped, timeout) or self._is_stopped:
                return None
            others = set[Any]().union(*(thread.families for thread in self._threads))
            chosen = min(self._waiting, key=lambda entry: (entry.family not in own, entry.family in others))
            self._waiting.remove(chosen)
            own.add(chosen.family)
            return chosen

    def finish(self) -> None:
        """Count an entry point as finished."""
        with self._changed:
            self._unfinished -= 1

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._is_stopped

    def stop(self) -> None:
        """End the processes and threads. Entry points that are not compiled yet stay plain Python."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.stop()


class _CompilerThread(threading.Thread):
    """A thread and its process."""

    def __init__(self, pool: CompilerPool) -> None:
        super().__init__(name="glbandits-compilation", daemon=True)
        self._pool = pool
        self.process: subprocess.Popen[bytes] | None = None
        self.families = set[Any]()
        """The families of which the process has compiled some."""

    def run(self) -> None:
        while not self._pool.is_stopped:
            entry = self._pool.take(self.families, None if self.process is None else IDLE_SECONDS)
            if entry is None:
                self._end_process()
                continue
            try:
                if entry.is_cachable:
                    self._compile_in_process(entry)
            except Exception:  # the process has died or cannot start, or the job cannot be pickled
                self._end_process()
            if not self._pool.is_stopped:
                entry.load()
            self._pool.finish()

    def _compile_in_process(self, entry: Compilable) -> None:
        """Let the process compile, and wait for it. Raises an exception if it has not finished."""
        job = pickle.dumps(entry.job)
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "glbandits.compilation.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "GLBANDITS_COMPILE": "now"},
                start_new_session=True,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(len(job).to_bytes(4, "big") + job)
        self.process.stdin.flush()
        if not self.process.stdout.readline():
            raise EOFError

    def _end_process(self) -> None:
        process, self.process = self.process, None
        self.families.clear()
        if process is not None:
            process.terminate()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]

    def stop(self) -> None:
        """End the process and the thread. Called by another thread."""
        process = self.process
        if process is not None:
            process.terminate()
            process.wait()
        self.join(timeout=5.0)


_lock = threading.Lock()
_pools: list[CompilerPool] = []
"""The pool of this process, once it is started."""


def compiler_pool() -> CompilerPool:
    """Return the pool of this process; start it if needed."""
    with _lock:
        if not _pools:
            _pools.append(CompilerPool())
            atexit.register(_pools[0].stop)
        return _pools[0]


def pool_is_alive() -> bool:
    """Return whether this process has a pool, busy or idle."""
    return bool(_pools) and _pools[0].is_alive


def forget_pool() -> None:
    """Forget the pool in the child of a fork: its threads and processes belong to the parent."""
    global _lock
    _lock = threading.Lock()
    for pool in _pools:
        atexit.unregister(pool.stop)
    _pools.clear()
