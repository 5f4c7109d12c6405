"""Status, configuration, events and models of loops."""

import json
import threading
from typing import Any

import pytest

from glbandits import Bandit
from glbandits.service.domain.events import DecisionRequest, LoggedDecision
from glbandits.service.http.v1 import loop_handlers
from glbandits.service.http.v1.schemas import EventRecord
from tests.service.http.v1.v1_site import Site


def learn_something(site: Site) -> None:
    site.decide(eventId="learned")
    site.ask("POST", "/v1/reward", {"eventId": "learned", "value": 1})
    site.learn()


class TestAdministration:
    def test_loops_and_their_status_are_listed(self, site: Site) -> None:
        assert site.ask("GET", "/v1/loops").json() == {"loops": ["default", "shop"]}
        site.decide(eventId="e")
        site.ask("POST", "/v1/reward", {"eventId": "e", "value": 1})
        status = site.ask("GET", "/v1/loops/default").json()
        assert status == site.ask("GET", "/loops/default/v1/status").json() == site.ask("GET", "/v1/status").json()
        assert (status["policy"], status["width"], status["learnedTo"]) == ("optimist", 2, 0)
        assert (status["counts"]["decisions"]["accepted"], status["counts"]["rewards"]["accepted"]) == (1, 1)
        assert status["firstAt"] == "1970-01-01T00:00:01Z"
        site.learn()
        assert site.ask("GET", "/v1/status").json()["learnedTo"] == 1

    @pytest.mark.parametrize("method", ["PATCH", "PUT"])
    def test_a_setting_of_the_policy_does_not_change_its_link(self, site: Site, method: str) -> None:
        sent = {"width": 2, "settings": {"half_life": 500}}
        settings = site.ask(method, "/v1/configuration", sent).json()["settings"]
        assert (settings["link"], settings["half_life"]) == ("identity", 500)
        settings = site.ask("PATCH", "/v1/configuration", {"settings": {"floor": 0.01}}).json()["settings"]
        assert (settings["link"], settings["half_life"], settings["floor"]) == ("identity", 500, 0.01)

    def test_an_event_with_slots_names_them(self, site: Site) -> None:
        assert site.ask("POST", "/v1/rank", {"eventId": "m", "arms": [[1.0, 0.0]], "k": 1}).status_code == 200
        assert site.refusal("GET", "/v1/events/m")[1].endswith("add slot= with one of 0")
        assert site.ask("GET", "/v1/events/m?slot=0").status_code == 200
        site.decide(eventId="single")
        assert site.refusal("GET", "/v1/events/single?slot=0")[1].endswith("has no slots; leave out slot=")

    def test_patch_changes_only_the_settings_sent(self, site: Site) -> None:
        before = site.ask("GET", "/v1/configuration").json()
        changed = site.ask("PATCH", "/v1/configuration", {"exploration": 0.05}).json()
        assert changed == before | {"exploration": 0.05}
        assert site.ask("GET", "/v1/configuration").json() == changed
        assert site.decide()["modelVersion"] == "1.0"

    def test_another_policy_gets_its_default_settings(self, site: Site) -> None:
        site.ask("PATCH", "/v1/configuration", {"rewardRange": [-1, 1]})
        for policy, settings in (("online-laplace", {"link": "identity"}), ("lin-ucb", {})):
            changed = site.ask("PATCH", "/v1/configuration", {"policy": policy}).json()
            assert (changed["policy"], changed["settings"]) == (policy, settings)
        assert site.ask("PATCH", "/v1/configuration", {"policy": ["optimist"]}).status_code == 400

    def test_policy_that_does_not_limit_outliers_needs_a_reward_range(self, site: Site) -> None:
        status, detail = site.refusal("PATCH", "/v1/configuration", {"policy": "lin-ucb"})
        assert (status, "lin-ucb does not limit outliers" in detail) == (400, True)
        assert "Set rewardRange" in detail
        assert site.ask("PATCH", "/v1/configuration", {"policy": "lin-ucb", "rewardRange": [0, 100]}).is_success

    def test_changed_policy_settings_are_relearned(self, site: Site) -> None:
        learn_something(site)
        before = site.decide()["probabilities"]
        changed = site.ask("PATCH", "/v1/configuration", {"settings": {"link": "identity", "half_life": 100}}).json()
        relearning = changed["relearning"]
        loop = site.service.loop("default")
        assert (relearning["learnedTo"], relearning["of"]) == (0, loop.published.learned_through)
        assert "The present model decides" in relearning["sentence"]
        assert site.ask("GET", "/v1/status").json()["relearning"] == relearning
        assert site.ask("GET", "/v1/configuration").json() == changed
        assert site.ask("PUT", "/v1/configuration", changed).json() == changed
        assert site.decide()["probabilities"] == before
        loop.learn()
        loop.relearn()
        assert site.ask("GET", "/v1/status").json()["relearning"] is None

    def test_model_is_given_up_only_if_the_request_says_so(self, site: Site) -> None:
        learn_something(site)
        status, detail = site.refusal("PATCH", "/v1/configuration", {"width": 3})
        assert (status, '"resetModel": true' in detail) == (400, True)
        assert site.refusal("PATCH", "/v1/configuration", {"width": 3, "resetModel": "yes"})[0] == 400
        reply = site.ask("PATCH", "/v1/configuration", {"width": 3, "resetModel": True}).json()
        assert (reply["width"], reply["relearning"], reply["resetModel"]) == (3, None, False)
        assert site.decide(arms=[[1, 2, 3]])["arm"] == 0

    def test_put_replaces_the_configuration(self, site: Site) -> None:
        whole = site.ask("PUT", "/v1/configuration", {"width": 3, "mode": "Apprentice"}).json()
        assert (whole["width"], whole["mode"], whole["exploration"]) == (3, "Apprentice", 0.2)
        assert site.decide(arms=[[1, 2, 3]])["modelVersion"] == "2.0"

    @pytest.mark.parametrize(
        ("sent", "message"),
        [
            ({"exploration": 2}, "exploration must be a finite number"),
            ({"control": {"share": 0.1, "by": "user"}}, "`$.control.by`. Known: event, unit"),
            ({"control": {"share": 0.1, "by": "event"}, "sticky": True}, "sticky=true needs a control group by unit"),
            ({"metrics": {"ms": {"range": [0, 1], "good": "up"}}}, "Known: higher, lower"),
            (
                {"metrics": {"ms": {"range": [5, 10], "combine": "sum"}}},
                "must be in its range, [5.0, 10.0]; got 0. Set default to",
            ),
            ({"retentionDays": 1, "stickyFor": "2d"}, "stickyFor must be at most retentionDays"),
            ({"link": "logistic"}, 'link belongs into settings: send {"settings": {"link": ...}}'),
            ({"rewardRange": [0.5, 1]}, "defaultReward must be in rewardRange (0.5, 1.0); got 0.0"),
            ({"settings": {"rewardWait": 1}}, "rewardWait is a setting of the loop, not of its policy"),
            (b'{"settings":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}", "nested too deep"),
        ],
    )
    def test_invalid_settings_change_nothing(self, site: Site, sent: Any, message: str) -> None:
        before = site.ask("GET", "/v1/configuration").json()
        for method in ("PUT", "PATCH"):
            status, detail = site.refusal(method, "/v1/configuration", sent)
            assert (status, message in detail) == (400, True), detail
        assert site.ask("GET", "/v1/configuration").json() == before

    def test_pages_through_events(self, site: Site) -> None:
        for index in range(5):
            site.decide(eventId=f"{'ab'[index % 2]}{index}")
        first = site.ask("GET", "/v1/events?prefix=a&limit=2").json()
        assert [event["eventId"] for event in first["events"]] == ["a4", "a2"]
        second = site.ask("GET", f"/v1/events?prefix=a&limit=2&before={first['before']}").json()
        assert ([event["eventId"] for event in second["events"]], second["before"]) == (["a0"], None)
        assert len(site.ask("GET", "/v1/events").json()["events"]) == 5
        for query in ("limit=0", "limit=501", "limit=x", "before=-1"):
            assert site.refusal("GET", f"/v1/events?{query}")[0] == 400

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            (
                "/v1/events?limt=2",
                "unknown parameter 'limt'; did you mean 'limit'? Known: before, limit, prefix",
            ),
            ("/v1/events?limit=2&limit=3", "the query parameter limit was sent twice; send it once"),
            ("/v1/status?verbose", "the endpoint has no query parameters; got 'verbose'"),
            ("/loops/shop/v1/events?=", "unknown parameter ''. Known: before, limit, prefix"),
        ],
    )
    def test_unknown_query_parameters_are_refused(self, site: Site, path: str, message: str) -> None:
        assert site.refusal("GET", path) == (400, message)

    def test_a_page_of_large_events_is_shorter(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(loop_handlers, "FULL_PAGE", 1)
        for index in range(25):
            site.decide(eventId=f"{index:02}")
        pages, before = list[list[str]](), ""
        while True:
            page = site.ask("GET", f"/v1/events?limit=20{before}").json()
            pages.append([event["eventId"] for event in page["events"]])
            if page["before"] is None:
                break
            before = f"&before={page['before']}"
        assert [len(page) for page in pages] == [10, 10, 5]
        assert [name for page in pages for name in page] == [f"{index:02}" for index in reversed(range(25))]

    def test_events_are_encoded_in_a_thread(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        threads = set[threading.Thread]()

        def record_of(logged: LoggedDecision) -> EventRecord:
            threads.add(threading.current_thread())
            return original(logged)

        original = loop_handlers.record_of
        monkeypatch.setattr(loop_handlers, "record_of", record_of)
        site.decide(eventId="e")
        assert site.ask("GET", "/v1/events").json()["events"] == [site.ask("GET", "/v1/events/e").json()]
        assert threads
        assert threading.current_thread() not in threads

    def test_events_with_named_features_are_shown(self, site: Site) -> None:
        loop = site.service.loop("default")
        request = json.dumps({"shared": [], "actions": [[{"a": 1}]]}).encode()
        decision = loop.decide(DecisionRequest(event_id="j", request=request, encoding="json", actions=("a",)))
        site.service.store.append_blocking([decision])
        assert site.ask("GET", "/v1/events/j").json()["features"] == {"shared": [], "actions": [[{"a": 1}]]}

    def test_model_is_exported(self, site: Site) -> None:
        reply = site.ask("GET", "/v1/model")
        assert reply.headers["content-type"] == "application/octet-stream"
        bandit = Bandit.from_bytes(reply.content)
        assert (bandit.dim, bandit.policy.name) == (2, "optimist")
