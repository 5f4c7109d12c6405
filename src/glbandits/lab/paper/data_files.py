"""The user's data files. The first line of a file identifies its kind of data."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from glbandits.common.errors import InvalidInput
from glbandits.lab.environments.r6a import check_files
from glbandits.lab.environments.source_files import READ_ERRORS, open_unpacked

FOREST_COMMAS = 54
"""Commas on a line of the UCI file of forest cover."""
FOREST, NEWS = "forest cover", "Yahoo! R6A"
USED_BY = {FOREST: ("forest-1", "forest-2"), NEWS: ("news", "runtime")}
"""The parts of the paper that use each kind of data."""


def find_data(paths: Iterable[Path], parts: Sequence[str]) -> tuple[Path | None, tuple[Path, ...]]:
    """Return covtype.data, if it is there, and the Yahoo! R6A files among files and in folders.

    Args:
        paths: files and folders. Other files in a folder are ignored, and subfolders are not searched.
        parts: the parts of the paper that will run.

    Raises:
        InvalidInput: if a file is neither, a folder has no such file, a path has only data that no part uses, or there
            are two files of forest cover.
    """
    files: dict[str, list[Path]] = {FOREST: [], NEWS: []}
    for path in paths:
        recognised = _recognised(path)
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
    return next(iter(files[FOREST]), None), tuple(files[NEWS])


def _recognised(path: Path) -> dict[Path, str]:
    """Return this file, or the recognised files of this folder, with their kinds of data."""
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    kinds = {file: _kind(file) for file in files}
    recognised = {file: kind for file, kind in kinds.items() if kind is not None}
    if not recognised:
        raise InvalidInput(f"--data takes Yahoo! R6A files, covtype.data or a folder of them; {path} has neither")
    return recognised


def _kind(file: Path) -> str | None:
    """Return the kind of data in a file; None if it is neither. Raises InvalidInput if the file is damaged."""
    if _first_line(file).count(b",") == FOREST_COMMAS:
        return FOREST
    try:
        check_files([file])
    except InvalidInput:
        return None
    return NEWS


def _first_line(path: Path) -> bytes:
    try:
        with open_unpacked(path) as file:
            return file.readline(2**16)
    except READ_ERRORS as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from None
