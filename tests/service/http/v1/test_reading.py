"""Requests that read much do not delay decisions and readiness."""

import asyncio
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glbandits.service.domain.errors import ReadTimeout
from glbandits.service.domain.events import Event
from glbandits.service.http import site as site_module
from glbandits.service.http.v1 import loop_handlers
from tests.service.helpers import metric
from tests.service.http.v1.v1_site import ARMS, Site

pytestmark = pytest.mark.usefixtures("plain_python")


@pytest.fixture(name="site")
def site_fixture(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path, min_disk=0) as site:
        site.service.start()
        yield site


def test_slow_reads_delay_neither_readiness_nor_sticky_decisions(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    released, store = threading.Event(), site.service.store
    site.decide(unit="ann", sticky=True)
    find = store.find

    def slow(*arguments: Any) -> list[int]:
        released.wait(60.0)
        return find(*arguments)

    monkeypatch.setattr(store, "find", slow)
    monkeypatch.setattr(site_module, "MOST_READS", 40)

    async def send() -> tuple[list[int], list[int]]:
        pages = [asyncio.create_task(site.ask_async("GET", "/v1/events?prefix=e")) for _ in range(41)]
        await asyncio.sleep(0.2)
        urgent = [await site.ask_async("GET", path) for path in ("/readyz", "/metrics")]
        sticky = {"arms": ARMS, "unit": "ann", "sticky": True}
        urgent.append(await site.ask_async("POST", "/v1/decide", sticky))
        released.set()
        return [reply.status_code for reply in urgent], [(await page).status_code for page in pages]

    urgent, pages = site.run(send())
    assert urgent == [200, 200, 200]
    assert sorted(pages) == [200] * 40 + [503]


def test_a_read_that_takes_too_long_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_slow(*_: Any) -> list[int]:
        raise ReadTimeout("of a test")

    monkeypatch.setattr(site.service.store, "find", too_slow)
    assert site.refusal("GET", "/v1/events") == (503, "Reading the store took too long. Ask for less, or later.")


def test_a_page_reads_the_ids_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(60):
        site.decide(eventId=f"e{number:02}")
    scans, find = [], site.service.store.find

    def counted(*arguments: Any) -> list[int]:
        scans.append(arguments)
        return find(*arguments)

    monkeypatch.setattr(site.service.store, "find", counted)
    first = site.ask("GET", "/v1/events?prefix=e&limit=45").json()
    second = site.ask("GET", f"/v1/events?prefix=e&limit=45&before={first['before']}").json()
    names = [event["eventId"] for page in (first, second) for event in page["events"]]
    assert names == [f"e{number:02}" for number in reversed(range(60))]
    assert (len(scans), second["before"]) == (2, None)


def write_metrics(site: Site, count: int) -> None:
    """Write numbers of the event `e`."""
    now = site.service.clock()
    numbers: list[Event] = [metric("e", "ms", 1.0, now, loop="default", key=str(number)) for number in range(count)]
    site.service.store.append_blocking(numbers)


def test_rewards_of_an_event_come_in_pages(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_handlers, "MOST_REWARDS", 10)
    site.decide(eventId="e")
    write_metrics(site, 25)
    keys, sizes = list[str](), list[int]()
    after: Any = ""
    while after is not None:
        page = site.ask("GET", f"/v1/events/e{after and f'?rewardsAfter={after}'}").json()
        keys += [reward["key"] for reward in page["rewards"]]
        sizes.append(len(page["rewards"]))
        after = page["rewardsAfter"]
    assert (keys, sizes) == ([str(number) for number in range(25)], [10, 10, 5])
    (listed,) = site.ask("GET", "/v1/events").json()["events"]
    assert (len(listed["rewards"]), listed["rewardsAfter"]) == (10, listed["rewards"][-1]["number"])
    assert site.refusal("GET", "/v1/events/e?rewardsAfter=x")[0] == 400


def test_reading_an_event_with_many_metrics_needs_little_memory(site: Site) -> None:
    site.decide(eventId="e")
    write_metrics(site, 20_000)
    for path in ("/v1/events/e", "/v1/events?limit=5"):
        tracemalloc.start()
        assert site.ask("GET", path).status_code == 200
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 4e6
    tracemalloc.start()
    site.decide(eventId="e")  # it is repeated
    assert tracemalloc.get_traced_memory()[1] < 4e6
    tracemalloc.stop()
