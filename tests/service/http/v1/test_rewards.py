"""Rewards, activations, batches, and failures of the store."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from glbandits.service.domain.errors import QueueFull, StoreError
from glbandits.service.domain.events import EventStatus
from tests.service.http.v1.v1_site import ARMS, Site


class TestReward:
    def test_reward_is_learned_after_the_reward_window(self, site: Site) -> None:
        before = site.decide(eventId="e")
        assert site.ask("POST", "/v1/reward", {"eventId": "e", "value": 1}).json() == {
            "eventId": "e",
            "status": "accepted",
        }
        assert site.decide()["modelVersion"] == before["modelVersion"]
        site.learn()
        assert site.decide()["modelVersion"] != before["modelVersion"]

    def test_rewards_with_the_same_key_count_once(self, site: Site) -> None:
        site.decide(eventId="e")
        statuses = [
            site.ask("POST", "/v1/reward", {"eventId": "e", "value": 1, "key": "k"}).json()["status"] for _ in "ab"
        ]
        assert statuses == ["accepted", "duplicate"]

    def test_reward_after_the_window_is_late(self, site: Site) -> None:
        site.decide(eventId="e")
        site.learn()
        assert site.ask("POST", "/v1/reward", {"eventId": "e", "value": 1}).json()["status"] == "late"
        assert site.ask("GET", "/v1/events/e").json()["rewards"][0]["late"]

    def test_reward_of_an_unknown_event_is_refused(self, site: Site) -> None:
        status, detail = site.refusal("POST", "/v1/reward", {"eventId": "e", "value": 1})
        assert (status, "no decision of the event 'e'" in detail) == (404, True)

    def test_unlearnable_reward_is_refused(self, site: Site) -> None:
        site.decide(eventId="e")
        assert "at most" in site.refusal("POST", "/v1/reward", {"eventId": "e", "value": 1e60})[1]
        assert "got `str`" in site.refusal("POST", "/v1/reward", {"eventId": "e", "value": "1"})[1]
        assert site.refusal("POST", "/v1/reward", b'{"eventId": "e", "value": NaN}')[0] == 400
        changed = site.ask("GET", "/v1/configuration").json()
        changed["settings"]["link"] = "logistic"
        assert site.ask("PUT", "/v1/configuration", changed).status_code == 200
        assert site.refusal("POST", "/v1/reward", {"eventId": "e", "value": 2})[0] == 400
        assert site.service.store.summary("default").rewards[EventStatus.OUT_OF_RANGE] == 2  # 1e60 and 2
        assert site.ask("PUT", "/v1/configuration", changed | {"aggregation": "sum"}).status_code == 200
        assert site.ask("POST", "/v1/reward", {"eventId": "e", "value": 2}).status_code == 200

    def test_deferred_decision_is_activated(self, site: Site) -> None:
        site.decide(eventId="e", deferred=True)
        assert site.ask("POST", "/v1/activate", {"eventId": "e"}).json() == {"eventId": "e", "status": "accepted"}
        assert site.ask("GET", "/v1/events/e").json()["activatedAt"] == "1970-01-01T00:00:01Z"
        assert site.refusal("POST", "/v1/activate", {"eventId": "f"})[0] == 404


class TestBatch:
    def test_each_item_has_its_own_outcome(self, site: Site) -> None:
        sent = {
            "decide": [{"eventId": "a", "arms": ARMS}, {"arms": [[1, 2, 3]]}, {"eventId": "b", "arms": ARMS}],
            "reward": [{"eventId": "a", "value": 1}, {"eventId": "x", "value": 1}, {"eventId": "b", "value": 0}],
        }
        reply = site.ask("POST", "/v1/batch", sent).json()
        assert [item.get("decided", {}).get("eventId") for item in reply["decide"]] == ["a", None, "b"]
        assert reply["decide"][1]["problem"]["status"] == 400
        assert [item.get("rewarded", {}).get("status") for item in reply["reward"]] == ["accepted", None, "accepted"]
        assert reply["reward"][1]["problem"]["code"] == "UnknownEvent"

    def test_batch_decides_like_single_requests(self, site: Site) -> None:
        single = [site.decide(eventId=f"e{i}") for i in range(5)]
        questions = [{"eventId": f"e{i}", "arms": ARMS} for i in range(5)]
        reply = site.ask("POST", "/v1/batch", {"decide": questions}).json()
        assert [item["decided"] for item in reply["decide"]] == single

    def test_batch_has_a_limit_and_needs_a_loop(self, site: Site) -> None:
        rewards = [{"eventId": "e", "value": 1}] * 1001
        assert "may have 1000 items; got 1001" in site.refusal("POST", "/v1/batch", {"reward": rewards})[1]
        assert site.refusal("POST", "/loops/x/v1/batch", {})[0] == 404

    def test_batch_with_rewards_counts_once_for_the_rate_limit(self, tmp_path: Path) -> None:
        with Site(tmp_path, rate_limit=1.0) as site:
            assert site.ask("POST", "/v1/batch", {"reward": [{"eventId": "e", "value": 1}]}).status_code == 200

    def test_batch_with_rewards_needs_the_scope_reward(self, tmp_path: Path) -> None:
        with Site(tmp_path, scopes=("rank",)) as site:
            key = {"authorization": f"Bearer {site.narrow_key}"}
            assert site.ask("POST", "/v1/batch", {"decide": [{"arms": ARMS}]}, headers=key).status_code == 200
            refused = site.refusal("POST", "/v1/batch", {"reward": [{"eventId": "e", "value": 1}]}, headers=key)
            assert refused[0] == 403


class TestFailures:
    @pytest.mark.parametrize("error", [QueueFull("full"), StoreError("disk")])
    def test_failures_are_503_with_retry_after(
        self, site: Site, error: Exception, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def submit(*_: object) -> "asyncio.Future[Any]":
            raise error

        monkeypatch.setattr(site.service.writer, "submit", submit)
        reply = site.ask("POST", "/v1/decide", {"arms": ARMS})
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
        assert reply.json()["code"] == type(error).__name__

    def test_a_slow_store_degrades_decisions(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("glbandits.service.runtime.decision_writer.DECISION_TIMEOUT", 0.01)
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
