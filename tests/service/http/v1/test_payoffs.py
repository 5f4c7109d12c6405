"""Decisions with the value and the cost of each arm."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits.evaluation import evaluate
from glbandits.evaluation.readers.service_export import read_export
from glbandits.service.export.loop_export import export_loop
from glbandits.service.runtime.replay.replay_verification import verify
from tests.service.http.v1.v1_site import ARMS, Site

VALUES, COSTS = [1.0, 2.0, 50.0], [0.0, 0.1, -0.2]


def probabilities(site: Site, **sent: Any) -> list[float]:
    result: list[float] = site.decide(**sent)["probabilities"]
    return result


def learn_rewards(site: Site) -> None:
    """Let the loop learn that the first arm has the highest reward."""
    for number in range(30):
        arm = number % 3
        site.decide(eventId=f"old{number}", excluded=[other for other in range(3) if other != arm])
        site.ask("POST", "/v1/reward", {"eventId": f"old{number}", "value": [0.9, 0.2, 0.5][arm]})
    site.learn()


def test_values_and_costs_change_the_probabilities(site: Site) -> None:
    learn_rewards(site)
    own = site.service.loop("default").published.bandit
    expected = own.exact_probabilities(np.array(ARMS), values=VALUES, costs=COSTS)
    assert expected is not None
    assert probabilities(site, values=VALUES, costs=COSTS) == (0.7 * expected + 0.3 / 3).tolist()
    assert np.argmax(probabilities(site)) == 0
    assert np.argmax(probabilities(site, values=VALUES)) == 2
    assert np.argmax(probabilities(site, values=[1, 1, 1], costs=[0.9, 0.2, 0.9])) == 1
    without = own.exact_probabilities(np.array(ARMS)[1:], values=VALUES[1:], costs=COSTS[1:])
    assert without is not None
    assert probabilities(site, values=VALUES, costs=COSTS, excluded=[0])[1:] == (0.7 * without + 0.3 / 2).tolist()


def test_payoffs_are_logged_repeated_and_replayed(site: Site) -> None:
    learn_rewards(site)
    first = site.decide(eventId="e", values=VALUES, costs=COSTS)
    assert site.decide(eventId="e", values=VALUES, costs=COSTS) == first
    assert "payoffs" in site.refusal("POST", "/v1/decide", {"eventId": "e", "arms": ARMS, "values": VALUES})[1]
    record = site.ask("GET", "/v1/events/e").json()
    assert (record["values"], record["costs"]) == (VALUES, COSTS)
    for event_id, payoffs in (("e", list(zip(VALUES, COSTS, strict=True))), ("old0", [(None, None)] * 3)):
        [slot] = site.ask("GET", f"/v1/events/{event_id}/explanation").json()["slots"]
        assert [(action["value"], action["cost"]) for action in slot["actions"]] == payoffs
    free = site.decide(eventId="free", values=VALUES)
    assert site.decide(eventId="free", values=VALUES, costs=[0, 0, 0]) == free
    batch = {"decide": [{"arms": ARMS, "eventId": "f", "values": VALUES}], "reward": [{"eventId": "f", "value": 1}]}
    assert site.ask("POST", "/v1/batch", batch).json()["decide"][0]["decided"]["eventId"] == "f"
    ranking = {"arms": ARMS, "k": 3, "eventId": "r", "values": VALUES, "costs": COSTS}
    assert site.ask("POST", "/v1/rank", ranking).status_code == 200
    site.learn()
    result = verify(site.service.store, "default")
    assert (result.decisions, result.sound) == (36, True)
    assert site.ask("GET", "/v1/statistics?window=all").json()["withValues"] == 6


def test_the_model_learns_plain_rewards(site: Site) -> None:
    for loop in ("default", "shop"):
        more = {"values": VALUES, "costs": COSTS} if loop == "shop" else {}
        sent = {"arms": ARMS, "eventId": "e", "excluded": [1, 2]} | more
        assert site.ask("POST", f"/loops/{loop}/v1/decide", sent).status_code == 200
        assert site.ask("POST", f"/loops/{loop}/v1/reward", {"eventId": "e", "value": 1}).status_code == 200
    site.learn()
    site.service.loop("shop").learn()
    plain, with_payoffs = (site.service.loop(name).published.bandit.state for name in ("default", "shop"))
    assert np.array_equal(plain, with_payoffs)


def test_payoffs_of_allowed_actions_are_exported(site: Site, tmp_path: Path) -> None:
    site.decide(eventId="plain")
    site.decide(eventId="values", values=VALUES)
    site.decide(eventId="both", values=VALUES, costs=COSTS, excluded=[0])
    site.learn()
    export_loop(site.service.store, "default", folder := tmp_path / "out")
    table = pl.read_parquet(folder / "*.parquet")
    assert table["values"].to_list() == [None, VALUES, VALUES[1:]]
    assert table["costs"].to_list() == [None, [0.0] * 3, COSTS[1:]]
    assert table.schema["costs"] == table.schema["values"] == pl.List(pl.Float64)


def test_exported_payoffs_are_evaluated(site: Site, tmp_path: Path) -> None:
    expected = []
    for number in range(40):
        decided = site.decide(eventId=f"e{number}", values=VALUES, costs=COSTS)
        site.ask("POST", "/v1/reward", {"eventId": f"e{number}", "value": number % 2})
        payoff = VALUES[decided["arm"]] * (number % 2) - COSTS[decided["arm"]]
        expected.append(payoff / 3 / decided["probability"])
        if number == 20:
            site.learn()
    site.learn()
    export_loop(site.service.store, "default", folder := tmp_path / "out")
    assert evaluate(read_export(folder), "uniform", "ips")["ips"].value == pytest.approx(np.mean(expected), rel=1e-9)


@pytest.mark.parametrize(
    ("payoffs", "message"),
    [
        ({"values": [1, 2]}, "values"),
        ({"values": [1, 2, -1]}, "values"),
        ({"costs": COSTS}, "costs"),
        ({"values": [1, 2, "3"]}, "got `str`"),
        ({"values": VALUES, "excluded": [0], "costs": [0, 0]}, "costs"),
    ],
)
def test_invalid_payoffs_are_refused_and_not_stored(site: Site, payoffs: Any, message: str) -> None:
    status, detail = site.refusal("POST", "/v1/decide", {"arms": ARMS, "eventId": "e"} | payoffs)
    assert status == 400
    assert message in detail
    assert site.service.store.decision("default", "e") is None
