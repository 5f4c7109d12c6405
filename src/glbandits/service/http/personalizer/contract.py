"""What all calls of Personalizer's API share: versions of the API, errors in its format, and all of its error codes.

v1.0 has three coarse codes. The previews have some fifty fine codes, which v1.0 has as the code of the inner error.
`http/endpoints.py` assigns each endpoint the fine code of a bad request. docs/personalizer.md has the table of codes.
"""

import re

import msgspec
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response

from glbandits.service.http.http_errors import HttpError

PERSONALIZER_PATH = re.compile(r"(/loops/[^/]+)?/personalizer(/|$)")
DATED = "2022-09-01-preview"
"""The version that only the query parameter api-version can name."""
KNOWN = (DATED, "v1.1-preview.1", "v1.1-preview.2", "v1.1-preview.3", "v1.0")
ANY_VERSION, ANY_PREVIEW = "{version:personalizer}", "{version:personalizer_preview}"
"""The path parameter of calls that all versions have, and of calls that only previews have. It may be empty: then the
query parameter api-version has the version."""
CONVERTORS = {"personalizer": r"|/v1\.0|/v1\.1-preview\.[123]", "personalizer_preview": r"|/v1\.1-preview\.[123]"}
for name, regex in CONVERTORS.items():
    register_url_convertor(name, type(name, (StringConvertor,), {"regex": regex})())

STABLE_PATH = "/personalizer/v1.0"
"""Beginning of the paths of the version with coarse codes."""

BAD_RANK, BAD_REWARD, BAD_ACTIVATION = "InvalidRankRequest", "InvalidRewardRequest", "InvalidEventIdToActivate"
BAD_SERVICE, BAD_POLICY = "InvalidServiceConfiguration", "InvalidPolicyConfiguration"
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


def check_version(request: Request) -> None:
    """Raise HttpError 400 unless the path or the query has a known version."""
    if not request.path_params["version"]:
        version = request.query_params.get("api-version")
        if version not in KNOWN:
            raise HttpError(400, "BadRequest", f"api-version should be one of {', '.join(KNOWN)}; got {version!r}")


def personalizer_response(error: HttpError, request: Request, code: str) -> Response:
    """Return an error in Personalizer's format.

    As in Personalizer, the status for too large a body is 400.

    Args:
        error: the error.
        request: the request, whose path has the version of the API.
        code: the fine code of a bad request to this endpoint.
    """
    status = 400 if error.status == 413 else error.status
    fine = code if error.code == "BadRequest" else BY_STATUS.get(error.status, "InternalServerError")
    coarse = "ResourceNotFound" if status == 404 else "BadRequest" if status < 500 else "InternalServerError"
    path = request.url.path
    body = {
        "code": coarse if STABLE_PATH in path else fine,
        "message": error.message,
        "target": path,
        "innerError": {"code": fine},
        "details": [],
    }
    headers = {"x-ms-error-code": fine, **error.headers}
    return Response(msgspec.json.encode({"error": body}), status, headers, "application/json")
