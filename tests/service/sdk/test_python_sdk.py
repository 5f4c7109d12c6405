"""The official Python SDK, unmodified, against a real server on both stores."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.cognitiveservices.personalizer import PersonalizerClient
from azure.cognitiveservices.personalizer.models import (
    ErrorResponseException,
    RankableAction,
    RankRequest,
)
from msrest.authentication import CognitiveServicesCredentials
from msrest.exceptions import HttpOperationError

from tests.service.http.servers.server_process import Running, running

pytestmark = pytest.mark.system

ACTIONS = [
    RankableAction(id="pasta", features=[{"taste": "salty", "spice": 2.5}, {"nutrition": {"calories": 400}}]),
    RankableAction(id="juice", features=[{"taste": "sweet"}]),
    RankableAction(id="salad", features=[{"taste": "sour"}]),
]
CONTEXT = [{"timeOfDay": "night"}, {"device": {"mobile": True}}]


@pytest.fixture(scope="module", name="server")
def server_fixture(tmp_path_factory: pytest.TempPathFactory, new_address: Callable[[], str]) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("server"), "--loops", "default,shop", store=new_address()) as server:
        yield server


@pytest.fixture(name="client", params=["", "/", "/loops/shop"])
def client_fixture(request: pytest.FixtureRequest, server: Running) -> Any:
    return client_of(server, request.param)


def client_of(server: Running, prefix: str = "", key: str | None = None) -> Any:
    untyped: Any = PersonalizerClient
    return untyped(server.address + prefix, CognitiveServicesCredentials(key or str(server.key)))


def test_rank_activate_and_reward(client: Any) -> None:
    event_id = "evt 1/å%?"
    request_body = RankRequest(
        actions=ACTIONS,
        context_features=CONTEXT,
        excluded_actions=["juice"],
        event_id=event_id,
        defer_activation=True,
    )
    answer = client.rank(request_body)
    assert answer.event_id == event_id
    assert answer.reward_action_id in ("pasta", "salad")
    assert sum(action.probability for action in answer.ranking) == pytest.approx(1.0)
    assert (answer.ranking[1].id, answer.ranking[1].probability) == ("juice", 0.0)
    assert set(answer.additional_properties) - {"degraded"} == {"modelVersion"}  # degraded: the database was slow
    client.events.activate(event_id=event_id)
    client.events.reward(event_id=event_id, value=1.0)
    client.events.reward(event_id, 0.5)
    again = client.rank(request_body)
    assert again.as_dict() == answer.as_dict()


def test_an_event_without_id_gets_one(client: Any) -> None:
    answer = client.rank(RankRequest(actions=ACTIONS))
    client.events.reward(event_id=answer.event_id, value=-1.0)


def test_plain_dicts_are_accepted(client: Any) -> None:
    actions = [{"id": "a", "features": [{"x": 1}]}, {"id": "b", "features": [{"x": None, "y": [1, 2.5]}]}]
    answer = client.rank(RankRequest(actions=actions, context_features=[]))
    assert answer.reward_action_id in ("a", "b")


def test_requests_that_the_sdk_corrupts_are_refused(client: Any) -> None:
    request_body = RankRequest(actions=[RankableAction(id="a", features={"x": 1})])  # it sends the names alone: ["x"]
    with pytest.raises(ErrorResponseException, match="Expected `object . null`"):
        client.rank(request_body)


def error_of(refused: Any) -> Any:
    """The error response as the SDK parses it."""
    return refused.value.error.error


def test_the_sdk_parses_error_responses(server: Running) -> None:
    client = client_of(server)
    with pytest.raises(ErrorResponseException) as refused:
        client.rank(RankRequest(actions=[RankableAction(id="a", features=[])]))
    error = error_of(refused)
    assert refused.value.response.status_code == 400
    assert (error.code, error.inner_error.code) == ("BadRequest", "InvalidRankRequest")
    assert error.message == "Every action should have at least one non-null action feature."
    with pytest.raises(ErrorResponseException) as refused:
        client_of(server, key="wrong").rank(RankRequest(actions=ACTIONS))
    assert refused.value.response.status_code == 401
    assert error_of(refused).inner_error.code == "InvalidApiAccess"
    with pytest.raises(ErrorResponseException) as refused:
        client_of(server, "/loops/none").rank(RankRequest(actions=ACTIONS))
    assert error_of(refused).message == "there is no loop 'none'; the loops are default, shop"


@pytest.mark.parametrize(("value", "status"), [(math.nan, 400), (math.inf, 400), (1.5, 400), (-1.0, 204)])
def test_rewards_of_the_sdk_get_the_right_status(server: Running, value: float, status: int) -> None:
    client = client_of(server)
    event_id = client.rank(RankRequest(actions=ACTIONS)).event_id
    if status == 204:
        client.events.reward(event_id=event_id, value=value)
    else:
        with pytest.raises(HttpOperationError) as refused:
            client.events.reward(event_id=event_id, value=value)
        assert refused.value.response.status_code == status


def test_unknown_events_are_refused(server: Running) -> None:
    client = client_of(server)
    with pytest.raises(HttpOperationError, match="Not Found"):
        client.events.reward(event_id="nobody", value=1.0)
    with pytest.raises(HttpOperationError, match="Not Found"):
        client.events.activate(event_id="nobody")
