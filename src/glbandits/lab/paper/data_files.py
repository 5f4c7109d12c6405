"""The user's data files. The first line of a file identifies its kind of data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from glbandits.common.errors import InvalidInput
from glbandits.lab.environments.r6a import check_files
from glbandits.lab.environments.source_files import READ_ERRORS, open_unpacked

FOREST_COMMAS = 54
"""Commas on a line of the UCI file of forest cover."""
FOREST, NEWS = "forest cover", "Yahoo! R6A"
USED_BY = {FOREST: ("forest-1", "forest-2"), NEWS: ("news", "runtime")}
"""The parts of the paper that use each kind of data."""


@dataclass(frozen=True)
class DataFiles:
    """Data files by experiment. Without files an experiment uses shipped or simulated data."""

    forest: Path | None = None
    """The whole UCI file of forest cover."""
    news: tuple[Path, ...] = ()
    """Files of Yahoo! R6A."""


def find_data(paths: Iterable[Path], parts: Sequence[str]) -> DataFiles:
    """Find Yahoo! R6A files and covtype.data among files and in folders.

    Args:
        paths: files and folders. Other files in a folder are ignored, and subfolders are not searched.
        parts: the parts of the paper that will run.

    Raises:
        InvalidInput: if a file is neither, a folder has no such file, a path has only data that no part uses, or there
            are two files of forest cover.
    """
    files: dict[str, list[Path]] = {FOREST: [], NEWS: []}
    for path in paths:
        recognised = _files_in(path) if path.is_dir() else {path: _kind(path)}
        kinds = sorted(set(recognised.values()))
        users = [part for kind in kinds for part in USED_BY[kind]]
        if not set(users) & set(parts):
            raise InvalidInput(
                f"--data {path} has {' and '.join(kinds)} data, which {', '.join(parts)} does not use; leave it "
                f"out, or run {' or '.join(users)}"
            )
        for file, kind in recognised.items():
            files[kind].append(file)
    if len(files[FOREST]) > 1:
        raise InvalidInput(f"--data takes one file of forest cover, got {', '.join(map(str, files[FOREST]))}")
    return DataFiles(next(iter(files[FOREST]), None), tuple(files[NEWS]))


def _files_in(folder: Path) -> dict[Path, str]:
    """Return the recognised files of a folder with their kinds of data."""
    recognised = {}
    for file in sorted(file for file in folder.iterdir() if file.is_file()):
        first_line = _first_line(file)  # a damaged file is an error, not a file to ignore
        try:
            recognised[file] = _kind(file, first_line)
        except InvalidInput:
            continue
    if not recognised:
        raise InvalidInput(f"--data takes a folder with Yahoo! R6A files or covtype.data, and {folder} has neither")
    return recognised


def _kind(file: Path, first_line: bytes | None = None) -> str:
    """Return the kind of data in a file."""
    first_line = _first_line(file) if first_line is None else first_line
    if first_line.count(b",") == FOREST_COMMAS:
        return FOREST
    try:
        check_files([file])
    except InvalidInput as error:
        raise InvalidInput(f"--data takes Yahoo! R6A files and covtype.data, and {file} is neither: {error}") from None
    return NEWS


def _first_line(path: Path) -> bytes:
    try:
        with open_unpacked(path) as file:
            return file.readline(2**16)
    except READ_ERRORS as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from None
