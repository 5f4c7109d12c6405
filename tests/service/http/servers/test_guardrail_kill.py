"""Guardrails of servers that are killed between a decision, its metric and a look: the same verdict, nothing twice."""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from glbandits.service.domain.groups.metric_comparison import MetricComparison
from glbandits.service.runtime.loops.guardrails import GUARDRAILS, GuardrailState
from glbandits.service.runtime.loops.unit_counter import UnitCounter
from glbandits.service.storage.open_store import open_store
from tests.service.helpers import wait_until
from tests.service.http.servers.acknowledged_load import GONE, WIDTH
from tests.service.http.servers.rankers import Ranker, first_key_of, rankers, start_all

pytestmark = pytest.mark.system

UNITS, KILLS = 150, 3
METRIC = {"range": [0, 1], "good": "lower", "window": 8, "action": "fallback"}
CONFIGURATION = {
    "rewardWait": 0.5,
    "modelUpdate": 0.1,
    "width": WIDTH,
    "exploration": 1.0,
    "control": {"share": 0.5},
    "metrics": {"returned": METRIC},
}
FOREVER = 2**62
"""A timestamp at which all windows have closed, and a decision that is learned last."""


class Shop:
    """Sends units to servers that are killed. All actions but the first one are returned.

    Args:
        started: the servers.
        key: of the servers.
        seed: of the random choices.
    """

    def __init__(self, started: Sequence[Ranker], key: str, seed: int) -> None:
        self._rankers, self._key, self._random = started, key, random.Random(seed)
        self.accepted: dict[str, float] = {}
        """Numbers in time that were acknowledged, by event."""

    def ask(self, method: str, path: str, body: Any = None, ranker: Ranker | None = None) -> Any:
        """Send a request until it is answered, by one server or by any."""
        while True:
            try:
                server = (ranker or self._random.choice(self._rankers)).server
                reply = server.ask(method, path, body, self._key)
            except GONE:
                time.sleep(0.05)
                continue
            if reply.status != 503:
                assert reply.status == 200, reply
                return reply.json

    def decide(self, event_id: str, ranker: Ranker | None = None) -> int:
        """Decide for a unit of its own. Returns the index of the arm."""
        arms = np.eye(4, WIDTH).tolist()
        arm: int = self.ask("POST", "/v1/decide", {"eventId": event_id, "unit": event_id, "arms": arms}, ranker)["arm"]
        return arm

    def send_units(self, kills: int) -> None:
        """Send all units. So many times servers are killed between a decision and its metric."""
        killed = self._random.sample(range(UNITS), kills)
        for number in range(UNITS):
            name = f"unit {number}"
            arm = self.decide(name)
            if number in killed:
                self.kill()
            value = float(arm > 0)
            for _ in range(1 + number % 2):  # half of the numbers twice
                status = self.ask("POST", "/v1/metrics", {"eventId": name, "metrics": {"returned": value}})
                if status["statuses"]["returned"] == "accepted":
                    self.accepted[name] = value

    def kill(self) -> None:
        """Kill all servers, and start them again."""
        for ranker in self._rankers:
            ranker.kill()
        start_all(self._rankers)

    def guardrails(self, ranker: Ranker) -> Any:
        return self.ask("GET", "/v1/guardrails", ranker=ranker)


def saved_state(address: str) -> GuardrailState:
    with closing(open_store(address, durability="process")) as store:
        document = store.latest_document("default", GUARDRAILS)
    return GuardrailState() if document is None else msgspec.msgpack.decode(document.body, type=GuardrailState)


def counted_at_once(address: str, saved: MetricComparison) -> MetricComparison:
    """The comparison of the whole log. On a slow machine the last units come after the alarm, and do not count."""
    metrics = {"returned": MetricComparison(settings=saved.settings, after=0)}
    with closing(open_store(address, durability="process")) as store:
        counter = UnitCounter("default", store, time.monotonic, Event())
        while counter.count(metrics, FOREVER, FOREVER):
            pass
    return metrics["returned"]


def is_all_counted(address: str) -> bool:
    saved = saved_state(address).metrics.get("returned")
    return saved is not None and saved.after == counted_at_once(address, saved).after


def check_counts(address: str, accepted: dict[str, float]) -> None:
    """Compare the saved state with one that is counted at once, and the log with what was acknowledged."""
    saved = saved_state(address).metrics["returned"]
    whole = counted_at_once(address, saved)
    assert replace(whole, alarm=None) == replace(saved, alarm=None)
    assert whole.alarm is not None
    assert saved.alarm is not None
    assert (whole.alarm.units, whole.alarm.sentence) == (saved.alarm.units, saved.alarm.sentence)
    with closing(open_store(address, durability="process")) as store:
        assert store.check() == []
        assert len(store.units_after("default", 0, 2 * UNITS)) == UNITS
        logged = [store.decision("default", f"unit {number}") for number in range(UNITS)]
    compared = [each for each in logged if each is not None and not each.decision.fallback]
    assert saved.difference().units + len(saved.open_block) == len(compared)
    numbers = {each.decision.event_id: [n.value for n in each.rewards if not n.late] for each in logged if each}
    assert all(numbers[event] == [value] for event, value in accepted.items())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_kills_give_the_same_verdict_and_count_nothing_twice(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    new_address: Callable[[], str] = lambda: str(tmp_path / "store.db")  # noqa: E731
    if kind == "postgres":
        new_address = request.getfixturevalue("postgres").new_address
    address, hosts = new_address(), ["127.0.0.1"] if kind == "sqlite" else ["127.0.0.1", "127.0.0.2"]
    with rankers(tmp_path, address, hosts) as started:
        shop = Shop(started, first_key_of(started), seed=7)
        shop.ask("PATCH", "/v1/configuration", CONFIGURATION)
        for ranker in started:
            configured: Callable[[], bool] = lambda ranker=ranker: shop.guardrails(ranker)["state"] == "running"  # type: ignore[misc]  # noqa: E731
            wait_until(configured)
        shop.send_units(KILLS)
        rng = random.Random(3)
        for _ in range(KILLS):  # the first looks come 18 s after the first unit
            time.sleep(rng.uniform(0.0, 5.0))
            shop.kill()
        wait_until(lambda: is_all_counted(address))
        wait_until(lambda: all(shop.guardrails(ranker)["state"] == "fallback" for ranker in started))
        check_counts(address, shop.accepted)
        assert len(shop.accepted) > UNITS / 2

        before = [shop.guardrails(ranker) for ranker in started]
        shop.kill()
        assert [shop.guardrails(ranker) for ranker in started] == before
        assert {shop.decide(f"stopped {number}", started[-1]) for number in range(20)} == {0}

        resumed = shop.ask("POST", "/v1/guardrails/resume", ranker=started[-1])
        assert (resumed["state"], resumed["metrics"][-1]["treatment"]["units"]) == ("running", 0)
        began = time.monotonic()
        wait_until(lambda: all(shop.guardrails(ranker)["state"] == "running" for ranker in started))
        assert time.monotonic() - began < 2.0
        assert len({shop.decide(f"resumed {number}", started[0]) for number in range(40)}) > 1
    for ranker in started:
        assert "Traceback" not in (ranker.folder / "stderr").read_text()
