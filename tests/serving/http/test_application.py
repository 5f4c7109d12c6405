"""What all responses have in common, and what the server says of itself: asked without a network."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from glbandits.serving.http.application import Installation
from glbandits.serving.http.auth import Authenticator
from glbandits.serving.http.http_types import Request, Response
from glbandits.serving.http.problem_details import ProblemApi
from glbandits.serving.http.routing import Route, Routes
from glbandits.serving.runtime.service import Service
from glbandits.serving.server_settings import Settings
from glbandits.serving.storage.api_keys import Keys
from glbandits.serving.storage.sqlite_store import SqliteStore
from tests.serving.http.in_process import InProcess

ORIGIN = "https://shop.example"


class Site:
    """An application whose one API has one route, which fails if it is told to."""

    def __init__(self, folder: Path, **changed: object) -> None:
        path = folder / "store.db"
        self.service = Service(SqliteStore(path))
        keys = Keys(self.service.store, self.service.clock)
        self.key = keys.create("all").text
        settings = Settings(store=str(path), cors_origins=(ORIGIN,))
        guard = Authenticator(keys.live)
        installation = Installation(self.service, guard, msgspec.structs.replace(settings, **changed), [add_routes])
        self.application, self.health = installation.application, installation.health
        self.service.start()

    def ask(self, method: str, path: str, *, key: str | None = None, **headers: str) -> httpx.Response:
        """One request."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent["authorization"] = f"Bearer {key or self.key}"
        return asyncio.run(self.sent(method, path, list(sent.items())))

    async def sent(self, method: str, path: str, headers: list[tuple[str, str]]) -> httpx.Response:
        """One request with these headers, of which some may be there twice."""
        async with httpx.AsyncClient(transport=InProcess(self.application), base_url="http://x") as client:
            return await client.request(method, path, headers=headers)


async def answer(request: Request) -> Response:
    if request.query == "fail":
        raise RuntimeError("nobody foresaw this")
    return Response(200, b"{}")


def add_routes(routes: Routes, _: Service, guard: Authenticator) -> None:
    routes.add("GET", "/thing", Route(ProblemApi(guard), "read", answer, 0))
    routes.add("POST", "/thing", Route(ProblemApi(guard), "admin", answer, 0))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.service.close()


def test_a_response_has_the_name_of_its_request(site: Site) -> None:
    assert site.ask("GET", "/thing", x_request_id="mine-1").headers["x-request-id"] == "mine-1"
    made = [site.ask("GET", "/thing").headers["x-request-id"] for _ in range(2)]
    assert made[0] != made[1]
    assert all(len(name) == 16 for name in made)


@pytest.mark.parametrize("name", ["", "a b", "a" * 129, "a\tb", "\x7f"])
def test_a_name_that_could_spoil_a_log_is_replaced(site: Site, name: str) -> None:
    assert site.ask("GET", "/thing", x_request_id=name).headers["x-request-id"] not in ("", name)


@pytest.mark.parametrize("name", ["Ocp-Apim-Subscription-Key", "authorization", "content-type"])
def test_a_header_that_can_say_one_thing_only_is_refused_if_it_is_there_twice(site: Site, name: str) -> None:
    key = {"authorization": f"Bearer {site.key}", "content-type": "application/json"}.get(name, site.key)

    def sent(*pairs: tuple[str, str]) -> httpx.Response:
        return asyncio.run(site.sent("GET", "/thing", [("Ocp-Apim-Subscription-Key", site.key), *pairs]))

    more = [(name, key)] if name == "Ocp-Apim-Subscription-Key" else [(name, key), (name, key)]
    reply = sent(*more)
    assert reply.status_code == 400
    assert reply.json()["detail"] == f"the header {name.lower()} is there twice; send it once"
    assert sent(("accept", "a"), ("accept", "b")).status_code == 200


def test_browsers_must_not_guess_the_type(site: Site) -> None:
    for path in ("/thing", "/nothing", "/livez"):
        assert site.ask("GET", path).headers["x-content-type-options"] == "nosniff"


def test_errors_are_problems_with_the_name_of_the_request(site: Site) -> None:
    reply = site.ask("GET", "/nothing", x_request_id="r")
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "code": "NotFound",
        "detail": "there is nothing at /nothing",
        "request": "r",
    }


