"""Errors as responses: their status, code and message, in the format of problem details (RFC 9457)."""

import logging
from asyncio import CancelledError
from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from glbandits.common.errors import GlbanditsError, InvalidInput, ModelFileError, UnknownName
from glbandits.service.domain.errors import LoopExists, QueueFull, ReadTimeout, StoreError, UnknownLoop

log = logging.getLogger(__name__)

RETRY_SOON = {"retry-after": "1"}


class HttpError(GlbanditsError):
    """An error response: an HTTP status, a stable code for programs, and a message for people."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, dict(headers or {})


def as_http_error(error: BaseException, request: Request) -> HttpError:
    """Map an exception to an error response.

    Unexpected exceptions are logged; the response has no details.
    """
    if isinstance(error, HttpError):
        return error
    if isinstance(error, CancelledError):  # the server cancels requests after `shutdown_grace`
        return HttpError(503, "Stopped", "The server is stopping. Retry the request.", RETRY_SOON)
    if isinstance(error, HTTPException):  # Starlette's router found no endpoint
        return _no_endpoint(error, request)
    if isinstance(error, ClientDisconnect):  # nobody receives the response
        return HttpError(400, "Disconnected", "the client closed the connection before it had sent the whole body")
    if isinstance(error, UnicodeDecodeError):
        return HttpError(400, "BadRequest", "the body must be UTF-8")
    if isinstance(error, RecursionError):  # only parsers of the request recurse
        return HttpError(400, "BadRequest", "the body is nested too deeply; send fewer levels")
    if isinstance(error, InvalidInput | UnknownName | ModelFileError):
        return HttpError(400, "BadRequest", str(error))
    if isinstance(error, UnknownLoop):
        return HttpError(404, "UnknownLoop", str(error))
    if isinstance(error, LoopExists):
        return HttpError(409, "LoopExists", str(error))
    if isinstance(error, QueueFull):
        return HttpError(503, "QueueFull", str(error), RETRY_SOON)
    if isinstance(error, ReadTimeout):
        return HttpError(503, "ReadTimeout", "Reading the store took too long. Ask for less, or later.")
    if isinstance(error, StoreError):  # the message may name files, so only the log has it
        log.warning("%s %s: %s", request.method, request.url.path, error, extra={"request": request.state.id})
        return HttpError(503, "StoreError", "The store failed. Retry later.", RETRY_SOON)
    log.error("%s %s failed", request.method, request.url.path, exc_info=error, extra={"request": request.state.id})
    return HttpError(500, "InternalServerError", "The server failed. Its log has the error.")


def _no_endpoint(error: HTTPException, request: Request) -> HttpError:
    path = request.url.path
    if error.status_code != 405:
        return HttpError(404, "NotFound", f"there is no endpoint at {path}")
    allowed = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
    message = f"the method of {path} must be one of {allowed}; got {request.method}"
    return HttpError(405, "MethodNotAllowed", message, {"allow": allowed})


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
    problem = Problem(title=title, status=error.status, code=error.code, detail=error.message, request=request.state.id)
    return Response(msgspec.json.encode(problem), error.status, error.headers, "application/problem+json")
