"""Decisions."""

from pathlib import Path
from typing import Any

import pytest

from glbandits.service.domain.events import Mode
from tests.service.http.v1.v1_site import ARMS, Site


class TestDecide:
    def test_response_has_the_arm_and_its_probability(self, site: Site) -> None:
        decided = site.decide(eventId="e", ids=["x", "y", "z"])
        assert decided["eventId"] == "e"
        assert decided["id"] == "xyz"[decided["arm"]]
        assert decided["probability"] == decided["probabilities"][decided["arm"]]
        assert sum(decided["probabilities"]) == pytest.approx(1)
        assert min(decided["probabilities"]) >= 0.3 / 3
        assert (decided["modelVersion"], decided["degraded"]) == ("1.0", False)

    def test_missing_event_ids_and_arm_ids_are_created(self, site: Site) -> None:
        first, second = site.decide(), site.decide()
        assert len(first["eventId"]) == 32
        assert first["eventId"] != second["eventId"]
        assert first["id"] == str(first["arm"])

    def test_a_repeated_event_must_have_the_same_request(self, site: Site) -> None:
        first = site.decide(eventId="e")
        assert site.decide(eventId="e") == first
        other = {"eventId": "e", "arms": ARMS[:2]}
        assert site.refusal("POST", "/v1/decide", other)[0] == 400

    def test_excluded_arms_have_probability_0(self, site: Site) -> None:
        for _ in range(20):  # at random, 20 draws of one arm among three pass once in 3e9
            decided = site.decide(excluded=[0, 2, 2])
            assert decided["arm"] == 1
            assert decided["probabilities"] == [0, 1, 0]

    def test_decision_is_logged_with_its_features(self, site: Site) -> None:
        decided = site.decide(eventId="a/ü", excluded=[0])
        record = site.ask("GET", "/v1/events/a%2F%C3%BC").json()
        assert record["features"] == ARMS
        assert (record["encoding"], record["excluded"], record["shown"]) == ("dense", [0], decided["arm"])
        assert record["modelVersion"] == decided["modelVersion"]

    def test_loops_are_independent(self, site: Site) -> None:
        there = site.ask("POST", "/loops/shop/v1/decide", {"eventId": "e", "arms": ARMS})
        assert there.status_code == 200
        assert site.ask("GET", "/loops/shop/v1/events/e").status_code == 200
        assert site.ask("GET", "/v1/events/e").status_code == 404
        assert site.refusal("POST", "/loops/other/v1/decide", {"arms": ARMS})[0] == 404

    def test_apprentice_mode_shows_the_first_allowed_arm(self, site: Site) -> None:
        site.set_mode(Mode.APPRENTICE)
        assert {site.decide(excluded=[0])["arm"] for _ in range(10)} == {1}

    @pytest.mark.parametrize(
        ("request_body", "message"),
        [
            ({}, "send either arms, a list of numbers for each arm, or rows"),
            ({"arms": [[]]}, "1 to 10000 features; got 0"),
            ({"arms": [[1, "2"]]}, "Expected `float`, got `str`"),
            ({"arms": ARMS, "ids": ["a"]}, "got 1 for 3 arms"),
            ({"arms": ARMS, "ids": ["a", "", "b"]}, "length >= 1"),
            ({"arms": ARMS, "excluded": [-1]}, ">= 0"),
            ({"arms": ARMS, "eventId": "e" * 257}, "length <= 256"),
            (b'{"arms": [[1e999, 1]]}', "out of range"),
            (b"", "truncated"),
        ],
    )
    def test_invalid_requests_are_refused(self, site: Site, request_body: Any, message: str) -> None:
        status, detail = site.refusal("POST", "/v1/decide", request_body)
        assert status == 400
        assert message in detail

    def test_limits_of_arms_and_features_apply(self, tmp_path: Path) -> None:
        with Site(tmp_path, max_dense_actions=2, max_features=1, max_body=1024) as site:
            assert "may have 2 arms; got 3" in site.refusal("POST", "/v1/decide", {"arms": ARMS})[1]
            assert "1 to 1 features; got 2" in site.refusal("POST", "/v1/decide", {"arms": ARMS[:2]})[1]
            assert site.refusal("POST", "/v1/decide", {"arms": ARMS * 60})[0] == 413
