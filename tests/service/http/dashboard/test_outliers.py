"""Outliers and warnings: status, statistics, metrics and the log."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from glbandits.common.arrays import Floats
from glbandits.policies import Optimist
from glbandits.policies.contract import Outliers
from tests.service.http.v1.v1_site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as site:
        yield site


def reward(site: Site, *values: float) -> None:
    """Make a decision for each reward, and learn them."""
    for value in values:
        event = site.decide()["eventId"]
        assert site.ask("POST", "/v1/reward", {"eventId": event, "value": value}).status_code in (200, 204)
    site.learn()


@pytest.fixture
def limiting(monkeypatch: pytest.MonkeyPatch) -> list[Outliers]:
    """Let models report the first of these outliers, and the second one after two rewards."""
    reported = [Outliers(), Outliers()]

    def outliers(policy: Optimist, state: Floats, dim: int) -> Outliers:
        return reported[int(policy.layout.parts(state, dim)["count"][0] >= 2)]

    monkeypatch.setattr(Optimist, "outliers", outliers)
    return reported


def test_outliers_are_counted_in_statistics_and_metrics(site: Site, limiting: list[Outliers]) -> None:
    limiting[1] = Outliers(rewards=3, values=5, features={0: 1, 1: 4})
    reward(site, 1.0)
    learner = site.ask("GET", "/v1/statistics").json()["learner"]
    assert (learner["outlyingRewards"], learner["outlyingValues"]) == (0, 0)
    reward(site, 1.0, 0.0)
    learner = site.ask("GET", "/v1/statistics").json()["learner"]
    assert (learner["outlyingRewards"], learner["outlyingValues"]) == (3, limiting[1].values)
    metrics = site.ask("GET", "/metrics").text
    for name, value in (("glb_outlying_rewards", "3.0"), ("glb_outlying_values", f"{limiting[1].values}.0")):
        (line,) = (line for line in metrics.splitlines() if line.startswith(f'{name}{{loop="default"'))
        assert line.endswith(f" {value}")


def test_outliers_are_logged_once(site: Site, limiting: list[Outliers], caplog: pytest.LogCaptureFixture) -> None:
    limiting[1] = Outliers(rewards=3, values=4, features={1: 4})
    caplog.set_level(logging.WARNING)
    reward(site, 1.0)
    assert caplog.messages == []
    reward(site, 1.0, 0.0)
    reward(site, 1.0)
    assert caplog.messages == [
        "Loop default: rewards far outside everything seen before are limited.",
        "Loop default: values of 1 features far outside everything seen before are limited. The first: 1.",
    ]


def test_warnings_of_a_loop_are_in_its_status_and_in_readyz(site: Site) -> None:
    loop = site.service.loop("default")
    site.service.start()
    assert site.ask("GET", "/v1/status").json()["warnings"] == []
    loop.published = loop.published._replace(set_aside=2, invalidating=2)
    sentence = "loop default: 2 decisions were set aside, because learning them would have made the model invalid"
    assert site.ask("GET", "/v1/status").json()["warnings"] == [sentence]
    ready = site.ask("GET", "/readyz")
    assert (ready.status_code, ready.json()) == (
        200,
        {"status": "ready", "setAside": {"default": 2}, "warnings": [sentence]},
    )
