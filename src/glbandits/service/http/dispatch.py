"""The ASGI application of an endpoint: authentication, body, handler, response, log."""

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from functools import lru_cache
from inspect import iscoroutinefunction
from random import getrandbits
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import msgspec
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from glbandits.common.errors import InvalidInput, lookup
from glbandits.service.http.auth import OPEN
from glbandits.service.http.endpoint import Endpoint
from glbandits.service.http.http_messages import HttpError, Request, Response, as_http_error, problem_response
from glbandits.service.http.personalizer.errors import personalizer_response
from glbandits.service.http.site import Site

log = logging.getLogger(__name__)

NO_ROUTE = "none"
"""The label of requests without an endpoint in the metrics."""
ONCE = (b"host", b"ocp-apim-subscription-key", b"authorization", b"content-type", b"content-encoding")
"""Headers that a request may have only once. Of two, a proxy might use another one than this server."""
LONGEST_CACHED = 256
"""Characters of the longest path that is cached."""
PERSONALIZER_PATH = re.compile(r"(/loops/[^/]+)?/personalizer(/|$)")
encode_json = msgspec.json.Encoder().encode
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")


class RouteCache:
    """Middleware that caches the routes of paths, and calls their applications directly.

    Starlette tries one route after the other and wraps each call five times, which costs measurable CPU per decision
    (docs/decisions/0020-standard-web-stack.md). Paths stay percent-encoded, because an event id may contain a slash.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[Route], site: Site) -> None:
        self._app, self._routes, self._site = app, routes, site
        self._cached = lru_cache(maxsize=1024)(self._find)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Look up the route of the path, and call its application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        raw_path = scope.get("raw_path") or quote(scope["path"]).encode()  # raw_path is optional in ASGI
        path = scope["path"] = "/" + raw_path.decode("latin-1").strip("/")
        local = path.removeprefix(scope.get("root_path", ""))
        find = self._cached if len(local) <= LONGEST_CACHED else self._find
        app, scope["path_params"] = find(scope["method"], local)
        await app(scope, receive, send)

    def _find(self, method: str, path: str) -> tuple[ASGIApp, dict[str, str]]:
        allowed = set[str]()
        for route in self._routes:
            match = route.path_regex.match(path)
            if match is not None:
                if method in (route.methods or ()):
                    return route.app, match.groupdict()
                allowed |= route.methods or set()
        return NoEndpointApp(path, ", ".join(sorted(allowed)), self._site), {}


class EndpointApp:
    """An ASGI application that serves one endpoint. It turns all errors into responses."""

    def __init__(self, endpoint: Endpoint, site: Site) -> None:
        self._endpoint, self._site = endpoint, site
        self._max_body = site.settings.max_body
        self._query_names = (
            None if endpoint.parameters is None else tuple(parameter.name for parameter in endpoint.parameters)
        )
        self._is_async = iscoroutinefunction(endpoint.handler)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the handler, send its response or the error, and log the request."""
        began, endpoint = time.perf_counter(), self._endpoint
        request = _request_of(scope)
        try:
            response = await self._respond(request, scope, receive)
        except ClientDisconnect:  # there is no client to respond to
            return
        except (Exception, asyncio.CancelledError) as error:
            response = endpoint.error_format(as_http_error(error, request), request, endpoint.error_code)
        await _send(response, request, send)
        seconds = time.perf_counter() - began
        self._site.requests.add(endpoint.scope or "open", response.status, seconds)
        _log_request(request, response.status, seconds, scope, audited=endpoint.scope == "admin")

    async def _respond(self, request: Request, scope: Scope, receive: Receive) -> Response:
        endpoint, site = self._endpoint, self._site
        values: dict[str, str] = scope["path_params"]
        if values:
            request.values = {
                name: unquote(value, errors="strict") if "%" in value else value for name, value in values.items()
            }
            request.loop_name = request.values.get("loop", request.loop_name)
        _check_headers(request, scope)
        if endpoint.scope != OPEN:
            request.key_name = site.authenticator.authorize(request, endpoint.scope)
        if request.query and self._query_names is not None:
            _check_query(request.query, self._query_names)
        request.body = await _read_body(receive, self._max_body, request)
        if self._is_async:
            return _as_response(await endpoint.handler(site, request), endpoint.status)
        return await asyncio.to_thread(lambda: _as_response(endpoint.handler(site, request), endpoint.status))


