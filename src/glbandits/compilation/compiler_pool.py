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
from queue import Empty, SimpleQueue
from typing import Any, Protocol

IDLE_SECONDS = 10.0
"""Seconds without work after which a process ends, because it uses about 200 MB."""


class Compilable(Protocol):
    """An entry point."""

    job: tuple[Any, ...]
    """A function that builds a recipe, and its arguments."""

    @property
    def is_cachable(self) -> bool:
        """Whether another process can compile it, into the cache."""

    def load(self) -> None:
        """Load the machine code from the cache, or compile it in this process. Raises no error of the compiler."""


def core_count() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class CompilerPool:
    """Threads that send entry points to processes. They are started as needed, one less than there are cores.

    The last core is left to this process, which runs plain Python or compiles too (`help`). If a process cannot be
    started or dies, its thread compiles the entry point in this process instead.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Compilable | None] = SimpleQueue()
        self._size, self._lock, self._unfinished = max(core_count() - 1, 1), threading.Lock(), 0
        self._threads: list[_CompilerThread] = []

    @property
    def is_alive(self) -> bool:
        """Whether submitted entry points are still being compiled."""
        return any(thread.is_alive() for thread in self._threads)

    def submit(self, entry: Compilable) -> None:
        """Add an entry point to the queue."""
        with self._lock:
            self._unfinished += 1
            self._jobs.put(entry)
            if self._unfinished > len(self._threads) < self._size:
                self._threads.append(_CompilerThread(self._jobs, self._finish))
                self._threads[-1].start()

    def help(self) -> None:
        """Compile entry points that still wait in the queue, in this thread."""
        with suppress(Empty):
            while (entry := self._jobs.get_nowait()) is not None:
                entry.load()
                self._finish()

    def _finish(self) -> None:
        with self._lock:
            self._unfinished -= 1

    def stop(self) -> None:
        """End the processes and threads. Entry points that are not compiled yet stay plain Python."""
        for thread in self._threads:
            thread.is_stopped = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.stop()


class _CompilerThread(threading.Thread):
    """A thread and its process."""

    def __init__(self, jobs: "SimpleQueue[Compilable | None]", finish: Any) -> None:
        super().__init__(name="glbandits-compilation", daemon=True)
        self._jobs, self._finish = jobs, finish
        self.process: subprocess.Popen[bytes] | None = None
        self.is_stopped = False

    def run(self) -> None:
        while True:
            try:
                entry = self._jobs.get(timeout=None if self.process is None else IDLE_SECONDS)
            except Empty:
                self._end_process()
                continue
            if entry is None:
                return
            try:
                if entry.is_cachable:
                    self._compile_in_process(entry)
            except Exception:  # the process has died or cannot start, or the job cannot be pickled
                self._end_process()
            if self.is_stopped:
                return
            entry.load()
            self._finish()

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
