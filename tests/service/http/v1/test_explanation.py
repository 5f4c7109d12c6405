"""GET /v1/events/{event}/explanation: what each feature contributed to the scores."""

import asyncio
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.http.v1 import loop_handlers
from glbandits.service.storage import document_store
from tests.service.http.personalizer import personalizer_site
from tests.service.http.v1.v1_site import ARMS, Site


def explanation(site: Any, event_id: str, *, loop: str = "", limit: str = "") -> Any:
    reply = site.ask("GET", f"{loop}/v1/events/{event_id}/explanation{limit}")
    assert reply.status_code == 200, reply.text
    return reply.json()


def teach(site: Site, count: int = 20) -> None:
    """Learn that the first arm is rewarded."""
    for _ in range(count):
        made = site.decide()
        site.ask("POST", "/v1/reward", {"eventId": made["eventId"], "value": float(made["arm"] == 0)})
    site.learn()


def check_sums(explained: Any) -> None:
    for slot in explained["slots"]:
        for action in slot["actions"]:
            assert math.fsum(term["contribution"] for term in action["contributions"]) == pytest.approx(action["score"])
        for flag in ("shown", "chosen"):
            assert sum(action[flag] for action in slot["actions"]) == 1


def scores(explained: Any) -> list[float]:
    return [action["score"] for action in explained["slots"][0]["actions"]]


def test_dense_event_is_explained_by_the_published_model(site: Site) -> None:
    teach(site)
    made = site.decide(eventId="e", ids=["x", "y", "z"], excluded=[1])
    explained = explanation(site, "e")
    check_sums(explained)
    assert (explained["eventId"], explained["modelVersion"], explained["exact"]) == ("e", made["modelVersion"], True)
    (slot,) = explained["slots"]
    assert (slot["slot"], slot["explainedBy"]) == ("", made["modelVersion"])
    assert [action["id"] for action in slot["actions"]] == ["x", "y", "z"]
    assert [action["probability"] for action in slot["actions"]] == made["probabilities"]
    assert [action["shown"] for action in slot["actions"]].index(True) == made["arm"]
    coefficients = site.service.loop("default").published.bandit.coefficients()
    assert coefficients is not None
    expected = np.array(ARMS) @ coefficients.theta + coefficients.intercept
    assert scores(explained) == pytest.approx(expected.tolist())
    assert scores(explained)[0] > scores(explained)[1]


def test_explanation_stays_the_same_after_later_learning(site: Site) -> None:
    teach(site)
    site.decide(eventId="e")
    before = explanation(site, "e")
    for _ in range(5):  # more models than the store keeps
        teach(site)
    assert scores(explanation(site, site.decide()["eventId"])) != scores(before)
    assert explanation(site, "e") == before


def test_decision_of_an_earlier_epoch_is_explained_exactly(site: Site) -> None:
    teach(site)
    site.decide(eventId="e")
    before = explanation(site, "e")
    site.service.loop("default").configure(LoopConfig(width=3, reward_wait=10.0), reset_model=True)
    assert explanation(site, "e") == before


