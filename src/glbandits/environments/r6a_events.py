"""Lines of Yahoo! R6A click logs as events.

A line is one event: `TIMESTAMP DISPLAYED CLICK |user 2:v ... 1:v |ARTICLE 2:v ... 1:v |ARTICLE ...`. The list of
articles, the pool, is the same text on many lines in a row. So it is parsed once and then only compared: compiled
code reads the few bytes before it and skips over it, and hands every line that it does not know to plain Python.
The user's features are not read.
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

from glbandits.compilation import Recipe, entry_point
from glbandits.errors import MAX_ABS
from glbandits.numba_support import borrowed, jittable
from glbandits.records import Floats, Ints

Bytes: TypeAlias = NDArray[np.uint8]
Article: TypeAlias = tuple[int, tuple[float, ...] | None]
"""The id of an article and its features, or None if it has others than 1 to 6."""

DIM = 6
"""The features of an article that can be used: those with the ids 1 to 6."""
MOST_DIGITS = 18
"""Whole numbers of so many digits fit 64 bits."""

# Pools of one block that compiled code knows by heart, and how long they may be. The rest is left to Python.
SLOTS, SLOT_BYTES, SLOT_ARTICLES = 16, 8192, 128

NEWLINE, SPACE, BAR, ZERO, NINE = (int(byte) for byte in b"\n |09")
SHORTEST_EVENT = len(b"0 0 0|user|0\n")
USER = tuple(b"|user ")
KEYS = sorted(b"%d" % key for key in range(1, DIM + 1))

# The rows of the array that compiled code writes events to.
TIMESTAMP, ARTICLE, CLICK, DISPLAYED, POOL = range(5)


class Fault(StrEnum):
    """Why a line is no event."""

    WRONG_FIELDS = "wrong number of fields"
    NOT_A_NUMBER = "not a number"
    NOT_IN_POOL = "displayed article not in the pool"


@dataclass(frozen=True, eq=False)
class Pool:
    """The articles that an event could have displayed, in the order of the file."""

    ids: Ints
    """Articles with exactly the features 1 to 6, (articles,)."""
    features: Floats
    """Their features, (articles, 6), by id: column 0 is feature 1, the constant."""
    left_out: Ints
    """Articles with other features."""

    def row(self, article: int) -> int | None:
        """Where an article is in `ids`; -1 if it was left out, None if it is not in the pool."""
        places = np.flatnonzero(self.ids == article)
        if len(places):
            return int(places[0])
        return -1 if article in self.left_out else None


@dataclass(frozen=True, kw_only=True)
class ReadCounts:
    """What was read, and what was left out. They add up."""

    lines: int = 0
    events: int = 0
    wrong_fields: int = 0
    """Lines without the three fields of an event, a user, and articles with features."""
    not_a_number: int = 0
    """Lines with a number that is none, an id that is no whole number, or a click that is not 0 or 1."""
    not_in_pool: int = 0
    """Lines that display an article which they do not list."""
    articles_left_out: int = 0
    """Articles with other features than 1 to 6, once for each event that lists them. The event itself is kept."""

    def __add__(self, other: "ReadCounts") -> "ReadCounts":
        return ReadCounts(
            **{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        )


@dataclass(frozen=True, eq=False)
class Events:
    """Consecutive events, and what was left out on the way. There may be none."""

    timestamps: Ints
    articles: Ints
    """The id of the article that each event displayed."""
    clicks: Ints
    """1 or 0."""
    displayed: Ints
    """The row of that article in its pool; -1 if it was left out for its features."""
    pool: Ints
    """The index in `pools` of each event's pool."""
    pools: tuple[Pool, ...]
    counts: ReadCounts

    def __len__(self) -> int:
        return len(self.timestamps)


class Line(NamedTuple):
    """An event, and its pool as text and as a record."""

    timestamp: int
    article: int
    click: int
    row: int
    text: bytes
    pool: Pool


def parse_line(line: bytes) -> Line | Fault:
    """One line, read slowly: this says what an event is. Compiled code only repeats what was said here."""
    parts = line.split(b"|", 2)
    numbers = parts[0].split()
    if len(parts) != 3 or len(numbers) != 3 or not (parts[1] + b" ").startswith(b"user "):
        return Fault.WRONG_FIELDS
    if not (_is_whole(numbers[0]) and _is_whole(numbers[1]) and numbers[2] in (b"0", b"1")):
        return Fault.NOT_A_NUMBER
    pool = _known_pool(parts[2]) if len(parts[2]) <= SLOT_BYTES else _parse_pool(parts[2], _parse_article)
    if isinstance(pool, Fault):
        return pool
    timestamp, article, click = map(int, numbers)
    row = pool.row(article)
    return Fault.NOT_IN_POOL if row is None else Line(timestamp, article, click, row, parts[2], pool)


@lru_cache(maxsize=4 * SLOTS)
def _known_pool(text: bytes) -> Pool | Fault:
    return _parse_pool(text, _known_article)


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
    if not all(map(_is_whole, [name, *keys])):
        return Fault.NOT_A_NUMBER
    if sorted(keys) != KEYS:
        return int(name), None
    try:
        values = tuple(float(value) for _, value in sorted(pairs))
    except ValueError:
        return Fault.NOT_A_NUMBER
    if b"_" in text or not all(abs(value) <= MAX_ABS for value in values):  # Python takes 1_000 for a number
        return Fault.NOT_A_NUMBER
    return int(name), values


