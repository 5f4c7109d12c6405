"""What all calls of Personalizer's API share: versions in paths, bodies that are decoded, results that are encoded."""

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, TypeVar

import msgspec
from starlette.convertors import StringConvertor, register_url_convertor

from glbandits.errors import InvalidInput
from glbandits.serving.http.http_messages import HttpError, Request
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


def personalizer_handler(call: Callable[..., Any], sent: Any) -> Callable[[Site, Request], Any]:
    """Make a handler of a function that takes the site, the request and, if `sent` is its type, the decoded body.

    Requests that name a known version neither in the path nor in the query are refused.
    """
    decoder = None if sent in (None, bytes) else msgspec.json.Decoder(sent)

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


def decode(body: bytes, decoder: "msgspec.json.Decoder[Sent]") -> Sent:
    """A body as a record; `InvalidInput` if it is none."""
    try:
        return decoder.decode(body.decode())  # msgspec itself does not look at the text of fields that it skips
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # of which a ValidationError is one
        raise InvalidInput(str(error)) from None
    except RecursionError:
        raise InvalidInput("The body is nested too deep.") from None
