"""Errors as problem details (RFC 9457): how all but the Personalizer's routes tell of them."""

from http import HTTPStatus

import msgspec

from glbandits.serving.http.auth import Authenticator
from glbandits.serving.http.http_types import HttpError, Request, Response

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


class ProblemApi:
    """Routes that are for those with a key, and that tell of errors as problem details."""

    def __init__(self, guard: Authenticator) -> None:
        self._guard = guard

    def admit(self, request: Request, scope: str) -> None:
        """See `Authenticator.admit`."""
        self._guard.admit(request, scope)

    def refuse(self, refused: HttpError, request: Request) -> Response:
        """The problem."""
        problem = Problem(
            title=HTTPStatus(refused.status).phrase,
            status=refused.status,
            code=refused.code,
            detail=refused.message,
            request=request.name,
        )
        return Response(refused.status, msgspec.json.encode(problem), PROBLEM_TYPE, refused.headers)
