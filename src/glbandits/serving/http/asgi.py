"""Requests, responses, routes, and the ASGI application that joins them.

There is no framework here, because a decision costs less than a framework does: docs/decisions/0012-plain-asgi.md has
the figures. Handlers are functions of a request that give a response, so they can be tested without a server.
"""

import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from random import getrandbits
from typing import Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote

from glbandits.errors import GlbanditsError, InvalidInput, ModelFileError, UnknownName
from glbandits.serving.errors import QueueFull, StoreError, UnknownLoop

log = logging.getLogger(__name__)

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
JSON_TYPE = b"application/json"
KEY_HEADER, BEARER_HEADER = b"ocp-apim-subscription-key", b"authorization"
ONCE = frozenset((KEY_HEADER, BEARER_HEADER, b"content-type"))
"""Headers of which a request has one at most: of two, a proxy might look at another than we do."""
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")


class Refused(GlbanditsError):
    """A request that is answered with an error. The status, and a name for what was wrong, are for programs."""

    def __init__(self, status: int, code: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers


class Request(NamedTuple):
    """A request that came in whole."""

    method: str
    path: str
    """As it was sent, still quoted."""
    values: dict[str, str]
    """The parts of the path that the route names, unquoted."""
    query: str
    headers: dict[bytes, bytes]
    """By name in small letters. Of several of the same name the last."""
    body: bytes
    client: str
    """The address that it came from."""
    name: str = ""
    """Its x-request-id, or a random one: the same in the log and in the response."""

    def parameters(self) -> dict[str, str]:
        """Of the query."""
        return dict(parse_qsl(self.query, keep_blank_values=True, errors="strict"))


class Response(NamedTuple):
    """What is sent back."""

    status: int
    body: bytes = b""
    kind: bytes = JSON_TYPE
    headers: tuple[tuple[bytes, bytes], ...] = ()


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class Api(Protocol):
    """A family of routes that tells of errors in one way."""

    def admit(self, request: Request, scope: str) -> None:
        """Refuse a request that lacks the right to a route of this scope, or comes too often."""

    def refuse(self, refused: Refused, request: Request) -> Response:
        """What is sent for a request that is refused."""


class Route(NamedTuple):
    """Who answers."""

    api: Api
    scope: str
    handler: Handler
    largest_body: int


@dataclass
class _Node:
    literal: dict[str, "_Node"] = field(default_factory=dict)
    named: "tuple[str, _Node] | None" = None
    routes: dict[str, Route] = field(default_factory=dict)


class Routes:
    """Paths and methods, and who answers them. A part of a path in {braces} stands for any text.

    >>> routes = Routes()
    >>> routes.add("GET", "/loops/{loop}/model", route := Route(None, "read", None, 0))
    >>> routes.find("GET", "/loops/my%2Floop/model")
    ({'loop': 'my/loop'}, Route(api=None, scope='read', handler=None, largest_body=0))
    """

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, method: str, pattern: str, route: Route) -> None:
        """One more."""
        node = self._root
        for part in pattern.strip("/").split("/"):
            if part.startswith("{"):
                if node.named is None:
                    node.named = (part[1:-1], _Node())
                assert node.named[0] == part[1:-1], f"{pattern}: the same place has another name in another route"
                node = node.named[1]
            else:
                node = node.literal.setdefault(part, _Node())
        assert method not in node.routes, f"{method} {pattern} is there twice"
        node.routes[method] = route

    def all(self) -> Iterator[tuple[str, str, Route]]:
        """Method, pattern and route of all of them."""
        return self._below("", self._root)

    def _below(self, pattern: str, node: _Node) -> Iterator[tuple[str, str, Route]]:
        yield from ((method, pattern, route) for method, route in node.routes.items())
        for part, following in node.literal.items():
            yield from self._below(f"{pattern}/{part}", following)
        if node.named is not None:
            yield from self._below(f"{pattern}/{{{node.named[0]}}}", node.named[1])

    def find(self, method: str, path: str) -> tuple[dict[str, str], Route]:
        """The named parts of a path, unquoted, and who answers. A literal part goes before a named one.

        Who answers GET answers HEAD, too.
        """
        node, values = self._root, dict[str, str]()
        for part in path.strip("/").split("/"):
            following = node.literal.get(part)
            if following is None:
                if node.named is None:
                    raise Refused(404, "NotFound", f"there is nothing at {path}")
                values[node.named[0]] = unquote(part, errors="strict")
                following = node.named[1]
            node = following
        route = node.routes.get("GET" if method == "HEAD" else method)
        if route is None:
            if not node.routes:
                raise Refused(404, "NotFound", f"there is nothing at {path}")
            allowed = ", ".join(sorted({*node.routes, *(("HEAD",) if "GET" in node.routes else ())}))
            raise Refused(
                405, "MethodNotAllowed", f"{path} takes {allowed}; got {method}", ((b"allow", allowed.encode()),)
            )
        return values, route


