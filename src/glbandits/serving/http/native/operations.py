"""An operation: a route as it is described, for the routes and for the OpenAPI description alike."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from glbandits.serving.http.asgi import Api, Request, Response
from glbandits.serving.http.guard import Limits
from glbandits.serving.service import Service


class Site(NamedTuple):
    """What handlers work on."""

    service: Service
    api: Api
    limits: Limits


class Parameter(NamedTuple):
    """Of the query."""

    name: str
    kind: str
    """As JSON Schema calls it."""
    description: str


class Operation(NamedTuple):
    """What a method does at a path."""

    method: str
    path: str
    """With {names}, without the prefix of a loop."""
    scope: str
    handler: Callable[[Site, Request], Awaitable[Response]]
    """Its docstring is the summary."""
    takes: Any = None
    """The type of the JSON body; None if there is none."""
    gives: Any = None
    """The type of the JSON reply; None if it is bytes."""
    parameters: tuple[Parameter, ...] = ()
    takes_floats: bool = False
    """Whether the body may be float32 numbers as well."""
