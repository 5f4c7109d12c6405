"""/livez, /readyz and /metrics."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from glbandits.service.domain.errors import StoreError
from tests.service.helpers import decision
from tests.service.http.served_site import ServedSite

GUIDE = Path(__file__).parents[3] / "docs" / "production.md"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ServedSite]:
    with ServedSite(tmp_path, min_disk=0) as site:
        site.service.start()
        yield site


def reasons(site: ServedSite) -> list[str]:
    reply = site.ask("GET", "/readyz")
    assert (reply.status_code, reply.json()["status"]) == (503, "not ready")
    found: list[str] = reply.json()["reasons"]
    return found


def test_running_server_is_alive_and_ready(site: ServedSite) -> None:
    assert site.ask("GET", "/livez").json() == {"status": "alive"}
    assert site.ask("GET", "/readyz").json() == {"status": "ready"}


def test_stopping_server_is_not_ready(site: ServedSite) -> None:
    site.site.draining = True
    assert reasons(site) == ["the server is stopping"]
    assert site.ask("GET", "/livez").status_code == 200
    assert site.ask("GET", "/v1/loops").status_code == 200


def test_closed_service_is_not_ready(site: ServedSite) -> None:
    site.run(site.service.close())
    assert "the learner is not running" in reasons(site)
    assert "the store does not answer" in reasons(site)


def test_damaged_store_is_not_ready(site: ServedSite) -> None:
    site.site.damage = ["row 3 missing from index"]
    assert reasons(site) == ["the store is damaged: row 3 missing from index"]


def test_full_disk_is_not_ready(tmp_path: Path) -> None:
    with ServedSite(tmp_path, min_disk=2**40) as site:
        site.service.start()
        assert reasons(site) == [f"less than {2**40} MiB are free on the disk of the store"]


def test_failing_store_is_not_ready_until_it_works(site: ServedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: Any) -> Any:
        raise StoreError("secret/path: the disk is full")

    async def submit() -> None:
        site.service.writer.submit(decision("e", loop="default"), 10.0)
        while not site.service.writer.counts.retried_batches:
            await asyncio.sleep(0.01)

    async def drain() -> None:
        while site.service.writer.depth:
            await asyncio.sleep(0.01)

    with monkeypatch.context() as failing:
        failing.setattr(site.service.store, "append", fail)
        site.run(submit())
        assert reasons(site) == ["the last events could not be written"]
    site.run(drain())
    assert site.ask("GET", "/readyz").status_code == 200
    assert site.service.store.decision("default", "e") is not None


def test_stuck_store_is_not_ready(site: ServedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glbandits.service.http.health.WRITE_TIMEOUT", 0.05)
    append, may_go = site.service.store.append, asyncio.Event()

    async def stuck(events: Any) -> Any:
        await may_go.wait()
        return await append(events)

    async def submit() -> None:
        site.service.writer.submit(decision("e", loop="default"), 10.0)
        await asyncio.sleep(0.1)

    async def go() -> None:
        may_go.set()
        while site.service.writer.depth:
            await asyncio.sleep(0.01)

    monkeypatch.setattr(site.service.store, "append", stuck)
    site.run(submit())
    assert reasons(site) == ["an event has waited to be written for more than 0.05 s"]
    site.run(go())
    assert site.ask("GET", "/readyz").status_code == 200


def test_every_metric_is_in_the_guide(site: ServedSite) -> None:
    site.ask("GET", "/livez")
    text = site.ask("GET", "/metrics").text
    rows = re.findall(r"^\| `(glb_\w+)` \| (\w+) \|", GUIDE.read_text(), re.MULTILINE)
    families = list(text_string_to_metric_families(text))
    assert sorted(rows) == sorted(
        (family.name + ("_total" if family.type == "counter" else ""), family.type) for family in families
    )
    assert 'glb_request_seconds_bucket{le="0.005"' in text
