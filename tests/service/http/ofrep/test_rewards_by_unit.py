"""Rewards and metrics by flag and targeting key."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glbandits.service.domain.groups.experiment import MetricSettings
from glbandits.service.storage.api_keys import Keys
from tests.service.http.ofrep.flag_site import FlagSite

pytestmark = pytest.mark.usefixtures("plain_python")
ANN = {"flag": "colour", "targetingKey": "ann"}


@pytest.fixture(name="site")
def site_fixture(tmp_path: Path) -> Iterator[FlagSite]:
    with FlagSite(tmp_path) as site:
        site.configure(metrics={"revenue": MetricSettings(range=(0.0, 100.0), window=60.0)})
        yield site


def test_a_reward_is_for_the_last_decision_of_the_unit(site: FlagSite) -> None:
    first = site.evaluate("ann")
    site.now += 61_000_000
    last = site.evaluate("ann")
    site.evaluate("bob")
    reply = site.ask("POST", "/v1/reward", ANN | {"value": 1.0})
    assert reply.json() == {"eventId": last["metadata"]["eventId"], "status": "accepted"}
    assert (len(site.event(first)["rewards"]), len(site.event(last)["rewards"])) == (0, 1)


def test_a_reward_after_the_window_is_late(site: FlagSite) -> None:
    site.evaluate("ann")
    site.now += 11_000_000
    assert site.ask("POST", "/v1/reward", ANN | {"value": 1.0}).json()["status"] == "late"


def test_a_metric_is_for_the_last_decision_of_the_unit(site: FlagSite) -> None:
    found = site.evaluate("ann")
    reply = site.ask("POST", "/v1/metrics", ANN | {"metrics": {"revenue": 12.5}})
    assert reply.json()["statuses"] == {"revenue": "accepted"}
    assert [each["metric"] for each in site.event(found)["rewards"]] == ["revenue"]


def test_a_batch_accepts_rewards_by_unit(site: FlagSite) -> None:
    found = site.evaluate("ann")
    reply = site.ask(
        "POST", "/loops/colour/v1/batch", {"reward": [ANN | {"value": 1.0}, ANN | {"targetingKey": "bob", "value": 1}]}
    )
    good, bad = reply.json()["reward"]
    assert good["rewarded"]["eventId"] == found["metadata"]["eventId"]
    assert (bad["problem"]["status"], bad["problem"]["code"]) == (404, "UnknownEvent")


@pytest.mark.parametrize("call", ["reward", "metrics", "batch"])
def test_a_key_of_another_loop_cannot_reward_the_flag(site: FlagSite, call: str) -> None:
    found = site.evaluate("ann")
    key = Keys(site.service.store, site.service.clock).create("one", ("rank", "reward", "loop:plain")).text
    site.site.authenticator.refresh()
    content: dict[str, Any] = {"value": 1.0} if call == "reward" else {"metrics": {"revenue": 1.0}}
    body = {"reward": [ANN | {"value": 1.0}]} if call == "batch" else ANN | content
    headers = {"authorization": f"Bearer {key}"}
    reply = site.ask("POST", f"/loops/plain/v1/{call}", body, headers=headers)
    status = reply.json()["reward"][0]["problem"]["status"] if call == "batch" else reply.status_code
    assert (status, site.event(found)["rewards"]) == (403, [])


WRONG: list[tuple[dict[str, Any], int]] = [
    ({"value": 1.0}, 400),
    ({"value": 1.0, "flag": "colour"}, 400),
    ({"value": 1.0, "targetingKey": "ann"}, 400),
    (ANN | {"value": 1.0, "eventId": "e"}, 400),
    (ANN | {"value": 1.0, "flag": "nothing"}, 404),
    (ANN | {"value": 1.0, "targetingKey": "nobody"}, 404),
    (ANN | {"value": 5e99}, 400),
]


@pytest.mark.parametrize(("body", "status"), WRONG)
def test_a_reward_without_one_decision_is_refused(site: FlagSite, body: dict[str, Any], status: int) -> None:
    site.evaluate("ann")
    reply = site.ask("POST", "/v1/reward", body)
    assert reply.status_code == status, reply.text
