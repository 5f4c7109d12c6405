"""What all endpoints have in common: headers, errors, authentication, limits, CORS and the log."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import Response

from glbandits.service.http.auth import OPEN
from glbandits.service.http.endpoint import Endpoint
from glbandits.service.http.endpoints import ENDPOINTS
from glbandits.service.http.personalizer.contract import personalizer_response
from glbandits.service.http.site import Site
from tests.service.http.served_site import ServedSite

ORIGIN = "https://shop.example"


async def answer(_: Site, request: Request, sent: object = None) -> Response:  # noqa: ARG001
    if "fail" in request.query_params:
        raise RuntimeError("unforeseen")
    return Response(b"{}", media_type="application/json")


def plain(_: Site, request: Request) -> dict[str, str] | None:
    return {"thread": threading.current_thread().name} if request.method == "GET" else None


THING = (
    Endpoint("GET", "/plain", "read", plain),
    Endpoint("DELETE", "/plain", "admin", plain, status=204),
    Endpoint("GET", "/thing", "read", answer, parameters=None),
    Endpoint("POST", "/thing", "admin", answer, parameters=None),
    Endpoint("DELETE", "/personalizer/thing", "admin", answer, parameters=None, error_format=personalizer_response),
)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ServedSite]:
    with ServedSite(tmp_path, endpoints=(*ENDPOINTS, *THING), cors_origins=(ORIGIN,), max_body=2000) as site:
        yield site


def ask(site: ServedSite, method: str, path: str, content: Any = None, **headers: str) -> httpx.Response:
    return site.ask(method, path, content, headers={name.replace("_", "-"): value for name, value in headers.items()})


def test_plain_handler_runs_in_a_thread(site: ServedSite) -> None:
    reply = ask(site, "GET", "/plain")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json()["thread"] != threading.current_thread().name


def test_middleware_of_an_embedding_program_is_outside(site: ServedSite) -> None:
    seen = []

    async def note(request: Request, call_next: Any) -> Response:
        seen.append(request.url.path)
        return await call_next(request)  # type: ignore[no-any-return]

    site.app.add_middleware(BaseHTTPMiddleware, dispatch=note)
    assert ask(site, "GET", "/thing").status_code == 200
    assert seen == ["/thing"]


def test_response_has_the_request_id(site: ServedSite) -> None:
    assert ask(site, "GET", "/thing", x_request_id="mine-1").headers["x-request-id"] == "mine-1"
    made = [ask(site, "GET", "/thing").headers["x-request-id"] for _ in range(2)]
    assert made[0] != made[1]
    assert all(len(name) == 16 for name in made)


@pytest.mark.parametrize("name", ["", "a b", "a" * 129, "a\tb", "\x7f"])
def test_unsafe_request_id_is_replaced(site: ServedSite, name: str) -> None:
    assert ask(site, "GET", "/thing", x_request_id=name).headers["x-request-id"] not in ("", name)


@pytest.mark.parametrize("name", ["host", "ocp-apim-subscription-key", "authorization", "content-type"])
def test_duplicate_header_is_refused(site: ServedSite, name: str) -> None:
    value = {"host": "test", "content-type": "application/json", "authorization": f"Bearer {site.key}"}.get(
        name, site.key
    )
    reply = site.ask("GET", "/thing", headers=[(name, value), (name, value)])
    assert reply.status_code == 400
    assert reply.json()["detail"] == f"the header {name} was sent twice; send it once"
    assert site.ask("GET", "/thing", headers=[("accept", "a"), ("accept", "b")]).status_code == 200


def call_app(site: ServedSite, **scope: Any) -> int:
    """Send GET /livez without a client that completes the request, and return the status."""
    sent: list[Any] = []

    async def call() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        every = {"type": "http", "method": "GET", "path": "/livez", "query_string": b"", "http_version": "1.1"}
        await site.app(every | scope, receive, send)

    site.run(call())
    return int(sent[0]["status"])


def test_missing_host_is_refused(site: ServedSite) -> None:
    assert call_app(site, raw_path=b"/livez", headers=[]) == 400


def test_compressed_body_is_refused(site: ServedSite) -> None:
    reply = ask(site, "POST", "/thing", b"\x1f\x8b", content_encoding="gzip")
    assert (reply.status_code, reply.json()["detail"]) == (
        415,
        "content-encoding 'gzip' is not supported; send the body without compression",
    )
    assert ask(site, "POST", "/thing", b"\x1f\x8b", transfer_encoding="gzip, chunked").status_code == 415
    reply = ask(site, "POST", "/personalizer/v1.0/rank", b"\x1f\x8b", content_encoding="gzip")
    assert (reply.status_code, reply.json()["error"]["innerError"]["code"]) == (415, "InvalidRankRequest")
    assert ask(site, "POST", "/thing", b"{}", content_encoding="identity").status_code == 200


def test_body_above_the_limit_is_refused(site: ServedSite) -> None:
    assert ask(site, "POST", "/thing", bytes(2000)).status_code == 200
    reply = ask(site, "POST", "/thing", bytes(2001))
    assert (reply.status_code, reply.json()["code"]) == (413, "PayloadSizeExceeded")


def test_chunked_body_is_not_read_beyond_the_limit(site: ServedSite) -> None:
    taken = 0

    async def endless() -> Any:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield bytes(500)

    reply = site.run(_stream(site, endless()))
    assert reply.status_code == 413
    assert taken < 10


async def _stream(site: ServedSite, content: Any) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(site.app), base_url="http://test") as client:
        return await client.post("/thing", content=content, headers={"authorization": f"Bearer {site.key}"})


def test_responses_forbid_content_sniffing(site: ServedSite) -> None:
    for path in ("/thing", "/nothing", "/livez"):
        assert ask(site, "GET", path).headers["x-content-type-options"] == "nosniff"


def test_errors_are_problem_details(site: ServedSite) -> None:
    reply = ask(site, "GET", "/nothing", x_request_id="r")
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "code": "NotFound",
        "detail": "there is no endpoint at /nothing",
        "request": "r",
    }


@pytest.mark.parametrize("path", ["/personalizer/nothing", "/loops/x/personalizer/v1.0/nothing"])
def test_errors_below_personalizer_have_its_format(site: ServedSite, path: str) -> None:
    reply = ask(site, "GET", path)
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "ResourceNotFound")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/thing", "GET, HEAD, POST"),
        ("/personalizer/v1.0/configurations/service", "GET, HEAD, PUT"),
    ],
)
def test_wrong_method_gets_the_allowed_ones(site: ServedSite, path: str, allowed: str) -> None:
    reply = ask(site, "PATCH", path)
    assert (reply.status_code, reply.headers["allow"]) == (405, allowed)
    assert f"the method of {path} must be one of {allowed}; got PATCH" in reply.text


def test_unexpected_error_is_logged_without_details_sent(site: ServedSite, caplog: pytest.LogCaptureFixture) -> None:
    reply = ask(site, "GET", "/thing?fail", x_request_id="r")
    assert reply.status_code == 500
    assert "unforeseen" not in reply.text
    (record,) = (record for record in caplog.records if record.exc_info)
    assert "unforeseen" in str(record.exc_info)
    assert record.__dict__["request"] == "r"


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("glbandits")]


def test_log_has_no_keys_and_no_queries(site: ServedSite, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "glbandits"):
        ask(site, "GET", "/thing?secret=features")
    assert any("GET /thing: 200" in line for line in logged(caplog))
    assert not any("features" in line or site.key in line for line in logged(caplog))


def test_administration_is_audited(site: ServedSite, caplog: pytest.LogCaptureFixture) -> None:
    path = "/personalizer/thing"
    with caplog.at_level(logging.INFO, "glbandits"):
        ask(site, "DELETE", f"{path}?api-version=v1.0")
    (line,) = logged(caplog)
    assert line.startswith(f"DELETE {path}: 20")
    assert line.endswith("key all, client 127.0.0.1")


def test_refused_keys_are_audited(site: ServedSite, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "glbandits"):
        ask(site, "GET", "/thing")
        ask(site, "GET", "/thing", authorization="Bearer wrong")
        ask(site, "GET", "/thing", authorization=f"Bearer {site.narrow_key}")
    assert [line.split(" in ")[0] for line in logged(caplog)] == ["GET /thing: 401", "GET /thing: 403"]
    assert "key narrow" in logged(caplog)[1]


def test_allowed_origin_may_call(site: ServedSite) -> None:
    reply = ask(site, "GET", "/thing", origin=ORIGIN)
    assert reply.headers["access-control-allow-origin"] == ORIGIN
    assert reply.headers["vary"] == "Origin"
    assert reply.headers["access-control-expose-headers"] == "etag, retry-after, x-request-id"


def test_preflight_request_is_answered(site: ServedSite) -> None:
    reply = ask(site, "OPTIONS", "/thing", origin=ORIGIN, access_control_request_method="POST")
    assert reply.status_code == 200
    assert "POST" in reply.headers["access-control-allow-methods"]
    assert "ocp-apim-subscription-key" in reply.headers["access-control-allow-headers"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", ORIGIN + ".evil.example"])
def test_other_origins_are_not_allowed(site: ServedSite, origin: str) -> None:
    for method, status in (("GET", 200), ("OPTIONS", 400)):
        reply = ask(site, method, "/thing", origin=origin, access_control_request_method="GET")
        assert reply.status_code == status
        assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize("path", ["/livez", "/openapi.json", "/thing"])
def test_head_has_the_headers_of_get(site: ServedSite, path: str) -> None:
    reply, whole = ask(site, "HEAD", path), ask(site, "GET", path)
    assert (reply.status_code, reply.content) == (200, b"")
    for name in ("content-length", "content-type"):
        assert reply.headers[name] == whole.headers[name]
    assert ask(site, "HEAD", "/nothing").status_code == 404
    assert ask(site, "HEAD", "/thing", authorization="Bearer wrong").status_code == 401


def test_every_endpoint_needs_its_scope(tmp_path: Path) -> None:
    """Without a key 401, with a key for another scope 403: for all endpoints of the table."""
    with ServedSite(tmp_path, narrow=("rank",)) as site:
        for endpoint in ENDPOINTS:
            path = endpoint.path.replace("{loop}", "default").replace("{event:event}", "e").replace("{key:event}", "e")
            without = ask(site, endpoint.method, path, authorization="").status_code
            narrow = ask(site, endpoint.method, path, authorization=f"Bearer {site.narrow_key}").status_code
            assert (without == 401) == (endpoint.scope != OPEN), path
            assert (narrow == 403) == (endpoint.scope not in (OPEN, "rank")), path


def test_the_root_leads_to_the_dashboard_and_docs_to_the_api(site: ServedSite) -> None:
    root = ask(site, "GET", "/", authorization="")
    assert (root.status_code, root.headers["location"]) == (307, "dashboard")
    page = ask(site, "GET", "/docs", authorization="")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "/v1/decide" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
