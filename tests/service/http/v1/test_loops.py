"""Creating, listing and deleting loops over the API."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glbandits.service.runtime import service as service_module
from glbandits.service.runtime.service import Service
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import run
from tests.service.http.v1.v1_site import Site

LOOPS = "/v1/loops"


@pytest.fixture(name="site")
def site_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(service_module, "LOOPS_EVERY", 0.0)
    with Site(tmp_path) as site:
        yield site


def test_a_created_loop_decides_and_is_in_the_store(site: Site, tmp_path: Path) -> None:
    sent = {"name": "news", "configuration": {"width": 2, "rewardWait": "2m", "settings": {"link": "logistic"}}}
    reply = site.ask("POST", LOOPS, sent)
    assert (reply.status_code, reply.json()["loop"], reply.json()["width"]) == (201, "news", 2)
    assert site.ask("GET", "/loops/news/v1/configuration").json()["rewardWait"] == 120.0
    assert site.ask("POST", "/loops/news/v1/decide", {"arms": [[1, 0], [0, 1]]}).status_code == 200
    assert site.ask("GET", LOOPS).json() == {"loops": ["default", "news", "shop"]}
    later = Service(SqliteStore(tmp_path / "events.db"))
    assert sorted(later.loops) == ["default", "news", "shop"]
    run(later.close())


def test_a_deleted_loop_leaves_nothing(site: Site) -> None:
    site.ask("POST", LOOPS, {"name": "news", "configuration": {"width": 2}})
    site.ask("POST", "/loops/news/v1/decide", {"eventId": "a", "arms": [[1, 0], [0, 1]]})
    assert site.ask("DELETE", LOOPS + "/news").status_code == 204
    assert site.refusal("GET", LOOPS + "/news")[0] == 404
    store = site.service.store
    assert store.names_with("loop") == ["default", "shop"]
    assert (store.decision("news", "a"), store.latest_model("news")) == (None, None)


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [
        ({"name": "default"}, 409, "there is a loop 'default' already"),
        ({"name": ".."}, 400, "matching regex"),
        ({"name": "new", "configuration": {"link": "logistic"}}, 400, "link belongs into settings"),
        ({"name": "new", "configuration": {"policy": "lin-ucb"}}, 400, "Set rewardRange"),
        ({}, 400, "missing required field `name`"),
    ],
)
def test_an_invalid_loop_is_not_created(site: Site, sent: Any, status: int, message: str) -> None:
    found, detail = site.refusal("POST", LOOPS, sent)
    assert (found, message in detail) == (status, True), detail
    assert site.ask("GET", LOOPS).json() == {"loops": ["default", "shop"]}


def test_a_loop_of_the_setting_loops_is_not_deleted(site: Site) -> None:
    status, detail = site.refusal("DELETE", LOOPS + "/default")
    assert (status, "in the server's setting loops" in detail) == (400, True)


def test_another_process_finds_new_and_deleted_loops(site: Site, tmp_path: Path) -> None:
    other = Service(SqliteStore(tmp_path / "events.db"))
    site.ask("POST", LOOPS, {"name": "news"})
    other.refresh_loops()
    assert "news" in other.loops
    site.ask("DELETE", LOOPS + "/news")
    other.refresh_loops()
    assert "news" not in other.loops
    run(other.close())
