"""Paths of Personalizer's API. Its version is in the path, or in the parameter api-version of the query."""

from functools import wraps

from starlette.convertors import StringConvertor, register_url_convertor

from glbandits.serving.http.endpoint import Handler
from glbandits.serving.http.http_messages import HttpError, Request, Response
from glbandits.serving.http.site import Site

PREVIEWS = ("v1.1-preview.1", "v1.1-preview.2", "v1.1-preview.3")
DATED = "2022-09-01-preview"
"""The version that is named by the query alone."""
KNOWN = (DATED, *PREVIEWS, "v1.0")
STABLE, PREVIEW = "{version:personalizer}", "{version:personalizer_preview}"
"""The version in paths of calls that all versions have, and of calls that only previews have. It may be empty."""


class AnyVersion(StringConvertor):
    """/v1.0, /v1.1-preview.1 to 3, or nothing."""

    regex = r"|/v1\.0|/v1\.1-preview\.[123]"


class PreviewVersion(StringConvertor):
    """/v1.1-preview.1 to 3, or nothing."""

    regex = r"|/v1\.1-preview\.[123]"


class EventId(StringConvertor):
    """An event id, which may be empty, so that its handler can say what is wrong."""

    regex = "[^/]*"


register_url_convertor("event", EventId())
register_url_convertor("personalizer", AnyVersion())
register_url_convertor("personalizer_preview", PreviewVersion())


def with_api_version(handler: Handler) -> Handler:
    """Refuse requests that name a known version neither in the path nor in the query."""

    @wraps(handler)
    async def checked(site: Site, request: Request) -> Response:
        if not request.values["version"]:
            version = request.parameters().get("api-version")
            if version not in KNOWN:
                raise HttpError(400, "BadRequest", f"api-version should be one of {', '.join(KNOWN)}; got {version!r}")
        return await handler(site, request)

    return checked
