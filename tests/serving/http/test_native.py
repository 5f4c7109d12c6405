import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from glbandits import Bandit
from glbandits.serving.domain.errors import QueueFull, StoreError
from glbandits.serving.domain.events import DecisionRequest, LoggedDecision, Mode
from glbandits.serving.domain.optimisation_rules import OPTIMISATION, Gain, Look, LookVerdict
from glbandits.serving.http.v1 import admin_handlers
from glbandits.serving.http.v1.schemas import EventRecord
from tests.serving.http.native import ARMS, Site
from tests.serving.runtime import optimisers


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as site:
        yield site


class TestDecide:
    def test_answers_with_the_arm_and_its_exact_chance(self, site: Site) -> None:
        decided = site.decide(eventId="e", ids=["x", "y", "z"])
        assert decided["eventId"] == "e"
        assert decided["id"] == "xyz"[decided["arm"]]
        assert decided["probability"] == decided["probabilities"][decided["arm"]]
        assert sum(decided["probabilities"]) == pytest.approx(1)
        assert min(decided["probabilities"]) >= 0.3 / 3
        assert (decided["modelVersion"], decided["degraded"]) == ("1.0", False)

    def test_makes_an_event_id_and_ids_by_place(self, site: Site) -> None:
        first, second = site.decide(), site.decide()
        assert len(first["eventId"]) == 32
        assert first["eventId"] != second["eventId"]
        assert first["id"] == str(first["arm"])

    def test_the_same_event_again_gets_the_same_answer_and_another_question_is_refused(self, site: Site) -> None:
        first = site.decide(eventId="e")
        assert site.decide(eventId="e") == first
        other = {"eventId": "e", "arms": ARMS[:2]}
        assert site.refusal("POST", "/v1/decide", other)[0] == 400

    def test_excluded_arms_have_no_chance(self, site: Site) -> None:
        for _ in range(20):  # by chance alone, 20 draws of one arm among three pass once in 3e9
            decided = site.decide(excluded=[0, 2, 2])
            assert decided["arm"] == 1
            assert decided["probabilities"] == [0, 1, 0]

    def test_is_logged_with_its_numbers(self, site: Site) -> None:
        decided = site.decide(eventId="a/ü", excluded=[0])
        record = site.ask("GET", "/v1/events/a%2F%C3%BC").json()
        assert record["features"] == ARMS
        assert (record["encoding"], record["excluded"], record["shown"]) == ("dense", [0], decided["arm"])
        assert record["modelVersion"] == decided["modelVersion"]

    def test_loops_do_not_see_each_other(self, site: Site) -> None:
        there = site.ask("POST", "/loops/a%2Fb/v1/decide", {"eventId": "e", "arms": ARMS})
        assert there.status_code == 200
        assert site.ask("GET", "/loops/a%2Fb/v1/events/e").status_code == 200
        assert site.ask("GET", "/v1/events/e").status_code == 404
        assert site.refusal("POST", "/loops/other/v1/decide", {"arms": ARMS})[0] == 404

    def test_in_apprentice_mode_the_first_arm_that_is_allowed_is_used(self, site: Site) -> None:
        site.set_mode(Mode.APPRENTICE)
        assert {site.decide(excluded=[0])["arm"] for _ in range(10)} == {1}

    @pytest.mark.parametrize(
        ("asked", "told"),
        [
            ({}, "send arms, a list of numbers for each arm, or rows"),
            ({"arms": []}, "length >= 1"),
            ({"arms": [[]]}, "1 to 10000 features; got 0"),
            ({"arms": [[1, 2], [1]]}, "arm 0 has 2 features, arm 1 has 1"),
            ({"arms": [[1, 2, 3]]}, "takes 2 features for each action; got 3"),
            ({"arms": [[1, "2"]]}, "Expected `float`, got `str`"),
            ({"arms": [[1, None]]}, "got `null`"),
            ({"arms": [[1, 1e60]]}, "got 1e+60 at [0, 1]"),
            ({"arms": ARMS, "ids": ["a"]}, "got 1 for 3 arms"),
            ({"arms": ARMS, "ids": ["a", "a", "b"]}, "two arms have the same"),
            ({"arms": ARMS, "ids": ["a", "", "b"]}, "length >= 1"),
            ({"arms": ARMS, "excluded": [3]}, "places of arms, 0 to 2; got 3"),
            ({"arms": ARMS, "excluded": [-1]}, ">= 0"),
            ({"arms": ARMS, "excluded": [0, 1, 2]}, "all actions are excluded"),
            ({"arms": ARMS, "eventId": ""}, "length >= 1"),
            ({"arms": ARMS, "eventId": "e" * 257}, "length <= 256"),
            ({"arms": ARMS, "deferActivation": True}, "unknown field `deferActivation`"),
            (b'{"arms": [[NaN, 1]]}', "malformed"),
            (b'{"arms": [[1e999, 1]]}', "out of range"),
            (b'{"arms": [[1, 2]', "truncated"),
            (b"", "truncated"),
        ],
    )
    def test_says_what_is_wrong(self, site: Site, asked: Any, told: str) -> None:
        status, detail = site.refusal("POST", "/v1/decide", asked)
        assert status == 400
        assert told in detail

    def test_has_limits(self, tmp_path: Path) -> None:
        with Site(tmp_path, max_dense_actions=2, max_features=1, max_body=1024) as site:
            assert "may have 2 arms; got 3" in site.refusal("POST", "/v1/decide", {"arms": ARMS})[1]
            assert "1 to 1 features; got 2" in site.refusal("POST", "/v1/decide", {"arms": ARMS[:2]})[1]
            assert site.refusal("POST", "/v1/decide", {"arms": ARMS * 60})[0] == 413


