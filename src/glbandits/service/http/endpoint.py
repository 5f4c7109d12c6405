"""`Endpoint`: the record from which routes and the OpenAPI document are made."""

from collections.abc import Callable
from typing import Any, NamedTuple

from glbandits.service.http.http_messages import HttpError, Request, Response, problem_response

LOOP_PREFIX = "/loops/{loop}"


class Parameter(NamedTuple):
    """A query parameter. `kind` is a type of JSON Schema."""

    name: str
    kind: str
    description: str


class Endpoint(NamedTuple):
    """An endpoint: a method and a path."""

    method: str
    path: str
    """The path with {parameters}, without the prefix of a loop."""
    scope: str
    """The scope that a key needs; `OPEN` if no key is needed."""
    handler: Callable[..., Any]
    """Takes the `Site` and the `Request`. Returns an object to send as JSON, None for no content, or a `Response`. A
    coroutine function runs in the event loop, another function in a thread. The first line of its docstring is the
    summary in the OpenAPI document."""
    request: Any = None
    """The type of the JSON body; bytes for any body; a union of the two; None for no body."""
    response: Any = None
    """The type of the JSON response; bytes for other content; None for no content."""
    status: int = 200
    """The status of a successful response."""
    error_code: str = "BadRequest"
    """The error code of a bad request in Personalizer's format."""
    parameters: tuple[Parameter, ...] | None = ()
    """The allowed query parameters. None: the query is not checked."""
    error_format: Callable[[HttpError, Request, str], Response] = problem_response
    """Builds an error response from the error, the request and `error_code`."""
    per_loop: bool = True
    """Whether the endpoint also exists under /loops/{loop}."""