@pytest.mark.parametrize("most", [9, 1])
def test_too_many_decisions_are_not_learned_again(site: Site, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    teach(site, 10)
    teach(site, 10)
    site.decide(eventId="e")
    exact = explanation(site, "e")
    for _ in range(4):
        teach(site)
    monkeypatch.setattr(loop_handlers, "MAX_RELEARNED", 10)
    assert explanation(site, "e") == exact
    monkeypatch.setattr(loop_handlers, "MAX_RELEARNED", most)
    other = explanation(site, "e")
    check_sums(other)
    assert (other["exact"], other["modelVersion"]) == (False, exact["modelVersion"])
    assert other["slots"][0]["explainedBy"] == site.ask("GET", "/v1/status").json()["modelVersion"]


def test_old_decision_is_explained_from_a_nearby_model(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_store, "SNAPSHOT_SPACING", 40)
    for _ in range(6):
        teach(site, 10)
    site.decide(eventId="e")
    exact = explanation(site, "e")
    for _ in range(6):
        teach(site, 10)
    monkeypatch.setattr(loop_handlers, "MAX_RELEARNED", 20)  # of the 60 since the first model
    assert explanation(site, "e") == exact


def test_kept_decision_is_explained_after_the_log_before_it_is_deleted(site: Site) -> None:
    teach(site)
    site.decide(eventId="e")
    kept_since = site.now
    teach(site)
    exact = explanation(site, "e")
    assert site.service.loop("default").delete_log(before=kept_since) == 20
    assert explanation(site, "e") == exact


def test_decision_of_another_width_without_its_model_is_400(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    teach(site)
    site.decide(eventId="e")
    site.service.loop("default").configure(LoopConfig(width=3, reward_wait=10.0), reset_model=True)
    assert explanation(site, "e")["exact"]
    monkeypatch.setattr(loop_handlers, "MAX_RELEARNED", -1)  # no model, not even a saved one
    status, detail = site.refusal("GET", "/v1/events/e/explanation")
    assert (status, "does not have the 3 features" in detail) == (400, True)


def test_policy_without_coefficients_is_400(site: Site) -> None:
    site.service.loop("default").configure(LoopConfig(policy="uniform", settings={}, width=2))
    site.decide(eventId="e")
    status, detail = site.refusal("GET", "/v1/events/e/explanation")
    assert (status, detail) == (400, "uniform has no single estimate of theta, so its scores cannot be explained")


def test_loops_have_their_own_events(site: Site) -> None:
    assert site.ask("POST", "/loops/shop/v1/decide", {"arms": ARMS, "eventId": "c/d"}).status_code == 200
    check_sums(explanation(site, "c%2Fd", loop="/loops/shop"))
    status, detail = site.refusal("GET", "/v1/events/c%2Fd/explanation")
    assert (status, detail) == (404, "the loop has no decision of the event 'c/d'")


def test_limit_is_the_number_of_listed_features(site: Site) -> None:
    teach(site)
    site.decide(eventId="e")
    explained = explanation(site, "e", limit="?limit=1")
    check_sums(explained)
    for action in explained["slots"][0]["actions"]:
        assert action["contributions"][-1]["feature"] == "other features (1)"
        assert action["contributions"][-1]["value"] is None
    for limit in ("0", "201", "x"):
        assert site.refusal("GET", f"/v1/events/e/explanation?limit={limit}")[0] == 400


def test_explanations_run_one_at_a_time(site: Site) -> None:
    teach(site)
    site.decide(eventId="e")

    async def both() -> Any:
        async with site.site.explanations:
            waiting = asyncio.ensure_future(site.ask_async("GET", "/v1/events/e/explanation"))
            decided = await site.ask_async("POST", "/v1/decide", {"arms": ARMS})
            assert (decided.status_code, waiting.done()) == (200, False)
        return await waiting

    assert site.run(both()).status_code == 200


def test_json_features_have_the_names_of_the_request(tmp_path: Path) -> None:
    with personalizer_site.Site(tmp_path) as site:
        for number in range(10):
            action = site.rank(eventId=f"e{number}")["rewardActionId"]
            reward = {"value": float(action == "juice")}
            site.ask("POST", f"{personalizer_site.V1}/events/e{number}/reward", reward)
        site.learn()
        site.rank(eventId="e")
        explained = explanation(site, "e", limit="?limit=200")
    check_sums(explained)
    terms = {term["feature"]: term for term in explained["slots"][0]["actions"][0]["contributions"]}
    assert {"taste=salty", "spice", "timeOfDay=night"} <= terms.keys()
    assert terms["spice"]["value"] == 2.5


def test_every_slot_is_explained_by_its_own_model(tmp_path: Path) -> None:
    sent = {"eventId": "e", "rows": [{"taste": "salty"}, {"taste": "sweet"}], "k": 2}
    with personalizer_site.Site(tmp_path) as site:
        assert site.ask("POST", "/v1/rank", sent | {"eventId": "other"}).status_code == 200
        begun = site.service.store.decisions_of("default", "other")[0].decision
        site.service.store.append_blocking([replace(begun, event_id="e")])
        site.rank(eventId="ee")  # begins with the id of the other event
        site.learn()
        assert site.ask("POST", "/v1/rank", sent).status_code == 200  # the first slot keeps its decision
        explained = explanation(site, "e")
        for _ in range(3):
            site.rank()
            site.learn()
        assert explanation(site, "e") == explained
    check_sums(explained)
    first, second = explained["slots"]
    assert explained["exact"]
    assert (first["slot"], second["slot"]) == ("0", "1")
    assert first["explainedBy"] == explained["modelVersion"] != second["explainedBy"]
