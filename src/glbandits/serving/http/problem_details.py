"""Errors as problem details (RFC 9457): the format of all endpoints except Personalizer's."""

from http import HTTPStatus

import msgspec

from glbandits.serving.http.http_messages import HttpError, Request, Response

PROBLEM_TYPE = b"application/problem+json"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What was wrong."""

    type: str = "about:blank"
    title: str
    """What the status means."""
    status: int
    code: str
    """A name for what was wrong, which does not change: for programs."""
    detail: str
    """What was needed, what came, and how to mend it: for people."""
    request: str
    """The x-request-id, which the server's log has too."""


def problem_response(error: HttpError, request: Request, code: str) -> Response:  # noqa: ARG001 - as all formats
    """An error as problem details."""
    problem = Problem(
        title=HTTPStatus(error.status).phrase,
        status=error.status,
        code=error.code,
        detail=error.message,
        request=request.id,
    )
    return Response(error.status, msgspec.json.encode(problem), PROBLEM_TYPE, error.headers)
