"""Streaming reader of Yahoo! R6A click logs, plain or compressed, in constant memory.

A line is one event: `TIMESTAMP DISPLAYED CLICK |user 2:v ... 1:v |ARTICLE 2:v ... 1:v |ARTICLE ...`. The list of
articles is called the pool. Many consecutive lines have the same pool, so parsed pools are cached. The user's features
are not read.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

from glbandits.common.errors import MAX_ABS, InvalidInput
from glbandits.lab.environments.source_files import READ_ERRORS, open_unpacked

DIM = 6
"""The number of features that are read: those with the ids 1 to 6."""
BLOCK = 2**20
"""Bytes of text in a batch of events, about 700 events."""
CHECKED_LINES = 1000
"""A file without an event in its first lines, as many as this, is rejected."""
SIMULATED = b"SIMULATED"
"""The beginning of the first line of a simulated file."""
KEYS = sorted(b"%d" % key for key in range(1, DIM + 1))
MOST_DIGITS = 18
"""Integers with this number of digits fit into 64 bits."""


class Display(NamedTuple):
    """An event that displayed an article with exactly the features 1 to 6."""

    timestamp: int
    article: int
    click: int
    """1 or 0."""
    features: tuple[float, ...]
    """The features of the article in the order of their ids: the first is feature 1, the constant."""


Pool: TypeAlias = Mapping[int, tuple[float, ...] | None]
"""The features of each article that an event could display; None if an article has other features."""


def read_displays(files: Iterable[str | os.PathLike[str]]) -> Iterator[list[Display]]:
    """Yield the displays in R6A files in order, in batches of about 1 MB of text, which may be empty.

    Malformed lines are left out. Raises InvalidInput at once if a file is not an R6A file. If a file is truncated or
    damaged, the iterator raises InvalidInput when it reaches the damage.
    """
    return map(_displays, chain.from_iterable(map(_blocks, check_files(files))))


def check_files(files: Iterable[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """Return the paths. Raises InvalidInput if a file does not begin like an R6A file."""
    if isinstance(files, (str, bytes, os.PathLike)):
        raise InvalidInput(f"files must be a list of paths; got one path, {files!r}. Put it in brackets")
    paths = tuple(Path(file) for file in files)
    if not paths:
        raise InvalidInput("files must be at least one R6A file; got none")
    for path in paths:
        lines = chain.from_iterable(_blocks(path))
        if not any(_parse_line(line) for _, line in zip(range(CHECKED_LINES), lines, strict=False)):
            raise InvalidInput(f"{path} must be an R6A file; none of its first {CHECKED_LINES} lines is an event")
    return paths


def is_simulated(path: str | os.PathLike[str]) -> bool:
    """Whether a file was written by `write_simulated_news`."""
    return next(_blocks(Path(path)), [b""])[0].startswith(SIMULATED)


def _blocks(path: Path) -> Iterator[list[bytes]]:
    """Yield the lines of a file in blocks of about 1 MB."""
    try:
        with open_unpacked(path) as file:
            while lines := file.readlines(BLOCK):
                yield lines
    except READ_ERRORS as error:
        raise InvalidInput(f"{path} must be a complete R6A file; it cannot be read: {error}") from None


def _displays(lines: list[bytes]) -> list[Display]:
    events = (event for event in map(_parse_line, lines) if event is not None)
    return [Display(at, article, click, shown) for at, article, click, shown in events if shown is not None]


def _parse_line(line: bytes) -> tuple[int, int, int, tuple[float, ...] | None] | None:
    """Return timestamp, displayed article, click and its features; None if the line is malformed.

    A line that displays an article which is not in its pool is malformed.
    """
    head, _, rest = line.partition(b"|")
    user, bar, text = rest.partition(b"|")
    numbers = head.split()
    if len(numbers) != 3 or not bar or not (user == b"user" or user.startswith(b"user ")):
        return None
    timestamp, article, click = numbers
    if not (_is_integer(timestamp) and _is_integer(article) and click in (b"0", b"1")):
        return None
    pool, shown = _parse_pool(text), int(article)
    return None if pool is None or shown not in pool else (int(timestamp), shown, int(click), pool[shown])


@lru_cache(maxsize=64)
def _parse_pool(text: bytes) -> Pool | None:
    """Return the articles of a pool; None if one of them is malformed. The first of two equal ids counts."""
    pool: dict[int, tuple[float, ...] | None] = {}
    for part in text.split(b"|"):
        article = _parse_article(part)
        if article is None:
            return None
        name, features = article
        if pool.get(name) is None:
            pool[name] = features
    return pool


def _parse_article(text: bytes) -> tuple[int, tuple[float, ...] | None] | None:
    """Return the id of an article, and its features if their ids are exactly 1 to 6; None if it is malformed."""
    name, *features = text.split() or [b""]
    pairs = [feature.split(b":") for feature in features]
    if not _is_integer(name) or not all(len(pair) == 2 and _is_integer(pair[0]) for pair in pairs):
        return None
    if sorted(key for key, _ in pairs) != KEYS:
        return int(name), None
    try:
        values = tuple(float(value) for _, value in sorted(pairs))
    except ValueError:
        return None
    return (int(name), values) if all(abs(value) <= MAX_ABS for value in values) else None


def _is_integer(field: bytes) -> bool:
    return field.isdigit() and len(field) <= MOST_DIGITS
