"""`Endpoint`: the one record from which routes, scopes and the OpenAPI document are made."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

from glbandits.serving.http.http_messages import HttpError, Request, Response, problem_response
from glbandits.serving.http.site import Site

Handler: TypeAlias = Callable[[Site, Request], Awaitable[Response]]
LOOP_PREFIX = "/loops/{loop}"


class Parameter(NamedTuple):
    """A parameter of the query. Its kind is a type of JSON Schema."""

    name: str
    kind: str
    description: str


class Endpoint(NamedTuple):
    """A method of a path."""

    method: str
    path: str
    """With {parameters}, without the prefix of a loop."""
    scope: str
    """The scope that a key needs; `OPEN` if no key is needed."""
    handler: Callable[..., Any]
    """Returns what is sent as JSON, None for no content, or a `Response`. It runs in a thread, unless it is a coroutine
    function. The first line of its docstring is the summary."""
    request: Any = None
    """The type of the JSON body; bytes for any body; a union if either may be sent; None if there is none."""
    response: Any = None
    """The type of the JSON response; bytes for other content; None if there is no content."""
    status: int = 200
    """Of a successful response."""
    error_code: str = "BadRequest"
    """Personalizer's code of a bad request."""
    parameters: tuple[Parameter, ...] | None = ()
    """Others are refused. None: the query is not checked."""
    max_body: int | None = None
    """Bytes; None for the setting `max_body`."""
    error_format: Callable[[HttpError, Request, str], Response] = problem_response
    per_loop: bool = True
    """Whether the endpoint exists under /loops/{loop} too."""
