"""Errors in Personalizer's format: the codes of its versions, and the header that carries them.

v1.0 knows three codes. The previews know some fifty; v1.0 has these as the code of the inner error.
docs/personalizer.md has the table of codes.
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
"""Fine codes. TooManyRequests is ours: at Microsoft a gateway refused those, in another format."""
NOT_FOUND = frozenset({"EvaluationNotFound", "LearningSettingsNotFound", "LogsPropertiesNotFound"})
"""Finer codes that handlers give."""


def personalizer_response(error: HttpError, request: Request, code: str) -> Response:
    """An error in Personalizer's format. A body that is too large is a bad request, as it was there.

    Args:
        error: what went wrong.
        request: its path says which version of the API was called.
        code: the fine code of a bad request to this endpoint.
    """
    status = 400 if error.status == 413 else error.status
    given = code if error.code == "BadRequest" else error.code if error.code in NOT_FOUND else None
    fine = given or BY_STATUS.get(error.status, "InternalServerError")
    coarse = "ResourceNotFound" if status == 404 else "BadRequest" if status < 500 else "InternalServerError"
    body = {
        "code": coarse if STABLE_PATH in request.path else fine,
        "message": error.message,
        "target": request.path,
        "innerError": {"code": fine},
        "details": [],
    }
    headers = ((b"x-ms-error-code", fine.encode()), *error.headers)
    return Response(status, msgspec.json.encode({"error": body}), headers=headers)
