"""The paper's news problem: articles of Yahoo! R6A files, one round for each timestamp."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import numpy as np

from glbandits.environments.noise import NOISES, Noise
from glbandits.environments.r6a import check_files, is_simulated, read_events
from glbandits.environments.r6a_events import DIM, Events, ReadCounts
from glbandits.errors import InvalidInput, check_int
from glbandits.records import Floats, Ints, Rounds

CHUNK_SIZE = 2**19
"""Numbers in one piece of rounds: 4 MB."""

FileNow: TypeAlias = tuple[Path, int, int]
"""A file as it is now: its path, its size and the time of its last change."""


@dataclass(frozen=True, kw_only=True)
class News:
    """One round for each timestamp of R6A files, in the order of time, as in the experiment of the SGD-TS paper.

    The arms of a round are the articles that were displayed at its timestamp and have exactly the features 1 to 6.
    These are the d = 6 features of an arm, in the order of their ids: the first is constant. Users are left out. The
    expected reward of an article is the share of clicks among its displays at that timestamp. Rewards are Bernoulli,
    and only they depend on the seed.

    An article that was listed but never displayed then is no arm: there is nothing to expect of it. (The published
    code stops with a KeyError there.) A timestamp without any arm is no round. Arms are in the order of article ids.

    The files are read once for each process, and again if they change.

    Args:
        files: paths of R6A files, plain or gzipped.
    """

    files: tuple[str | os.PathLike[str], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", check_files(self.files))

    @property
    def dim(self) -> int:
        """Six."""
        return DIM

    @property
    def noise(self) -> Noise:
        """A click or none."""
        return NOISES["bernoulli"]

    @property
    def simulated(self) -> bool:
        """Whether any of the files was simulated. Whatever is shown of them must say so."""
        return any(map(is_simulated, self.files))

    def length(self) -> int:
        """The number of rounds: of timestamps with at least one arm."""
        return len(self._table().timestamps)

    def timestamps(self) -> Ints:
        """The timestamp of each round."""
        return self._table().timestamps

    def skipped(self) -> int:
        """The number of timestamps that had no arm."""
        return self._table().skipped

    def counts(self) -> ReadCounts:
        """What was read from the files, and what was left out."""
        return self._table().counts

    def fingerprint(self) -> str:
        """A SHA-256 of all that the rounds are made of, so that results from different data are not mixed."""
        return self._table().digest

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """The first rounds, in pieces of at most 4 MB of features."""
        table = self._table()
        there = len(table.timestamps)
        if check_int("horizon", horizon, at_least=1) > there:
            raise InvalidInput(f"horizon must be at most {there}, the number of rounds in these files; got {horizon}")
        return _pieces(table, horizon, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,))))

    def _table(self) -> "_Table":
        key = tuple(map(_as_it_is_now, map(Path, self.files)))
        with _reading:  # threads that ask together wait for the first
            return _read_table(key)


@dataclass(frozen=True, eq=False)
class _Table:
    """All rounds, one after the other."""

    timestamps: Ints
    starts: Ints
    """Where the arms of each round begin, and where the last ones end."""
    arms: Floats
    means: Floats
    skipped: int
    counts: ReadCounts

    @cached_property
    def digest(self) -> str:
        """A SHA-256 of the rounds."""
        digest = sha256()
        for array in (self.timestamps, self.starts, self.arms, self.means):
            digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()


@dataclass(eq=False)
class _Article:
    """An article at one timestamp."""

    features: Floats
    displays: int = 0
    clicks: int = 0


_reading = Lock()


def _as_it_is_now(path: Path) -> FileNow:
    try:
        stat = path.stat()
    except OSError as error:
        raise InvalidInput(f"files must be there as long as they are used; {path}: {error.strerror}") from None
    return path.resolve(), stat.st_size, stat.st_mtime_ns


@lru_cache(maxsize=2)
def _read_table(files: tuple[FileNow, ...]) -> _Table:
    moments: dict[int, dict[int, _Article]] = {}
    counts = ReadCounts()
    for events in read_events(path for path, _, _ in files):
        counts += events.counts
        _add(events, moments)
    rounds = [(timestamp, sorted(articles.items())) for timestamp, articles in sorted(moments.items()) if articles]
    if not rounds:
        raise InvalidInput("files must hold at least one event that displays an article with features 1 to 6; got none")
    arms = [article for _, articles in rounds for _, article in articles]
    table = _Table(
        timestamps=np.array([timestamp for timestamp, _ in rounds], dtype=np.int64),
        starts=np.cumsum([0] + [len(articles) for _, articles in rounds], dtype=np.int64),
        arms=np.array([article.features for article in arms]),
        means=np.array([article.clicks / article.displays for article in arms]),
        skipped=len(moments) - len(rounds),
        counts=counts,
    )
    table.timestamps.flags.writeable = False  # it is handed out
    return table


def _add(events: Events, moments: dict[int, dict[int, _Article]]) -> None:
    """Count displays and clicks: once for each timestamp, pool and article of the batch, not once for each event."""
    times, moment = np.unique(events.timestamps, return_inverse=True)
    for timestamp in times.tolist():
        moments.setdefault(timestamp, {})
    shown = np.flatnonzero(events.displayed >= 0)
    if not len(shown):
        return
    kinds = moment[shown], events.pool[shown], events.displayed[shown]
    sizes = tuple(int(kind.max()) + 1 for kind in kinds)
    codes, first, case = np.unique(np.ravel_multi_index(kinds, sizes), return_index=True, return_inverse=True)
    displays, clicks = np.bincount(case), np.bincount(case, weights=events.clicks[shown])
    cases = np.stack(np.unravel_index(codes, sizes), axis=1).tolist()
    for i in np.argsort(first).tolist():  # an article whose features change keeps those that came first
        when, place, row = cases[i]
        pool = events.pools[place]
        article = moments[int(times[when])].setdefault(int(pool.ids[row]), _Article(pool.features[row]))
        article.displays += int(displays[i])
        article.clicks += int(clicks[i])


def _pieces(table: _Table, horizon: int, rng: np.random.Generator) -> Iterator[Rounds]:
    sizes = np.diff(table.starts)
    most = int(sizes.max())
    longest = max(1, CHUNK_SIZE // (most * (DIM + 2)))
    for start in range(0, horizon, longest):
        stop = min(start + longest, horizon)
        counts, here = sizes[start:stop], slice(table.starts[start], table.starts[stop])
        there = np.arange(most) < counts[:, np.newaxis]
        arms, expected = np.zeros((*there.shape, DIM)), np.zeros(there.shape)
        arms[there], expected[there] = table.arms[here], table.means[here]
        noise = NOISES["bernoulli"].draw(rng, stop - start)
        yield Rounds(arms=arms, counts=counts, expected=expected, noise=noise, values=expected)
