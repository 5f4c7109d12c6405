"""The news problem of the SGD-TS paper, from Yahoo! R6A files: one round per timestamp."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput, check_int
from glbandits.lab.environments.noise import NOISES, Noise
from glbandits.lab.environments.r6a import check_files, is_simulated, read_events
from glbandits.lab.environments.r6a_events import DIM, Events, ReadCounts
from glbandits.lab.environments.rounds import Rounds

CHUNK_SIZE = 2**19
"""The largest amount of numbers in a chunk of rounds: 4 MB."""

FileVersion: TypeAlias = tuple[Path, int, int]
"""A version of a file: its path, its size and the time of its last change."""


@dataclass(frozen=True, kw_only=True)
class News:
    """One round for each timestamp of R6A files, in time order, as in the SGD-TS paper.

    The arms of a round are the articles that were displayed at its timestamp and have exactly the features 1 to 6.
    These d = 6 features are in the order of their ids; the first is constant. User features are not used. The expected
    reward of an article is its click rate at that timestamp. Rewards are Bernoulli. Only the rewards depend on the
    seed.

    An article that was listed at a timestamp but never displayed is not an arm, because it has no click rate. (The
    published code stops with a KeyError for such an article.) A timestamp without arms is skipped. Arms are in the
    order of article ids.

    Each process reads the files once, and again if they change.

    Args:
        files: paths of R6A files, plain or gzipped.
    """

    files: tuple[str | os.PathLike[str], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", check_files(self.files))

    @property
    def dim(self) -> int:
        """The number of features of an arm: 6."""
        return DIM

    @property
    def noise(self) -> Noise:
        """Bernoulli: click or no click."""
        return NOISES["bernoulli"]

    @property
    def simulated(self) -> bool:
        """Whether any of the files is simulated. Reports must say so."""
        return any(map(is_simulated, self.files))

    def length(self) -> int:
        """The number of rounds, which is the number of timestamps with at least one arm."""
        return len(self._table().timestamps)

    def timestamps(self) -> Ints:
        """The timestamp of each round."""
        return self._table().timestamps

    def skipped(self) -> int:
        """The number of timestamps without an arm."""
        return self._table().skipped

    def counts(self) -> ReadCounts:
        """The numbers of lines, events and skipped lines in the files."""
        return self._table().counts

    def fingerprint(self) -> str:
        """A SHA-256 of all rounds, so that results from different data are not mixed."""
        return self._table().digest

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """Yield the first `horizon` rounds, in chunks of at most 4 MB of features."""
        table = self._table()
        available = len(table.timestamps)
        if check_int("horizon", horizon, at_least=1) > available:
            raise InvalidInput(
                f"horizon must be at most {available}, the number of rounds in these files; got {horizon}"
            )
        return _chunks(table, horizon, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,))))

    def _table(self) -> "_Table":
        key = tuple(map(_file_version, map(Path, self.files)))
        with _reading:  # the first thread reads the files, the others wait
            return _read_table(key)


@dataclass(frozen=True, eq=False)
class _Table:
    """All rounds. The arms of consecutive rounds are concatenated."""

    timestamps: Ints
    starts: Ints
    """The offset of the arms of each round, and the total number of arms."""
    arms: Floats
    means: Floats
    skipped: int
    counts: ReadCounts

    @cached_property
    def digest(self) -> str:
        digest = sha256()
        for array in (self.timestamps, self.starts, self.arms, self.means):
            digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()


@dataclass(eq=False)
class _Article:
    """Displays and clicks of an article at one timestamp."""

    features: Floats
    displays: int = 0
    clicks: int = 0


_reading = Lock()


def _file_version(path: Path) -> FileVersion:
    try:
        stat = path.stat()
    except OSError as error:
        raise InvalidInput(f"files must exist as long as they are used; {path}: {error.strerror}") from None
    return path.resolve(), stat.st_size, stat.st_mtime_ns


@lru_cache(maxsize=2)
def _read_table(files: tuple[FileVersion, ...]) -> _Table:
    articles_at: dict[int, dict[int, _Article]] = {}
    counts = ReadCounts()
    for events in read_events(path for path, _, _ in files):
        counts += events.counts
        _count_clicks(events, articles_at)
    rounds = [(timestamp, sorted(articles.items())) for timestamp, articles in sorted(articles_at.items()) if articles]
    if not rounds:
        raise InvalidInput(
            "files must contain at least one event that displays an article with features 1 to 6; got none"
        )
    arms = [article for _, articles in rounds for _, article in articles]
    table = _Table(
        timestamps=np.array([timestamp for timestamp, _ in rounds], dtype=np.int64),
        starts=np.cumsum([0] + [len(articles) for _, articles in rounds], dtype=np.int64),
        arms=np.array([article.features for article in arms]),
        means=np.array([article.clicks / article.displays for article in arms]),
        skipped=len(articles_at) - len(rounds),
        counts=counts,
    )
    table.timestamps.flags.writeable = False  # `News.timestamps` returns this array
    return table


def _count_clicks(events: Events, articles_at: dict[int, dict[int, _Article]]) -> None:
    """Add displays and clicks of a batch of events to `articles_at[timestamp][article id]`.

    Events with the same timestamp, pool and article are counted together, because there are millions of events.
    """
    timestamps, time_index = np.unique(events.timestamps, return_inverse=True)
    for timestamp in timestamps.tolist():
        articles_at.setdefault(timestamp, {})
    displayed = np.flatnonzero(events.displayed >= 0)
    if not len(displayed):
        return
    keys = time_index[displayed], events.pool[displayed], events.displayed[displayed]
    sizes = tuple(int(key.max()) + 1 for key in keys)
    codes, first, group = np.unique(np.ravel_multi_index(keys, sizes), return_index=True, return_inverse=True)
    displays, clicks = np.bincount(group), np.bincount(group, weights=events.clicks[displayed])
    groups = np.stack(np.unravel_index(codes, sizes), axis=1).tolist()
    for i in np.argsort(first).tolist():  # if the features of an article change, the first ones are used
        time, pool_index, row = groups[i]
        pool = events.pools[pool_index]
        article = articles_at[int(timestamps[time])].setdefault(int(pool.ids[row]), _Article(pool.features[row]))
        article.displays += int(displays[i])
        article.clicks += int(clicks[i])


def _chunks(table: _Table, horizon: int, rng: np.random.Generator) -> Iterator[Rounds]:
    sizes = np.diff(table.starts)
    max_arms = int(sizes.max())
    chunk_length = max(1, CHUNK_SIZE // (max_arms * (DIM + 2)))
    for start in range(0, horizon, chunk_length):
        stop = min(start + chunk_length, horizon)
        counts, chunk = sizes[start:stop], slice(table.starts[start], table.starts[stop])
        is_arm = np.arange(max_arms) < counts[:, np.newaxis]
        arms, expected = np.zeros((*is_arm.shape, DIM)), np.zeros(is_arm.shape)
        arms[is_arm], expected[is_arm] = table.arms[chunk], table.means[chunk]
        noise = NOISES["bernoulli"].draw(rng, stop - start)
        yield Rounds(arms=arms, counts=counts, expected=expected, noise=noise, values=expected)