class TestFloats:
    @staticmethod
    def send(site: Site, numbers: Any, query: str) -> Any:
        body = np.asarray(numbers, dtype="<f4").tobytes()
        return site.ask("POST", f"/v1/decide?{query}", body, headers={"content-type": "application/octet-stream"})

    def test_decides_as_the_same_numbers_in_json_do(self, site: Site) -> None:
        decided = self.send(site, ARMS, "arms=3&eventId=e%201&excluded=0&deferred=true").json()
        record = site.ask("GET", "/v1/events/e%201").json()
        assert (record["features"], record["excluded"], record["deferred"]) == (ARMS, [0], True)
        again = site.decide(eventId="e 1", excluded=[0], deferred=True)
        assert again == decided

    @pytest.mark.parametrize("query", ["arms=3", "arms=%33", "&arms=3", "arms=3&", "arms=3&deferred=false"])
    def test_a_query_may_be_written_in_many_ways(self, site: Site, query: str) -> None:
        decided = self.send(site, ARMS, query).json()
        assert site.ask("GET", f"/v1/events/{decided['eventId']}").json()["features"] == ARMS

    @pytest.mark.parametrize(
        ("numbers", "query", "told"),
        [
            (ARMS, "", "arms, the number of arms, must be a whole number; got ''"),
            (ARMS, "arms=0", "for each of the 0 arms"),
            (ARMS, "arms=5", "as many for each of the 5 arms; got 24 bytes"),
            (ARMS, "arms=2", "takes 2 features for each action; got 3"),
            ([], "arms=1", "got 0 bytes"),
            ([[1, np.nan]], "arms=1", "got nan at [0, 1]"),
            ([[-np.inf, 1]], "arms=1", "got -inf at [0, 0]"),
            ([[1, 2], [3, np.nan]], "arms=2", "got nan at [1, 1]"),
            (ARMS, f"arms={'1' * 19}", "arms, the number of arms, must be a whole number; got '1111"),
            (ARMS, "arms=3&excluded=x", "excluded must be a whole number; got 'x'"),
            (ARMS, "arms=3&excluded=7", "0 to 2; got 7"),
            (ARMS, "arms=3&deferred=yes", "true or false; got 'yes'"),
            (ARMS, "arms=3&eventId=", "1 to 256 characters; got 0"),
            (ARMS, "arms=3&event=e", "unknown parameter 'event'"),
            (ARMS, "arms=3&eventId=%ff", "not UTF-8"),
        ],
    )
    def test_says_what_is_wrong(self, site: Site, numbers: Any, query: str, told: str) -> None:
        reply = self.send(site, numbers, query)
        assert reply.status_code == 400
        assert told in reply.json()["detail"]


