"""Who learns: of all processes that serve one store, one. The others follow the models that it keeps."""

import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl


class FileLearnerLock:
    """A lock that the system lets go of when its process ends, however that ends; then another process can have it.

    It is a file beside the store, and not the store's own: SQLite has locks there, which closing any other handle of
    the file would undo. Where there are no such locks (Windows), a store must be served by one process.

    Args:
        store: the path of the store.
    """

    def __init__(self, store: str | os.PathLike[str]) -> None:
        self._path = Path(f"{os.fspath(store)}.learner")
        self._file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
        self._held = False

    def held(self) -> bool:
        """Take the lock if it is free, and return whether this process holds it."""
        if not self._held:
            if sys.platform != "win32":
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
            os.truncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)  # for people who wonder which process it is
            self._held = True
        return self._held

    def close(self) -> None:
        """Let another process learn."""
        os.close(self._file)
