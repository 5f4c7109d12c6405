"""Parser of Yahoo! R6A click logs: lines become events.

A line is one event: `TIMESTAMP DISPLAYED CLICK |user 2:v ... 1:v |ARTICLE 2:v ... 1:v |ARTICLE ...`. The list of
articles is called the pool. Many consecutive lines have the same pool, so a pool is parsed once, by plain Python.
Compiled code then parses the few bytes before the pool and compares the pool with the known ones. It returns to plain
Python at the first line that it cannot parse in this way. The user's features are not read.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numba import types
from numpy.typing import NDArray

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import MAX_ABS
from glbandits.compilation.entry_point import Recipe, entry_point
from glbandits.compilation.numba_support import borrowed, jittable

Bytes: TypeAlias = NDArray[np.uint8]
Article: TypeAlias = tuple[int, tuple[float, ...] | None]
"""The id of an article and its features; None instead of the features if their ids are not exactly 1 to 6."""

DIM = 6
"""The number of features that are read: those with the ids 1 to 6."""
MOST_DIGITS = 18
"""Integers with this number of digits fit into 64 bits."""

# Limits of the pools that compiled code can compare: their number per block, bytes and articles.
SLOTS, SLOT_BYTES, SLOT_ARTICLES = 16, 8192, 128

NEWLINE, SPACE, BAR, ZERO, NINE = (int(byte) for byte in b"\n |09")
SHORTEST_EVENT = len(b"0 0 0|user|0\n")
USER = tuple(b"|user ")
KEYS = sorted(b"%d" % key for key in range(1, DIM + 1))

# The rows of the array that compiled code writes events to.
TIMESTAMP, ARTICLE, CLICK, DISPLAYED, POOL = range(5)


class Fault(StrEnum):
    """The reason why a line is malformed."""

    WRONG_FIELDS = "wrong number of fields"
    NOT_A_NUMBER = "not a number"
    NOT_IN_POOL = "displayed article not in the pool"


@dataclass(frozen=True, eq=False)
class Pool:
    """The articles that an event could display, in the order of the file."""

    ids: Ints
    """Articles with exactly the features 1 to 6, (articles,)."""
    features: Floats
    """Their features, (articles, 6), in the order of ids: column 0 is feature 1, the constant."""
    left_out: Ints
    """The ids of articles with other features."""

    def row(self, article: int) -> int | None:
        """The index of an article in `ids`; -1 if it was left out, None if it is not in the pool."""
        rows = np.flatnonzero(self.ids == article)
        if len(rows):
            return int(rows[0])
        return -1 if article in self.left_out else None


@dataclass(frozen=True, kw_only=True)
class ReadCounts:
    """Numbers of lines, events and skipped items. Counts of several batches can be added."""

    lines: int = 0
    events: int = 0
    wrong_fields: int = 0
    """Lines without the three fields of an event, a user, and articles with features."""
    not_a_number: int = 0
    """Lines with an invalid number, an id that is not an integer, or a click that is not 0 or 1."""
    not_in_pool: int = 0
    """Lines that display an article which is not in their pool."""
    articles_left_out: int = 0
    """Articles with features other than 1 to 6, counted once for each event that lists them. These events count."""

    def __add__(self, other: "ReadCounts") -> "ReadCounts":
        return ReadCounts(
            **{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        )


@dataclass(frozen=True, eq=False)
class Events:
    """A batch of consecutive events, possibly empty, with counts of the skipped lines."""

    timestamps: Ints
    articles: Ints
    """The id of the article that each event displayed."""
    clicks: Ints
    """1 or 0."""
    displayed: Ints
    """The row of that article in its pool; -1 if the article was left out because of its features."""
    pool: Ints
    """The index in `pools` of each event's pool."""
    pools: tuple[Pool, ...]
    counts: ReadCounts

    def __len__(self) -> int:
        return len(self.timestamps)


class Line(NamedTuple):
    """A parsed line: an event, and the text and the record of its pool."""

    timestamp: int
    article: int
    click: int
    row: int
    text: bytes
    pool: Pool


