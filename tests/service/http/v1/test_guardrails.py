"""Guardrails over HTTP."""

from typing import Any

import numpy as np
import pytest

from glbandits.service.domain.events import Event, Group
from tests.service.helpers import decision, metric
from tests.service.http.v1.v1_site import Site

METRICS = {
    "reward": {"range": [0, 1], "window": "1m", "action": "none"},
    "returned": {"range": [0, 1], "good": "lower", "window": "1m", "action": "fallback"},
}
PATHS = ("/v1/guardrails", "/loops/default/v1/guardrails", "/v1/loops/default/guardrails")


def configure(site: Site, **changed: Any) -> None:
    sent = {"control": {"share": 0.2}, "metrics": METRICS} | changed
    reply = site.ask("PATCH", "/v1/configuration", sent)
    assert reply.status_code == 200, reply.text


def write_units(site: Site, units: int, first: int = 0) -> None:
    """Units of treatment return 60 %, those of control 30 %."""
    rng, events = np.random.default_rng(first), list[Event]()
    for number in range(first, first + units):
        name, treated = f"unit {number}", number % 5 > 0
        group = Group.TREATMENT if treated else Group.CONTROL
        fields: dict[str, Any] = {"loop": "default", "unit": name, "group": group, "control_share": 0.2}
        events.append(decision(name, site.now, **fields))
        returned = float(rng.random() < (0.6 if treated else 0.3))
        events.append(metric(name, "returned", returned, site.now, loop="default", window=60_000_000))
    site.service.store.append_blocking(events)


def look(site: Site) -> None:
    site.now += 71_000_000
    loop = site.service.loop("default")
    loop.learn()
    while loop.guardrails.is_behind:
        loop.learn()


@pytest.fixture
def stopped(site: Site) -> Site:
    """A loop that a guardrail has stopped."""
    configure(site)
    write_units(site, 400)
    look(site)
    return site


def test_a_loop_without_control_says_so(site: Site) -> None:
    report = site.ask("GET", "/v1/guardrails").json()
    assert report["state"] == "off"
    assert report["control"] is report["sampleRatio"] is report["fallbackSince"] is None
    assert report["metrics"] == []


def test_all_addresses_return_the_comparison(stopped: Site) -> None:
    reports = [stopped.ask("GET", path).json() for path in PATHS]
    assert reports[0] == reports[1] == reports[2]
    report = reports[0]
    assert report["loop"] == "default"
    assert report["state"] == "fallback"
    assert report["control"]["share"] == report["sampleRatio"]["expectedShare"] == 0.2
    assert report["sampleRatio"]["treatment"] + report["sampleRatio"]["control"] == 384
    returned = report["metrics"][1]
    assert returned["name"] == "returned"
    assert (returned["state"], returned["action"], returned["good"]) == ("alarm", "fallback", "lower")
    assert returned["alarmedAt"] == report["fallbackSince"]
    assert 0.0 < returned["low"] < returned["difference"] < returned["high"]
    assert returned["treatment"]["units"] == report["sampleRatio"]["treatment"]
    assert [point["units"] for point in returned["points"]] == list(range(64, 385, 32))
    assert set(returned["points"][0]) == {"at", "units", "treatment", "control", "difference", "low", "high"}
    assert any("stopped the loop" in warning for warning in site_warnings(stopped))


def site_warnings(site: Site) -> list[str]:
    warnings: list[str] = site.ask("GET", "/v1/status").json()["warnings"]
    return warnings


def test_readiness_shows_nothing_of_the_comparison(stopped: Site) -> None:
    stopped.service.start()
    reply = stopped.ask("GET", "/readyz", headers={"authorization": ""})
    assert reply.status_code == 200, reply.text
    found = "its guardrails have found something; GET /v1/loops/default/guardrails says what"
    assert reply.json()["warnings"] == [f"loop default: {found}"]


@pytest.mark.parametrize("path", PATHS)
def test_a_person_ends_the_fallback_once(stopped: Site, path: str) -> None:
    narrow = {"authorization": f"Bearer {stopped.narrow_key}"}
    assert stopped.refusal("POST", f"{path}/resume", headers=narrow)[0] == 403
    report = stopped.ask("POST", f"{path}/resume").json()
    assert (report["state"], report["fallbackSince"], report["metrics"][1]["state"]) == ("running", None, "early")
    assert stopped.ask("GET", path).json() == report
    status, detail = stopped.refusal("POST", f"{path}/resume")
    assert (status, detail) == (400, "loop default is not in fallback, so there is nothing to resume")
    assert site_warnings(stopped) == []
    write_units(stopped, 64, first=400)
    look(stopped)
    assert stopped.ask("GET", path).json()["metrics"][1]["treatment"]["units"] == 51


def test_a_resumption_with_a_body_is_refused(stopped: Site) -> None:
    status, detail = stopped.refusal("POST", "/v1/guardrails/resume", {"x": 1})
    assert status == 400
    assert "has no body" in detail
    assert stopped.ask("GET", "/v1/guardrails").json()["state"] == "fallback"
    assert stopped.ask("POST", "/v1/guardrails/resume", {}).json()["state"] == "running"


def test_fallback_stays_when_control_is_switched_off(stopped: Site) -> None:
    configure(stopped, control=None)
    report = stopped.ask("GET", "/v1/guardrails").json()
    assert (report["state"], report["control"], report["metrics"]) == ("fallback", None, [])
    assert stopped.ask("POST", "/v1/guardrails/resume").json()["state"] == "off"


def test_models_and_relearning_do_not_touch_guardrails(stopped: Site) -> None:
    before = stopped.ask("GET", "/v1/guardrails").json()
    assert stopped.ask("PATCH", "/v1/configuration", {"resetModel": True}).status_code == 200
    look(stopped)
    assert stopped.ask("GET", "/v1/guardrails").json() == before


def test_prometheus_has_alarms_fallback_and_units(stopped: Site) -> None:
    text = stopped.ask("GET", "/metrics").text
    assert 'glb_guardrail_alarm{loop="default",metric="returned"} 1.0' in text
    assert 'glb_guardrail_alarm{loop="default",metric="reward"} 0.0' in text
    assert 'glb_fallback{loop="default"} 1.0' in text
    assert 'glb_fallback{loop="shop"} 0.0' in text
    assert 'glb_units{group="control",loop="default"} 77.0' in text


def test_a_window_longer_than_the_retention_is_refused(site: Site) -> None:
    metrics = {"returned": {"range": [0, 1], "window": "8d"}}
    status, detail = site.refusal("PATCH", "/v1/configuration", {"metrics": metrics, "retentionDays": 7})
    assert status == 400
    assert "the window of metric 'returned' must be at most retentionDays" in detail
    assert site.ask("PATCH", "/v1/configuration", {"metrics": metrics, "retentionDays": 8}).status_code == 200
