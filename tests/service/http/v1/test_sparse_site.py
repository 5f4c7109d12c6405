"""A sparse loop behind the endpoints: Rank, Reward, configuration, model, events, explanations and the dashboard."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glbandits import Bandit
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.runtime.service import warm_up
from tests.service.http.served_site import ServedSite

WIDE = 2**24
CONFIGURATION = LoopConfig(width=WIDE, reward_wait=10.0)


@pytest.fixture(name="site")
def site_fixture(tmp_path: Path) -> Iterator[ServedSite]:
    with ServedSite(tmp_path, configuration=CONFIGURATION) as site:
        yield site


def rank(site: ServedSite, event_id: str, user: str = "anna", **more: Any) -> Any:
    actions = [{"id": name, "features": [{"topic": name}]} for name in ("news", "sports")]
    content = {"eventId": event_id, "contextFeatures": [{"user": user}], "actions": actions} | more
    return site.ask("POST", "/personalizer/v1.0/rank", content)


def settle(site: ServedSite) -> None:
    site.now += 20_000_000
    for loop in site.service.loops.values():
        loop.learn()


def test_ranks_rewards_and_learns(site: ServedSite) -> None:
    for number in range(30):
        reply = rank(site, f"e{number}")
        assert reply.status_code in (200, 201), reply.text
        value = float(reply.json()["rewardActionId"] == "sports")
        assert site.ask("POST", f"/personalizer/v1.0/events/e{number}/reward", {"value": value}).status_code == 204
    settle(site)
    ranking = {one["id"]: one["probability"] for one in rank(site, "after").json()["ranking"]}
    assert ranking["sports"] == pytest.approx(0.9)  # 0.2 of the decisions are random
    status = site.ask("GET", "/v1/status").json()
    assert (status["width"], status["sparse"]) == (WIDE, True)
    explained = site.ask("GET", "/v1/events/after/explanation").json()["slots"][0]["actions"]
    assert {"user=anna", "topic=sports", "user=anna * topic=sports"} <= {
        term["feature"] for term in explained[1]["contributions"]
    }
    figures = site.ask("GET", "/v1/statistics")
    assert figures.status_code == 200, figures.text


def test_model_is_exported(site: ServedSite, tmp_path: Path) -> None:
    rank(site, "e")
    settle(site)
    content = site.ask("GET", "/v1/model").content
    (tmp_path / "model").write_bytes(content)
    bandit = Bandit.load(tmp_path / "model")
    assert bandit.sparse
    assert bandit.dim == WIDE


def test_configuration_says_whether_the_loop_is_sparse(site: ServedSite) -> None:
    assert site.ask("GET", "/v1/configuration").json()["sparse"] is None
    for sent, sparse in (({"width": 4096}, False), ({"sparse": True}, True), ({"width": 2**20, "sparse": None}, True)):
        assert site.ask("PATCH", "/v1/configuration", sent).status_code == 200
        assert site.ask("GET", "/v1/status").json()["sparse"] is sparse
        assert rank(site, f"e {sent}").status_code == 201
    for wrong, message in (
        ({"policy": "lin-ts", "settings": {}}, "lin-ts has no sparse form"),
        ({"width": 2**24 + 1}, "at most 16777216"),
        ({"sparse": "yes"}, "sparse"),
    ):
        reply = site.ask("PATCH", "/v1/configuration", wrong)
        assert reply.status_code == 400
        assert message in reply.text, reply.text
    assert site.ask("GET", "/v1/configuration").json()["width"] == 2**20


def test_vectors_need_the_width_of_the_loop(site: ServedSite) -> None:
    reply = site.ask("POST", "/v1/decide", {"arms": [[1.0, 0.0], [0.0, 1.0]]})
    assert reply.status_code == 400
    assert "an action must have 16777216 features, the width of the loop; got 2" in reply.text
    site.ask("PATCH", "/v1/configuration", {"width": 2, "sparse": True})
    assert site.ask("POST", "/v1/decide", {"arms": [[1.0, 0.0], [0.0, 1.0]]}).status_code == 200


def test_warm_up_costs_nothing_for_the_width(site: ServedSite) -> None:
    before = site.service.loops["default"].published.bandit.state.tobytes()
    warm_up(site.service.loops["default"])
    assert site.service.loops["default"].published.bandit.state.tobytes() == before
