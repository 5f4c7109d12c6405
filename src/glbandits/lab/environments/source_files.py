"""Data files of users: plain, gzip or xz."""

import gzip
import lzma
import os
import zlib
from pathlib import Path
from typing import IO, NamedTuple, cast

from glbandits.common.errors import InvalidInput, value_text

READ_ERRORS = (EOFError, OSError, lzma.LZMAError, zlib.error)
"""Errors of reading a file that is missing, truncated or damaged."""


class FileVersion(NamedTuple):
    """A version of a file, as a cache key: a file that has changed is read again."""

    path: str
    changed: int
    size: int


def file_version(name: str, path: str | os.PathLike[str]) -> FileVersion:
    """Return the version of a file now. Raises InvalidInput if there is no file; `name` is the setting."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"{name} must be the path of a file; got {value_text(path, 40)}")
    if not Path(path).is_file():
        raise InvalidInput(f"{name} must be a file; there is none at {os.fspath(path)}")
    state = Path(path).stat()
    return FileVersion(os.fspath(path), state.st_mtime_ns, state.st_size)


def open_unpacked(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file for reading. The first bytes tell whether it is compressed."""
    with Path(path).open("rb") as file:
        start = file.read(6)
    if start.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(path))
    if start == b"\xfd7zXZ\x00":
        return lzma.open(path)
    return Path(path).open("rb")
