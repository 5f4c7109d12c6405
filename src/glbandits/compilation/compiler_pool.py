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
SILENT_SECONDS = 60.0
"""Seconds without a line of a process after which it is killed. It writes one every few seconds (`worker`)."""


DONE = b"done\n"
"""The line of a process that has finished a job."""


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

    If a process cannot be started, dies or hangs, its thread compiles the entry point in this process instead.
    """

    def __init__(self) -> None:
        self._size, self._changed = core_count(), threading.Condition()
        self._waiting: list[Compilable] = []
        self._threads: list[_CompilerThread] = []
        self._is_stopped = False

    def submit(self, entry: Compilable) -> None:
        """Add an entry point to the queue."""
        with self._changed:
            self._waiting.append(entry)
            self._changed.notify()
            unfinished = len(self._waiting) + sum(thread.entry is not None for thread in self._threads)
            if unfinished > len(self._threads) < self._size:
                self._threads.append(_CompilerThread(self))
                self._threads[-1].start()

    def take(self, thread: "_CompilerThread", timeout: float | None) -> Compilable | None:
        """Give a thread the next entry point. Return None after the timeout in seconds, and if the pool is stopped.

        Families of which the process of the thread has compiled some already come first, those of other processes last.
        """
        with self._changed:
            thread.entry = None
            if not self._changed.wait_for(lambda: self._waiting or self._is_stopped, timeout) or self._is_stopped:
                return None
            own, others = thread.families, set[Any]().union(*(each.families for each in self._threads))
            thread.entry = min(self._waiting, key=lambda entry: (entry.family not in own, entry.family in others))
            self._waiting.remove(thread.entry)
            own.add(thread.entry.family)
            return thread.entry

    def has(self, entry: Compilable) -> bool:
        """Whether a submitted entry point is still being compiled, or will be."""
        with self._changed:
            alive = [thread for thread in self._threads if thread.is_alive()]
            return any(thread.entry is entry for thread in alive) or (bool(alive) and entry in self._waiting)

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
        self.entry: Compilable | None = None
        """The entry point that is being compiled."""

    def run(self) -> None:
        while not self._pool.is_stopped:
            entry = self._pool.take(self, None if self.process is None else IDLE_SECONDS)
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
        self.process.stdin.write(len(job).to_bytes(4, "big") + job)
        self.process.stdin.flush()
        while self._line_of(self.process) != DONE:
            pass

    def _line_of(self, process: "subprocess.Popen[bytes]") -> bytes:
        """Return the next line of the process. Kills it if there is none for long. Raises EOFError if it is dead."""
        watchdog = threading.Timer(SILENT_SECONDS, process.kill)
        watchdog.daemon = True
        watchdog.start()
        assert process.stdout is not None
        line = process.stdout.readline()
        watchdog.cancel()
        if not line:
            raise EOFError
        return line

    def _end_process(self) -> None:
        process, self.process = self.process, None
        self.families.clear()
        if process is not None:
            _kill(process)
            for pipe in filter(None, (process.stdin, process.stdout)):
                with suppress(OSError):
                    pipe.close()

    def stop(self) -> None:
        """End the process and the thread. Called by another thread."""
        process = self.process
        if process is not None:
            _kill(process)
        self.join(timeout=5.0)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End a process, also one that does not react to signals. Numba moves complete files into its cache."""
    process.kill()
    process.wait()


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


def is_in_pool(entry: Compilable) -> bool:
    """Return whether a submitted entry point is still being compiled, or will be."""
    return bool(_pools) and _pools[0].has(entry)


def forget_pool() -> None:
    """Forget the pool in the child of a fork: its threads and processes belong to the parent."""
    global _lock
    _lock = threading.Lock()
    for pool in _pools:
        atexit.unregister(pool.stop)
    _pools.clear()
