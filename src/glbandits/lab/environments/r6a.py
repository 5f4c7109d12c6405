"""Streaming reader of Yahoo! R6A files, plain or gzipped, in constant memory."""

import gzip
import os
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from glbandits.common.errors import InvalidInput
from glbandits.lab.environments.r6a_events import EventReader, Events, Fault, parse_line

BLOCK = 2**20
"""Bytes of text in a batch of events, about 700 events."""
CHUNK = 2**18
"""Bytes per read: few enough to stay in the processor's cache until they are joined."""
LONGEST_LINE = 2**20
"""A longer line is dropped, and counts as one with a wrong number of fields. Real lines have about 1500 bytes."""
CHECKED_LINES = 1000
"""A file without an event in its first lines, as many as this, is rejected."""
SIMULATED = b"SIMULATED"
"""The beginning of the first line of a simulated file."""

READ_ERRORS = (EOFError, OSError, zlib.error)
"""Errors of reading a file that is missing, truncated or damaged."""


def read_events(files: Iterable[str | os.PathLike[str]]) -> Iterator[Events]:
    """Yield the events of R6A files in order, in batches of about 1 MB of text.

    Malformed lines are counted and skipped. Raises InvalidInput at once if a file is not an R6A file. If a file is
    truncated or damaged, the iterator raises InvalidInput when it reaches the damage.
    """
    return chain.from_iterable(map(_read, check_files(files)))


def check_files(files: Iterable[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """Return the paths. Raises InvalidInput if a file does not begin like an R6A file."""
    if isinstance(files, (str, bytes, os.PathLike)):
        raise InvalidInput(f"files must be a list of paths; got one path, {files!r}. Put it in brackets")
    paths = tuple(Path(file) for file in files)
    if not paths:
        raise InvalidInput("files must be at least one R6A file; got none")
    for path in paths:
        _check(path)
    return paths


def is_simulated(path: str | os.PathLike[str]) -> bool:
    """Whether a file was written by `write_simulated_news`."""
    with closing(_blocks(Path(path))) as blocks:
        return next(blocks, b"").startswith(SIMULATED)


def _check(path: Path) -> None:
    first_fault: Fault | None = None
    with closing(_blocks(path)) as blocks:
        lines = chain.from_iterable(block[:-1].split(b"\n") for block in blocks)
        for _, line in zip(range(CHECKED_LINES), lines, strict=False):
            parsed = parse_line(line)
            if not isinstance(parsed, Fault):
                return
            first_fault = first_fault or parsed
    if first_fault is None:
        raise InvalidInput(f"{path} must be an R6A file; it is empty")
    raise InvalidInput(
        f"{path} must be an R6A file; none of its first {CHECKED_LINES} lines is an event. Line 1: {first_fault}"
    )


def _read(path: Path) -> Iterator[Events]:
    reader = EventReader()
    return (reader.events(block) for block in _blocks(path))


def _blocks(path: Path) -> Generator[bytes]:
    """Yield the text of a file in blocks of complete lines."""
    try:
        yield from _unzipped(path)
    except READ_ERRORS as error:
        lines = _lines_before_damage(path)  # not counted before, because it would make reading a third slower
        where = f" after line {lines}" if lines else ""
        raise InvalidInput(f"{path} must be a complete R6A file; it cannot be read{where}: {error}") from None


def _unzipped(path: Path) -> Iterator[bytes]:
    with path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        yield from _complete_lines(gzip.GzipFile(fileobj=raw) if zipped else raw)


def _lines_before_damage(path: Path) -> int:
    lines = 0
    with suppress(*READ_ERRORS), path.open("rb") as raw, gzip.GzipFile(fileobj=raw) as file:
        while text := file.read1(CHUNK):  # unlike read(), it returns the text before the damage
            lines += text.count(b"\n")
    return lines


def _complete_lines(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    complete: list[memoryview] = []
    incomplete: list[memoryview] = []
    while chunk := file.read(CHUNK):
        end, view = chunk.rfind(b"\n") + 1, memoryview(chunk)
        if end:
            complete += [*incomplete, view[:end]]
            incomplete = []
        incomplete.append(view[end:])
        if sum(map(len, incomplete)) > LONGEST_LINE:
            incomplete = [memoryview(b"too long")]  # a line with this beginning is never a valid event
        if sum(map(len, complete)) >= BLOCK:
            yield b"".join(complete)
            complete = []
    if any(map(len, incomplete)):
        complete += [*incomplete, memoryview(b"\n")]
    if complete:
        yield b"".join(complete)