class NoEndpointApp(EndpointApp):
    """Answers requests without an endpoint: 405 if the path has other methods, else 404."""

    def __init__(self, path: str, allowed: str, site: Site) -> None:
        error_format = personalizer_response if PERSONALIZER_PATH.match(path) else problem_response
        super().__init__(Endpoint("", path, NO_ROUTE, self._refuse, error_format=error_format), site)
        self._allowed = allowed

    async def _respond(self, request: Request, scope: Scope, receive: Receive) -> Response:  # noqa: ARG002
        return await self._refuse(self._site, request)

    async def _refuse(self, _: Site, request: Request) -> Response:
        if not self._allowed:
            raise HttpError(404, "NotFound", f"there is no endpoint at {request.path}")
        message = f"the method of {request.path} must be one of {self._allowed}; got {request.method}"
        raise HttpError(405, "MethodNotAllowed", message, ((b"allow", self._allowed.encode()),))


def _as_response(content: Any, status: int) -> Response:
    if isinstance(content, Response):
        return content
    return Response(status, b"" if content is None else encode_json(content))


def _request_of(scope: Scope) -> Request:
    headers = dict(scope["headers"])
    match = _REQUEST_ID.fullmatch(headers.get(b"x-request-id", b""))
    request_id = match[0].decode() if match else f"{getrandbits(64):016x}"
    return Request(scope["method"], scope["path"], scope["query_string"].decode("latin-1"), headers, request_id)


def _check_headers(request: Request, scope: Scope) -> None:
    headers = request.headers
    if len(headers) < len(scope["headers"]):
        names = [name for name, _ in scope["headers"]]
        for name in ONCE:
            if names.count(name) > 1:
                raise HttpError(400, "BadRequest", f"the header {name.decode()} was sent twice; send it once")
    if b"host" not in headers and scope["http_version"] == "1.1":
        raise HttpError(400, "BadRequest", "the header host is missing; send it")
    if headers.get(b"content-encoding", b"identity") != b"identity":
        encoding = headers[b"content-encoding"][:40].decode("latin-1")
        raise HttpError(
            415, "BadRequest", f"content-encoding {encoding!r} is not supported; send the body without compression"
        )


@lru_cache(maxsize=256)
def _check_query(query: str, known: tuple[str, ...]) -> None:
    names = [name for name, _ in parse_qsl(query, keep_blank_values=True, errors="strict")]
    for name in names:
        if not known:
            raise InvalidInput(f"the endpoint has no query parameters; got {name[:40]!r}")
        lookup("parameter", name[:40], dict.fromkeys(known))
        if names.count(name) > 1:
            raise InvalidInput(f"the query parameter {name} was sent twice; send it once")


async def _read_body(receive: Receive, limit: int, request: Request) -> bytes:
    """Read the whole body. Stops and raises a 413 as soon as the body is larger than `limit`."""
    length = request.headers.get(b"content-length", b"0")
    parts, size, more = list[bytes](), int(length) if length.isdigit() and int(length) > limit else 0, True
    while more and size <= limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
    if size > limit:
        raise HttpError(413, "PayloadSizeExceeded", f"the body is larger than {limit} bytes; send less")
    return b"".join(parts)


async def _send(response: Response, request: Request, send: Send) -> None:
    """Send a response with the headers that all responses have."""
    status, body, content_type, more = response
    headers = [(b"x-content-type-options", b"nosniff"), (b"x-request-id", request.id.encode())]
    if status != 204:
        headers += ((b"content-length", b"%d" % len(body)), (b"content-type", content_type))
    headers += more
    if status >= 400 and b"expect" in request.headers:
        # A client that waits for 100 Continue may omit the body, so the next bytes are ambiguous.
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})


def _log_request(request: Request, status: int, seconds: float, scope: Scope, *, audited: bool) -> None:
    """Log a request.

    Failures are warnings. Refused keys and administration have the level info, all others the level debug. The line
    omits the query, the headers and the body, because they contain keys and features.
    """
    level = logging.WARNING if status >= 500 else logging.INFO if audited or status in (401, 403) else logging.DEBUG
    if log.isEnabledFor(level):
        client = scope["client"][0] if scope.get("client") else "unknown"
        values = (request.method, request.path, status, 1000 * seconds, request.key_name, client)
        log.log(level, "%s %s: %d in %.1f ms, key %s, client %s", *values, extra={"request": request.id})
