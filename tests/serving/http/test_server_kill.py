"""Acknowledged means kept: `glb serve` under load, killed again and again, loses nothing that it acknowledged."""

import http.client
import logging
import random
import signal
import subprocess
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pytest

from glbandits.serving.client import Client, ServiceError
from glbandits.serving.runtime.replay_verification import Verified, verify
from glbandits.serving.storage.sqlite_store import SqliteStore
from tests.serving.http.server_process import ACTIONS, GLB, Running, ask, running

log = logging.getLogger(__name__)

DURABILITY = ("--durability", "process")
WIDTH = 16
CONFIGURATION = {"rewardWait": 0.2, "modelUpdate": 0.1, "width": WIDTH}
LONGEST_LIFE, LONGEST_START = 1.0, 2.0
"""Seconds that a server is under load, or may start, until it is killed."""
STARTS_KILLED_EVERY = 5
"""After so many kills under load, a server is killed while it starts."""
GONE = (OSError, http.client.HTTPException)
"""What a request to a server that is gone raises."""


class Shown(NamedTuple):
    """What a decision was acknowledged with."""

    action: str
    probability: float


class Api(Protocol):
    """One way to ask. All raise one of `GONE` if the server is gone."""

    keyed: bool
    """Whether a reward may be sent again."""

    def decide(self, event_id: str) -> Shown | None:
        """None if the decision is not safe yet."""

    def reward(self, event_id: str, value: float) -> None:
        """Returns when it is safe."""

    def close(self) -> None:
        """Let go of the connection."""


class NativeApi:
    """The service's own, by its client."""

    keyed = True

    def __init__(self, address: str, key: str) -> None:
        self._client = Client(address, key, tries=1)

    def decide(self, event_id: str) -> Shown | None:
        # Of its name alone: who asks again must ask the same.
        arms = np.random.default_rng(list(event_id.encode())).normal(size=(4, WIDTH))
        try:
            decided = self._client.decide(arms, event_id=event_id)
        except ServiceError as error:
            raise _gone(error) from error
        return None if decided.degraded else Shown(decided.id, decided.probability)

    def reward(self, event_id: str, value: float) -> None:
        try:
            self._client.reward(event_id, value, key=f"reward of {event_id}")
        except ServiceError as error:
            raise _gone(error) from error

    def close(self) -> None:
        self._client.close()


def _gone(error: ServiceError) -> Exception:
    """A server that refuses is not gone."""
    return ConnectionError(str(error)) if error.status == 0 else error


class PersonalizerApi:
    """Personalizer's, by hand."""

    keyed = False

    def __init__(self, address: str, key: str) -> None:
        self._connection, self._key = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30), key

    def decide(self, event_id: str) -> Shown | None:
        sent = {"eventId": event_id, "contextFeatures": [{"hour": event_id[-1]}], "actions": ACTIONS}
        reply = ask(self._connection, "POST", "/personalizer/v1.0/rank", sent, self._key)
        assert reply.status == 201, reply
        shown, chances = reply.json["rewardActionId"], reply.json["ranking"]
        probability = next(each["probability"] for each in chances if each["id"] == shown)
        return None if reply.json.get("degraded") else Shown(shown, probability)

    def reward(self, event_id: str, value: float) -> None:
        path = f"/personalizer/v1.0/events/{event_id}/reward"
        reply = ask(self._connection, "POST", path, {"value": value}, self._key)
        assert reply.status == 204, reply

    def close(self) -> None:
        self._connection.close()


APIS: tuple[type[NativeApi], type[PersonalizerApi]] = (NativeApi, PersonalizerApi)


