"""Responses and requests against the OpenAPI file of the standard, version 0.3.0.

The file is read in three places as its authors must have meant it, because its own examples are not valid otherwise. A
value matches one of its kinds at least (`anyOf`): with `oneOf` no response with a value is valid, because a flag
without a value is an object with any fields. A flag among several may be FLAG_NOT_FOUND. And `reason` may be any of
OpenFeature's reasons, as its description says, also DEFAULT and STALE, which the list lacks.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from glbandits.service.domain.events import Mode
from glbandits.service.domain.variants import Variant
from tests.service.http.ofrep.flag_site import PATH, FlagSite

pytestmark = pytest.mark.usefixtures("plain_python")
REASONS, CODE_DEFAULT = ["DEFAULT", "STALE"], {"$ref": "#/components/schemas/codeDefaultFlag"}
ONE, ALL = "/ofrep/v1/evaluate/flags/{key}", "/ofrep/v1/evaluate/flags"


def standard() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "openapi-0.3.0.yaml").read_text("utf-8"))
    fields, kinds = document["components"]["schemas"]["evaluationSuccess"]["allOf"]
    fields["properties"]["reason"]["enum"] += REASONS
    document["components"]["schemas"]["evaluationFailure"]["properties"]["errorCode"]["enum"] += ["FLAG_NOT_FOUND"]
    kinds["anyOf"] = [kind for kind in kinds.pop("oneOf") if kind != CODE_DEFAULT]
    return document


STANDARD = standard()


def validate(content: Any, path: str, status: str) -> None:
    """Raise if a response is not as the standard says."""
    schema = STANDARD["paths"][path]["post"]["responses"][status]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": STANDARD["components"]}).validate(content)


@pytest.fixture(name="site")
def site_fixture(tmp_path: Path) -> Iterator[FlagSite]:
    with FlagSite(tmp_path, loops=("discount-banner", "colour", "theme-color")) as site:
        site.configure("discount-banner", variants={"enabled": Variant(value=True), "disabled": Variant(value=False)})
        site.configure("theme-color", variants={"only": Variant(value={"blue": 1})})
        yield site


def examples() -> Iterator[Any]:
    for path, status in ((path, status) for path in (ONE, ALL) for status in ("200", "400", "404", "500")):
        response = STANDARD["paths"][path]["post"]["responses"].get(status, {})
        for content in response.get("content", {}).values():
            yield pytest.param(path, status, content["example"], id=f"{status} of {path}")


@pytest.mark.parametrize(("path", "status", "example"), list(examples()))
def test_the_examples_of_the_standard_are_valid(path: str, status: str, example: Any) -> None:
    validate(example, path, status)


@pytest.mark.parametrize("path", [ONE, ALL])
def test_the_request_of_the_standard_is_answered(site: FlagSite, path: str) -> None:
    body = STANDARD["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]
    reply = site.ask("POST", path.format(key="discount-banner"), body)
    assert reply.status_code == 200
    validate(reply.json(), path, "200")
    first = reply.json() if path == ONE else reply.json()["flags"][1]
    assert (first["key"], type(first["value"])) == ("discount-banner", bool)


@pytest.mark.parametrize("value", [True, "text", 3, 2.5, {"size": 4, "parts": ["a"]}])
@pytest.mark.parametrize("mode", [Mode.ONLINE, Mode.LOGGING])
def test_every_kind_of_evaluation_is_valid(site: FlagSite, value: Any, mode: Mode) -> None:
    site.configure(variants={"only": Variant(value=value)}, mode=mode)
    validate(site.evaluate("ann"), ONE, "200")
    validate(site.ask("POST", PATH, {"context": {"targetingKey": "ann"}}).json(), ALL, "200")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/colour", b"{", 400),
        ("/colour", {"context": {}}, 400),
        ("/colour", {"context": {"targetingKey": "ann", "groups": ["a"]}}, 400),
        ("/nothing", {"context": {"targetingKey": "ann"}}, 404),
        ("", b"{", 400),
        ("", {"context": {}}, 400),
    ],
)
def test_every_error_is_valid(site: FlagSite, path: str, body: Any, status: int) -> None:
    reply = site.ask("POST", PATH + path, body)
    assert reply.status_code == status
    validate(reply.json(), ONE if path else ALL, str(status))


def test_a_flag_that_fails_among_others_is_valid(site: FlagSite) -> None:
    reply = site.ask("POST", PATH, {"context": {"targetingKey": "ann", "groups": ["a"]}})
    assert {flag["errorCode"] for flag in reply.json()["flags"]} == {"INVALID_CONTEXT"}
    validate(reply.json(), ALL, "200")


def test_a_wrong_response_is_not_valid() -> None:
    for wrong in ({"key": "a", "reason": "SPLIT", "value": [1]}, {"key": "a", "value": 1}, {"key": "a", "reason": "X"}):
        with pytest.raises(jsonschema.ValidationError):
            validate(wrong, ONE, "200")
