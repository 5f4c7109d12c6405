"""Events with several slots."""

from typing import Any

import msgspec
import pytest

from glbandits.service.domain.events import EventStatus
from glbandits.service.domain.groups.experiment import MetricSettings
from tests.service.http.personalizer.personalizer_site import (
    ACTIONS,
    CONTEXT,
    PREVIEW,
    SLOTS,
    SLOTS_RANK,
    V1,
    Site,
    slots_body,
)


def shown(site: Site, **changed: Any) -> dict[str, str]:
    reply = site.ask("POST", SLOTS_RANK, slots_body(**changed))
    assert reply.status_code == 201, reply.text
    return {slot["id"]: slot["rewardActionId"] for slot in reply.json()["slots"]}


def test_slots_have_different_allowed_actions(site: Site) -> None:
    seen = set()
    for number in range(60):
        actions = shown(site, eventId=f"e{number}")
        assert list(actions) == ["top", "side"]
        assert actions["top"] != actions["side"] != "juice"
        seen.add(tuple(actions.values()))
    assert seen == {("pasta", "salad"), ("salad", "pasta"), ("juice", "pasta"), ("juice", "salad")}


def test_a_slot_is_a_decision_with_its_own_probability(site: Site) -> None:
    first = shown(site)
    top, side = (site.service.store.decision("default", "e", slot) for slot in ("top", "side"))
    assert top is not None
    assert side is not None
    assert b'"size":"large"' in top.decision.request
    assert b'"size":"small"' in side.decision.request
    assert side.decision.excluded == tuple(sorted({1, top.decision.shown}))
    assert sum(side.decision.probabilities) == pytest.approx(1)
    assert shown(site) == first


def test_an_event_id_belongs_to_one_kind_of_request(site: Site) -> None:
    shown(site)
    site.rank(eventId="single")
    single = {"contextFeatures": CONTEXT, "actions": ACTIONS, "eventId": "e"}
    for path, sent in (
        (f"{V1}/rank", single),
        (SLOTS_RANK, slots_body(eventId="single")),
        (SLOTS_RANK, slots_body(slots=SLOTS[:1])),
        (SLOTS_RANK, slots_body(slots=SLOTS[::-1])),
    ):
        status, _, message = site.refusal("POST", path, sent)
        assert (status, "was decided before" in message) == (400, True)


def test_slots_have_own_rewards_and_one_activation(site: Site) -> None:
    shown(site, deferActivation=True)
    path = f"{PREVIEW}/multislot/events/e"
    sent = {"reward": [{"slotId": "top", "value": 1}, {"slotId": "side", "value": -0.5}]}
    assert site.ask("POST", f"{path}/reward", sent).status_code == 204
    assert site.ask("POST", f"{path}/activate").status_code == 204
    for slot, value in (("top", 1.0), ("side", -0.5)):
        logged = site.service.store.decision("default", "e", slot)
        assert logged is not None
        assert [reward.value for reward in logged.rewards] == [value]
        assert logged.activated_at is not None
    assert site.learn() == 2


def test_invalid_slot_rewards_are_refused(site: Site) -> None:
    shown(site)
    path = f"{PREVIEW}/multislot/events/e/reward"
    status, code, message = site.refusal(
        "POST", path, {"reward": [{"slotId": "top", "value": 1}, {"slotId": "x", "value": 1}]}
    )
    assert (status, code) == (404, "ResourceNotFound")
    assert "there is no event 'e with slot x'" in message
    refused: list[Any] = [
        {"reward": []},
        {"reward": [{"slotId": "top", "value": 2}]},
        {"value": 1},
        {"reward": [{"value": 1}]},
    ]
    for wrong in refused:
        assert site.refusal("POST", path, wrong)[:2] == (400, "InvalidRewardRequest")
    assert site.service.store.summary("default").rewards[EventStatus.OUT_OF_RANGE] == 1
    mixed = {"reward": [{"slotId": "top", "value": 1}, {"slotId": "side", "value": 2}]}
    message = site.refusal("POST", path, mixed)[2]
    assert message.startswith("Slot 'side': Reward should be between -1 and 1; got 2. Divide it by")
    assert site.service.store.summary("default").rewards[EventStatus.OUT_OF_RANGE] == 2
    logged = site.service.store.decision("default", "e", "top")
    assert logged is not None
    assert [reward.value for reward in logged.rewards] == [1]  # from the first request; the last one stored none
    assert site.ask("POST", f"{PREVIEW}/events/e/reward", {"value": 1}).status_code == 404  # it has slots


