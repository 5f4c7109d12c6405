"""Requests, responses, and refusals: what the APIs have to do with HTTP."""

import logging
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl

import msgspec

from glbandits.errors import GlbanditsError, InvalidInput, ModelFileError, UnknownName
from glbandits.serving.domain.errors import QueueFull, StoreError, UnknownLoop

log = logging.getLogger(__name__)

JSON_TYPE = b"application/json"
KEY_HEADER, BEARER_HEADER = b"ocp-apim-subscription-key", b"authorization"
ONCE = frozenset((KEY_HEADER, BEARER_HEADER, b"content-type"))
"""Headers of which a request has one at most."""


class Request(msgspec.Struct):
    """A request. It is admitted when its head has come, and answered when its body has, too."""

    method: str
    path: str
    """As it was sent, still quoted."""
    query: str
    headers: dict[bytes, bytes]
    """By name in small letters. Of several of the same name the last."""
    client: str
    """The address that it came from."""
    name: str
    """Its x-request-id, or a random one: the same in the log and in the response."""
    twice: bytes = b""
    """A header of which a request may have one, and this one has two: a proxy might look at another than we do."""
    began: float = 0.0
    """When its head had come, by `time.perf_counter`."""
    values: Mapping[str, str] = {}
    """The parts of the path that the route names, unquoted."""
    body: bytes = b""

    def parameters(self) -> dict[str, str]:
        """Of the query."""
        return dict(parse_qsl(self.query, keep_blank_values=True, errors="strict"))


class Response(NamedTuple):
    """What is sent back."""

    status: int
    body: bytes = b""
    kind: bytes = JSON_TYPE
    headers: tuple[tuple[bytes, bytes], ...] = ()


class HttpError(GlbanditsError):
    """A request that is answered with an error. The status, and a name for what was wrong, are for programs."""

    def __init__(self, status: int, code: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers


def as_refusal(error: Exception, request: Request) -> HttpError:
    """What the sender may know of an error: of one that nobody foresaw, nothing."""
    if isinstance(error, HttpError):
        return error
    if isinstance(error, UnicodeDecodeError):
        return HttpError(400, "BadRequest", "the path or the query is not UTF-8")
    if isinstance(error, RecursionError):  # nothing here recurses but into what was sent
        return HttpError(400, "BadRequest", "what was sent is nested too deep")
    if isinstance(error, InvalidInput | UnknownName | ModelFileError):
        return HttpError(400, "BadRequest", str(error))
    if isinstance(error, UnknownLoop):
        return HttpError(404, "UnknownLoop", str(error))
    if isinstance(error, QueueFull):
        return HttpError(503, "QueueFull", str(error), ((b"retry-after", b"1"),))
    if isinstance(error, StoreError):  # which names files, and so is for the log alone
        log.warning("%s %s: %s", request.method, request.path, error, extra={"request": request.name})
        return HttpError(503, "StoreError", "the store could not do it; send it again later", ((b"retry-after", b"1"),))
    log.error("%s %s failed", request.method, request.path, exc_info=error, extra={"request": request.name})
    return HttpError(500, "InternalServerError", "the server failed; its log says why")
