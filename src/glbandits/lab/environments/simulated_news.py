"""Simulated R6A files, with a known click model.

The simulated files have the format and the names of the real ones, which may not be redistributed.
"""

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.atomic_files import atomic_path
from glbandits.common.errors import InvalidInput, check_int
from glbandits.lab.environments.r6a import SIMULATED, is_simulated

NAME = "ydata-fp-td-clicks-v1_0.200905{:02d}.gz"
FIRST_TIMESTAMP = 1241160900
"""The first timestamp of the real files, in the morning of 1 May 2009."""
SECONDS, TIMESTAMPS = 300, 288
"""Seconds between timestamps, and timestamps per day."""
FEWEST, MOST = 19, 25
"""The smallest and the largest number of articles in a pool."""
ARRIVAL, DEPARTURE = 0.1, 0.1
"""Probabilities at each timestamp that an article enters the pool, and that one leaves it. About 29 arrive per day."""
FIRST_ARTICLE = 109_000
OTHER_FEATURES = 0.04
"""The share of articles that have a feature 7 as well."""
USERS = 1000
"""The number of different users. Each event draws one of them."""
MALFORMED_LINES = 6
"""Malformed lines per day."""

THETA: Floats = np.array([-3.5, 1.2, 0.4, -0.8, 0.9, -0.6])
"""The coefficients of the article features 1 to 6 in the log-odds of a click."""
TASTE = 0.5
"""The coefficient of the match of article and user, which is the inner product of their features 2 to 6 (0 to 1)."""

NOTE = """\
These files are SIMULATED. They are no data of Yahoo! and say nothing about its readers:
{names}
They have the format and the names of Yahoo! R6A, and were written by glbandits with seed {seed}.
The first line of each says so too; readers of R6A count it as malformed.
"""
FIRST_LINE = SIMULATED + b" by glbandits: this is no data of Yahoo!\n"


def write_simulated_news(
    folder: str | os.PathLike[str], *, days: int = 2, events_per_day: int = 288_000, seed: int = 0
) -> tuple[Path, ...]:
    """Write simulated R6A files, one per day, and a file SIMULATED.txt. Returns the paths.

    Pools change slowly. An event displays a uniformly random article of its pool. The probability of a click is
    1/(1+exp(-(THETA . article + TASTE * match))), about 4 % on average. As in the real files, some articles have other
    features and some lines are malformed. The same arguments give the same bytes.

    Args:
        folder: the target folder, created if it does not exist. Existing files that are not simulated are never
            overwritten.
        days: the number of files, starting at 1 May 2009.
        events_per_day: events, spread evenly over the 288 timestamps of a day. The real files have 4.6 million.
        seed: the random seed.
    """
    days = check_int("days", days, at_least=1, at_most=31)
    events_per_day = check_int("events_per_day", events_per_day, at_least=TIMESTAMPS)
    seed = check_int("seed", seed, at_least=0)
    folder = Path(folder)
    paths = tuple(folder / NAME.format(day + 1) for day in range(days))
    for path in paths:
        if path.exists() and not is_simulated(path):
            raise InvalidInput(
                f"folder must not contain real R6A files; {path} is not simulated. Choose another folder"
            )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SIMULATED.txt").write_text(NOTE.format(seed=seed, names="\n".join(path.name for path in paths)))
    simulator = _Simulator(np.random.default_rng(seed))
    for day, path in enumerate(paths):
        # No name and no time in the header: the bytes depend on the text alone.
        with (
            atomic_path(path) as temporary,
            temporary.open("wb") as raw,
            gzip.GzipFile("", "wb", 6, raw, mtime=0) as file,
        ):
            file.write(FIRST_LINE)
            for text in simulator.day(FIRST_TIMESTAMP + day * TIMESTAMPS * SECONDS, events_per_day):
                file.write(text)
    return paths


class _Simulator:
    """The users, and a pool of articles that changes over time."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self._next = rng, FIRST_ARTICLE
        # Rounded to six decimals, as in the files.
        self._users = rng.dirichlet(np.full(5, 0.3), USERS).round(6)
        self._user_texts = [b"|user " + _features(user) + b" " for user in self._users]
        self._ids: list[int] = []
        self._articles: list[Floats] = []
        self._texts: list[bytes] = []
        for _ in range(FEWEST + (MOST - FEWEST) // 2):
            self._add()

    def day(self, first: int, events: int) -> Iterator[bytes]:
        """Yield the text of each timestamp."""
        malformed = set(self._rng.choice(TIMESTAMPS, MALFORMED_LINES, replace=False).tolist())
        for i in range(TIMESTAMPS):
            if len(self._ids) < MOST and self._rng.random() < ARRIVAL:
                self._add()
            if len(self._ids) > FEWEST and self._rng.random() < DEPARTURE:
                self._remove(int(self._rng.integers(len(self._ids))))
            lines = self._lines(first + i * SECONDS, events * (i + 1) // TIMESTAMPS - events * i // TIMESTAMPS)
            if i in malformed:
                lines.insert(int(self._rng.integers(len(lines) + 1)), self._malformed(lines[0]))
            yield b"".join(lines)

    def _lines(self, timestamp: int, events: int) -> list[bytes]:
        displayed = self._rng.integers(len(self._ids), size=events)
        users = self._rng.integers(USERS, size=events)
        articles = np.array(self._articles)[displayed]
        scores = THETA[0] + articles @ THETA[1:] + TASTE * (articles * self._users[users]).sum(axis=1)
        clicks = self._rng.random(events) < 1 / (1 + np.exp(-scores))
        pool = b" ".join(self._texts) + b"\n"
        return [
            b"%d %d %d %b%b" % (timestamp, self._ids[article], click, self._user_texts[user], pool)
            for article, click, user in zip(displayed.tolist(), clicks.tolist(), users.tolist(), strict=True)
        ]

    def _malformed(self, line: bytes) -> bytes:
        timestamp, article, click, rest = line.split(b" ", 3)
        variants = (
            b" ".join([timestamp, article, rest]),
            b" ".join([timestamp, b"none", click, rest]),
            b" ".join([timestamp, b"1", click, rest]),
            line[: len(line) // 2].rsplit(b":", 1)[0] + b"\n",
        )
        return variants[int(self._rng.integers(len(variants)))]

    def _add(self) -> None:
        self._next += int(self._rng.integers(1, 10))
        features: Floats = self._rng.dirichlet(np.full(5, 1.0)).round(6)
        other = b" 7:1.000000" if self._rng.random() < OTHER_FEATURES else b""
        self._ids.append(self._next)
        self._articles.append(features)
        self._texts.append(b"|%d %b%b" % (self._next, _features(features), other))

    def _remove(self, index: int) -> None:
        for part in (self._ids, self._articles, self._texts):
            del part[index]


def _features(memberships: Floats) -> bytes:
    """Format features 2 to 6, followed by the constant feature 1."""
    return b"".join(b"%d:%.6f " % (key + 2, value) for key, value in enumerate(memberships)) + b"1:1.000000"
