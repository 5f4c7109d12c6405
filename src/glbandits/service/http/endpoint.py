"""`Endpoint`: the record from which routes and the OpenAPI document are made, and the handler of its requests."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

import msgspec
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from glbandits.common.errors import InvalidInput, lookup
from glbandits.service.http.auth import OPEN, READ, check_loop
from glbandits.service.http.body_errors import body_error_text
from glbandits.service.http.connections import connection_of
from glbandits.service.http.http_errors import HttpError, as_http_error, problem_response
from glbandits.service.http.site import Site
from glbandits.service.runtime.service import DEFAULT_LOOP

LOOP_PREFIX = "/loops/{loop}"
BYTES_TYPE, JSON_TYPE = "application/octet-stream", "application/json"
EVENT = "{event:event}"
"""The path parameter of an event id: any text, also with slashes and line breaks."""
register_url_convertor("event", type("EventConvertor", (StringConvertor,), {"regex": "(?s:.*)"})())
ONCE = (b"host", b"ocp-apim-subscription-key", b"x-api-key", b"authorization", b"content-type", b"content-encoding")
"""Headers that a request may have only once. Of two, a proxy might use another one than this server."""
PLAIN = ((b"content-encoding", b"identity"), (b"transfer-encoding", b"chunked"))
"""Headers about encodings of the body, and the only value that is supported."""
encode_json = msgspec.json.Encoder().encode


class Parameter(NamedTuple):
    """A query parameter. `kind` is a type of JSON Schema."""

    name: str
    kind: str
    description: str


class Endpoint(NamedTuple):
    """An endpoint: a method and a path."""

    method: str
    path: str
    """The path with {parameters}, without the prefix of a loop."""
    scope: str
    """The scope that a key needs; `OPEN` if no key is needed."""
    handler: Callable[..., Any]
    """Takes the `Site`, the request, and the decoded body if `request` is set. Returns an object to send as JSON, None
    for no content, or a `Response`. A coroutine function runs in the event loop, another function in a thread. The
    first line of its docstring is the summary in the OpenAPI document."""
    request: Any = None
    """The type of the JSON body; bytes for any body; None for no body."""
    response: Any = None
    """The type of the JSON response; bytes for other content; None for no content."""
    status: int = 200
    """The status of a successful response."""
    error_code: str = "BadRequest"
    """The error code of a bad request in Personalizer's format."""
    parameters: tuple[Parameter, ...] | None = ()
    """The allowed query parameters. None: the query is not checked."""
    decoded: Any = None
    """The type that the handler gets, if it is not `request`."""
    error_format: Callable[[HttpError, Request, str], Response] = problem_response
    """Builds an error response from the error, the request and `error_code`."""
    per_loop: bool = True
    """Whether the endpoint also exists under /loops/{loop}."""
    urgent: bool = False
    """Whether requests with the scope `read` do not wait for others that read, see `Site.read`."""
    of_any_loop: bool = False
    """Whether a key for some loops is enough: the handler leaves out others, see `Key.may_use`."""

    def loop_of(self, request: Request) -> str | None:
        """Return the loop that a request is about; None for all loops."""
        named = request.path_params.get("loop", request.path_params.get("key"))
        return loop_name(request) if named is None and self.per_loop else named


def loop_name(request: Request) -> str:
    """Return the name of the loop in the path of a request, or the default loop."""
    return str(request.path_params.get("loop", DEFAULT_LOOP))


class PathHandler:
    """Handles the requests of one path: authentication, body, handler of the endpoint, response. Errors too.

    Args:
        site: the service.
        endpoints: the endpoints of this path, one for each method.
    """

    def __init__(self, site: Site, endpoints: Sequence[Endpoint]) -> None:
        self._site = site
        self._endpoints = {endpoint.method: (endpoint, _Body(endpoint)) for endpoint in endpoints}
        self.methods = list(self._endpoints)

    async def respond(self, request: Request) -> Response:
        """Return the response of the endpoint, or its error."""
        endpoint, body = self._endpoints["GET" if request.method == "HEAD" else request.method]
        request.scope["state"]["scope"] = endpoint.scope or "open"
        try:
            return await self._respond(endpoint, body, request)
        except (Exception, asyncio.CancelledError) as error:
            connection_of(request.scope).skip(_declared_length(request.scope["headers"]))  # perhaps it was not read
            return endpoint.error_format(as_http_error(error, request), request, endpoint.error_code)

    async def _respond(self, endpoint: Endpoint, body: "_Body", request: Request) -> Response:
        site, headers = self._site, request.scope["state"]["headers"]
        _check_headers(request, headers)
        if endpoint.scope != OPEN:
            site.authenticator.authorize(request, endpoint.scope)
            if not endpoint.of_any_loop:
                check_loop(request, endpoint.loop_of(request))
        if request.scope["query_string"] and endpoint.parameters is not None:
            _check_query(request, endpoint.parameters)
        arguments = (site, request, *body.decode(await _read_body(request, headers, site.settings.max_body)))
        if body.is_async:
            return _as_response(await endpoint.handler(*arguments), endpoint.status)
        run = site.read if endpoint.scope == READ and not endpoint.urgent else asyncio.to_thread
        return await run(lambda: _as_response(endpoint.handler(*arguments), endpoint.status))


