"""Decisions of units over HTTP: groups, sticky units, explanations, statistics."""

from pathlib import Path
from typing import Any

import pytest

from glbandits.service.domain.groups.experiment import Control
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.runtime.loops.guardrails import Fallback, GuardrailState
from tests.service.http.personalizer import personalizer_site
from tests.service.http.v1.v1_site import ARMS, Site

pytestmark = pytest.mark.usefixtures("plain_python")


def record(site: Any, event_id: str, slot: str = "") -> Any:
    return site.ask("GET", f"/v1/events/{event_id}{slot}").json()


def test_control_gets_the_baseline_with_probability_1(site: Site) -> None:
    site.configure(control=Control(share=0.5), exploration=1.0)
    for number in range(30):
        reply = site.decide(eventId=f"e{number}", unit=f"u{number}")
        logged = record(site, f"e{number}")
        assert len(logged["unit"]) == 32
        if logged["group"] == "control":
            assert (reply["arm"], reply["probability"]) == (0, 1.0)
        explained = site.ask("GET", f"/v1/events/e{number}/explanation")
        assert explained.status_code == 200, explained.text
    assert site.ask("GET", "/v1/events").json()["events"][0]["eventId"] == "e29"


def test_statistics_have_control_but_do_not_compare_it(site: Site) -> None:
    site.configure(control=Control(share=0.5), reward_range=(0.0, 1.0))
    groups = []
    for number in range(12):
        site.decide(eventId=f"e{number}", unit=f"u{number}")
        groups.append(record(site, f"e{number}")["group"])
    site.learn()
    found = site.ask("GET", "/v1/statistics").json()
    assert (found["decisions"], found["learned"]) == (12, 12)
    assert found["compared"] == found["past"]["decisions"] == groups.count("treatment")


def test_a_sticky_unit_gets_the_same_arm(site: Site) -> None:
    site.configure(exploration=1.0, sticky_for=60.0)
    first = site.decide(eventId="first", unit="ann", sticky=True)
    replies = [site.decide(unit="ann", sticky=True) for _ in range(8)]
    assert {(each["arm"], each["probability"]) for each in replies} == {(first["arm"], first["probability"])}
    assert {record(site, each["eventId"])["repeats"] for each in replies} == {"first"}
    site.now += 61_000_000
    assert record(site, site.decide(unit="ann", sticky=True)["eventId"])["repeats"] == ""


def test_an_identical_repeat_gets_its_decision_after_a_change_of_groups(site: Site) -> None:
    site.configure(control=Control(share=0.5))
    first = site.decide(eventId="e", unit="ann")
    unit = record(site, "e")["unit"]
    site.configure(control=Control(share=0.25, show="uniform"))
    assert site.decide(eventId="e", unit="ann") == first
    guardrails = site.service.loop("default").guardrails
    guardrails.state = GuardrailState(resumed=1)
    assert site.decide(eventId="e", unit="ann") == first
    for other in ("bob", unit, ""):
        body = {"eventId": "e", "unit": other, "arms": ARMS} if other else {"eventId": "e", "arms": ARMS}
        status, detail = site.refusal("POST", "/v1/decide", body)
        assert (status, "or another unit" in detail) == (400, True)
    site.decide(eventId="later", unit="ann")
    assert record(site, "later")["unit"] != unit


def test_a_batch_may_reward_its_sticky_decisions(site: Site) -> None:
    decide = [{"eventId": f"e{number}", "arms": ARMS, "unit": "ann", "sticky": True} for number in range(3)]
    body = {"decide": decide, "reward": [{"eventId": f"e{number}", "value": 1} for number in range(3)]}
    reply = site.ask("POST", "/v1/batch", body).json()
    assert [each["rewarded"]["status"] for each in reply["reward"]] == ["accepted"] * 3
    assert len({each["decided"]["arm"] for each in reply["decide"]}) == 1


def test_a_ranking_of_control_and_fallback_is_valid(site: Site) -> None:
    site.configure(control=Control(share=0.5, show="uniform"))
    for number in range(20):
        reply = site.ask("POST", "/v1/rank", {"arms": ARMS, "k": 3, "unit": str(number), "sticky": True}).json()
        assert sorted(reply["arms"]) == [0, 1, 2]
    site.service.loop("default").guardrails.state = GuardrailState(fallback=Fallback(1, "ms", "a test"))
    reply = site.ask("POST", "/v1/rank", {"arms": ARMS, "k": 3, "unit": "0", "sticky": True}).json()
    assert (reply["arms"], reply["probability"]) == ([0, 1, 2], 1.0)


def test_personalizer_has_a_control_group_of_events(tmp_path: Path) -> None:
    with personalizer_site.Site(tmp_path) as site:
        loop = site.service.loop("default")
        loop.configure(LoopConfig(width=32, exploration=1.0, control=Control(share=0.5, by="event")))
        groups = []
        for number in range(20):
            ranked = site.rank(eventId=f"e{number}")
            groups.append(record(site, f"e{number}")["group"])
            if groups[-1] == "control":
                assert ranked["rewardActionId"] == "pasta"
                assert [each["probability"] for each in ranked["ranking"]] == [1.0, 0.0, 0.0]
        assert set(groups) == {"treatment", "control"}
        for number in range(10):
            sent = {
                "rows": [{"taste": name} for name in ("salty", "sweet", "sour")],
                "ids": ["pasta", "juice", "salad"],
                "k": 2,
                "eventId": f"s{number}",
            }
            ranked = site.ask("POST", "/v1/rank", sent).json()
            found = {record(site, f"s{number}", f"?slot={slot}")["group"] for slot in (0, 1)}
            assert len(found) == 1
            if found == {"control"}:
                assert ranked["ids"][0] == "pasta"
