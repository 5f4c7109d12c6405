"""The news problem of the SGD-TS paper, from Yahoo! R6A files: one round per timestamp."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from threading import Lock
from typing import ClassVar

import numpy as np
import polars as pl

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput, check_int
from glbandits.lab.environments.noise import NOISES, Noise
from glbandits.lab.environments.r6a import DIM, Display, check_files, is_simulated, read_displays
from glbandits.lab.environments.rounds import Rounds, chunk_lengths, stream
from glbandits.lab.environments.source_files import FileVersion, file_version

BATCHES = 500
"""Batches of events after which their displays and clicks are added up, so that memory does not grow with the files."""


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
    dim: ClassVar[int] = DIM
    noise: ClassVar[Noise] = NOISES["bernoulli"]
    """Click or no click."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", check_files(self.files))

    @property
    def simulated(self) -> bool:
        """Whether any of the files is simulated. Reports must say so."""
        return any(map(is_simulated, self.files))

    def length(self) -> int:
        """The number of rounds, which is the number of timestamps with at least one arm."""
        return len(self._table().starts) - 1

    def fingerprint(self) -> str:
        """A SHA-256 of all rounds, so that results from different data are not mixed."""
        return self._table().digest

    def __identity__(self) -> str:
        return self.fingerprint()

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """Yield the first `horizon` rounds, in chunks of at most 4 MB of features."""
        table = self._table()
        available = self.length()
        if check_int("horizon", horizon, at_least=1) > available:
            raise InvalidInput(
                f"horizon must be at most {available}, the number of rounds in these files; got {horizon}"
            )
        return _chunks(table, horizon, stream(seed, 0))

    def _table(self) -> "_Table":
        with _reading:  # the first thread reads the files, the others wait
            return _read_table(tuple(file_version("files", path) for path in self.files))


@dataclass(frozen=True, eq=False)
class _Table:
    """All rounds. The arms of consecutive rounds are concatenated."""

    timestamps: Ints
    starts: Ints
    """The offset of the arms of each round, and the total number of arms."""
    arms: Floats
    means: Floats

    @cached_property
    def digest(self) -> str:
        digest = sha256()
        for array in (self.timestamps, self.starts, self.arms, self.means):
            digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()


_reading = Lock()


@lru_cache(maxsize=2)
def _read_table(files: tuple[FileVersion, ...]) -> _Table:
    batches = list[pl.DataFrame]()
    for displays in read_displays(file.path for file in files):
        batches.append(_as_table(displays))
        if len(batches) == BATCHES:
            batches = [_sums(batches)]
    articles = _sums(batches).sort("timestamp", "article")
    if articles.is_empty():
        raise InvalidInput(
            "files must contain at least one event that displays an article with features 1 to 6; got none"
        )
    timestamps, sizes = np.unique(articles["timestamp"].to_numpy(), return_counts=True)
    return _Table(
        timestamps=timestamps,
        starts=np.concatenate([[0], np.cumsum(sizes)]),
        arms=articles["features"].to_numpy(),
        means=articles["clicks"].to_numpy() / articles["displays"].to_numpy(),
    )


def _as_table(displays: list[Display]) -> pl.DataFrame:
    numbers = np.array([display[:3] for display in displays], dtype=np.int64).reshape(-1, 3)
    features = np.array([display.features for display in displays], dtype=np.float64).reshape(-1, DIM)
    table = pl.DataFrame(numbers, ["timestamp", "article", "clicks"])
    return table.with_columns(displays=1, features=pl.Series(features, dtype=pl.Array(pl.Float64, DIM)))


def _sums(batches: list[pl.DataFrame]) -> pl.DataFrame:
    """Add up displays and clicks of each article at each timestamp. If its features change, the first ones count."""
    groups = pl.concat(batches).group_by("timestamp", "article", maintain_order=True)
    return groups.agg(pl.col("clicks", "displays").sum(), pl.col("features").first())


def _chunks(table: _Table, horizon: int, rng: np.random.Generator) -> Iterator[Rounds]:
    sizes = np.diff(table.starts)
    max_arms = int(sizes.max())
    stop = 0
    for length in chunk_lengths(horizon, max_arms * (DIM + 2)):
        start, stop = stop, stop + length
        counts, chunk = sizes[start:stop], slice(table.starts[start], table.starts[stop])
        is_arm = np.arange(max_arms) < counts[:, np.newaxis]
        arms, expected = np.zeros((*is_arm.shape, DIM)), np.zeros(is_arm.shape)
        arms[is_arm], expected[is_arm] = table.arms[chunk], table.means[chunk]
        noise = NOISES["bernoulli"].draw(rng, length)
        yield Rounds(arms=arms, counts=counts, expected=expected, noise=noise)