def test_refused_reward_names_its_slot_and_others_are_stored(site: Site) -> None:
    loop = site.service.loop("default")
    loop.configure(msgspec.structs.replace(loop.configuration, reward_range=(0.0, 1.0)))
    shown(site)
    sent = {"reward": [{"slotId": "top", "value": -0.5}, {"slotId": "side", "value": 1}]}
    assert site.refusal("POST", f"{PREVIEW}/multislot/events/e/reward", sent) == (
        400,
        "InvalidRewardRequest",
        "Slot 'top': reward must be between 0 and 1 for this event, got -0.5",
    )
    for slot, values in (("top", []), ("side", [1.0])):
        logged = site.service.store.decision("default", "e", slot)
        assert logged is not None
        assert [reward.value for reward in logged.rewards] == values


def test_apprentice_shows_the_baselines(site: Site) -> None:
    site.ask("PUT", f"{PREVIEW}/configurations/service", {"learningMode": "Apprentice"})
    own = [SLOTS[0], SLOTS[1] | {"baselineAction": "salad"}]
    assert shown(site, slots=own) == {"top": "pasta", "side": "salad"}
    assert shown(site, eventId="e2") == {"top": "pasta", "side": "salad"}  # pasta is taken, juice excluded


def test_the_log_has_the_baseline_of_each_slot(site: Site) -> None:
    """Where an earlier slot has got it, the first action that is left is the baseline, as without a name."""
    only_pasta = {"id": "top", "baselineAction": "pasta", "excludedActions": ["juice", "salad"]}
    shown(site, slots=[only_pasta, {"id": "side", "baselineAction": "salad"}, {"id": "end", "baselineAction": "pasta"}])
    logged = [site.service.store.decision("default", "e", slot) for slot in ("top", "side", "end")]
    assert [one and one.decision.baseline for one in logged] == [0, 2, None]


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({"slots": []}, "Slot count should be between 1 and the number of actions, 3; got 0."),
        ({"slots": [SLOTS[0] | {"id": str(k)} for k in range(4)]}, "the number of actions, 3; got 4."),
        ({"slots": [SLOTS[0], SLOTS[0]]}, "Slot ids must be unique; 'top' was sent twice."),
        ({"slots": [SLOTS[0] | {"id": ""}]}, "Slot ids must not be empty."),
        ({"slots": [{"id": "top"}]}, "missing required field `baselineAction`"),
        ({"slots": [SLOTS[0] | {"baselineAction": "soup"}]}, "should be the id of one of the actions."),
        ({"slots": [SLOTS[0], SLOTS[1] | {"features": [{"x": ["a"]}]}]}, "x must be an array of numbers"),
        ({"slots": [SLOTS[0], SLOTS[1] | {"excludedActions": ["juice", "salad"]}]}, "Slot 'side' may be left without"),
        ({"actions": []}, "Slot count should be between 1 and the number of actions, 0; got 2."),
    ],
)
def test_invalid_requests_decide_no_slot(site: Site, changed: dict[str, Any], wanted: str) -> None:
    status, code, message = site.refusal("POST", SLOTS_RANK, slots_body(**changed))
    assert (status, code) == (400, "InvalidRankRequest")
    assert wanted in message
    assert site.service.store.summary("default").decisions.get(EventStatus.ACCEPTED, 0) == 0


def test_slots_that_do_not_compete_may_allow_one_action_each(site: Site) -> None:
    only = [
        SLOTS[0] | {"id": action["id"], "excludedActions": [other["id"] for other in ACTIONS if other is not action]}
        for action in ACTIONS
    ]
    assert shown(site, slots=only) == {"pasta": "pasta", "juice": "juice", "salad": "salad"}


def test_metrics_of_an_event_need_no_slot(site: Site) -> None:
    loop = site.service.loop("default")
    loop.configure(msgspec.structs.replace(loop.configuration, metrics={"ms": MetricSettings(range=(0.0, 9.0))}))
    shown(site)
    sent = {"eventId": "e", "metrics": {"ms": 3}}
    replies = [site.ask("POST", "/v1/metrics", sent).json()["statuses"] for _ in range(2)]
    assert replies == [{"ms": "accepted"}, {"ms": "duplicate"}]
    top = site.service.store.decision("default", "e", "top")
    assert top is not None
    assert [(number.metric, number.value) for number in top.rewards] == [("ms", 3.0)]
