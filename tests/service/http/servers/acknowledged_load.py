"""Load on one or more rankers that notes what was acknowledged, and finds it again in the store."""

import http.client
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import NamedTuple, Protocol

import numpy as np

from glbandits.service.client import Client, ServiceError
from glbandits.service.domain.events import EventStatus
from glbandits.service.storage.event_store import EventStore
from tests.service.http.servers.server_process import ACTIONS, ask

WIDTH = 16
METRIC = "spent"
GONE = (OSError, http.client.HTTPException)
"""Raised by requests to a server that was killed."""
LONGEST_PAUSE = 0.05
"""Seconds between two events of a sender."""
RETRY_PAUSE = 0.05
REPEATED_SHARE = 0.2
"""Share of the events that are sent again after they were acknowledged."""


class Refused(Exception):
    """The response was 503: nothing was written."""


class Shown(NamedTuple):
    """The content of an acknowledged decision."""

    action: str
    probability: float


class Api(Protocol):
    """A client of one server. Methods raise one of `GONE` if the server was killed, and `Refused` at a 503."""

    has_keys: bool
    """Whether a reward may be sent again, and whether the API has metrics."""

    def decide(self, event_id: str) -> Shown | None:
        """Return the decision, or None if it is degraded."""

    def reward(self, event_id: str, value: float) -> None:
        """Return when the reward is durable, and the same number as a metric, if the API has metrics."""

    def close(self) -> None:
        """Close the connection."""


class NativeApi:
    """The service's own API, by its client."""

    has_keys = True

    def __init__(self, address: str, key: str) -> None:
        self._client = Client(address, key, tries=1)

    def decide(self, event_id: str) -> Shown | None:
        # Few different sets of actions, large enough that the store has each once.
        arms = np.random.default_rng(list(event_id[-1:].encode())).normal(size=(12, WIDTH))
        try:
            decided = self._client.decide(arms, event_id=event_id, unit=f"user {event_id[-2:]}")
        except ServiceError as error:
            raise _translated(error) from error
        return None if decided.degraded else Shown(decided.id, decided.probability)

    def reward(self, event_id: str, value: float) -> None:
        try:
            self._client.metrics(event_id, {METRIC: value, "other": 1.0})
            rewarded = self._client.reward(event_id, value, key=f"reward of {event_id}")
        except ServiceError as error:
            raise _translated(error) from error
        assert rewarded.status in (EventStatus.ACCEPTED, EventStatus.DUPLICATE, EventStatus.LATE), rewarded

    def close(self) -> None:
        self._client.close()


def _translated(error: ServiceError) -> Exception:
    known = {0: ConnectionError(str(error)), 503: Refused(str(error))}
    return known.get(error.status, error)


class PersonalizerApi:
    """Personalizer's API. Its rewards have no keys."""

    has_keys = False

    def __init__(self, address: str, key: str) -> None:
        self._connection, self._key = http.client.HTTPConnection(address.removeprefix("http://"), timeout=120), key

    def decide(self, event_id: str) -> Shown | None:
        sent = {"eventId": event_id, "contextFeatures": [{"hour": event_id[-1]}], "actions": ACTIONS}
        reply = ask(self._connection, "POST", "/personalizer/v1.0/rank", sent, self._key)
        if reply.status == 503:
            raise Refused(reply.body)
        assert reply.status == 201, reply
        shown = reply.json["rewardActionId"]
        probability = next(each["probability"] for each in reply.json["ranking"] if each["id"] == shown)
        return None if reply.json.get("degraded") else Shown(shown, probability)

    def reward(self, event_id: str, value: float) -> None:
        path = f"/personalizer/v1.0/events/{event_id}/reward"
        reply = ask(self._connection, "POST", path, {"value": value}, self._key)
        if reply.status == 503:
            raise Refused(reply.body)
        assert reply.status == 204, reply

    def close(self) -> None:
        self._connection.close()


class Events:
    """Names of events, one after another. Twin senders share them, so that both send the same event at once."""

    def __init__(self, name: str) -> None:
        self._name, self.current = name, 0

    def name_of(self, number: int) -> str:
        return f"{self._name}-{number}"

    def finish(self, number: int) -> None:
        self.current = max(self.current, number + 1)


