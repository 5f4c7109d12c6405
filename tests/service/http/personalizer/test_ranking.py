"""Rank, reward and activate, as the contract has them."""

from typing import Any
from urllib.parse import quote

import pytest

from glbandits.service.domain.events import EventStatus
from glbandits.service.http.personalizer.rank_handlers import ranking_of
from tests.service.helpers import decision
from tests.service.http.personalizer.personalizer_site import ACTIONS, CONTEXT, V1, Site


def test_rank_returns_the_action_and_all_probabilities(site: Site) -> None:
    reply = site.ask("POST", f"{V1}/rank", {"contextFeatures": CONTEXT, "actions": ACTIONS, "eventId": "e1"})
    answer = reply.json()
    assert reply.status_code == 201
    assert answer["eventId"] == "e1"
    assert answer["modelVersion"] == "1.0"
    assert "degraded" not in answer
    assert {one["id"] for one in answer["ranking"]} == {"pasta", "juice", "salad"}
    assert sum(one["probability"] for one in answer["ranking"]) == pytest.approx(1.0)
    assert answer["ranking"][0]["id"] == answer["rewardActionId"]
    logged = site.service.store.decision("default", "e1")
    assert logged is not None
    assert logged.decision.actions[logged.decision.shown] == answer["rewardActionId"]
    assert answer["ranking"][0]["probability"] == logged.decision.probability


def test_a_ranking_starts_with_the_shown_action(site: Site) -> None:
    for number in range(40):
        answer = site.rank(eventId=f"e{number}", excludedActions=["juice"])
        ids = [one["id"] for one in answer["ranking"]]
        assert ids[0] == answer["rewardActionId"]
        assert answer["ranking"][1] == {"id": "juice", "probability": 0.0}  # excluded: where the request had it


def test_equally_likely_actions_keep_their_order() -> None:
    made = decision("e", actions=tuple("abcdef"), excluded=(1,), shown=4, probabilities=(0.2, 0.0, 0.4, 0.2, 0.1, 0.1))
    assert [one.id for one in ranking_of(made)] == ["e", "b", "c", "a", "d", "f"]


def test_an_event_without_id_gets_one(site: Site) -> None:
    first, second = site.rank(eventId=None)["eventId"], site.rank()["eventId"]
    assert len(first) == len(second) == 32
    assert first != second
    assert site.ask("POST", f"{V1}/events/{first}/reward", {"value": 1}).status_code == 204


def test_a_repeated_event_gets_the_same_response(site: Site) -> None:
    first = site.rank(eventId="e1")
    assert site.ask("POST", f"{V1}/events/e1/reward", {"value": 1.0}).status_code == 204
    site.learn()
    assert site.rank(eventId="e1") == first
    request_body = {"actions": ACTIONS[:2], "eventId": "e1"}
    status, code, message = site.refusal("POST", f"{V1}/rank", request_body)
    assert (status, code) == (400, "InvalidRankRequest")
    assert "'e1' was decided before" in message


