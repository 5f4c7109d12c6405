import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from glbandits.service.http import endpoints
from glbandits.service.http.endpoints import DOCUMENTED
from glbandits.service.http.openapi import openapi_json
from tests.service.http.v1.v1_site import ARMS, Site

DOCUMENT: dict[str, Any] = json.loads(openapi_json(DOCUMENTED))
FILE = Path(__file__).parents[3] / "docs" / "openapi.json"


def validate(content: Any, reference: dict[str, Any]) -> None:
    """Raise if the content is not as a schema of the document says."""
    jsonschema.Draft202012Validator({**reference, "components": DOCUMENT["components"]}).validate(content)


def test_the_file_in_docs_is_current() -> None:
    assert FILE.read_bytes() == openapi_json(DOCUMENTED), (
        f"write it again: python -m {endpoints.__name__} docs/openapi.json"
    )


def test_schemas_are_valid_and_references_exist() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)

    def references(part: Any) -> list[str]:
        if isinstance(part, dict):
            own = [part["$ref"]] if "$ref" in part else []
            return own + [one for value in part.values() for one in references(value)]
        return [one for value in part for one in references(value)] if isinstance(part, list) else []

    named = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert set(references(DOCUMENT)) <= named


def test_operations_have_unique_ids_and_path_parameters() -> None:
    operations = [(path, one) for path, methods in DOCUMENT["paths"].items() for one in methods.values()]
    assert len({one["operationId"] for _, one in operations}) == len(operations)
    for path, one in operations:
        assert one["summary"].endswith(".")
        named = {parameter["name"] for parameter in one["parameters"] if parameter["in"] == "path"}
        assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}


def test_every_documented_path_is_served(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        for path, methods in DOCUMENT["paths"].items():
            for method in methods:
                reply = site.ask(method.upper(), path.replace("{", "").replace("}", ""), headers={"authorization": ""})
                assert reply.status_code == 401, (method, path)


def test_every_documented_endpoint_is_in_the_document() -> None:
    count = sum(1 if "personalizer" in one.path or not one.per_loop else 2 for one in DOCUMENTED)
    assert count == sum(len(methods) for methods in DOCUMENT["paths"].values())


def test_document_needs_no_key(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        reply = site.ask("GET", "/openapi.json", headers={"authorization": ""})
        assert (reply.status_code, reply.content) == (200, openapi_json(DOCUMENTED))


CALLS: list[tuple[str, str, Any]] = [
    ("POST", "/v1/decide", {"arms": ARMS, "eventId": "e", "ids": ["a", "b", "c"], "excluded": [1]}),
    ("POST", "/v1/reward", {"eventId": "e", "value": 0.5, "key": "k"}),
    ("POST", "/v1/activate", {"eventId": "e"}),
    ("POST", "/v1/batch", {"decide": [{"arms": ARMS}, {"arms": [[1]]}], "reward": [{"eventId": "e", "value": 1}]}),
    ("GET", "/v1/configuration", None),
    ("PUT", "/v1/configuration", {"width": 2}),
    ("PATCH", "/v1/configuration", {"exploration": 0.1}),
    ("GET", "/v1/events", None),
    ("GET", "/v1/events/{event}", None),
    ("GET", "/v1/events/{event}/explanation", None),
    ("GET", "/v1/status", None),
    ("GET", "/v1/loops", None),
    ("GET", "/v1/loops/{loop}", None),
]


@pytest.mark.parametrize(("method", "path", "content"), CALLS)
def test_requests_and_responses_match_their_schemas(tmp_path: Path, method: str, path: str, content: Any) -> None:
    described = DOCUMENT["paths"][path][method.lower()]
    if content is not None:
        validate(content, described["requestBody"]["content"]["application/json"]["schema"])
    with Site(tmp_path) as site:
        if path != "/v1/decide":
            site.decide(eventId="e", deferred=True)
        reply = site.ask(method, path.replace("{event}", "e").replace("{loop}", "default"), content)
        assert reply.status_code == 200
        validate(reply.json(), described["responses"]["200"]["content"]["application/json"]["schema"])


def test_error_responses_match_their_schema(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        reply = site.ask("POST", "/v1/decide", {})
        schema = DOCUMENT["paths"]["/v1/decide"]["post"]["responses"]["default"]["content"]
        validate(reply.json(), schema["application/problem+json"]["schema"])