def test_an_unforeseen_error_tells_the_sender_nothing_and_the_log_all(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    reply = site.ask("GET", "/thing?fail", x_request_id="r")
    assert reply.status_code == 500
    assert "foresaw" not in reply.text
    (record,) = (record for record in caplog.records if record.exc_info)
    assert "nobody foresaw this" in str(record.exc_info)
    assert record.__dict__["request"] == "r"


def test_the_log_has_no_keys_and_no_queries(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "glbandits"):
        site.ask("GET", "/thing?secret=features")
    told = [record.getMessage() for record in caplog.records if record.name.startswith("glbandits")]
    assert any("GET /thing: 200" in line for line in told)
    assert not any("features" in line or site.key in line for line in told)


def test_pages_of_an_allowed_origin_may_call(site: Site) -> None:
    reply = site.ask("GET", "/thing", origin=ORIGIN)
    assert reply.headers["access-control-allow-origin"] == ORIGIN
    assert reply.headers["vary"] == "origin"


def test_a_browser_that_asks_beforehand_is_told_the_methods(site: Site) -> None:
    reply = site.ask("OPTIONS", "/thing", origin=ORIGIN, access_control_request_method="POST")
    assert (reply.status_code, reply.content) == (204, b"")
    assert reply.headers["access-control-allow-methods"] == "GET, HEAD, POST"
    assert "ocp-apim-subscription-key" in reply.headers["access-control-allow-headers"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", ORIGIN + ".evil.example"])
def test_pages_of_other_origins_get_no_leave(site: Site, origin: str) -> None:
    for method, status in (("GET", 200), ("OPTIONS", 405)):
        reply = site.ask(method, "/thing", origin=origin)
        assert reply.status_code == status
        assert not [name for name in reply.headers if name.startswith("access-control")]


def test_there_is_no_leave_for_what_is_not_there(site: Site) -> None:
    assert site.ask("OPTIONS", "/nothing", origin=ORIGIN).status_code == 404


def test_by_default_no_origin_has_leave(tmp_path: Path) -> None:
    site = Site(tmp_path, cors_origins=())
    assert "access-control-allow-origin" not in site.ask("GET", "/thing", origin=ORIGIN).headers
    site.service.close()


def test_a_server_that_runs_is_alive_and_ready(site: Site) -> None:
    assert site.ask("GET", "/livez").json() == {"status": "alive"}
    assert site.ask("GET", "/readyz").json() == {"status": "ready"}


def reasons(site: Site) -> list[str]:
    reply = site.ask("GET", "/readyz")
    assert (reply.status_code, reply.json()["status"]) == (503, "not ready")
    found: list[str] = reply.json()["reasons"]
    return found


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/thing"])
def test_head_is_answered_as_get_is_without_the_body(site: Site, path: str) -> None:
    reply, whole = site.ask("HEAD", path), site.ask("GET", path)
    assert (reply.status_code, reply.content) == (200, b"")
    for name in ("content-length", "content-type"):
        assert reply.headers[name] == whole.headers[name]
    assert site.ask("HEAD", "/nothing").status_code == 404
    assert site.ask("HEAD", "/thing", key="wrong").status_code == 401


def test_a_server_that_stops_is_alive_and_not_ready(site: Site) -> None:
    site.health.draining = True
    assert reasons(site) == ["the server is stopping"]
    assert site.ask("GET", "/livez").status_code == 200
    assert site.ask("GET", "/thing").status_code == 200


def test_without_its_store_and_its_learner_it_is_not_ready(site: Site) -> None:
    site.service.close()
    assert reasons(site) == ["the learner does not run", "the store does not answer"]


def test_on_a_full_disk_it_is_not_ready(tmp_path: Path) -> None:
    site = Site(tmp_path, min_disk=2**40)
    assert reasons(site) == [f"less than {2**40} MiB are free beside the store"]
    site.service.close()


def test_metrics_are_for_those_who_may_read(site: Site) -> None:
    assert site.ask("GET", "/metrics", key="wrong").status_code == 401
    reply = site.ask("GET", "/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'glb_requests_total{scope="read",status="401",process="0"} 1' in reply.text
    assert 'glb_decisions_total{loop="default",status="accepted"} 0' in reply.text
