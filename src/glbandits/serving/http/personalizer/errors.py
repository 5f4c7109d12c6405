"""How errors are told: the contract's shape, the codes of its versions, and the header that carries them.

v1.0 knows three codes. The previews know some fifty, of which ours are in `CODES`; v1.0 has these as the code of the
inner error. docs/personalizer.md has the table of what is told when.
"""

import msgspec

from glbandits.serving.http.auth import Authenticator
from glbandits.serving.http.http_types import HttpError, Request, Response

BY_STATUS = {
    401: "InvalidApiAccess",
    403: "InvalidApiAccess",
    404: "ResourceNotFound",
    405: "OperationNotAllowed",
    413: "PayloadSizeExceeded",
    429: "TooManyRequests",
    503: "OperationNotAllowed",
}
"""Of the previews, where no handler gave a better one."""
CODES = frozenset(BY_STATUS.values()) | {
    "BadRequest",
    "EvaluationNotFound",
    "InternalServerError",
    "InvalidEvaluationContract",
    "InvalidEventIdToActivate",
    "InvalidModelImportFormat",
    "InvalidPolicyConfiguration",
    "InvalidRankRequest",
    "InvalidRewardRequest",
    "InvalidServiceConfiguration",
    "LearningSettingsNotFound",
    "LogsPropertiesNotFound",
}
"""All that are sent. TooManyRequests is ours: at Microsoft a gateway refused those, in another shape."""


class InnerError(msgspec.Struct, frozen=True):
    """The finer code."""

    code: str


class PersonalizerError(msgspec.Struct, frozen=True, rename="camel"):
    """What was wrong."""

    code: str
    message: str
    target: str
    inner_error: InnerError
    details: list[str] = []


class ErrorResponse(msgspec.Struct, frozen=True):
    """The body of a refusal."""

    error: PersonalizerError


class PersonalizerApi:
    """Tells of errors as one version of Personalizer does.

    Args:
        guard: refuses who has no right to a scope.
        preview: whether the version is one with fine codes.
        code: the fine code of a bad request to its routes.
    """

    def __init__(self, guard: Authenticator, *, preview: bool, code: str = "BadRequest") -> None:
        self._guard, self._preview, self._code = guard, preview, code

    def admit(self, request: Request, scope: str) -> None:
        """See `Authenticator.admit`."""
        self._guard.admit(request, scope)

    def refuse(self, refused: HttpError, request: Request) -> Response:
        """What is sent for a request that is refused. A body that is too large is a bad request, as it was there."""
        status = 400 if refused.status == 413 else refused.status
        fine = self._fine_code(refused)
        coarse = "ResourceNotFound" if status == 404 else "BadRequest" if status < 500 else "InternalServerError"
        error = PersonalizerError(
            code=fine if self._preview else coarse,
            message=refused.message,
            target=request.path,
            inner_error=InnerError(fine),
        )
        headers = ((b"x-ms-error-code", fine.encode()), *refused.headers)
        return Response(status, msgspec.json.encode(ErrorResponse(error)), headers=headers)

    def _fine_code(self, refused: HttpError) -> str:
        if refused.code == "BadRequest":
            return self._code
        return refused.code if refused.code in CODES else BY_STATUS.get(refused.status, "InternalServerError")
