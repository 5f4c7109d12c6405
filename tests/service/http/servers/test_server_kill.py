"""Acknowledged means durable: servers and the database are killed under load, and nothing acknowledged is lost."""

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from glbandits.service.runtime.replay.replay_verification import VerificationResult, verify
from glbandits.service.storage.open_store import open_store
from tests.service.helpers import wait_until
from tests.service.http.servers.acknowledged_load import METRIC, WIDTH, Load, distinct
from tests.service.http.servers.rankers import Ranker, configure, first_key_of, rankers, start_all
from tests.service.storage.postgres.postgres_server import PostgresServer

pytestmark = pytest.mark.system

log = logging.getLogger(__name__)

CONFIGURATION = {
    "rewardWait": 0.5,
    "modelUpdate": 0.1,
    "width": WIDTH,
    "control": {"share": 0.3},
    "metrics": {METRIC: {"range": [0, 1], "window": "1s"}, "other": {"range": [0, 1], "window": "1h"}},
}
LONGEST_LIFE, LONGEST_OUTAGE, LONGEST_START = 1.0, 1.0, 2.0
"""Seconds before a kill, until the killed process is started again, and until a starting server is killed."""
STARTS_KILLED_EVERY = 5
"""After so many kills, another server is killed while it starts."""


def takes_width(ranker: Ranker, key: str) -> bool:
    """Return whether the model of the configuration has reached a ranker: it comes a moment later."""
    question = {"eventId": f"probe of {ranker.name}", "arms": [[0.0] * WIDTH] * 2}
    return ranker.server.ask("POST", "/v1/decide", question, key).status == 200


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Totals after all kills. There is none if anything acknowledged was lost or counted twice."""

    kills: Counter[str]
    decisions: int
    """Distinct decisions that were acknowledged."""
    rewards: int
    repeated: int
    """Events that were sent again after they were acknowledged, besides those that both twins sent."""
    degraded: int
    refused: int
    longest_recovery: float
    """Seconds from the end of a restart to the next acknowledged decision and reward."""
    seconds: float
    verified: VerificationResult


class Killer:
    """Kills processes under load, starts them again, and looks for what was acknowledged.

    Args:
        store: address of the store.
        started: the servers of the store.
        seed: of the random choices.
        database: the server of the store; None for SQLite.
    """

    def __init__(self, store: str, started: Sequence[Ranker], seed: int, database: PostgresServer | None) -> None:
        self._store, self._rankers, self._database = store, started, database
        self._random = random.Random(seed)
        self._addresses = [ranker.server.address for ranker in started]
        self._key = key = first_key_of(started)
        configure(started, key, CONFIGURATION)
        for ranker in started:
            wait_until(lambda: takes_width(ranker, key))  # noqa: B023
        self._load = Load(self._addresses, key, seed)
        self._kills: Counter[str] = Counter()
        self._longest_recovery = 0.0

    def kill(self, times: int) -> Outcome:
        """Kill so often under load, then stop in order and verify the whole log."""
        began = time.monotonic()
        victims: list[Callable[[], None]] = []
        with self._load:
            for number in range(times):
                victims = victims or self._shuffled_victims()
                wait_until(lambda: bool(self._learners()))  # otherwise nothing would ever be learned
                time.sleep(self._random.uniform(0.0, LONGEST_LIFE))
                victims.pop()()
                self._wait_for_progress()
                self._check()
                log.info("%.1f s: %s", time.monotonic() - began, self._kills)
                if number % STARTS_KILLED_EVERY == 1:
                    self._kills["starting"] += 1
                    self._rankers[0].start_and_kill(self._random.uniform(0.0, LONGEST_START))
        for ranker in self._rankers:
            ranker.stop()
        senders = self._load.senders
        return Outcome(
            kills=self._kills,
            decisions=distinct(sender.decisions for sender in senders),
            rewards=distinct(sender.rewards for sender in senders),
            repeated=self._load.total(lambda sender: sender.repeated),
            degraded=self._load.total(lambda sender: sender.degraded),
            refused=self._load.total(lambda sender: sender.refused),
            longest_recovery=self._longest_recovery,
            verified=self._verify(),
            seconds=time.monotonic() - began,
        )

    def _shuffled_victims(self) -> list[Callable[[], None]]:
        if self._database is None:
            return [self._kill_ranker]
        victims = [self._kill_ranker, self._kill_learner, self._kill_all, self._kill_database]
        self._random.shuffle(victims)
        return victims

    def _kill_ranker(self) -> None:
        self._kill_and_restart("ranker", [self._random.choice(self._rankers)])

    def _kill_learner(self) -> None:
        self._kill_and_restart("learner", self._learners())

    def _learners(self) -> list[Ranker]:
        return [ranker for ranker in self._rankers if ranker.server.learns(self._key)]

    def _kill_all(self) -> None:
        self._kill_and_restart("all rankers", self._rankers)

    def _kill_and_restart(self, what: str, killed: Sequence[Ranker]) -> None:
        self._kills[what] += 1
        for ranker in killed:
            ranker.kill()
        time.sleep(self._random.uniform(0.0, LONGEST_OUTAGE))
        start_all(killed)
        self._addresses[:] = [ranker.server.address for ranker in self._rankers]

    def _kill_database(self) -> None:
        assert self._database is not None
        self._kills["database"] += 1
        self._database.kill()
        time.sleep(self._random.uniform(0.0, LONGEST_OUTAGE))
        self._database.start()

    def _wait_for_progress(self) -> None:
        """Wait until each sender had a decision and a reward acknowledged."""
        began = time.monotonic()
        for sender in self._load.senders:
            before = len(sender.decisions), len(sender.rewards)
            wait_until(lambda: len(sender.decisions) > before[0] and len(sender.rewards) > before[1])  # noqa: B023
        self._longest_recovery = max(self._longest_recovery, time.monotonic() - began)

    def _check(self) -> None:
        with closing(open_store(self._store, durability="process")) as store:
            assert store.check() == []
            assert self._load.wrong(store) == []

    def _verify(self) -> VerificationResult:
        with closing(open_store(self._store, durability="process")) as store:
            assert store.check() == []
            assert self._load.wrong(store, everything=True) == []
            return verify(store, "default")


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        ("sqlite", 2),
        ("postgres", 3),
        pytest.param("sqlite", 200, marks=pytest.mark.slow),
        pytest.param("postgres", 200, marks=pytest.mark.slow),
    ],
)
def test_kills_under_load_lose_no_acknowledged_event(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, kills: int
) -> None:
    database = request.getfixturevalue("postgres") if kind == "postgres" else None
    store = str(tmp_path / "store.db") if database is None else database.new_address()
    with rankers(tmp_path, store, ["127.0.0.1"] if database is None else ["127.0.0.1", "127.0.0.2"]) as started:
        outcome = Killer(store, started, kills, database).kill(kills)
    log.info("%s", outcome)
    assert outcome.verified.sound, outcome.verified.messages
    assert outcome.verified.decisions >= outcome.decisions > 10 * kills
    assert outcome.verified.unchecked == 0
    assert outcome.verified.models > kills / 2
    assert outcome.rewards > 10 * kills
    for ranker in started:
        assert "Traceback" not in (ranker.folder / "stderr").read_text()
