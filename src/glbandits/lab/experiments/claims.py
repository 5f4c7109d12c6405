"""Claims of runs: commands that share a result store do not play the same run.

A process lists the runs that it plays in a file of its own, and locks the file. The operating system releases the lock
when the process ends, however it ends: then the claims are void. Where there are no such locks (Windows, some network
file systems), nothing is claimed, and two commands play the same runs.
"""

import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

LOCK = "lock"
"""The file that a process locks while it reads or writes claims."""


class Claims:
    """The claims of this process in a folder, and those of others.

    >>> import tempfile
    >>> one, other = (Claims(Path(folder)) for folder in [tempfile.mkdtemp()] * 2)
    >>> with one.of_others():
    ...     one.add(["run-1"])
    >>> with other.of_others() as claimed:
    ...     sorted(claimed)
    ['run-1']
    >>> one.close(), other.close()
    (None, None)
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._keys = folder, set[str]()
        self._own: IO[str] | None = None
        self._path = folder / uuid.uuid4().hex

    @contextmanager
    def of_others(self) -> Iterator[set[str]]:
        """Yield the keys that other living processes have claimed. Others wait with theirs until the block ends."""
        with self._exclusive() as is_exclusive:
            paths = self._folder.iterdir() if is_exclusive else ()
            others = [path for path in paths if path.name not in (LOCK, self._path.name)]
            yield set().union(*map(_living_claims, others))

    def add(self, keys: Iterable[str]) -> None:
        """Claim these keys. To be called in the block of `of_others`."""
        self._keys.update(keys)
        self._write()

    def remove(self, keys: Iterable[str]) -> None:
        """Release these keys; those that were not claimed are ignored."""
        if not self._keys.isdisjoint(keys):
            with self._exclusive():
                self._keys.difference_update(keys)
                self._write()

    def close(self) -> None:
        """Release all keys."""
        self._keys.clear()
        if self._own is not None:
            self._path.unlink(missing_ok=True)
            self._own.close()
            self._own = None

    @contextmanager
    def _exclusive(self) -> Iterator[bool]:
        """Let no other process read or write claims in the block. Yield False if locks are not supported."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / LOCK).open("a") as file:
            yield _lock(file, wait=True)

    def _write(self) -> None:
        if self._own is None:
            self._own = self._path.open("w", encoding="utf-8")
            _lock(self._own, wait=False)
        self._own.seek(0)
        self._own.truncate()
        self._own.writelines(f"{key}\n" for key in self._keys)
        self._own.flush()


def _living_claims(path: Path) -> set[str]:
    """Return the keys of a file whose process lives. Remove the file of a process that has ended."""
    try:
        with path.open("r+", encoding="utf-8") as file:
            if not _lock(file, wait=False):
                return set(file.read().split())
    except FileNotFoundError:  # its process has just ended
        return set()
    path.unlink(missing_ok=True)
    return set()


def _lock(file: IO[str], *, wait: bool) -> bool:
    """Lock a file until it is closed. Return False if another process has the lock, or if locks are not supported."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True