@pytest.mark.parametrize("event_id", ["evt 1/å", "a/b", "%2F", "日本", ".", "x" * 256, "😀?#&", "line\nbreak"])
def test_any_text_can_name_an_event(site: Site, event_id: str) -> None:
    site.rank(eventId=event_id, deferActivation=True)
    path = f"{V1}/events/{quote(event_id, safe='')}".replace("/.", "/%2E")
    assert site.ask("POST", f"{path}/activate").status_code == 204
    assert site.ask("POST", f"{path}/reward", {"value": 0.5}).status_code == 204
    logged = site.service.store.decision("default", event_id)
    assert logged is not None
    assert [reward.value for reward in logged.rewards] == [0.5]
    assert logged.activated_at is not None


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({"actions": []}, "Action count should be between 1 and 50."),
        ({"actions": [{"id": f"a{k}", "features": {"x": k}} for k in range(51)]}, "Action count should be between 1"),
        ({"actions": [{"id": "a", "features": []}]}, "Every action should have at least one non-null action feature."),
        ({"actions": [{"id": "a", "features": [{"x": None}, None, {}]}]}, "at least one non-null action feature."),
        ({"actions": [{"id": "a"}]}, "missing required field `features`"),
        ({"actions": [{"id": " ", "features": {"x": 1}}]}, "Action ids must not be empty."),
        ({"actions": [{"id": "y" * 257, "features": {"x": 1}}]}, "Action ids should have at most 256 characters"),
        ({"actions": [{"id": "a", "features": {"x": 1}}] * 2}, "Action ids must be unique; 'a' was sent twice."),
        ({"actions": [{"id": "a", "features": {"x": [1, "b"]}}]}, "x must be an array of numbers or of objects"),
        ({"actions": [{"id": "a", "features": {"x": 1e30}}]}, "x must be a finite number between -1e+20 and 1e+20"),
        ({"actions": [{"id": "a", "features": ["x"]}]}, "Expected `object | null`, got `str`"),
        ({"contextFeatures": "night"}, "Expected `object | array | null`, got `str`"),
        ({"contextFeatures": [{"a": {"b": {"c": {"d": 1}}}}]}, "a.b.c is nested too deeply"),
        ({"eventId": ""}, "EventId should be non-empty or null."),
        ({"eventId": "x" * 257}, "EventId should have at most 256 characters; got 257."),
        ({"excludedActions": ["pasta", "juice", "salad"]}, "all actions are excluded"),
    ],
)
def test_invalid_actions_are_refused(site: Site, changed: dict[str, Any], wanted: str) -> None:
    request_body = {"contextFeatures": CONTEXT, "actions": ACTIONS, "eventId": "e"} | changed
    status, code, message = site.refusal("POST", f"{V1}/rank", request_body)
    assert (status, code) == (400, "InvalidRankRequest")
    assert wanted in message
    assert site.service.store.summary("default").decisions.get(EventStatus.ACCEPTED, 0) == 0


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{", b'{"actions": NaN}', b"[" * 100_000, b"\xff", b"{}" * 2])
def test_malformed_rank_requests_are_refused(site: Site, body: bytes) -> None:
    assert site.refusal("POST", f"{V1}/rank", body)[:2] == (400, "InvalidRankRequest")


def test_lenient_formats_of_the_sdks_are_accepted(site: Site) -> None:
    actions = [
        {"id": "a", "features": {"x": 1, "_note": {"any": [["thing"]]}}},
        {"id": "b", "features": [{"y": None, "z": 0}]},
    ]
    answer = site.rank(actions=actions, contextFeatures=None, excludedActions=None, somethingNew=3)
    assert answer["rewardActionId"] in ("a", "b")
    assert site.rank(actions=actions, contextFeatures={"now": "night"}, eventId=None, deferActivation=None)


@pytest.mark.parametrize(
    "body", [{"value": 1.0000001}, {"value": -2}, {"value": None}, {"value": "1"}, {}, {"value": True}]
)
def test_invalid_rewards_are_refused(site: Site, body: dict[str, Any]) -> None:
    site.rank(eventId="e")
    assert site.refusal("POST", f"{V1}/events/e/reward", body)[:2] == (400, "InvalidRewardRequest")
    assert site.refusal("POST", f"{V1}/events/e/reward", b'{"value": NaN}')[:2] == (400, "InvalidRewardRequest")
    logged = site.service.store.decision("default", "e")
    assert logged is not None
    assert not logged.rewards


def test_unknown_events_have_no_rewards_or_activations(site: Site) -> None:
    status, code, message = site.refusal("POST", f"{V1}/events/nobody/reward", {"value": 1})
    assert (status, code, message) == (
        404,
        "ResourceNotFound",
        "there is no event 'nobody'; send a rank request with this eventId first",
    )
    assert site.refusal("POST", f"{V1}/events/nobody/activate")[:2] == (404, "ResourceNotFound")
    assert site.refusal("POST", f"{V1}/events/{'x' * 257}/activate")[:2] == (400, "InvalidEventIdToActivate")
    assert site.refusal("POST", f"{V1}/events//reward", {"value": 1})[2] == "EventId should be non-empty or null."


def test_late_and_repeated_rewards_are_counted(site: Site) -> None:
    site.rank(eventId="e")
    assert site.ask("POST", f"{V1}/events/e/reward", {"value": 1}).status_code == 204
    assert site.ask("POST", f"{V1}/events/e/reward", {"value": 0}).status_code == 204
    assert site.ask("POST", f"{V1}/events/e/activate").status_code == 204
    assert site.ask("POST", f"{V1}/events/e/activate").status_code == 204
    site.learn()
    late = site.ask("POST", f"{V1}/events/e/reward", {"value": -1})
    assert (late.status_code, late.content) == (204, b"")
    counted = site.service.store.summary("default").rewards
    assert (counted[EventStatus.ACCEPTED], counted[EventStatus.LATE]) == (2, 1)


def test_apprentice_mode_has_probability_1(site: Site) -> None:
    put = site.ask("PUT", f"{V1}/configurations/service", {"learningMode": "Apprentice"})
    assert put.json()["learningMode"] == "Apprentice"
    for number in range(10):
        answer = site.rank(eventId=f"e{number}", excludedActions=["pasta"])
        assert [(one["id"], one["probability"]) for one in answer["ranking"]] == [
            ("pasta", 0),
            ("juice", 1),
            ("salad", 0),
        ]


def test_the_prefix_selects_the_loop(site: Site) -> None:
    site.rank("/loops/shop" + V1, eventId="e")
    assert site.ask("POST", f"{V1}/events/e/reward", {"value": 1}).status_code == 404
    assert site.ask("POST", f"/loops/shop{V1}/events/e/reward", {"value": 1}).status_code == 204
    status, code, message = site.refusal("POST", f"/loops/none{V1}/rank", {"actions": ACTIONS})
    assert (status, code) == (404, "ResourceNotFound")
    assert message == "there is no loop 'none'; the loops are default, shop"
