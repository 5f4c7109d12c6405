"""Data files of the user: each is recognised by its first line."""

import gzip
import lzma
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from glbandits.environments.r6a import check_files
from glbandits.errors import InvalidInput

FOREST_COMMAS = 54
"""Commas on a line of the UCI file of forest cover."""
OPENERS: dict[bytes, Callable[[Path], IO[bytes]]] = {b"\x1f\x8b": gzip.GzipFile, b"\xfd7": lzma.LZMAFile}  # type: ignore[dict-item]


@dataclass(frozen=True)
class DataFiles:
    """Data files by experiment. An experiment without any uses data that are shipped or simulated."""

    forest: Path | None = None
    """The whole UCI file of forest cover."""
    news: tuple[Path, ...] = ()
    """Files of Yahoo! R6A."""


def find_data(paths: Iterable[Path]) -> DataFiles:
    """Tell Yahoo! R6A files from covtype.data; a folder stands for the files in it.

    Raises:
        InvalidInput: for a file that is neither, and for a second file of forest cover.
    """
    files = [file for path in paths for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    forest = [file for file in files if _first_line(file).count(b",") == FOREST_COMMAS]
    news = tuple(file for file in files if file not in forest)
    if len(forest) > 1:
        raise InvalidInput(f"--data takes one file of forest cover, got {', '.join(map(str, forest))}")
    for file in news:
        try:
            check_files([file])
        except InvalidInput as error:
            raise InvalidInput(
                f"--data takes Yahoo! R6A files and covtype.data, and {file} is neither: {error}"
            ) from None
    return DataFiles(forest[0] if forest else None, news)


def _first_line(path: Path) -> bytes:
    with path.open("rb") as raw:
        opener = OPENERS.get(raw.read(2))
    try:
        with opener(path) if opener else path.open("rb") as file:
            return bytes(file.readline(2**16))
    except (EOFError, OSError, lzma.LZMAError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from None