class JsonResponse(Response):
    """A response of encoded JSON. Starlette's general one takes several times as long to make its two headers."""

    def __init__(self, body: bytes, status: int) -> None:
        self.status_code, self.body, self.background = status, body, None
        self.raw_headers = [(b"content-length", b"%d" % len(body)), (b"content-type", JSON_TYPE.encode())]


class _Body:
    """How the body of an endpoint is decoded, and whether its handler is a coroutine function."""

    def __init__(self, endpoint: Endpoint) -> None:
        body = endpoint.request
        self._is_bytes = body is bytes
        self._decoder = None if body in (None, bytes) else msgspec.json.Decoder(endpoint.decoded or body)
        self._must_be_empty = body is None and endpoint.method != "GET" and endpoint.parameters is not None
        self.is_async = iscoroutinefunction(endpoint.handler)

    def decode(self, content: bytes) -> tuple[Any, ...]:
        """Return the argument of the handler; no argument if the endpoint has no body."""
        if self._is_bytes:
            return (content,)
        if self._must_be_empty and content.strip() not in (b"", b"{}"):
            found = content[:40].decode(errors="replace")
            raise HttpError(400, "BadRequest", f"this endpoint has no body; got {found!r}")
        if self._decoder is None:
            return ()
        try:
            return (self._decoder.decode(content.decode()),)  # checks UTF-8 also in fields that msgspec skips
        except msgspec.DecodeError as error:
            if isinstance(error.__cause__, InvalidInput):  # from a check of the type
                raise error.__cause__ from None
            text = body_error_text(error, self._decoder.type)
            raise HttpError(400, "BadRequest", f"the body is invalid: {text}") from None


def _as_response(content: Any, status: int) -> Response:
    if isinstance(content, Response):
        return content
    if content is None:
        return Response(status_code=status)
    return JsonResponse(encode_json(content), status)


def _check_headers(request: Request, headers: Mapping[bytes, bytes]) -> None:
    if len(headers) < len(request.scope["headers"]):
        names = [name for name, _ in request.scope["headers"]]
        for name in ONCE:
            if names.count(name) > 1:
                raise HttpError(400, "BadRequest", f"the header {name.decode()} was sent twice; send it once")
    if b"host" not in headers and request.scope["http_version"] == "1.1":
        raise HttpError(400, "BadRequest", "the header host is missing; send it")
    for name, plain in PLAIN:
        if name in headers and headers[name].strip().lower() != plain:
            text = f"{name.decode()} {headers[name][:40].decode('latin-1')!r} is not supported"
            raise HttpError(415, "BadRequest", f"{text}; send the body without compression")


def _check_query(request: Request, known: Sequence[Parameter]) -> None:
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if not known:
            raise InvalidInput(f"the endpoint has no query parameters; got {name[:40]!r}")
        lookup("parameter", name[:40], dict.fromkeys(parameter.name for parameter in known))
        if names.count(name) > 1:
            raise InvalidInput(f"the query parameter {name} was sent twice; send it once")


async def _read_body(request: Request, headers: Mapping[bytes, bytes], limit: int) -> bytes:
    """Read the whole body. Stops and raises a 413 as soon as the body is larger than `limit`."""
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    connection, parts, size = connection_of(request.scope), list[bytes](), 0
    while True:
        message = await request.receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        if not message.get("more_body"):
            connection.body_ends()
            return b"".join([*parts, part]) if parts else part
        parts.append(part)
        connection.body_grows()


def _too_large(limit: int) -> HttpError:
    return HttpError(413, "PayloadSizeExceeded", f"the body is larger than {limit} bytes; send less")


def _declared_length(headers: Sequence[tuple[bytes, bytes]]) -> int:
    length = dict(headers).get(b"content-length", b"")
    return int(length) if length.isdigit() else 0
