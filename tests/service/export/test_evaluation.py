"""Evaluations of a loop's log, against what is known of its world."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glbandits.service.export.evaluation import evaluate_log
from tests.service.http.personalizer.personalizer_site import PREVIEW, V1, Site

pytestmark = pytest.mark.system

PATH = f"{V1}/evaluations"
SPAN = {"startTime": "2023-01-01T00:00:00Z", "endTime": "2024-01-01T00:00:00Z"}
LIKED = {"morning": "juice", "night": "pasta"}
DISHES = ("pasta", "juice", "soup")


async def visit(site: Site, rng: random.Random, event_id: str) -> float:
    """Send an event and its reward: 1 with probability 0.9 for the liked action, 0.1 for the others."""
    time_of_day = rng.choice(list(LIKED))
    actions = [{"id": dish, "features": {"dish": dish}} for dish in DISHES]
    body = {"actions": actions, "contextFeatures": [{"time": time_of_day}], "eventId": event_id}
    shown = (await site.ask_async("POST", f"{V1}/rank", body)).json()["rewardActionId"]
    reward = float(rng.random() < (0.9 if shown == LIKED[time_of_day] else 0.1))
    assert (await site.ask_async("POST", f"{V1}/events/{event_id}/reward", {"value": reward})).status_code == 204
    return reward


def finished(site: Site, request: dict[str, Any]) -> Any:
    path = site.ask("POST", PATH, request).headers["location"]

    async def wait() -> Any:
        while (reply := (await site.ask_async("GET", path)).json())["status"] == "pending":
            await asyncio.sleep(0.01)
        return reply

    return site.run(asyncio.wait_for(wait(), 300))


@pytest.fixture(scope="module", name="lived")
def lived_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, list[float]]]:
    """A loop with 2000 uniformly random decisions, and their rewards."""
    with Site(tmp_path_factory.mktemp("lived"), evaluate_log=evaluate_log) as site:
        site.ask("PUT", f"{PREVIEW}/configurations/service", {"explorationPercentage": 1.0})
        rng = random.Random(5)

        async def visits() -> list[float]:
            return [await visit(site, rng, f"e{number}") for number in range(2000)]

        yield site, site.run(visits())


def test_estimates_are_near_the_true_rewards(lived: tuple[Site, list[float]]) -> None:
    """True mean rewards: 0.37 for a random action, 0.5 for the first, 0.9 for a policy that has learned.

    The deviation of an estimate from 1000 events is about sqrt(3 / 1000) = 0.05 at most; margins are 3.5 of them.
    """
    site, rewards = lived
    policies = [{"name": "mine", "arguments": "optimist"}, {"name": "floored", "arguments": "optimist:floor=0.5"}]
    done = finished(site, SPAN | {"name": "first", "policies": policies})
    assert done["status"] == "completed", done
    assert done["optimalPolicy"] == "mine"
    earned = {result["name"]: result["totalSummary"] for result in done["policyResults"]}
    assert list(earned) == ["Online", "Baseline1", "BaselineRand", "mine", "floored"]
    assert earned["Online"]["averageReward"] == pytest.approx(sum(rewards[1000:]) / 1000)
    known = {"Online": 0.37, "Baseline1": 0.5, "BaselineRand": 0.37, "mine": 0.9, "floored": 0.63}
    for name, value in known.items():
        assert earned[name]["averageReward"] == pytest.approx(value, abs=0.18)
        assert earned[name]["ipsEstimatorDenominator"] == 1000
        assert earned[name]["ipsEstimatorNumerator"] == pytest.approx(1000 * earned[name]["averageReward"])
    assert earned["BaselineRand"]["snipsEstimatorDenominator"] == pytest.approx(1000)
    assert 0.02 < earned["Baseline1"]["confidenceInterval"] < 0.15
    assert earned["Baseline1"]["nonZeroProbability"] == pytest.approx(333, abs=60)


def test_without_a_policy_all_events_are_used(lived: tuple[Site, list[float]]) -> None:
    site, rewards = lived
    done = finished(site, SPAN | {"name": "baselines", "policies": []})
    online = done["policyResults"][0]
    assert online["totalSummary"]["averageReward"] == pytest.approx(sum(rewards) / 2000)
    assert online["arguments"].startswith("optimist:{")


def test_dates_without_events_fail(lived: tuple[Site, list[float]]) -> None:
    site, _ = lived
    done = finished(site, {"name": "none", "startTime": "2020-01-01T00:00:00Z", "endTime": "2020-02-01T00:00:00Z"})
    assert done["status"] == "failed"
    assert done["failure"].startswith("no event between 2020-01-01 00:00:00+00:00 and 2020-02-01")


def test_baseline_of_a_slot_is_its_baseline_action(tmp_path: Path) -> None:
    """The baseline action earns 1, the others 0. With weights of 3 in a third of 300 events, 0.4 are 5 deviations."""
    actions = [{"id": dish, "features": {"dish": dish}} for dish in DISHES]
    slots = [{"id": "top", "baselineAction": "soup"}]
    with Site(tmp_path, evaluate_log=evaluate_log) as site:
        site.ask("PUT", f"{PREVIEW}/configurations/service", {"explorationPercentage": 1.0})
        for number in range(300):
            body = {"actions": actions, "slots": slots, "eventId": f"e{number}"}
            shown = site.ask("POST", f"{PREVIEW}/multislot/rank", body).json()["slots"][0]["rewardActionId"]
            rewards = {"reward": [{"slotId": "top", "value": float(shown == "soup")}]}
            site.ask("POST", f"{PREVIEW}/multislot/events/e{number}/reward", rewards)
        done = finished(site, SPAN | {"name": "slots", "policies": []})
        earned = {result["name"]: result["totalSummary"]["averageReward"] for result in done["policyResults"]}
    assert earned["Baseline1"] == pytest.approx(1.0, abs=0.4)