class Sender:
    """Decides and rewards in a thread, and notes what was acknowledged.

    Events that were not acknowledged are sent again, perhaps to another server. Rewards without a key are not, because
    nobody could tell whether they count twice.
    """

    def __init__(self, events: Events, api: type[NativeApi] | type[PersonalizerApi], seed: int) -> None:
        self._events, self._api, self._random = events, api, random.Random(seed)
        self._checked = self.degraded = self.refused = self.repeated = 0
        self.decisions: dict[str, Shown] = {}
        self.rewards: dict[str, float] = {}

    def run(self, addresses: Sequence[str], key: str, stop: threading.Event) -> None:
        """Send until `stop` is set. Each connection goes to a random server of those in `addresses` at the time."""
        while not stop.is_set():
            with closing(self._api(self._random.choice(addresses), key)) as api:
                try:
                    for _ in range(20):
                        self._send(api)
                        if stop.wait(self._random.uniform(0.0, LONGEST_PAUSE)):
                            return
                except GONE:
                    time.sleep(RETRY_PAUSE)
                except Refused:
                    self.refused += 1
                    time.sleep(RETRY_PAUSE)

    def _send(self, api: Api) -> None:
        number = self._events.current
        event = self._events.name_of(number)
        if event not in self.decisions:
            shown = api.decide(event)
            if shown is None:
                self.degraded += 1
                self._events.finish(number)
                return
            self.decisions[event] = shown
        if not api.has_keys:
            self._events.finish(number)
        value = number % 10 / 10
        api.reward(event, value)
        self.rewards[event] = value
        if self._random.random() < REPEATED_SHARE:
            self._repeat(api, event, value)
        self._events.finish(number)

    def _repeat(self, api: Api, event: str, value: float) -> None:
        assert api.decide(event) in (None, self.decisions[event])
        if api.has_keys:
            api.reward(event, value)
        self.repeated += 1

    def wrong(self, store: EventStore, *, everything: bool = False) -> list[str]:
        """Acknowledged events that are lost, changed or counted twice: those since the last call, or all."""
        first, self._checked = 0 if everything else self._checked, self._events.current
        numbers = range(first, self._checked + 1)
        names = map(self._events.name_of, numbers)
        return [f"{event}: {found}" for event in names if (found := self._wrong(store, event))]

    def _wrong(self, store: EventStore, event: str) -> str:
        # The store is read last: whatever was acknowledged before must be there.
        shown, rewarded = self.decisions.get(event), self.rewards.get(event)
        logged = store.decision("default", event)
        if logged is None:
            return "the decision is lost" if shown is not None else ""
        decision, values = logged.decision, [reward.value for reward in logged.rewards if not reward.metric]
        numbers = [reward.value for reward in logged.rewards if reward.metric == METRIC]
        if shown not in (None, Shown(decision.actions[decision.shown], decision.probability)):
            return f"{shown} was acknowledged, the store has {decision}"
        if len(numbers) > 1 or (self._api.has_keys and rewarded not in (None, *numbers)):
            return f"the number {rewarded} was acknowledged, the store has {numbers}"
        if sum(not reward.late and not reward.metric for reward in logged.rewards) > 1:
            return f"one reward was sent, {values} count"
        return f"reward {rewarded} was acknowledged, the store has {values}" if rewarded not in (None, *values) else ""


class Load:
    """Senders in threads, until the end of a `with` block. Errors of a sender are raised there.

    Args:
        addresses: of the servers. Change the list to send elsewhere.
        key: of the servers.
        seed: of the random choices.
    """

    def __init__(self, addresses: list[str], key: str, seed: int) -> None:
        twins = Events("twin")
        self.senders = [
            Sender(twins, NativeApi, seed),
            Sender(twins, NativeApi, seed + 1),
            Sender(Events("native"), NativeApi, seed + 2),
            Sender(Events("first"), PersonalizerApi, seed + 3),
            Sender(Events("second"), PersonalizerApi, seed + 4),
        ]
        self._addresses, self._key = addresses, key
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(len(self.senders))
        self._running: list[Future[None]] = []

    def __enter__(self) -> "Load":
        self._running = [
            self._pool.submit(sender.run, self._addresses, self._key, self._stop) for sender in self.senders
        ]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()
        for each in self._running:
            each.result()

    def wrong(self, store: EventStore, *, everything: bool = False) -> list[str]:
        """See `Sender.wrong`, of all senders."""
        return [line for sender in self.senders for line in sender.wrong(store, everything=everything)]

    def total(self, count: Callable[[Sender], int]) -> int:
        """Sum of a count of all senders."""
        return sum(map(count, self.senders))


def distinct(collections: Iterable[Iterable[str]]) -> int:
    """Number of different names."""
    return len(set().union(*collections))
