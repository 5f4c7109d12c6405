"""What all calls of Personalizer's API share: errors in its format, and its error codes.

v1.0 has three coarse codes, and fine codes as those of the inner error.
`http/endpoints.py` assigns each endpoint the fine code of a bad request. docs/personalizer.md has the table of codes.
"""

import re

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from glbandits.service.http.http_errors import HttpError

PERSONALIZER_PATH = re.compile(r"(/loops/[^/]+)?/personalizer(/|$)")
BAD_RANK, BAD_REWARD, BAD_ACTIVATION = "InvalidRankRequest", "InvalidRewardRequest", "InvalidEventIdToActivate"
BAD_SERVICE = "InvalidServiceConfiguration"
"""Fine codes of bad requests (400), by endpoint."""
BY_STATUS = {
    401: "InvalidApiAccess",
    403: "InvalidApiAccess",
    404: "ResourceNotFound",
    405: "OperationNotAllowed",
    413: "PayloadSizeExceeded",
    429: "TooManyRequests",
    503: "OperationNotAllowed",
}
"""Fine codes of other errors, by HTTP status. TooManyRequests is not a code of Personalizer, where a gateway sent
another format."""


def personalizer_response(error: HttpError, request: Request, code: str) -> Response:
    """Return an error in Personalizer's format.

    As in Personalizer, the status for too large a body is 400.

    Args:
        error: the error.
        request: the request.
        code: the fine code of a bad request to this endpoint.
    """
    status = 400 if error.status == 413 else error.status
    fine = code if error.code == "BadRequest" else BY_STATUS.get(error.status, "InternalServerError")
    coarse = "ResourceNotFound" if status == 404 else "BadRequest" if status < 500 else "InternalServerError"
    body = {
        "code": coarse,
        "message": error.message,
        "target": request.url.path,
        "innerError": {"code": fine},
        "details": [],
    }
    headers = {"x-ms-error-code": fine, **error.headers}
    return Response(msgspec.json.encode({"error": body}), status, headers, "application/json")
