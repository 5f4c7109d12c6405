"""The OpenAPI document of all APIs, made from the table of endpoints and the types that they read and write.

`python -m glbandits.serving.http.endpoints docs/openapi.json` writes it to a file; a test compares the two.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

from glbandits.serving.http.endpoint import LOOP_PREFIX, Endpoint
from glbandits.serving.http.http_messages import Problem, problem_response
from glbandits.version import __version__

VERSION, CONVERTOR = re.compile(r"\{version:\w+\}"), re.compile(r":\w+\}")
STABLE, PREVIEW = "/v1.0", "/v1.1-preview.3"
JSON, BYTES, PROBLEM = "application/json", "application/octet-stream", "application/problem+json"
ABOUT = (
    "Chooses actions and learns from what comes of them. Paths under /v1 take vectors of numbers; paths under "
    "/personalizer are those of Azure Personalizer, of which v1.0 and, for what only they have, the previews are "
    "listed here: the other versions have the same calls. Each path is there under /loops/{loop} too, for the loop of "
    "that name; without it, it is about the loop `default`."
)


@cache
def openapi_json(endpoints: tuple[Endpoint, ...]) -> bytes:
    """The document as JSON."""
    return msgspec.json.format(msgspec.json.encode(_document(endpoints)), indent=2) + b"\n"


def _document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    operations = list(_operations(endpoints))
    types = [kind for one in operations for kind in (one.request, one.response) if kind not in (None, bytes)]
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


def _operations(endpoints: Sequence[Endpoint]) -> Iterator[Endpoint]:
    """The endpoints with complete paths: v1 for each loop too, Personalizer's in the first version that has them."""
    for endpoint in endpoints:
        if endpoint.documented and VERSION.search(endpoint.path):
            version = STABLE if "{version:personalizer}" in endpoint.path else PREVIEW
            yield endpoint._replace(path=CONVERTOR.sub("}", VERSION.sub(version, endpoint.path)))
        elif endpoint.documented:
            yield endpoint
            if endpoint.per_loop:
                yield endpoint._replace(path=LOOP_PREFIX + endpoint.path)


def _operation(one: Endpoint, schema: Callable[[Any], Any]) -> dict[str, Any]:
    named = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", one.path)
    ]
    asked = [
        {"name": name, "in": "query", "description": description, "schema": {"type": kind}}
        for name, kind, description in one.parameters or ()
    ]
    reply: dict[str, Any] = {"description": "Done."}
    if one.response is not None:
        reply["content"] = _content(one.response, schema)
    error: dict[str, Any] = {"description": "Error response."}
    if one.error_format is problem_response:
        error["content"] = {PROBLEM: {"schema": schema(Problem)}}
    described = {
        "operationId": _operation_id(one),
        "summary": _first_line(one.handler),
        "parameters": named + asked,
        "responses": {str(one.status): reply, "default": error},
    }
    if one.request is not None:
        floats: dict[str, Any] = {BYTES: {}} if one.takes_floats else {}
        described["requestBody"] = {"required": True, "content": _content(one.request, schema) | floats}
    return described


def _content(kind: Any, schema: Callable[[Any], Any]) -> dict[str, Any]:
    return {BYTES: {}} if kind is bytes else {JSON: {"schema": schema(kind)}}


def _operation_id(one: Endpoint) -> str:
    """From the method and the path: GET /v1/events/{event} is get_v1_events_event."""
    return re.sub(r"\W+", "_", f"{one.method.lower()}_{one.path}").replace("__", "_").strip("_")


def _first_line(handler: Callable[..., Any]) -> str:
    return (handler.__doc__ or "").strip().partition("\n")[0]
