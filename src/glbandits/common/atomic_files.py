"""Atomic file writes: readers see the old file or the new one, never a part of it."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path


@contextmanager
def atomic_path(path: str | PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path, and rename it to `path` when the block ends.

    The temporary path is in the same folder as `path`. The block creates a file or a folder at it. A file is flushed to
    the disk before the rename. If the block raises, what it wrote is removed and `path` is unchanged.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with atomic_path(target) as temporary:
    ...     _ = temporary.write_text("1 2 3")
    >>> target.read_text()
    '1 2 3'
    """
    target = Path(path)
    temporary = target.parent / f".glbandits-{secrets.token_hex(8)}.tmp"
    try:
        yield temporary
        if temporary.is_file():
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)
        raise


def write_atomically(path: str | PathLike[str], content: bytes) -> None:
    """Replace the content of a file, or create it, as `atomic_path` does."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
