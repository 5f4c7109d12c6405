"""An operation: a route as it is described, for the routes and for the OpenAPI description alike."""

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from glbandits.errors import InvalidInput, look_up
from glbandits.serving.http.auth import Limits
from glbandits.serving.http.http_types import Request, Response
from glbandits.serving.http.routing import LONGEST_REMEMBERED, Api, Handler
from glbandits.serving.runtime.service import Service


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
    swift: bool = False
    """See `Route`."""


def handler_of(operation: Operation, site: Site) -> Handler:
    """The handler of its route. Parameters that are not known, or are there twice, are refused before it is called."""
    known = tuple(parameter.name for parameter in operation.parameters)

    def answer(request: Request) -> Awaitable[Response]:
        query = request.query
        if query:
            (_check_query if len(query) <= LONGEST_REMEMBERED else _check_query.__wrapped__)(query, known)
        return operation.handler(site, request)

    return answer


@lru_cache(maxsize=256)
def _check_query(query: str, known: tuple[str, ...]) -> None:
    names = [name for name, _ in parse_qsl(query, keep_blank_values=True, errors="strict")]
    for name in names:
        if not known:
            raise InvalidInput(f"this takes no parameters in the query; got {name[:40]!r}")
        look_up("parameter", name[:40], dict.fromkeys(known))
        if names.count(name) > 1:
            raise InvalidInput(f"the parameter {name} is there twice; send it once")