class Application:
    """The ASGI application.

    Args:
        routes: all of them.
        fallback: tells of errors where no route was found.
        started: called when the server starts.
        stopped: called when it stops, after the last response.
        finish: called with each request, its response, its route and the seconds it took, before the response is sent;
            gives the response that is sent.
    """

    def __init__(
        self,
        routes: Routes,
        fallback: Api,
        *,
        started: Callable[[], None],
        stopped: Callable[[], None],
        finish: Callable[[Request, Response, Route | None, float], Response] | None = None,
    ) -> None:
        self._routes, self._fallback, self._finish = routes, fallback, finish
        self._started, self._stopped = started, stopped

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One connection, as ASGI has it."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            response = await self._answer(scope, receive)
            head = [
                (b"content-length", str(len(response.body)).encode()),
                *response.headers,
                *([(b"content-type", response.kind)] if response.body else []),
            ]
            await send({"type": "http.response.start", "status": response.status, "headers": head})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else response.body})

    async def _answer(self, scope: Message, receive: Receive) -> Response:
        began = time.perf_counter()
        request = _opened(scope)
        route: Route | None = None
        try:
            if len(request.headers) < len(scope["headers"]):
                _check_once([name for name, _ in scope["headers"]])
            values, route = self._routes.find(request.method, request.path)
            route.api.admit(request, route.scope)
            body = await _whole_body(receive, request.headers, route.largest_body)
            method, path, _, query, headers, _, client, name = request
            request = Request(method, path, values, query, headers, body, client, name)
            response = await route.handler(request)
        except Exception as error:
            response = (route.api if route else self._fallback).refuse(as_refusal(error, request), request)
        if self._finish is None:
            return response
        return self._finish(request, response, route, time.perf_counter() - began)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    self._started()
                except Exception as error:
                    log.exception("the server could not start")
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                self._stopped()
                await send({"type": "lifespan.shutdown.complete"})
                return


def _opened(scope: Message) -> Request:
    """The request as far as it is known before its body."""
    headers = dict(scope["headers"])
    told = headers.get(b"x-request-id")
    client = scope.get("client")
    # By place, because names cost a microsecond.
    return Request(
        scope["method"],
        scope["raw_path"].decode("latin-1"),
        {},
        scope["query_string"].decode("latin-1"),
        headers,
        b"",
        client[0] if client else "",
        told.decode() if told is not None and _REQUEST_ID.fullmatch(told) else f"{getrandbits(64):016x}",
    )


def _check_once(names: Sequence[bytes]) -> None:
    for name in ONCE:
        if names.count(name) > 1:
            raise Refused(400, "BadRequest", f"the header {name.decode()} is there twice; send it once")


def as_refusal(error: Exception, request: Request) -> Refused:
    """What the sender may know of an error: of one that nobody foresaw, nothing."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, UnicodeDecodeError):
        return Refused(400, "BadRequest", "the path or the query is not UTF-8")
    if isinstance(error, RecursionError):  # nothing here recurses but into what was sent
        return Refused(400, "BadRequest", "what was sent is nested too deep")
    if isinstance(error, InvalidInput | UnknownName | ModelFileError):
        return Refused(400, "BadRequest", str(error))
    if isinstance(error, UnknownLoop):
        return Refused(404, "UnknownLoop", str(error))
    if isinstance(error, QueueFull):
        return Refused(503, "QueueFull", str(error), ((b"retry-after", b"1"),))
    if isinstance(error, StoreError):  # which names files, and so is for the log alone
        log.warning("%s %s: %s", request.method, request.path, error, extra={"request": request.name})
        return Refused(503, "StoreError", "the store could not do it; send it again later", ((b"retry-after", b"1"),))
    log.error("%s %s failed", request.method, request.path, exc_info=error, extra={"request": request.name})
    return Refused(500, "InternalServerError", "the server failed; its log says why")


async def _whole_body(receive: Receive, headers: dict[bytes, bytes], largest: int) -> bytes:
    told = headers.get(b"content-length", b"0")
    if told.isdigit() and int(told) > largest:
        raise Refused(413, "PayloadSizeExceeded", f"a body may have {largest} bytes; got {int(told)}")
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        return _checked(body, largest)
    parts, size = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "BadRequest", "the request broke off")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        _checked(b"", largest - size)
    return b"".join(parts)


def _checked(body: bytes, largest: int) -> bytes:
    if len(body) > largest or largest < 0:
        raise Refused(413, "PayloadSizeExceeded", "the body is too large")
    return body
