"""Metrics and units of decisions over HTTP."""

from typing import Any

import pytest

from glbandits.service.domain.events import EventStatus
from glbandits.service.domain.groups.experiment import MetricSettings
from tests.service.http.v1.v1_site import ARMS, Site

METRICS = {
    "ms": MetricSettings(range=(0.0, 1000.0), good="lower", window=20.0),
    "returned": MetricSettings(range=(0.0, 1.0), good="lower", window="1h"),
    "reward": MetricSettings(range=(0.0, 1.0)),
}


@pytest.fixture(name="site")
def site_fixture(site: Site) -> Site:
    site.configure(metrics=METRICS)
    return site


def send(site: Site, metrics: dict[str, Any], event_id: str = "e", **more: Any) -> Any:
    """The statuses of numbers."""
    reply = site.ask("POST", "/v1/metrics", {"eventId": event_id, "metrics": metrics} | more)
    assert reply.status_code == 200, reply.text
    assert reply.json()["eventId"] == event_id
    return reply.json()["statuses"]


class TestMetrics:
    def test_numbers_are_in_the_log_once(self, site: Site) -> None:
        site.decide(eventId="e")
        assert send(site, {"ms": 120, "returned": 0}) == {"ms": "accepted", "returned": "accepted"}
        assert send(site, {"ms": 130}) == {"ms": "duplicate"}
        assert send(site, {"ms": 130}, key="second") == {"ms": "accepted"}
        site.ask("POST", "/v1/reward", {"eventId": "e", "value": 1})
        record = site.ask("GET", "/v1/events/e").json()
        assert [(each["metric"], each["value"], each["key"]) for each in record["rewards"]] == [
            ("ms", 120.0, ""),
            ("returned", 0.0, ""),
            ("ms", 130.0, "second"),
            ("", 1.0, ""),
        ]
        counts = site.ask("GET", "/v1/status").json()["counts"]
        assert (counts["metrics"]["accepted"], counts["metrics"]["duplicate"]) == (3, 1)
        assert "glb_metrics_total{" in site.ask("GET", "/metrics").text

    def test_each_metric_has_a_window_of_its_own(self, site: Site) -> None:
        site.decide(eventId="e", unit="me")
        site.now += 10_000_000
        site.decide(eventId="f", unit="me")
        site.now += 11_000_000
        assert send(site, {"ms": 1, "returned": 1}, "f") == {"ms": "late", "returned": "accepted"}

    def test_a_model_learns_rewards_only(self, site: Site) -> None:
        for event_id in "ab":
            site.decide(eventId=event_id)
        send(site, {"ms": 900}, "a")
        site.learn()
        published = site.service.loop("default").published
        assert (published.learned_through, published.set_aside) == (2, 0)
        assert site.service.store.settled("default", 0, site.now, 9)[0].rewards == ()

    def test_numbers_of_a_position(self, site: Site) -> None:
        site.ask("POST", "/v1/rank", {"eventId": "e", "arms": ARMS, "k": 2, "unit": "me"})
        assert send(site, {"ms": 1}, position=1) == {"ms": "accepted"}
        sent = {"eventId": "e", "metrics": {"ms": 1}}
        assert site.refusal("POST", "/v1/metrics", sent | {"position": 7})[0] == 404
        assert site.refusal("POST", "/v1/metrics", sent | {"eventId": "x"})[1].endswith("of the event 'x'")

    def test_numbers_without_a_position_are_of_the_first_slot(self, site: Site) -> None:
        site.ask("POST", "/v1/rank", {"eventId": "e", "arms": ARMS, "k": 3, "unit": "me"})
        assert send(site, {"ms": 5}) == {"ms": "accepted"}
        assert send(site, {"ms": 6}, position=0) == {"ms": "duplicate"}
        slots = [site.ask("GET", f"/v1/events/e?slot={slot}").json()["rewards"] for slot in range(3)]
        assert [[each["value"] for each in rewards] for rewards in slots] == [[5.0], [], []]

    @pytest.mark.parametrize(
        ("metrics", "phrase"),
        [
            ({"ms": 1, "latency": 1}, "no metric 'latency'; its setting metrics has ms, returned"),
            ({"reward": 1}, "send it to /v1/reward"),
            ({"ms": 1, "returned": 1e60}, "at most 1e+50"),
            ({"ms": -1e60}, "at least -1e+50"),
            ({"ms": None}, "Expected `float`, got `null`"),
            ({"ms": True}, "got `bool`"),
            ({"ms": "1"}, "got `str`"),
            ({}, "length >= 1"),
            ({str(i): 1 for i in range(21)}, "length <= 20"),
            ({"\0": 1}, "no metric '\\x00'"),
            ([1], "got `array`"),
        ],
    )
    def test_numbers_that_cannot_be_used_are_refused(self, site: Site, metrics: Any, phrase: str) -> None:
        site.decide(eventId="e")
        status, detail = site.refusal("POST", "/v1/metrics", {"eventId": "e", "metrics": metrics})
        assert (status, phrase in detail) == (400, True), detail
        assert site.ask("GET", "/v1/events/e").json()["rewards"] == []

    def test_a_key_with_nul_is_refused(self, site: Site) -> None:
        site.decide(eventId="e")
        detail = site.refusal("POST", "/v1/metrics", {"eventId": "e", "metrics": {"ms": 1}, "key": "a\0b"})[1]
        assert detail == "a key must not contain the character NUL; got 'a\\x00b'"

    def test_numbers_that_are_no_json_are_refused(self, site: Site) -> None:
        site.decide(eventId="e")
        for number in (b"NaN", b"1e999", b"Infinity"):
            body = b'{"eventId": "e", "metrics": {"ms": %s}}' % number
            assert site.refusal("POST", "/v1/metrics", body)[0] == 400
        assert site.refusal("POST", "/v1/metrics", {"eventId": "x", "metrics": {"ms": 1}})[0] == 404
        assert site.refusal("POST", "/loops/x/v1/metrics", {"eventId": "e", "metrics": {"ms": 1}})[0] == 404
        assert "has none" in site.refusal("POST", "/loops/shop/v1/metrics", {"eventId": "e", "metrics": {"ms": 1}})[1]

    def test_numbers_of_one_request_are_one_commit(self, site: Site) -> None:
        site.decide(eventId="e")
        before = site.service.writer.counts.batches
        send(site, {"ms": 1, "returned": 1})
        assert site.service.writer.counts.batches == before + 1


