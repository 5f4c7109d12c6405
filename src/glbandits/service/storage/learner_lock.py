"""The learner lock: of the processes of one store, the one that holds the lock learns."""

import os
import sys
from pathlib import Path
from typing import Protocol

if sys.platform != "win32":
    import fcntl


class LearnerLock(Protocol):
    """A lock that at most one process holds for a store."""

    def try_acquire(self) -> bool:
        """Take the lock if it is free, and return whether this process holds it."""

    def close(self) -> None:
        """Release the lock."""


class FileLearnerLock:
    """A `LearnerLock` on a file beside the store.

    The system releases the lock when the process ends in any way. The lock is not on the file of the store, because
    closing another handle of that file would release the locks of SQLite. Windows has no such locks, so a store there
    must be served by one process.

    Args:
        store: the path of the store.
    """

    def __init__(self, store: str | os.PathLike[str]) -> None:
        self._path = Path(f"{os.fspath(store)}.learner")
        self._file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
        self._held = False

    def try_acquire(self) -> bool:
        """Take the lock if it is free, and return whether this process holds it."""
        if not self._held:
            if sys.platform != "win32":
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
            os.truncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)  # for people who look for the process
            self._held = True
        return self._held

    def close(self) -> None:
        """Release the lock."""
        os.close(self._file)