_known_article = lru_cache(maxsize=64 * SLOTS)(_parse_article)


def _is_whole(field: bytes) -> bool:
    return field.isdigit() and len(field) <= MOST_DIGITS


class EventReader:
    """The pools of a block, as compiled code compares them."""

    def __init__(self) -> None:
        self._texts = np.zeros((SLOTS, SLOT_BYTES), dtype=np.uint8)
        self._lengths = np.zeros(SLOTS, dtype=np.int64)
        self._ids = np.zeros((SLOTS, SLOT_ARTICLES), dtype=np.int64)
        self._rows = np.zeros((SLOTS, SLOT_ARTICLES), dtype=np.int64)
        self._articles = np.zeros(SLOTS, dtype=np.int64)
        self._out = np.empty((5, 0), dtype=np.int64)
        self._scan = entry_point(scan_recipe).compiled()

    def events(self, block: bytes) -> Events:
        """The events of whole lines."""
        pools: list[Pool] = []
        places: dict[bytes, int] = {}
        faults: Counter[Fault] = Counter()
        self._lengths[:] = 0
        here = done = 0
        text = np.frombuffer(block, dtype=np.uint8)
        if self._out.shape[1] < len(block) // SHORTEST_EVENT:
            self._out = np.empty((5, len(block) // SHORTEST_EVENT), dtype=np.int64)
        out = self._out
        while True:
            here, done = self._scan(
                text, here, self._texts, self._lengths, self._ids, self._rows, self._articles, out, done
            )
            if here == len(block):
                break
            end = block.index(b"\n", here)
            line = parse_line(block[here:end])
            here = end + 1
            if isinstance(line, Fault):
                faults[line] += 1
                continue
            place = places.setdefault(line.text, len(pools))
            if place == len(pools):
                pools.append(line.pool)
                self._learn(place, line)
            out[:, done] = line.timestamp, line.article, line.click, line.row, place
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

    def _learn(self, place: int, line: Line) -> None:
        ids = np.concatenate([line.pool.ids, line.pool.left_out])
        if place >= SLOTS or not 0 < len(line.text) <= SLOT_BYTES or len(ids) > SLOT_ARTICLES:
            return
        self._texts[place, : len(line.text)] = np.frombuffer(line.text, dtype=np.uint8)
        self._ids[place, : len(ids)] = ids
        self._rows[place, : len(ids)] = -1
        self._rows[place, : len(line.pool.ids)] = np.arange(len(line.pool.ids))
        self._articles[place] = len(ids)
        self._lengths[place] = len(line.text)


@jittable
def _whole_at(block: Bytes, start: int) -> tuple[int, int]:
    """The whole number that begins here and where it ends; at its start if there is none that fits."""
    value, at = 0, start
    while ZERO <= block[at] <= NINE and at - start <= MOST_DIGITS:
        value = 10 * value + int(block[at]) - ZERO
        at += 1
    return value, at if at - start <= MOST_DIGITS else start


@jittable
def _equal(left: Bytes, right: Bytes) -> bool:
    """Whether two texts of the same length are the same. Without an early end it takes 32 bytes at a time."""
    same = True
    for i in range(left.shape[0]):
        same &= left[i] == right[i]
    return same


@jittable
def _pool_at(block: Bytes, start: int, texts: Bytes, lengths: Ints, guess: int) -> int:
    """The slot whose text fills the rest of this line, or -1. The guess is tried first."""
    for turn in range(SLOTS):
        slot = (guess + turn) % SLOTS
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
    """Where the pool begins, if a user begins here; else -1. A block ends with a newline, which no user has."""
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
    articles: Ints,
    out: Ints,
    done: int,
) -> tuple[int, int]:
    """Read events as long as their pools are known; say where the first other line begins, and how many are done."""
    block, here, slot = borrowed(block), start, 0
    while here < block.shape[0]:
        timestamp, at = _whole_at(block, here)
        if at == here or block[at] != SPACE:
            break
        article, end = _whole_at(block, at + 1)
        if end == at + 1 or block[end] != SPACE:
            break
        click, at = _whole_at(block, end + 1)
        if at != end + 2 or click > 1 or block[at] != SPACE:
            break
        pool_start = _user_end(block, at + 1)
        if pool_start < 0:
            break
        found = _pool_at(block, pool_start, texts, lengths, slot)
        if found < 0:
            break
        slot, row = found, -2
        for k in range(articles[slot]):
            if ids[slot, k] == article:
                row = rows[slot, k]
                break
        if row == -2:
            break
        out[TIMESTAMP, done], out[ARTICLE, done], out[CLICK, done] = timestamp, article, click
        out[DISPLAYED, done], out[POOL, done] = row, slot
        done += 1
        here = pool_start + lengths[slot] + 1
    return here, done


def scan_recipe() -> Recipe:
    """The function `_scan`, compiled."""
    text, texts = types.Array(types.uint8, 1, "C", readonly=True), types.uint8[:, ::1]
    one, two, number = types.int64[::1], types.int64[:, ::1], types.int64
    signature = types.UniTuple(number, 2)(text, number, texts, one, two, two, one, two, number)  # type: ignore[no-untyped-call]
    return Recipe(_scan, signature, "R6A files")
