"""Evaluations of a loop's log, against what is known of its world."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glbandits.service_logs.evaluation import evaluate_log
from tests.serving.http.personalizer.personalizer_site import PREVIEW, V1, Site

PATH = f"{V1}/evaluations"
SPAN = {"startTime": "2023-01-01T00:00:00Z", "endTime": "2024-01-01T00:00:00Z"}
LIKED = {"morning": "juice", "night": "pasta"}
DISHES = ("pasta", "juice", "soup")


async def visit(site: Site, luck: random.Random, place: str) -> float:
    """An event whose liked action earns 1 in 9 of 10 cases, others in 1 of 10."""
    time_of_day = luck.choice(list(LIKED))
    actions = [{"id": dish, "features": {"dish": dish}} for dish in DISHES]
    asked = {"actions": actions, "contextFeatures": [{"time": time_of_day}], "eventId": place}
    shown = (await site.ask_async("POST", f"{V1}/rank", asked)).json()["rewardActionId"]
    reward = float(luck.random() < (0.9 if shown == LIKED[time_of_day] else 0.1))
    assert (await site.ask_async("POST", f"{V1}/events/{place}/reward", {"value": reward})).status_code == 204
    return reward


def finished(site: Site, asked: dict[str, Any]) -> Any:
    path = site.ask("POST", PATH, asked).headers["location"]

    async def wait() -> Any:
        while (reply := (await site.ask_async("GET", path)).json())["status"] == "pending":
            await asyncio.sleep(0.01)
        return reply

    return site.run(asyncio.wait_for(wait(), 120))


@pytest.fixture(scope="module", name="lived")
def lived_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, list[float]]]:
    """A loop that decided 2000 events uniformly at random, and what they earned."""
    with Site(tmp_path_factory.mktemp("lived"), evaluate_log=evaluate_log) as site:
        site.ask("PUT", f"{PREVIEW}/configurations/service", {"explorationPercentage": 1.0})
        luck = random.Random(5)

        async def visits() -> list[float]:
            return [await visit(site, luck, f"e{number}") for number in range(2000)]

        yield site, site.run(visits())


def test_policies_earn_what_the_world_gives(lived: tuple[Site, list[float]]) -> None:
    """Known: any action earns 0.37, the first 0.5, a policy that has learned 0.9.

    The deviation of an estimate from 1000 events is about sqrt(3 / 1000) = 0.05 at most; margins are 3.5 of them.
    """
    site, rewards = lived
    policies = [{"name": "mine", "arguments": "optimist"}, {"name": "floored", "arguments": "optimist:floor=0.5"}]
    done = finished(site, SPAN | {"name": "first", "policies": policies})
    assert done["status"] == "completed", done
    assert done["optimalPolicy"] == "mine"
    earned = {one["name"]: one["totalSummary"] for one in done["policyResults"]}
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


def test_without_a_policy_all_events_count(lived: tuple[Site, list[float]]) -> None:
    site, rewards = lived
    done = finished(site, SPAN | {"name": "baselines", "policies": []})
    online = done["policyResults"][0]
    assert online["totalSummary"]["averageReward"] == pytest.approx(sum(rewards) / 2000)
    assert online["arguments"].startswith("optimist:{")


def test_dates_without_events_are_said(lived: tuple[Site, list[float]]) -> None:
    site, _ = lived
    done = finished(site, {"name": "none", "startTime": "2020-01-01T00:00:00Z", "endTime": "2020-02-01T00:00:00Z"})
    assert done["status"] == "failed"
    assert done["failure"].startswith("no event between 2020-01-01 00:00:00+00:00 and 2020-02-01")


def test_the_baseline_of_a_slot_is_the_action_that_it_names(tmp_path: Path) -> None:
    """It earns 1 and the others nothing. With weights of 3 in a third of 300 events, 0.4 are 5 deviations."""
    actions = [{"id": dish, "features": {"dish": dish}} for dish in DISHES]
    slots = [{"id": "top", "baselineAction": "soup"}]
    with Site(tmp_path, evaluate_log=evaluate_log) as site:
        site.ask("PUT", f"{PREVIEW}/configurations/service", {"explorationPercentage": 1.0})
        for number in range(300):
            asked = {"actions": actions, "slots": slots, "eventId": f"e{number}"}
            shown = site.ask("POST", f"{PREVIEW}/multislot/rank", asked).json()["slots"][0]["rewardActionId"]
            told = {"reward": [{"slotId": "top", "value": float(shown == "soup")}]}
            site.ask("POST", f"{PREVIEW}/multislot/events/e{number}/reward", told)
        done = finished(site, SPAN | {"name": "slots", "policies": []})
        earned = {one["name"]: one["totalSummary"]["averageReward"] for one in done["policyResults"]}
    assert earned["Baseline1"] == pytest.approx(1.0, abs=0.4)
