import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glbandits.service.domain.events import DecisionRequest, Event, Mode, Reward
from glbandits.service.domain.request_features import DENSE
from glbandits.service.http.dashboard.handlers import MAX_ACTIONS, MIN_SAMPLE_SIZE
from tests.service.http.v1.v1_site import ARMS, Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as site:
        yield site


def read_statistics(site: Site, path: str = "/v1/statistics") -> Any:
    reply = site.ask("GET", path)
    assert reply.status_code == 200, reply.text
    return reply.json()


def play(site: Site, rounds: int, actions: tuple[str, ...] = ("x", "y", "z")) -> None:
    """Decisions of which all but those for the first action are rewarded, two seconds later; then they are learned."""
    loop, request = site.service.loop("default"), np.array(ARMS[: len(actions)]).tobytes()
    events: list[Event] = []
    for _ in range(rounds):
        site.now += 2_000_000
        made = loop.decide(DecisionRequest(event_id=f"at-{site.now}", request=request, encoding=DENSE, actions=actions))
        events.append(made)
        if made.shown:
            events.append(Reward(loop=loop.name, event_id=made.event_id, timestamp=site.now + 2_000_000, value=1.0))
    site.service.store.append_blocking(events)
    site.learn()


class TestStatistics:
    def test_statistics_are_empty_before_the_first_decision(self, site: Site) -> None:
        statistics = read_statistics(site)
        assert (statistics["loop"], statistics["window"], statistics["decisions"], statistics["unlimited"]) == (
            "default",
            "hour",
            0,
            0,
        )
        assert [statistics[name] for name in ("reward", "baseline", "delays", "points")] == [None] * 3 + [[]]
        assert statistics["past"] == statistics["present"]
        assert (statistics["past"]["verdict"], statistics["past"]["decisions"], statistics["past"]["since"]) == (
            "early",
            0,
            None,
        )
        counts = {"failures": 0, "setAside": 0, "outlyingRewards": 0, "outlyingValues": 0}
        assert statistics["learner"] == {"running": False, "learnedAt": None, "lag": 0.0} | counts

    def test_a_better_loop_gets_the_verdict_better(self, site: Site) -> None:
        site.configure(reward_range=(0.0, 1.0))
        play(site, 600)
        statistics = read_statistics(site)
        assert (statistics["decisions"], statistics["learned"], statistics["missing"]) == (
            600,
            600,
            statistics["baselineShown"],
        )
        assert statistics["baseline"] == {"value": 0.0, "error": 0.0}
        assert statistics["reward"]["value"] == pytest.approx(1 - statistics["baselineShown"] / 600)
        assert statistics["delays"]["median"] == pytest.approx(2.0, rel=0.05)
        assert sum(one["decisions"] for one in statistics["actions"]) == 600
        past, present, uniform = (statistics[name] for name in ("past", "present", "uniform"))
        assert (past["verdict"], past["decisions"], past["since"]) == ("better", 600, "1970-01-01T00:00:03Z")
        assert 0.3 < past["low"] < past["difference"] <= past["high"] <= 1.0
        assert (uniform["verdict"], uniform["decisions"]) == ("same", 600)  # the model that decided was not trained
        assert uniform["low"] < 0.0 < uniform["high"]
        assert (past["decisionsNeeded"], past["expectedAt"]) == (None, None)
        assert (present["verdict"], present["decisions"], present["decisionsNeeded"]) == ("early", 0, 424)
        assert present["expectedAt"] == "1970-01-01T00:34:09Z"

    def test_verdict_does_not_depend_on_the_window(self, site: Site) -> None:
        site.configure(reward_range=(0.0, 1.0))
        play(site, 200)
        site.now += 2 * 3_600_000_000
        play(site, 20)
        statistics = [read_statistics(site, f"/v1/statistics?window={window}") for window in ("hour", "day")]
        assert [one["decisions"] for one in statistics] == [20, 220]
        assert statistics[0]["past"] == statistics[1]["past"]
        assert statistics[0]["past"]["decisions"] == 220

    def test_rewards_without_limits_get_no_verdict(self, site: Site) -> None:
        play(site, 200)
        statistics = read_statistics(site)
        assert (statistics["past"]["verdict"], statistics["present"]["verdict"], statistics["unlimited"]) == (
            "unlimited",
            "unlimited",
            200,
        )

    def test_points_add_up_to_the_total(self, site: Site) -> None:
        play(site, 60)
        statistics = read_statistics(site, "/v1/statistics?window=all")
        assert sum(point["decisions"] for point in statistics["points"]) == 60
        assert sum(point["explored"] for point in statistics["points"]) == statistics["explored"]
        for index, action in enumerate(statistics["actions"]):
            assert sum(point["actions"][index] for point in statistics["points"]) == action["decisions"]
        assert [point["at"] for point in statistics["points"]] == sorted(point["at"] for point in statistics["points"])

    def test_a_point_with_few_decisions_has_no_baseline(self, site: Site) -> None:
        site.set_mode(Mode.APPRENTICE)
        play(site, MIN_SAMPLE_SIZE - 1)
        (point,) = read_statistics(site, "/v1/statistics?window=day")["points"]
        assert (point["baseline"], point["reward"]) == (None, {"value": 0.0, "error": 0.0})
        play(site, 1)
        (point,) = read_statistics(site, "/v1/statistics?window=day")["points"]
        assert point["baseline"] == {"value": 0.0, "error": 0.0}

    def test_only_the_most_frequent_actions_are_listed(self, site: Site) -> None:
        for number in range(30):
            play(site, 1, (f"id-{number:02}",))
        statistics = read_statistics(site, "/v1/statistics?window=all")
        assert [one["id"] for one in statistics["actions"]] == [f"id-{number:02}" for number in range(MAX_ACTIONS)]

    def test_statistics_have_the_state_of_the_learner(self, site: Site) -> None:
        site.decide()
        site.now += 13_000_000
        assert read_statistics(site)["learner"]["lag"] == 3.0
        site.learn()
        learner = read_statistics(site)["learner"]
        assert (learner["learnedAt"], learner["lag"]) == ("1970-01-01T00:00:25Z", 0.0)

    def test_every_loop_has_its_own_statistics(self, site: Site) -> None:
        play(site, 3)
        assert read_statistics(site, "/loops/shop/v1/statistics")["decisions"] == 0
        assert site.refusal("GET", "/loops/other/v1/statistics")[0] == 404

    def test_an_unknown_window_is_refused(self, site: Site) -> None:
        status, statistics = site.refusal("GET", "/v1/statistics?window=huor")
        assert status == 400
        assert "did you mean 'hour'" in statistics


class TestPage:
    @pytest.mark.parametrize("path", ["/dashboard", "/loops/shop/dashboard"])
    def test_page_needs_no_key_and_has_no_data(self, site: Site, path: str) -> None:
        site.decide(eventId="of-the-loop")
        reply = site.ask("GET", path, headers={"authorization": ""})
        assert reply.status_code == 200
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        assert "of-the-loop" not in reply.text

    def test_page_allows_only_its_own_style_and_script(self, site: Site) -> None:
        reply = site.ask("GET", "/dashboard")
        policy = dict(part.split(" ", 1) for part in reply.headers["content-security-policy"].split("; "))
        for name, directive in (("style", "style-src"), ("script", "script-src")):
            (content,) = re.findall(f"<{name}>(.*?)</{name}>", reply.text, re.DOTALL)
            digest = b64encode(sha256(content.encode()).digest()).decode()
            assert policy.pop(directive) == f"'sha256-{digest}'"
        assert policy == {
            "default-src": "'none'",
            "connect-src": "'self'",
            "img-src": "data:",
            "base-uri": "'none'",
            "form-action": "'none'",
            "frame-ancestors": "'none'",
        }