class TestBatch:
    def test_metrics_of_a_batch_have_outcomes_of_their_own(self, site: Site) -> None:
        sent = {
            "decide": [{"eventId": "a", "arms": ARMS, "unit": "me"}],
            "reward": [{"eventId": "a", "value": 1}],
            "metrics": [
                {"eventId": "a", "metrics": {"ms": 1, "returned": 1}},
                {"eventId": "x", "metrics": {"ms": 1}},
                {"eventId": "a", "metrics": {"nothing": 1}},
            ],
        }
        reply = site.ask("POST", "/v1/batch", sent).json()
        assert reply["reward"][0]["rewarded"]["status"] == "accepted"
        assert reply["metrics"][0] == {
            "measured": {"eventId": "a", "statuses": {"ms": "accepted", "returned": "accepted"}}
        }
        assert [item.get("problem", {}).get("status") for item in reply["metrics"]] == [None, 404, 400]

    def test_each_number_counts_for_the_limit(self, site: Site) -> None:
        item = {"eventId": "e", "metrics": {"ms": 1, "returned": 1}}
        assert "1000 items; got 1002" in site.refusal("POST", "/v1/batch", {"metrics": [item] * 501})[1]


class TestUnits:
    @pytest.mark.parametrize("unit", ["", "x" * 257, 7, None])
    def test_a_unit_is_text_of_some_length(self, site: Site, unit: Any) -> None:
        reply = site.ask("POST", "/v1/decide", {"arms": ARMS, "unit": unit})
        assert reply.status_code == (200 if unit is None else 400)

    def test_a_unit_is_any_text(self, site: Site) -> None:
        for unit in ("\0", "\N{SNOWMAN}", "\U0010ffff", " "):
            site.decide(unit=unit)
        for text in (rb"\ud800", b"\xff"):
            body = b'{"arms": [[1, 0], [0, 1]], "unit": "%s"}' % text
            assert site.refusal("POST", "/v1/decide", body)[0] == 400
            body = b'{"eventId": "e", "metrics": {"%s": 1}}' % text
            assert site.refusal("POST", "/v1/metrics", body)[0] == 400

    def test_a_repeated_event_has_the_same_unit(self, site: Site) -> None:
        first = site.decide(eventId="e", unit="me")
        assert site.decide(eventId="e", unit="me") == first
        assert "another unit" in site.refusal("POST", "/v1/decide", {"eventId": "e", "arms": ARMS, "unit": "you"})[1]
        assert site.service.store.summary("default").decisions[EventStatus.ACCEPTED] == 1

    def test_sticky_needs_a_unit(self, site: Site) -> None:
        assert "send unit too" in site.refusal("POST", "/v1/decide", {"arms": ARMS, "sticky": True})[1]
        assert site.decide(unit="me", sticky=True)["arm"] in (0, 1, 2)

    def test_units_are_logged_as_hashes(self, site: Site) -> None:
        for event_id in "ef":
            site.decide(eventId=event_id, unit="me")
        records = [site.ask("GET", f"/v1/events/{event_id}").json() for event_id in "ef"]
        assert records[0]["unit"] == records[1]["unit"]
        assert len(records[0]["unit"]) == 32
        assert "me" not in records[0].values()
        assert {name: records[0][name] for name in ("group", "fallback", "repeats")} == {
            "group": None,
            "fallback": False,
            "repeats": "",
        }
        for unit in ("", "x" * 257):
            assert site.refusal("POST", "/v1/decide", {"arms": ARMS, "unit": unit})[0] == 400
