"""The OpenAPI document of all APIs, from the table of endpoints and their types.

`python -m glbandits.service.http.endpoints docs/openapi.json` writes it to a file; a test compares the two.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from inspect import cleandoc
from typing import Any

import msgspec

from glbandits.common.version import __version__
from glbandits.service.http.endpoint import LOOP_PREFIX, Endpoint
from glbandits.service.http.http_errors import Problem, problem_response

CONVERTOR = re.compile(r":\w+\}")
JSON, BYTES, PROBLEM = "application/json", "application/octet-stream", "application/problem+json"
REFERENCE = "#/components/schemas/{name}"
ABOUT = (
    "Chooses actions and learns from their rewards. Paths under /v1 are the API of this service. Paths under "
    "/personalizer are the API v1.0 of Azure Personalizer. Each of these paths also exists under /loops/{loop} for the "
    "loop of that name; "
    "without this prefix it is for the loop `default`. Paths under /ofrep are OpenFeature's remote evaluation protocol."
)


@cache
def openapi_json(endpoints: tuple[Endpoint, ...]) -> bytes:
    """Return the document as JSON."""
    operations = list(_operations(endpoints))
    types = [kind for each in operations for kind in (each.request, each.response) if kind not in (None, bytes)]
    references, components = msgspec.json.schema_components([*types, Problem], ref_template=REFERENCE)
    _complete(components)
    schemas = dict(zip(map(repr, [*types, Problem]), references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas)
    security = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "Ocp-Apim-Subscription-Key"},
        "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    document = {
        "openapi": "3.1.0",
        "info": {"title": "glbandits", "version": __version__, "description": ABOUT},
        "security": [{name: []} for name in security],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": security},
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _complete(schema: Any) -> None:
    """Add what generators of typed clients need and msgspec leaves out, in place."""
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _complete(part)
    if isinstance(schema, dict):
        if isinstance(schema.get("description"), str):  # a docstring, which Python 3.13 dedents by itself
            schema["description"] = cleandoc(schema["description"])
        if isinstance(schema.get("enum"), list):
            schema.setdefault("type", "string")
        if schema.get("type") == "object" and "properties" not in schema:
            schema.setdefault("additionalProperties", True)  # else a generator may take it for an empty object


def _operations(endpoints: Sequence[Endpoint]) -> Iterator[Endpoint]:
    """Yield endpoints with complete paths.

    Endpoints of v1 come also with the prefix of a loop.
    """
    for endpoint in endpoints:
        path = CONVERTOR.sub("}", endpoint.path)
        yield endpoint._replace(path=path)
        if endpoint.per_loop and not path.startswith("/personalizer"):
            yield endpoint._replace(path=LOOP_PREFIX + path)


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", endpoint.path)
    ]
    in_query = [
        {"name": name, "in": "query", "description": description, "schema": {"type": kind}}
        for name, kind, description in endpoint.parameters or ()
    ]
    success = {"description": "Success."} | _content(endpoint.response, schemas)
    error: dict[str, Any] = {"description": "Error response."}
    if endpoint.error_format is problem_response:
        error["content"] = {PROBLEM: {"schema": schemas[repr(Problem)]}}
    described = {
        # GET /v1/events/{event} is get_v1_events_event
        "operationId": re.sub(r"[\W_]+", "_", f"{endpoint.method.lower()}_{endpoint.path}").strip("_"),
        "summary": (endpoint.handler.__doc__ or "").partition("\n")[0],
        "parameters": in_path + in_query,
        "responses": {str(endpoint.status): success, "default": error},
    }
    if endpoint.request is not None:
        described["requestBody"] = {"required": True} | _content(endpoint.request, schemas)
    return described


def _content(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    if kind is None:
        return {}
    return {"content": {BYTES: {}} if kind is bytes else {JSON: {"schema": schemas[repr(kind)]}}}