class Sender:
    """Decides and rewards, and notes what was acknowledged. What was not is sent again to the next server.

    Only a reward without a key is not: nobody could tell whether it counts twice.
    """

    def __init__(self, number: int) -> None:
        self._name, self._api = f"sender{number}", APIS[number % 2]
        self._turn = self._checked = self.degraded = 0
        self.decisions: dict[str, Shown] = {}
        self.rewards: dict[str, float] = {}

    def send_until_gone(self, address: str, key: str) -> None:
        """Send to one server, as long as it lives."""
        with closing(self._api(address, key)) as api:
            try:
                while True:
                    self._send(api, f"{self._name}-{self._turn}")
            except GONE:
                return

    def _send(self, api: Api, event_id: str) -> None:
        if event_id not in self.decisions:
            shown = api.decide(event_id)
            if shown is None:
                self.degraded += 1
                self._turn += 1
                return
            self.decisions[event_id] = shown
        if not api.keyed:
            self._turn += 1
        value = len(self.decisions) % 10 / 10
        api.reward(event_id, value)
        self.rewards[event_id] = value
        if api.keyed:
            self._turn += 1

    def unchecked(self) -> list[str]:
        """Events that were sent since this was asked last. The one in flight is asked for next time too."""
        first, self._checked = self._checked, self._turn
        return self._names(first)

    def all(self) -> list[str]:
        """Events that were sent, acknowledged or not."""
        return self._names(0)

    def _names(self, first: int) -> list[str]:
        return [f"{self._name}-{turn}" for turn in range(first, self._turn + 1)]

    def wrong(self, store: SqliteStore, events: Iterable[str]) -> list[str]:
        """What is lost, or otherwise than it was acknowledged, or there twice."""
        return [f"{event}: {what}" for event in events if (what := self._wrong(store, event))]

    def _wrong(self, store: SqliteStore, event: str) -> str:
        shown, rewarded, found = self.decisions.get(event), self.rewards.get(event), store.decision("default", event)
        if found is None:
            return "the decision is lost" if shown is not None else ""
        decision, values = found.decision, [reward.value for reward in found.rewards]
        if shown not in (None, Shown(decision.actions[decision.shown], decision.probability)):
            return f"{shown} was acknowledged; there is {decision}"
        if len(values) > 1:
            return f"there are {len(values)} rewards of the one that was sent"
        return f"reward {rewarded} was acknowledged; there is {values}" if rewarded not in (None, *values) else ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of the kills. There is none if anything was lost."""

    kills: int
    starts_killed: int
    decisions: int
    rewards: int
    degraded: int
    seconds: float
    verified: Verified


class Killer:
    """Servers that follow each other on one store, each killed at a random moment while several threads send to it."""

    def __init__(self, folder: Path, seed: int, senders: int = 6) -> None:
        self._folder, self._dice = folder, random.Random(seed)
        self._senders = [Sender(number) for number in range(senders)]
        self._key = ""

    def kill(self, times: int) -> Outcome:
        """Kill so many under load, and look after each whether all is there; then stop one in order, and verify."""
        began = time.monotonic()
        for number in range(times):
            with running(self._folder, *DURABILITY) as server:
                if number == 0:
                    self._configure(server)
                self._check_new()
                self._kill_under_load(server)
            if number % STARTS_KILLED_EVERY == 1:
                self._kill_while_starting()
        with running(self._folder, *DURABILITY) as server:
            self._check_new()
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
        assert "Traceback" not in server.errors.read_text()
        return Outcome(
            kills=times,
            starts_killed=len(range(1, times, STARTS_KILLED_EVERY)),
            decisions=sum(len(sender.decisions) for sender in self._senders),
            rewards=sum(len(sender.rewards) for sender in self._senders),
            degraded=sum(sender.degraded for sender in self._senders),
            verified=self._verify(),
            seconds=time.monotonic() - began,
        )

    def _configure(self, server: Running) -> None:
        assert server.key is not None
        self._key = server.key
        assert server.ask("PATCH", "/v1/configuration", CONFIGURATION).status == 200

    def _kill_under_load(self, server: Running) -> None:
        with ThreadPoolExecutor(len(self._senders)) as pool:
            sending = [pool.submit(sender.send_until_gone, server.address, self._key) for sender in self._senders]
            time.sleep(self._dice.uniform(0.0, LONGEST_LIFE))
            server.signal(signal.SIGKILL)
            assert server.wait() == -signal.SIGKILL
        for each in sending:
            each.result()

    def _kill_while_starting(self) -> None:
        """It brings what the one before left in the write-ahead log to its place, and learns what that did not."""
        command = [*GLB, "serve", "--port", "0", "--store", str(self._folder / "store.db"), *DURABILITY]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(self._dice.uniform(0.0, LONGEST_START))
            process.kill()

    def _check_new(self) -> None:
        """While a server that has started again has the store."""
        with closing(SqliteStore(self._folder / "store.db")) as store:
            assert store.check() == []
            assert [what for sender in self._senders for what in sender.wrong(store, sender.unchecked())] == []

    def _verify(self) -> Verified:
        with closing(SqliteStore(self._folder / "store.db")) as store:
            assert store.check() == []
            assert [what for sender in self._senders for what in sender.wrong(store, sender.all())] == []
            return verify(store, "default")


@pytest.mark.parametrize("kills", [3, pytest.param(200, marks=pytest.mark.slow)])
def test_killed_under_load_it_loses_nothing_and_learns_the_same(tmp_path: Path, kills: int) -> None:
    outcome = Killer(tmp_path, seed=kills).kill(kills)
    log.info("%s", outcome)
    assert outcome.verified.sound, outcome.verified.sentences
    assert outcome.verified.decisions >= outcome.decisions > 10 * kills
    assert outcome.verified.unchecked == 0
    assert outcome.verified.models > kills / 2
    assert outcome.rewards > 0
