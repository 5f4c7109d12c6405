"""Requests, responses, times and errors, as the handlers of all endpoints use them."""

import logging
from asyncio import CancelledError
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qsl

import msgspec

from glbandits.common.errors import GlbanditsError, InvalidInput, ModelFileError, UnknownName
from glbandits.service.domain.errors import QueueFull, StoreError, UnknownLoop

log = logging.getLogger(__name__)

BYTES_TYPE = b"application/octet-stream"
RETRY_SOON = ((b"retry-after", b"1"),)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Request(msgspec.Struct):
    """A request with its whole body."""

    method: str
    path: str
    """Percent-encoded, as it was sent."""
    query: str
    headers: dict[bytes, bytes]
    """By lower-case name. Of several headers with one name, the last."""
    id: str
    """The x-request-id of the client, or a random one. The log and the response contain it."""
    values: Mapping[str, str] = {}
    """The parameters of the path, decoded."""
    loop_name: str = "default"
    """The loop that the path names, or the default loop."""
    key_name: str = "none"
    """The name of the key, once it was checked."""
    body: bytes = b""

    def parameters(self) -> dict[str, str]:
        """Return the query parameters. Raises UnicodeDecodeError if they are not UTF-8."""
        return dict(parse_qsl(self.query, keep_blank_values=True, errors="strict"))


class Response(NamedTuple):
    """Status, body, content type and further headers."""

    status: int
    body: bytes = b""
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


class HttpError(GlbanditsError):
    """An error response: an HTTP status, a stable code for programs, and a message for people."""

    def __init__(self, status: int, code: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers


def as_datetime(timestamp: int) -> datetime:
    """Convert microseconds since 1970 to a time in UTC."""
    return EPOCH + timedelta(microseconds=timestamp)


def as_http_error(error: BaseException, request: Request) -> HttpError:
    """Map an exception to an error response.

    Unexpected exceptions are logged; the response has no details.
    """
    if isinstance(error, HttpError):
        return error
    if isinstance(error, CancelledError):  # the server cancels requests after `shutdown_grace`
        return HttpError(503, "Stopped", "The server is stopping. Retry the request.", RETRY_SOON)
    if isinstance(error, UnicodeDecodeError):
        return HttpError(400, "BadRequest", "the path and the query must be UTF-8")
    if isinstance(error, RecursionError):  # only parsers of the request recurse
        return HttpError(400, "BadRequest", "the body is nested too deeply; send fewer levels")
    if isinstance(error, InvalidInput | UnknownName | ModelFileError):
        return HttpError(400, "BadRequest", str(error))
    if isinstance(error, UnknownLoop):
        return HttpError(404, "UnknownLoop", str(error))
    if isinstance(error, QueueFull):
        return HttpError(503, "QueueFull", str(error), RETRY_SOON)
    if isinstance(error, StoreError):  # the message may name files, so only the log has it
        log.warning("%s %s: %s", request.method, request.path, error, extra={"request": request.id})
        return HttpError(503, "StoreError", "The store failed. Retry later.", RETRY_SOON)
    log.error("%s %s failed", request.method, request.path, exc_info=error, extra={"request": request.id})
    return HttpError(500, "InternalServerError", "The server failed. Its log has the error.")


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error response (RFC 9457)."""

    type: str = "about:blank"
    title: str
    """The meaning of the status."""
    status: int
    code: str
    """A stable name of the error, for programs."""
    detail: str
    """What is wrong, and where possible the value received and how to fix it: for people."""
    request: str
    """The x-request-id, which is also in the server's log."""


def problem_response(error: HttpError, request: Request, code: str) -> Response:  # noqa: ARG001 - all formats have this parameter
    """Return an error as problem details (RFC 9457), for all APIs but Personalizer's."""
    title = HTTPStatus(error.status).phrase
    problem = Problem(title=title, status=error.status, code=error.code, detail=error.message, request=request.id)
    return Response(error.status, msgspec.json.encode(problem), b"application/problem+json", error.headers)
