"""What all calls of Personalizer's API share: versions in paths, bodies that are decoded, results that are encoded."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar

import msgspec
from starlette.convertors import StringConvertor, register_url_convertor

from glbandits.errors import InvalidInput
from glbandits.serving.http.endpoint import Handler
from glbandits.serving.http.http_messages import NO_CONTENT, HttpError, Request, Response
from glbandits.serving.http.site import Site

DATED = "2022-09-01-preview"
"""The version that is named by the query alone."""
KNOWN = (DATED, "v1.1-preview.1", "v1.1-preview.2", "v1.1-preview.3", "v1.0")
STABLE, PREVIEW = "{version:personalizer}", "{version:personalizer_preview}"
"""The version in paths of calls that all versions have, and of calls that only previews have. It may be empty."""
CONVERTORS = {
    "personalizer": r"|/v1\.0|/v1\.1-preview\.[123]",
    "personalizer_preview": r"|/v1\.1-preview\.[123]",
    "event": "[^/]*",  # may be empty, so that the handler can say what is wrong
}
for name, regex in CONVERTORS.items():
    register_url_convertor(name, type(name, (StringConvertor,), {"regex": regex})())

Sent = TypeVar("Sent")
_encode = msgspec.json.Encoder().encode


def personalizer_handler(call: Callable[..., Awaitable[Any]], sent: Any, status: int) -> Handler:
    """Make a handler of a function that takes the site, the request and, if it has a type, the decoded body.

    Requests that name a known version neither in the path nor in the query are refused.

    Args:
        call: returns the content of the response, None for no content, or a `Response`.
        sent: the type of the body; None and bytes are not decoded.
        status: of a response with content.
    """
    decoder = None if sent in (None, bytes) else msgspec.json.Decoder(sent)

    @wraps(call)
    async def handle(site: Site, request: Request) -> Response:
        if not request.values["version"]:
            version = request.parameters().get("api-version")
            if version not in KNOWN:
                raise HttpError(400, "BadRequest", f"api-version should be one of {', '.join(KNOWN)}; got {version!r}")
        result = await (call(site, request, decode(request.body, decoder)) if decoder else call(site, request))
        if result is None:
            return NO_CONTENT
        return result if isinstance(result, Response) else Response(status, _encode(result))

    return handle


def decode(body: bytes, decoder: "msgspec.json.Decoder[Sent]") -> Sent:
    """A body as a record; `InvalidInput` if it is none."""
    try:
        return decoder.decode(body.decode())  # msgspec itself does not look at the text of fields that it skips
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # of which a ValidationError is one
        raise InvalidInput(str(error)) from None
    except RecursionError:
        raise InvalidInput("The body is nested too deep.") from None
