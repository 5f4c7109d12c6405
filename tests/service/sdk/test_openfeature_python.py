"""OpenFeature's Python provider, unmodified, against a real server on both stores."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason
from openfeature.track import TrackingEventDetails

from tests.service.http.servers.server_process import Running
from tests.service.sdk.openfeature_flags import VALUES, code_of_page, flags_running

pytestmark = pytest.mark.system
ANN = EvaluationContext("ann", {"plan": "free", "age": 41, "device": {"phone": True}})


@pytest.fixture(scope="module", name="server")
def server_fixture(tmp_path_factory: pytest.TempPathFactory, new_address: Callable[[], str]) -> Iterator[Running]:
    with flags_running(tmp_path_factory.mktemp("server"), store=new_address()) as server:
        yield server


@pytest.fixture(name="client")
def client_fixture(server: Running) -> OpenFeatureClient:
    return client_of(OFREPProvider(server.address, headers_factory=lambda: {"X-API-Key": str(server.key)}))


def client_of(provider: Any) -> OpenFeatureClient:
    api.set_provider(provider)
    return api.get_client()


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_all_types(client: OpenFeatureClient, kind: str) -> None:
    found = getattr(client, f"get_{kind}_details")(kind, type(VALUES[kind])(), ANN)
    assert (found.value, found.variant, found.reason, found.error_code) == (VALUES[kind], "only", Reason.SPLIT, None)
    assert found.flag_metadata["probability"] == 1.0
    assert len(found.flag_metadata["eventId"]) == 32


def test_errors_have_the_code_of_the_standard(client: OpenFeatureClient) -> None:
    bad = EvaluationContext("ann", {"groups": ["a", "b"]})
    assert client.get_string_details("nothing", "own", ANN).error_code is ErrorCode.FLAG_NOT_FOUND
    assert client.get_string_details("banner", "own", bad).error_code is ErrorCode.INVALID_CONTEXT
    missing = client.get_string_details("banner", "own", EvaluationContext(None, {"age": 41}))
    assert missing.error_code is ErrorCode.TARGETING_KEY_MISSING
    assert client.get_boolean_details("banner", False, ANN).error_code is ErrorCode.TYPE_MISMATCH
    assert missing.value == "own"


@pytest.mark.parametrize("headers", [None, {"X-API-Key": "wrong"}])
def test_without_a_key_the_default_of_the_code_is_used(server: Running, headers: dict[str, str] | None) -> None:
    client = client_of(OFREPProvider(server.address, headers_factory=lambda: headers or {}))
    found = client.get_string_details("banner", "own", ANN)
    assert (found.value, found.error_code, found.error_message) == ("own", ErrorCode.GENERAL, "unauthorized")


def test_if_the_server_is_down_the_default_of_the_code_is_used() -> None:
    found = client_of(OFREPProvider("http://127.0.0.1:9")).get_string_details("banner", "own", ANN)
    assert (found.value, found.error_code) == ("own", ErrorCode.GENERAL)


def test_the_code_of_the_page_evaluates_and_tracks(server: Running) -> None:
    names: dict[str, Any] = {"key": str(server.key)}
    for block in code_of_page("python"):
        exec(block.replace("http://127.0.0.1:8711", server.address), names)
    details = names["details"]
    assert details.value in ("Welcome", "20 % off", "New")
    provider = names["LearningProvider"](server.address, headers_factory=lambda: {"X-API-Key": str(server.key)})
    client_of(provider).track("purchase", names["context"], TrackingEventDetails(value=0.5))
    logged = server.ask("GET", f"/loops/banner/v1/events/{details.flag_metadata['eventId']}").json
    assert [each["value"] for each in logged["rewards"]] == [0.5]
    assert "user-4711" not in str(logged)
