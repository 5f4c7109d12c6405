"""Yahoo! R6A files, plain or gzipped, as a stream: in order, in memory that does not grow with the file."""

import gzip
import os
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from glbandits.environments.r6a_events import EventReader, Events, Fault, parse_line
from glbandits.errors import InvalidInput

BLOCK = 2**20
"""Bytes of text that make one batch of events, about 700 of them."""
CHUNK = 2**18
"""Bytes of text that are read at once: few enough to stay in a processor's cache until they are joined."""
LONGEST_LINE = 2**20
"""A line with more bytes is not kept; it counts as one with a wrong number of fields. Real ones have about 1500."""
LOOKED_AT = 1000
"""A file with no event on so many first lines is refused."""
SIMULATED = b"SIMULATED"
"""How the first line of a simulated file begins, so that the label goes wherever the file goes."""

UNREADABLE = (EOFError, OSError, zlib.error)
"""What reading a file that is missing, cut short or damaged raises."""


def read_events(files: Iterable[str | os.PathLike[str]]) -> Iterator[Events]:
    """The events of R6A files, plain or gzipped, in order, about 1 MB of text at a time.

    A malformed line is counted and left out. A file that is no R6A file is refused before anything is returned.
    One that is cut short or damaged is refused where that shows: a stream cannot know before.
    """
    return chain.from_iterable(map(_read, check_files(files)))


def check_files(files: Iterable[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """The paths, if each of them is a file that begins like an R6A file."""
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
        for _, line in zip(range(LOOKED_AT), lines, strict=False):
            read = parse_line(line)
            if not isinstance(read, Fault):
                return
            first_fault = first_fault or read
    if first_fault is None:
        raise InvalidInput(f"{path} must be an R6A file; it is empty")
    raise InvalidInput(
        f"{path} must be an R6A file; no line of its first {LOOKED_AT} is an event. Line 1: {first_fault}"
    )


def _read(path: Path) -> Iterator[Events]:
    reader = EventReader()
    return (reader.events(block) for block in _blocks(path))


def _blocks(path: Path) -> Generator[bytes]:
    """The text of a file in pieces that end with a line."""
    try:
        yield from _unzipped(path)
    except UNREADABLE as error:
        lines = _lines_before_damage(path)  # counted only now: in good files it would cost a third of reading them
        where = f" after line {lines}" if lines else ""
        raise InvalidInput(f"{path} must be a whole R6A file; it cannot be read{where}: {error}") from None


def _unzipped(path: Path) -> Iterator[bytes]:
    with path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        yield from _whole_lines(gzip.GzipFile(fileobj=raw) if zipped else raw)


def _lines_before_damage(path: Path) -> int:
    lines = 0
    with suppress(*UNREADABLE), path.open("rb") as raw, gzip.GzipFile(fileobj=raw) as file:
        while text := file.read1(CHUNK):  # unlike read, it gives what there is before it fails
            lines += text.count(b"\n")
    return lines


def _whole_lines(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    whole: list[memoryview] = []
    begun: list[memoryview] = []
    while chunk := file.read(CHUNK):
        end, view = chunk.rfind(b"\n") + 1, memoryview(chunk)
        if end:
            whole += [*begun, view[:end]]
            begun = []
        begun.append(view[end:])
        if sum(map(len, begun)) > LONGEST_LINE:
            begun = [memoryview(b"too long")]  # what begins with this is no event, however it ends
        if sum(map(len, whole)) >= BLOCK:
            yield b"".join(whole)
            whole = []
    if any(map(len, begun)):
        whole += [*begun, memoryview(b"\n")]
    if whole:
        yield b"".join(whole)