def parse_line(line: bytes) -> Line | Fault:
    """Parse one line.

    This function defines what an event is; compiled code must agree with it.
    """
    parts = line.split(b"|", 2)
    numbers = parts[0].split()
    if len(parts) != 3 or len(numbers) != 3 or not (parts[1] + b" ").startswith(b"user "):
        return Fault.WRONG_FIELDS
    if not (_is_integer(numbers[0]) and _is_integer(numbers[1]) and numbers[2] in (b"0", b"1")):
        return Fault.NOT_A_NUMBER
    pool = _cached_pool(parts[2]) if len(parts[2]) <= SLOT_BYTES else _parse_pool(parts[2], _parse_article)
    if isinstance(pool, Fault):
        return pool
    timestamp, article, click = map(int, numbers)
    row = pool.row(article)
    return Fault.NOT_IN_POOL if row is None else Line(timestamp, article, click, row, parts[2], pool)


@lru_cache(maxsize=4 * SLOTS)
def _cached_pool(text: bytes) -> Pool | Fault:
    return _parse_pool(text, _cached_article)


def _parse_pool(text: bytes, parse: Callable[[bytes], Article | Fault]) -> Pool | Fault:
    articles: dict[int, tuple[float, ...]] = {}
    left_out: dict[int, None] = {}
    for part in text.split(b"|"):
        article = parse(part)
        if isinstance(article, Fault):
            return article
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


def _parse_article(text: bytes) -> Article | Fault:
    name, *features = text.split() or [b""]
    pairs = [feature.split(b":") for feature in features]
    if not name or any(len(pair) != 2 for pair in pairs):
        return Fault.WRONG_FIELDS
    keys = [key for key, _ in pairs]
    if not all(map(_is_integer, [name, *keys])):
        return Fault.NOT_A_NUMBER
    if sorted(keys) != KEYS:
        return int(name), None
    try:
        values = tuple(float(value) for _, value in sorted(pairs))
    except ValueError:
        return Fault.NOT_A_NUMBER
    if b"_" in text or not all(abs(value) <= MAX_ABS for value in values):  # float() accepts 1_000
        return Fault.NOT_A_NUMBER
    return int(name), values


_cached_article = lru_cache(maxsize=64 * SLOTS)(_parse_article)


def _is_integer(field: bytes) -> bool:
    return field.isdigit() and len(field) <= MOST_DIGITS


