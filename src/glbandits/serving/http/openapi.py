"""The OpenAPI description of all APIs, made from the types that the handlers read and write.

`python -m glbandits.serving.http.openapi docs/openapi.json` writes it to a file; a test compares the two.
"""

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from glbandits.serving.http.auth import OPEN, Authenticator
from glbandits.serving.http.dashboard import OPERATIONS
from glbandits.serving.http.http_types import Request, Response
from glbandits.serving.http.personalizer.openapi_operations import PREVIEW_CALLS, STABLE_CALLS
from glbandits.serving.http.problem_details import Problem, ProblemApi
from glbandits.serving.http.routing import Route, Routes
from glbandits.serving.http.v1.operations import Parameter
from glbandits.serving.http.v1.routes import LOOP_PREFIX, OF_A_LOOP, OF_ALL_LOOPS
from glbandits.serving.runtime.service import Service
from glbandits.version import __version__

STABLE, PREVIEW = "/personalizer/v1.0", "/personalizer/v1.1-preview.3"
JSON, BYTES, PROBLEM = "application/json", "application/octet-stream", "application/problem+json"
ABOUT = (
    "Chooses actions and learns from what comes of them. Paths under /v1 take vectors of numbers; paths under "
    "/personalizer are those of Azure Personalizer, of which v1.0 and, for what only they have, the previews are "
    "listed here: the other versions have the same calls. Each path is there under /loops/{loop} too, for the loop of "
    "that name; without it, it is about the loop `default`."
)


class Described(NamedTuple):
    """An operation of any API."""

    method: str
    path: str
    summary: str
    status: int
    takes: Any
    gives: Any
    parameters: tuple[Parameter, ...]
    takes_floats: bool
    problem: bool
    """Whether errors are problem details. Those of Personalizer have its own shape."""


@cache
def openapi_json() -> bytes:
    """The whole description."""
    return msgspec.json.format(msgspec.json.encode(_document()), indent=2) + b"\n"


def add_routes(routes: Routes, service: Service, guard: Authenticator) -> None:  # noqa: ARG001 - as all APIs
    """Serve it, to everybody: it says nothing of what is in the service."""
    routes.add("GET", "/openapi.json", Route(ProblemApi(guard), OPEN, _serve, 0))


async def _serve(request: Request) -> Response:  # noqa: ARG001 - as all handlers
    return Response(200, openapi_json())


def _document() -> dict[str, Any]:
    operations = list(_operations())
    types = [kind for one in operations for kind in (one.takes, one.gives) if kind not in (None, bytes)]
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template="#/components/schemas/{name}")
    found = dict(zip(map(repr, [*types, Problem]), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, lambda kind: found[repr(kind)])
    return {
        "openapi": "3.1.0",
        "info": {"title": "glbandits", "version": __version__, "description": ABOUT},
        "security": [{"bearer": []}, {"key": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "Ocp-Apim-Subscription-Key"},
            },
        },
    }


def _operations() -> Iterator[Described]:
    for own in OF_ALL_LOOPS + OF_A_LOOP + OPERATIONS:
        gives = bytes if own.gives is None else own.gives
        summary = _first_line(own.handler)
        for path in [own.path] if own in OF_ALL_LOOPS else [own.path, LOOP_PREFIX + own.path]:
            yield Described(
                own.method, path, summary, 200, own.takes, gives, own.parameters, own.takes_floats, problem=True
            )
    for version, calls in ((STABLE, STABLE_CALLS), (PREVIEW, PREVIEW_CALLS)):
        for call in calls:
            yield Described(
                call.method,
                version + call.path,
                _first_line(call.handler),
                call.status,
                call.takes,
                call.gives,
                (),
                takes_floats=False,
                problem=False,
            )


def _operation(one: Described, schema: Callable[[Any], Any]) -> dict[str, Any]:
    named = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", one.path)
    ]
    asked = [
        {"name": name, "in": "query", "description": description, "schema": {"type": kind}}
        for name, kind, description in one.parameters
    ]
    reply: dict[str, Any] = {"description": "Done."}
    if one.gives is not None:
        reply["content"] = _content(one.gives, schema)
    error: dict[str, Any] = {"description": "Error response."}
    if one.problem:
        error["content"] = {PROBLEM: {"schema": schema(Problem)}}
    described = {
        "operationId": _operation_id(one),
        "summary": one.summary,
        "parameters": named + asked,
        "responses": {str(one.status): reply, "default": error},
    }
    if one.takes is not None:
        floats: dict[str, Any] = {BYTES: {}} if one.takes_floats else {}
        described["requestBody"] = {"required": True, "content": _content(one.takes, schema) | floats}
    return described


def _content(kind: Any, schema: Callable[[Any], Any]) -> dict[str, Any]:
    return {BYTES: {}} if kind is bytes else {JSON: {"schema": schema(kind)}}


def _operation_id(one: Described) -> str:
    """From the method and the path: GET /v1/events/{event} is get_v1_events_event."""
    return re.sub(r"\W+", "_", f"{one.method.lower()}_{one.path}").replace("__", "_").strip("_")


def _first_line(handler: Callable[..., Any]) -> str:
    return (handler.__doc__ or "").strip().partition("\n")[0]


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(openapi_json())
