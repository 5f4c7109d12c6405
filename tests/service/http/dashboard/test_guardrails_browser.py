"""The comparison of treatment and control on the dashboard, in a real browser at a real server."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import PHONE, WIDE, chromium
from tests.service.http.dashboard.dashboard_page import CONTRASTS, READY, enter, seen, show, text, visit
from tests.service.http.servers.server_process import Running, ask, eventually, running

pytestmark = pytest.mark.system

HOSTILE = '<img src=x onerror="document.title=1">'
LONG = "m" * 64
ARMS = [[1.0, 0.0], [0.0, 1.0]]
UNITS = 320
NAMES = ["returned", HOSTILE, LONG, *(f"metric {number}" for number in range(17))]
SETTINGS: dict[str, Any] = {
    "width": 2,
    "rewardWait": 0.5,
    "modelUpdate": 0.1,
    "rewardRange": [0, 1],
    "control": {"share": 0.5},
    "metrics": {
        name: {
            "range": [0, 1000],
            "good": "lower",
            "default": 0,
            "window": "3s",
            "margin": 50,
            "action": "fallback" if name == "returned" else "alert",
        }
        for name in NAMES
    },
}
ALERTS = NAMES[1:8]
"""Metrics of the loop `alerts` that are worse in treatment."""


def write_visits(server: Running, loop: str, harmed: list[str]) -> None:
    """Decisions of units; the second arm has a reward, and some metrics are worse in treatment."""
    connection, key = server.connect(), server.key
    for start in range(0, UNITS, 64):
        visits = [f"visit-{number:03}" for number in range(start, start + 64)]
        decide = [{"eventId": visit, "arms": ARMS, "unit": visit} for visit in visits]
        reply = ask(connection, "POST", f"/loops/{loop}/v1/batch", {"decide": decide}, key)
        rewards = [
            {"eventId": one["decided"]["eventId"], "value": one["decided"]["arm"]} for one in reply.json["decide"]
        ]
        events = ask(connection, "GET", f"/loops/{loop}/v1/events?limit=64", None, key).json["events"]
        metrics = [
            {
                "eventId": event["eventId"],
                "metrics": {HOSTILE: 7} | dict.fromkeys(harmed, 1000 * (event["group"] == "treatment")),
            }
            for event in events
        ]
        sent = {"reward": rewards, "metrics": metrics}
        assert ask(connection, "POST", f"/loops/{loop}/v1/batch", sent, key).status == 200
    connection.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with loops of 20 metrics.

    The guardrail of `returned` has stopped the default loop. In `alerts`, seven guardrails have raised an alarm.
    The others have no decisions.
    """
    with running(tmp_path_factory.mktemp("server"), "--loops", "default,alerts,guarded,plain") as server:
        for loop in ("default", "alerts", "guarded"):
            assert server.ask("PUT", f"/loops/{loop}/v1/configuration", SETTINGS).status == 200
        write_visits(server, "default", ["returned"])
        write_visits(server, "alerts", ALERTS)
        assert eventually(lambda: server.ask("GET", "/v1/guardrails").json["state"] == "fallback")
        again = {"eventId": "stopped", "arms": ARMS, "unit": "visit-000"}
        assert server.ask("POST", "/v1/decide", again).status == 200
        assert eventually(lambda: server.ask("GET", "/v1/statistics").json["decisions"] == UNITS + 1)
        yield server


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture(
    scope="module",
    params=[(WIDE, "light"), (PHONE, "dark")],
    ids=["wide", "phone-dark"],
)
def stopped(request: pytest.FixtureRequest, browser: Any, server: Running) -> Any:
    """The dashboard of the stopped loop, with everything drawn."""
    size, scheme = request.param
    visit(browser, f"{server.address}/dashboard", size, scheme)
    enter(browser, server.key)
    seen(browser, READY)
    return browser


def test_a_stopped_loop_says_so_at_the_top(stopped: Any, server: Running) -> None:
    assert text(stopped, "headline") == "Stopped by a guardrail"
    sentence = server.ask("GET", "/v1/guardrails").json["sentence"]
    assert text(stopped, "stopped-sentence") == sentence
    assert "returned" in sentence
    above = stopped.execute_script(
        "const [first, second] = ['stopped', 'answer'].map(id => document.getElementById(id).getBoundingClientRect());"
        "return first.height > 0 && first.bottom <= second.top"
    )
    assert above
    assert text(stopped, "guardrails-state").startswith("Stopped by a guardrail since ")
    assert f"curl -X POST {server.address}/v1/guardrails/resume" in text(stopped, "stopped")