class EventReader:
    """Converts blocks of text to events.

    Has buffers for the pools that compiled code compares.
    """

    def __init__(self) -> None:
        self._texts = np.zeros((SLOTS, SLOT_BYTES), dtype=np.uint8)
        self._lengths = np.zeros(SLOTS, dtype=np.int64)
        self._ids = np.zeros((SLOTS, SLOT_ARTICLES), dtype=np.int64)
        self._rows = np.zeros((SLOTS, SLOT_ARTICLES), dtype=np.int64)
        self._article_counts = np.zeros(SLOTS, dtype=np.int64)
        self._out = np.empty((5, 0), dtype=np.int64)
        self._scan = entry_point(scan_recipe).compiled()

    def events(self, block: bytes) -> Events:
        """Return the events of a block of complete lines."""
        pools: list[Pool] = []
        pool_indices: dict[bytes, int] = {}
        faults: Counter[Fault] = Counter()
        self._lengths[:] = 0
        position = done = 0
        text = np.frombuffer(block, dtype=np.uint8)
        if self._out.shape[1] < len(block) // SHORTEST_EVENT:
            self._out = np.empty((5, len(block) // SHORTEST_EVENT), dtype=np.int64)
        out = self._out
        while True:
            position, done = self._scan(
                text, position, self._texts, self._lengths, self._ids, self._rows, self._article_counts, out, done
            )
            if position == len(block):
                break
            end = block.index(b"\n", position)
            line = parse_line(block[position:end])
            position = end + 1
            if isinstance(line, Fault):
                faults[line] += 1
                continue
            pool_index = pool_indices.setdefault(line.text, len(pools))
            if pool_index == len(pools):
                pools.append(line.pool)
                self._store_pool(pool_index, line)
            out[:, done] = line.timestamp, line.article, line.click, line.row, pool_index
            done += 1
        out = out[:, :done].copy()
        listed = np.bincount(out[POOL], minlength=len(pools))
        counts = ReadCounts(
            lines=done + faults.total(),
            events=done,
            wrong_fields=faults[Fault.WRONG_FIELDS],
            not_a_number=faults[Fault.NOT_A_NUMBER],
            not_in_pool=faults[Fault.NOT_IN_POOL],
            articles_left_out=sum(len(pool.left_out) * int(n) for pool, n in zip(pools, listed, strict=True)),
        )
        return Events(
            timestamps=out[TIMESTAMP],
            articles=out[ARTICLE],
            clicks=out[CLICK],
            displayed=out[DISPLAYED],
            pool=out[POOL],
            pools=tuple(pools),
            counts=counts,
        )

    def _store_pool(self, slot: int, line: Line) -> None:
        """Let compiled code know a pool, if it is within the limits."""
        ids = np.concatenate([line.pool.ids, line.pool.left_out])
        if slot >= SLOTS or not 0 < len(line.text) <= SLOT_BYTES or len(ids) > SLOT_ARTICLES:
            return
        self._texts[slot, : len(line.text)] = np.frombuffer(line.text, dtype=np.uint8)
        self._ids[slot, : len(ids)] = ids
        self._rows[slot, : len(ids)] = -1
        self._rows[slot, : len(line.pool.ids)] = np.arange(len(line.pool.ids))
        self._article_counts[slot] = len(ids)
        self._lengths[slot] = len(line.text)


@jittable
def _parse_int(block: Bytes, start: int) -> tuple[int, int]:
    """Return the integer that begins at `start` and its end; (0, start) if there is none.

    The end is `start` too if the integer has more than MOST_DIGITS digits.
    """
    value, at = 0, start
    while ZERO <= block[at] <= NINE and at - start <= MOST_DIGITS:
        value = 10 * value + int(block[at]) - ZERO
        at += 1
    return value, at if at - start <= MOST_DIGITS else start


@jittable
def _equal(left: Bytes, right: Bytes) -> bool:
    """Whether two texts of the same length are equal.

    Without an early exit, the loop can be vectorised.
    """
    same = True
    for i in range(left.shape[0]):
        same &= left[i] == right[i]
    return same


@jittable
def _pool_at(block: Bytes, start: int, texts: Bytes, lengths: Ints, guess: int) -> int:
    """The slot of the pool that is the rest of this line; -1 if it is not known.

    Tries `guess` first.
    """
    for attempt in range(SLOTS):
        slot = (guess + attempt) % SLOTS
        end = start + lengths[slot]
        if (
            start < end < block.shape[0]
            and block[end] == NEWLINE
            and _equal(block[start:end], texts[slot, : end - start])
        ):
            return slot
    return -1


@jittable
def _user_end(block: Bytes, start: int) -> int:
    """The offset of the pool if a user begins at `start`, else -1.

    Every block ends with a newline.
    """
    at = start
    for byte in USER:
        if block[at] != byte:
            return -1
        at += 1
    while block[at] != BAR and block[at] != NEWLINE:
        at += 1
    return at + 1 if block[at] == BAR else -1


def _scan(
    block: Bytes,
    start: int,
    texts: Bytes,
    lengths: Ints,
    ids: Ints,
    rows: Ints,
    article_counts: Ints,
    out: Ints,
    done: int,
) -> tuple[int, int]:
    """Parse events as long as their pools are known.

    Returns the offset of the first line that was not parsed, and the total number of events.
    """
    block, position, slot = borrowed(block), start, 0
    while position < block.shape[0]:
        timestamp, at = _parse_int(block, position)
        if at == position or block[at] != SPACE:
            break
        article, end = _parse_int(block, at + 1)
        if end == at + 1 or block[end] != SPACE:
            break
        click, at = _parse_int(block, end + 1)
        if at != end + 2 or click > 1 or block[at] != SPACE:
            break
        pool_start = _user_end(block, at + 1)
        if pool_start < 0:
            break
        known = _pool_at(block, pool_start, texts, lengths, slot)
        if known < 0:
            break
        slot, row = known, -2
        for k in range(article_counts[slot]):
            if ids[slot, k] == article:
                row = rows[slot, k]
                break
        if row == -2:
            break
        out[TIMESTAMP, done], out[ARTICLE, done], out[CLICK, done] = timestamp, article, click
        out[DISPLAYED, done], out[POOL, done] = row, slot
        done += 1
        position = pool_start + lengths[slot] + 1
    return position, done


def scan_recipe() -> Recipe:
    """Describe how to compile `_scan`."""
    text, texts = types.Array(types.uint8, 1, "C", readonly=True), types.uint8[:, ::1]
    one, two, number = types.int64[::1], types.int64[:, ::1], types.int64
    signature = types.UniTuple(number, 2)(text, number, texts, one, two, two, one, two, number)  # type: ignore[no-untyped-call]
    return Recipe(_scan, signature, "R6A files")