class TestReward:
    def test_is_learned_after_the_wait(self, site: Site) -> None:
        before = site.decide(eventId="e")
        assert site.ask("POST", "/v1/reward", {"eventId": "e", "value": 1}).json() == {
            "eventId": "e",
            "status": "accepted",
        }
        assert site.decide()["modelVersion"] == before["modelVersion"]
        site.learn()
        assert site.decide()["modelVersion"] != before["modelVersion"]

    def test_under_the_same_key_counts_once(self, site: Site) -> None:
        site.decide(eventId="e")
        statuses = [
            site.ask("POST", "/v1/reward", {"eventId": "e", "value": 1, "key": "k"}).json()["status"] for _ in "ab"
        ]
        assert statuses == ["accepted", "duplicate"]

    def test_after_the_wait_is_late(self, site: Site) -> None:
        site.decide(eventId="e")
        site.learn()
        assert site.ask("POST", "/v1/reward", {"eventId": "e", "value": 1}).json()["status"] == "late"
        assert site.ask("GET", "/v1/events/e").json()["rewards"][0]["late"]

    def test_of_an_unknown_event_is_refused(self, site: Site) -> None:
        status, detail = site.refusal("POST", "/v1/reward", {"eventId": "e", "value": 1})
        assert (status, "no decision of the event 'e'" in detail) == (404, True)

    def test_must_be_a_number_that_the_policy_can_learn(self, site: Site) -> None:
        site.decide(eventId="e")
        assert "at most" in site.refusal("POST", "/v1/reward", {"eventId": "e", "value": 1e60})[1]
        assert "got `str`" in site.refusal("POST", "/v1/reward", {"eventId": "e", "value": "1"})[1]
        assert site.refusal("POST", "/v1/reward", b'{"eventId": "e", "value": NaN}')[0] == 400
        changed = site.ask("GET", "/v1/configuration").json()
        changed["settings"]["link"] = "logistic"
        assert site.ask("PUT", "/v1/configuration", changed).status_code == 200
        assert site.refusal("POST", "/v1/reward", {"eventId": "e", "value": 2})[0] == 400
        assert site.ask("PUT", "/v1/configuration", changed | {"aggregation": "sum"}).status_code == 200
        assert site.ask("POST", "/v1/reward", {"eventId": "e", "value": 2}).status_code == 200

    def test_activates_a_deferred_decision(self, site: Site) -> None:
        site.decide(eventId="e", deferred=True)
        assert site.ask("POST", "/v1/activate", {"eventId": "e"}).json() == {"eventId": "e", "status": "accepted"}
        assert site.ask("GET", "/v1/events/e").json()["activatedAt"] == "1970-01-01T00:00:01Z"
        assert site.refusal("POST", "/v1/activate", {"eventId": "f"})[0] == 404


class TestBatch:
    def test_gives_each_item_its_own_outcome(self, site: Site) -> None:
        sent = {
            "decide": [{"eventId": "a", "arms": ARMS}, {"arms": [[1, 2, 3]]}, {"eventId": "b", "arms": ARMS}],
            "reward": [{"eventId": "a", "value": 1}, {"eventId": "x", "value": 1}, {"eventId": "b", "value": 0}],
        }
        reply = site.ask("POST", "/v1/batch", sent).json()
        assert [item.get("decided", {}).get("eventId") for item in reply["decide"]] == ["a", None, "b"]
        assert reply["decide"][1]["problem"]["status"] == 400
        assert [item.get("rewarded", {}).get("status") for item in reply["reward"]] == ["accepted", None, "accepted"]
        assert reply["reward"][1]["problem"]["code"] == "UnknownEvent"

    def test_decides_as_single_requests_do(self, site: Site) -> None:
        single = [site.decide(eventId=f"e{i}") for i in range(5)]
        questions = [{"eventId": f"e{i}", "arms": ARMS} for i in range(5)]
        reply = site.ask("POST", "/v1/batch", {"decide": questions}).json()
        assert [item["decided"] for item in reply["decide"]] == single

    def test_has_a_limit_and_needs_a_loop(self, site: Site) -> None:
        rewards = [{"eventId": "e", "value": 1}] * 1001
        assert "may have 1000 items; got 1001" in site.refusal("POST", "/v1/batch", {"reward": rewards})[1]
        assert site.refusal("POST", "/loops/x/v1/batch", {})[0] == 404

    def test_needs_the_right_to_reward_for_rewards(self, tmp_path: Path) -> None:
        with Site(tmp_path, scopes=("rank",)) as site:
            key = {"authorization": f"Bearer {site.narrow_key}"}
            assert site.ask("POST", "/v1/batch", {"decide": [{"arms": ARMS}]}, headers=key).status_code == 200
            refused = site.refusal("POST", "/v1/batch", {"reward": [{"eventId": "e", "value": 1}]}, headers=key)
            assert refused[0] == 403