def test_a_stopped_loop_promises_no_verdict(stopped: Any) -> None:
    """Decisions of a stopped loop do not count, so it would never come."""
    page = stopped.execute_script("return document.getElementById('answer').innerText")
    assert "Past decisions" in page
    assert "more" not in page
    assert "Present model" not in page


def test_every_metric_has_means_a_chart_and_a_state(stopped: Any) -> None:
    figures = stopped.execute_script(
        "return [...document.querySelectorAll('#metrics figure')].map(one => one.innerText)"
    )
    assert len(figures) == 1 + len(NAMES)
    (returned,) = (figure for figure in figures if figure.startswith("returned"))
    assert "alarm since " in returned
    assert "Treatment1000 ± 0" in returned
    assert "Control0 ± 0" in returned
    assert "Limit\n+50" in returned
    drawn = "return [...document.querySelectorAll('#metrics figure')].map(one => one.querySelectorAll('.band').length)"
    assert set(stopped.execute_script(drawn)[1:]) == {1}
    assert "units are in control" in text(stopped, "sample-ratio")


def test_page_of_a_stopped_loop_is_readable(stopped: Any) -> None:
    contrasts = stopped.execute_script(CONTRASTS)
    assert contrasts[0][0] >= 4.5, contrasts[0]
    assert stopped.get_log("browser") == []
    unlabelled = "return [...document.querySelectorAll('#metrics svg')].filter(one => !one.ariaLabel).length"
    assert stopped.execute_script(unlabelled) == 0


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_alarms_are_in_the_headline_and_in_a_short_list(browser: Any, server: Running, size: tuple[int, int]) -> None:
    assert eventually(lambda: server.ask("GET", "/loops/alerts/v1/guardrails").json["sentence"].endswith("margin."))
    show(browser, server, path="/loops/alerts", size=size)
    assert text(browser, "headline") == "Better than the baseline so far, but 7 guardrails act"
    assert browser.execute_script("return document.getElementById('answer').dataset.verdict") == "warned"
    lines = browser.execute_script("return [...document.querySelectorAll('#problems li')].map(one => one.innerText)")
    assert len(lines) == 6
    assert lines[5] == "and 2 more"
    assert all(line.startswith(f"{name}: now +") for line, name in zip(lines[:5], ALERTS, strict=False))
    assert "limit +50, alarm since " in lines[0]
    assert text(browser, "remark") == ""
    assert "and 4 more got worse" in text(browser, "guardrails-sentence")
    outside = browser.execute_script(
        "return [...document.querySelectorAll('#board *')].filter(one => one.getClientRects().length"
        " && !one.closest('.scroll') && one.scrollWidth > one.clientWidth + 1"
        " && getComputedStyle(one).overflowX === 'visible' && getComputedStyle(one).display !== 'inline')"
        ".map(one => one.outerHTML.slice(0, 80))"
    )
    assert outside == []


def test_tables_of_metrics_stay_open_when_the_page_refreshes(browser: Any, server: Running) -> None:
    show(browser, server)
    browser.execute_script("document.querySelectorAll('#metrics details').forEach(one => { one.open = true })")
    figure = "document.querySelectorAll('#metrics figure')[1]"
    head = seen(browser, f"return {figure}.querySelector('thead')?.innerText")
    assert head.strip().split("\t") == ["From", "Units", "Difference", "Limit", "Treatment", "Control"]
    before = text(browser, "live-text")
    seen(browser, f"return document.getElementById('live-text').textContent !== '{before}'")
    assert browser.execute_script(f"return {figure}.querySelectorAll('tbody tr').length") == UNITS // 32 - 1


def test_events_show_their_group_and_metrics(browser: Any, server: Running) -> None:
    show(browser, server)
    lines = browser.execute_script("return [...document.querySelectorAll('.event .what')].map(one => one.textContent)")
    assert "fallback" in lines[0]
    assert any("control" in line for line in lines[2:])
    browser.find_element("id", "prefix").send_keys("visit-319")
    seen(browser, "return document.querySelectorAll('.event').length === 1")
    browser.execute_script("document.querySelector('.event').open = true")
    opened = seen(
        browser, "return document.querySelector('.event table') && document.querySelector('.event').innerText"
    )
    assert "Grouptreatment" in opened or "Groupcontrol" in opened
    assert "Hash of the unit" in opened
    assert HOSTILE in opened
    assert browser.execute_script("return document.images.length") == 0


def test_loop_without_control_group_has_no_section(browser: Any, server: Running) -> None:
    visit(browser, f"{server.address}/loops/plain/dashboard")
    enter(browser, server.key)
    seen(browser, "return document.getElementById('live').dataset.state === 'live'")
    hidden = "return ['guardrails', 'stopped'].map(id => document.getElementById(id).hidden)"
    assert browser.execute_script(hidden) == [True, True]
