"""Streaming reader of Yahoo! R6A click logs, plain or compressed, in constant memory.

A line is one event: `TIMESTAMP DISPLAYED CLICK |user 2:v ... 1:v |ARTICLE 2:v ... 1:v |ARTICLE ...`. The list of
articles is called the pool. Many consecutive lines have the same pool, so parsed pools are cached. The user's features
are not read.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path

import numpy as np

from glbandits.common.arrays import Floats, Ints
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


@dataclass(frozen=True, eq=False)
class Pool:
    """The articles that an event could display, in the order of the file."""

    ids: Ints
    """Articles with exactly the features 1 to 6, (articles,)."""
    features: Floats
    """Their features, (articles, 6), in the order of ids: column 0 is feature 1, the constant."""
    left_out: Ints
    """The ids of articles with other features."""

    @cached_property
    def rows(self) -> dict[int, int]:
        """The index of each article in `ids`; -1 if it was left out."""
        return dict.fromkeys(self.left_out.tolist(), -1) | {name: row for row, name in enumerate(self.ids.tolist())}


@dataclass(frozen=True, kw_only=True)
class ReadCounts:
    """Numbers of lines, events and skipped items. Counts of several batches can be added."""

    lines: int = 0
    events: int = 0
    malformed: int = 0
    """Lines that are no event, or that display an article which is not in their pool."""
    articles_left_out: int = 0
    """Articles with features other than 1 to 6, counted once for each event that lists them. These events count."""

    def __add__(self, other: "ReadCounts") -> "ReadCounts":
        return ReadCounts(
            **{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        )


@dataclass(frozen=True, eq=False)
class NewsEvents:
    """A batch of consecutive events, possibly empty, with counts of the skipped lines."""

    timestamps: Ints
    clicks: Ints
    """1 or 0."""
    displayed: Ints
    """The row of the displayed article in its pool; -1 if the article was left out because of its features."""
    pool: Ints
    """The index in `pools` of each event's pool."""
    pools: tuple[Pool, ...]
    counts: ReadCounts

    def __len__(self) -> int:
        return len(self.timestamps)


def read_events(files: Iterable[str | os.PathLike[str]]) -> Iterator[NewsEvents]:
    """Yield the events of R6A files in order, in batches of about 1 MB of text.

    Malformed lines are counted and skipped. Raises InvalidInput at once if a file is not an R6A file. If a file is
    truncated or damaged, the iterator raises InvalidInput when it reaches the damage.
    """
    return map(_parse_lines, chain.from_iterable(map(_blocks, check_files(files))))


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


def _parse_lines(lines: list[bytes]) -> NewsEvents:
    events = [event for event in map(_parse_line, lines) if event is not None]
    indices = {pool: index for index, pool in enumerate(dict.fromkeys(pool for *_, pool in events))}
    timestamps, clicks, displayed = np.array([event[:3] for event in events], dtype=np.int64).reshape(-1, 3).T.copy()
    return NewsEvents(
        timestamps=timestamps,
        clicks=clicks,
        displayed=displayed,
        pool=np.array([indices[pool] for *_, pool in events], dtype=np.int64),
        pools=tuple(indices),
        counts=ReadCounts(
            lines=len(lines),
            events=len(events),
            malformed=len(lines) - len(events),
            articles_left_out=sum(len(pool.left_out) for *_, pool in events),
        ),
    )


def _parse_line(line: bytes) -> tuple[int, int, int, Pool] | None:
    """Return timestamp, click, row of the displayed article and pool; None if the line is malformed."""
    head, _, rest = line.partition(b"|")
    user, bar, text = rest.partition(b"|")
    numbers = head.split()
    if len(numbers) != 3 or not bar or not (user == b"user" or user.startswith(b"user ")):
        return None
    timestamp, article, click = numbers
    if not (_is_integer(timestamp) and _is_integer(article) and click in (b"0", b"1")):
        return None
    pool = _parse_pool(text)
    row = None if pool is None else pool.rows.get(int(article))
    return None if pool is None or row is None else (int(timestamp), int(click), row, pool)


@lru_cache(maxsize=64)
def _parse_pool(text: bytes) -> Pool | None:
    """Return the articles of a pool; None if one of them is malformed. The first of two equal ids counts."""
    articles: dict[int, tuple[float, ...]] = {}
    left_out: dict[int, None] = {}
    for part in text.split(b"|"):
        article = _parse_article(part)
        if article is None:
            return None
        name, features = article
        if features is None:
            left_out[name] = None
        else:
            articles.setdefault(name, features)
    return Pool(
        ids=np.array(list(articles), dtype=np.int64),
        features=np.array(list(articles.values()), dtype=np.float64).reshape(-1, DIM),
        left_out=np.array([name for name in left_out if name not in articles], dtype=np.int64),
    )


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