class TestTroubles:
    @pytest.mark.parametrize("error", [QueueFull("full"), StoreError("disk")])
    def test_are_told_with_when_to_come_again(
        self, site: Site, error: Exception, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def submit(*_: object) -> "asyncio.Future[Any]":
            raise error

        monkeypatch.setattr(site.service.writer, "submit", submit)
        reply = site.ask("POST", "/v1/decide", {"arms": ARMS})
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
        assert reply.json()["code"] == type(error).__name__

    def test_a_store_that_does_not_answer_degrades_decisions(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("glbandits.serving.runtime.service.DECISION_TIMEOUT", 0.01)
        hold = asyncio.Event()
        append = site.service.store.append

        async def slow(events: Any) -> Any:
            await hold.wait()
            return await append(events)

        async def release() -> None:
            hold.set()
            while site.service.writer.depth:
                await asyncio.sleep(0.01)

        monkeypatch.setattr(site.service.store, "append", slow)
        assert site.decide(eventId="e")["degraded"]
        site.run(release())
        assert site.ask("GET", "/v1/events/e").status_code == 200

    def test_without_a_key_nothing_is_told(self, site: Site) -> None:
        for method, path in [("POST", "/v1/decide"), ("GET", "/v1/loops"), ("PUT", "/v1/configuration")]:
            assert site.refusal(method, path, headers={"authorization": "Bearer wrong"})[0] == 401

    @pytest.mark.parametrize(
        ("method", "path"), [("GET", "/v1/status"), ("GET", "/v1/model"), ("PUT", "/v1/configuration")]
    )
    def test_a_key_for_rank_and_reward_reads_and_changes_nothing(self, site: Site, method: str, path: str) -> None:
        headers = {"authorization": f"Bearer {site.narrow_key}"}
        assert site.refusal(method, path, {}, headers=headers)[0] == 403


class TestLooking:
    def test_tells_the_loops_and_how_they_do(self, site: Site) -> None:
        assert site.ask("GET", "/v1/loops").json() == {"loops": ["a/b", "default"]}
        site.decide(eventId="e")
        site.ask("POST", "/v1/reward", {"eventId": "e", "value": 1})
        status = site.ask("GET", "/v1/loops/default").json()
        assert status == site.ask("GET", "/loops/default/v1/status").json() == site.ask("GET", "/v1/status").json()
        assert (status["policy"], status["width"], status["learnedTo"]) == ("optimist", 2, 0)
        assert (status["counts"]["decisions"]["accepted"], status["counts"]["rewards"]["accepted"]) == (1, 1)
        assert status["firstAt"] == "1970-01-01T00:00:01Z"
        site.learn()
        assert site.ask("GET", "/v1/status").json()["learnedTo"] == 1

    def test_changes_only_the_settings_that_are_named(self, site: Site) -> None:
        before = site.ask("GET", "/v1/configuration").json()
        changed = site.ask("PATCH", "/v1/configuration", {"exploration": 0.05}).json()
        assert changed == before | {"exploration": 0.05}
        assert site.ask("GET", "/v1/configuration").json() == changed
        assert site.decide()["modelVersion"] == "1.0"

    def test_another_policy_begins_with_its_default_settings(self, site: Site) -> None:
        for policy, settings in (("online-laplace", {"link": "identity"}), ("lin-ucb", {})):
            changed = site.ask("PATCH", "/v1/configuration", {"policy": policy}).json()
            assert (changed["policy"], changed["settings"]) == (policy, settings)
        assert site.ask("PATCH", "/v1/configuration", {"policy": ["optimist"]}).status_code == 400

    def test_auto_optimisation_needs_limits_of_rewards(self, tmp_path: Path) -> None:
        with Site(tmp_path, optimise_log=optimisers.wait) as site:
            status, detail = site.refusal("PATCH", "/v1/configuration", {"autoOptimisation": True})
            assert (status, "Set reward_range" in detail) == (400, True)
            sent = {"autoOptimisation": True, "rewardRange": [0, 1], "candidates": ["sgd-ts", "optimist:floor=0.1"]}
            assert sent.items() <= site.ask("PATCH", "/v1/configuration", sent).json().items()
            status, detail = site.refusal("PATCH", "/v1/configuration", {"candidates": ["lin-ts"]})
            assert (status, "no exact probabilities" in detail) == (400, True)

    def test_status_has_the_last_look(self, site: Site) -> None:
        look = Look(verdict=LookVerdict.WAIT, sentence="Wait.", gains={"sgd-ts": Gain(0.1, -0.2, 0.3)}, decisions=2000)
        site.service.store.save_document("default", OPTIMISATION, 60_000_000, msgspec.json.encode(look))
        assert site.ask("GET", "/v1/status").json()["optimisation"] == {
            "nextAt": None,
            "last": {
                "at": "1970-01-01T00:01:00Z",
                "verdict": "wait",
                "sentence": "Wait.",
                "gains": {"sgd-ts": {"value": 0.1, "low": -0.2, "high": 0.3}},
                "decisions": 2000,
            },
        }

    def test_puts_a_whole_configuration(self, site: Site) -> None:
        whole = site.ask("PUT", "/v1/configuration", {"width": 3, "mode": "Apprentice"}).json()
        assert (whole["width"], whole["mode"], whole["exploration"]) == (3, "Apprentice", 0.2)
        assert site.decide(arms=[[1, 2, 3]])["modelVersion"] == "2.0"

    @pytest.mark.parametrize(
        ("sent", "told"),
        [
            ({"exploration": 2}, "exploration must be a finite number"),
            ({"mode": "online"}, "Invalid enum value"),
            ({"reward_wait": 2}, "unknown field `reward_wait`"),
            ({"policy": "optimsit"}, "did you mean 'optimist'"),
            ({"settings": {"x": 1}}, "settings of optimist"),
            ([], "Expected `object`"),
            ({"policy": "lin-ucb", "settings": {}, "width": 1_000_000, "sparse": False}, "Take a smaller width"),
            (b'{"settings":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}", "nested too deep"),
        ],
    )
    def test_refuses_settings_and_keeps_the_old(self, site: Site, sent: Any, told: str) -> None:
        before = site.ask("GET", "/v1/configuration").json()
        for method in ("PUT", "PATCH"):
            status, detail = site.refusal(method, "/v1/configuration", sent)
            assert (status, told in detail) == (400, True), detail
        assert site.ask("GET", "/v1/configuration").json() == before

    def test_pages_through_events(self, site: Site) -> None:
        for place in range(5):
            site.decide(eventId=f"{'ab'[place % 2]}{place}")
        first = site.ask("GET", "/v1/events?prefix=a&limit=2").json()
        assert [event["eventId"] for event in first["events"]] == ["a4", "a2"]
        second = site.ask("GET", f"/v1/events?prefix=a&limit=2&before={first['before']}").json()
        assert ([event["eventId"] for event in second["events"]], second["before"]) == (["a0"], None)
        assert len(site.ask("GET", "/v1/events").json()["events"]) == 5
        for query in ("limit=0", "limit=501", "limit=x", "before=-1"):
            assert site.refusal("GET", f"/v1/events?{query}")[0] == 400

    @pytest.mark.parametrize(
        ("path", "told"),
        [
            (
                "/v1/events?limt=2",
                "unknown parameter 'limt'; did you mean 'limit'? KnownDecision: before, limit, prefix",
            ),
            ("/v1/events?limit=2&limit=3", "the parameter limit is there twice; send it once"),
            ("/v1/status?verbose", "this takes no parameters in the query; got 'verbose'"),
            ("/loops/a%2Fb/v1/events?=", "unknown parameter ''. KnownDecision: before, limit, prefix"),
        ],
    )
    def test_refuses_parameters_that_it_would_ignore(self, site: Site, path: str, told: str) -> None:
        assert site.refusal("GET", path) == (400, told)

    def test_a_page_of_large_events_is_shorter(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(admin_handlers, "FULL_PAGE", 1)
        for place in range(25):
            site.decide(eventId=f"{place:02}")
        pages, before = list[list[str]](), ""
        while True:
            page = site.ask("GET", f"/v1/events?limit=20{before}").json()
            pages.append([event["eventId"] for event in page["events"]])
            if page["before"] is None:
                break
            before = f"&before={page['before']}"
        assert [len(page) for page in pages] == [10, 10, 5]
        assert [name for page in pages for name in page] == [f"{place:02}" for place in reversed(range(25))]

    def test_events_are_made_ready_where_decisions_need_not_wait(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        threads = set[threading.Thread]()

        def record_of(logged: LoggedDecision) -> EventRecord:
            threads.add(threading.current_thread())
            return original(logged)

        original = admin_handlers.record_of
        monkeypatch.setattr(admin_handlers, "record_of", record_of)
        site.decide(eventId="e")
        assert site.ask("GET", "/v1/events").json()["events"] == [site.ask("GET", "/v1/events/e").json()]
        assert threads
        assert threading.current_thread() not in threads

    def test_shows_events_of_described_actions_too(self, site: Site) -> None:
        loop = site.service.loop("default")
        request = json.dumps({"shared": [], "actions": [[{"a": 1}]]}).encode()
        decision = loop.decide(DecisionRequest(event_id="j", request=request, encoding="json", actions=("a",)))
        site.service.store.append_blocking([decision])
        assert site.ask("GET", "/v1/events/j").json()["features"] == {"shared": [], "actions": [[{"a": 1}]]}

    def test_gives_the_model(self, site: Site) -> None:
        reply = site.ask("GET", "/v1/model")
        assert reply.headers["content-type"] == "application/octet-stream"
        bandit = Bandit.from_bytes(reply.content)
        assert (bandit.dim, bandit.policy.name) == (2, "optimist")
