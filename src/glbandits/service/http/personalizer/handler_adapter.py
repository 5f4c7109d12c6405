"""Adapter of handlers for Personalizer's API: API versions, and decoding of bodies."""

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, TypeVar

import msgspec
from starlette.convertors import StringConvertor, register_url_convertor

from glbandits.common.errors import InvalidInput
from glbandits.service.http.http_messages import HttpError, Request
from glbandits.service.http.site import Site

DATED = "2022-09-01-preview"
"""The version that only the query parameter api-version can name."""
KNOWN = (DATED, "v1.1-preview.1", "v1.1-preview.2", "v1.1-preview.3", "v1.0")
ANY_VERSION, ANY_PREVIEW = "{version:personalizer}", "{version:personalizer_preview}"
"""The path parameter of calls that all versions have, and of calls that only previews have. It may be empty: then the
query parameter api-version has the version."""
CONVERTORS = {
    "personalizer": r"|/v1\.0|/v1\.1-preview\.[123]",
    "personalizer_preview": r"|/v1\.1-preview\.[123]",
    "event": "[^/]*",  # may be empty, so that the handler can return the error
}
for name, regex in CONVERTORS.items():
    register_url_convertor(name, type(name, (StringConvertor,), {"regex": regex})())

Body = TypeVar("Body")


def personalizer_handler(call: Callable[..., Any], body_type: Any) -> Callable[[Site, Request], Any]:
    """Return a handler that calls a function with the site, the request and the decoded body.

    Without a known version in the path or the query it raises HttpError 400.

    Args:
        call: the function, or a coroutine function.
        body_type: the type of the JSON body; None or bytes if the function takes no decoded body.
    """
    decoder = None if body_type in (None, bytes) else msgspec.json.Decoder(body_type)

    def body_of(request: Request) -> tuple[Any, ...]:
        if not request.values["version"]:
            version = request.parameters().get("api-version")
            if version not in KNOWN:
                raise HttpError(400, "BadRequest", f"api-version should be one of {', '.join(KNOWN)}; got {version!r}")
        return () if decoder is None else (decode(request.body, decoder),)

    @wraps(call)
    async def handle_on_event_loop(site: Site, request: Request) -> Any:
        return await call(site, request, *body_of(request))

    @wraps(call)
    def handle_in_thread(site: Site, request: Request) -> Any:
        return call(site, request, *body_of(request))

    return handle_on_event_loop if iscoroutinefunction(call) else handle_in_thread


def decode(body: bytes, decoder: "msgspec.json.Decoder[Body]") -> Body:
    """Decode a JSON body. Raises InvalidInput."""
    try:
        return decoder.decode(body.decode())  # checks UTF-8 also in fields that msgspec skips
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(str(error)) from None
    except RecursionError:
        raise InvalidInput("The body is nested too deeply.") from None
