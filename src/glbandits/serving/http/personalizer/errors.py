"""Errors in Personalizer's format: the codes of its versions, and the header that carries them.

v1.0 knows three codes. The previews know some fifty, of which ours are in `CODES`; v1.0 has these as the code of the
inner error. docs/personalizer.md has the table of codes.
"""

import msgspec

from glbandits.serving.http.http_messages import HttpError, Request, Response

STABLE_PATH = "/personalizer/v1.0"
"""Paths of the version with coarse codes; all others have fine codes."""

BY_STATUS = {
    401: "InvalidApiAccess",
    403: "InvalidApiAccess",
    404: "ResourceNotFound",
    405: "OperationNotAllowed",
    413: "PayloadSizeExceeded",
    429: "TooManyRequests",
    503: "OperationNotAllowed",
}
"""Fine codes where no handler gave a better one."""
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
"""All fine codes. TooManyRequests is ours: at Microsoft a gateway refused those, in another format."""


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
    """The body of an error response."""

    error: PersonalizerError


def personalizer_response(error: HttpError, request: Request, code: str) -> Response:
    """An error in Personalizer's format. A body that is too large is a bad request, as it was there.

    Args:
        error: what went wrong.
        request: its path says which version of the API was called.
        code: the fine code of a bad request to this endpoint.
    """
    status = 400 if error.status == 413 else error.status
    fine = _fine_code(error, code)
    coarse = "ResourceNotFound" if status == 404 else "BadRequest" if status < 500 else "InternalServerError"
    body = PersonalizerError(
        code=coarse if STABLE_PATH in request.path else fine,
        message=error.message,
        target=request.path,
        inner_error=InnerError(fine),
    )
    headers = ((b"x-ms-error-code", fine.encode()), *error.headers)
    return Response(status, msgspec.json.encode(ErrorResponse(body)), headers=headers)


def _fine_code(error: HttpError, code: str) -> str:
    if error.code == "BadRequest":
        return code
    return error.code if error.code in CODES else BY_STATUS.get(error.status, "InternalServerError")
