"""The dashboard in a real browser: headless Chromium, driven by Selenium, at a real server."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import PHONE, WIDE, chromium
from tests.service.http.dashboard.dashboard_page import CONTRASTS, READY, enter, seen, show, text, visit
from tests.service.http.servers.server_process import Running, ask, running

pytestmark = pytest.mark.system

HOSTILE = '<img src=x onerror="document.title=1">'
ARMS = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
DECISIONS = 400


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose default loop has learned that the first of three arms, the baseline, is the worst."""
    with running(tmp_path_factory.mktemp("server"), "--loops", "default,quiet,even,unlimited") as server:
        connection = server.connect()
        settings = {"width": 2, "rewardWait": 0.5, "exploration": 0.5, "modelUpdate": 0.1, "rewardRange": [0, 1]}
        assert ask(connection, "PUT", "/v1/configuration", settings, server.key).status == 200
        for number in range(0, DECISIONS, 50):
            decide = [
                {"eventId": f"visit-{number + one:03}", "arms": ARMS, "ids": ["a", "b", "c"]} for one in range(50)
            ]
            made = ask(connection, "POST", "/v1/batch", {"decide": decide}, server.key).json["decide"]
            rewards = [
                {"eventId": one["decided"]["eventId"], "value": float(one["decided"]["arm"] > 0)} for one in made
            ]
            ask(connection, "POST", "/v1/batch", {"reward": rewards}, server.key)
        hostile = {"eventId": HOSTILE, "arms": ARMS, "ids": [HOSTILE, f"{HOSTILE}2", "c"], "excluded": [1, 2]}
        ask(connection, "POST", "/v1/decide", hostile, server.key)
        ask(connection, "POST", "/v1/reward", {"eventId": HOSTILE, "value": 0.25, "key": HOSTILE}, server.key)
        play_evenly(connection, server.key)
        connection.close()
        until(lambda: server.ask("GET", "/v1/statistics").json["decisions"] == DECISIONS + 1)
        yield server


def play_evenly(connection: Any, key: str | None) -> None:
    """Let all decisions of the loop `even` have the same reward, the last one by a policy without coefficients."""
    path = "/loops/even/v1"
    settings = {"width": 2, "rewardWait": 0.5, "exploration": 1.0, "modelUpdate": 0.1, "rewardRange": [0, 1]}
    assert ask(connection, "PUT", f"{path}/configuration", settings, key).status == 200
    decide = [{"eventId": f"even-{number}", "arms": ARMS} for number in range(300)]
    assert ask(connection, "POST", f"{path}/batch", {"decide": decide}, key).status == 200
    rewards = [{"eventId": one["eventId"], "value": 1.0} for one in decide]
    assert ask(connection, "POST", f"{path}/batch", {"reward": rewards}, key).status == 200
    assert ask(connection, "PATCH", f"{path}/configuration", {"policy": "uniform", "settings": {}}, key).status == 200
    requested = {"eventId": "last", "arms": ARMS, "ids": ["a", "b", "c"], "excluded": [1, 2]}
    assert ask(connection, "POST", f"{path}/decide", requested, key).status == 200
    for value, status in ((5.0, 400), (1.0, 200)):
        assert ask(connection, "POST", f"{path}/reward", {"eventId": "last", "value": value}, key).status == status


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


def until(condition: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.1)


@pytest.fixture(
    scope="module",
    params=[(WIDE, "light"), (PHONE, "dark")],
    ids=["wide", "phone-dark"],
)
def opened(request: pytest.FixtureRequest, browser: Any, server: Running) -> Any:
    """The dashboard, with everything drawn."""
    size, scheme = request.param
    visit(browser, f"{server.address}/dashboard", size, scheme)
    enter(browser, server.key)
    seen(browser, READY)
    return browser


def test_key_in_the_address_is_used_and_removed(browser: Any, server: Running) -> None:
    visit(browser, f"{server.address}/dashboard")
    browser.get(f"{server.address}/dashboard#key={server.key}")
    seen(browser, READY)
    assert browser.current_url == f"{server.address}/dashboard"


def test_headline_and_verdicts_are_shown(opened: Any) -> None:
    assert text(opened, "headline") == "Better than the baseline so far"
    for judged in ("past", "uniform"):
        assert f"over all {DECISIONS + 1} decisions since " in text(opened, judged)
    assert "The first verdict comes after 1,024 learned decisions: 623 more, about " in text(opened, "present")
    assert opened.execute_script("return document.querySelectorAll('#past svg').length") == 1
    assert f"over {DECISIONS + 1} decisions" in text(opened, "sentence")
    assert "against 0.00" in text(opened, "sentence")


def test_page_has_no_errors_and_uses_only_its_server(opened: Any, server: Running) -> None:
    assert opened.get_log("browser") == []
    requested = opened.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert requested
    assert all(name.startswith(f"{server.address}/v1/") for name in requested)


def test_page_fits_the_width_of_the_screen(opened: Any) -> None:
    wide, screen = opened.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= screen
    rights = opened.execute_script(
        "return [...document.querySelectorAll('.card, .facts > div, svg')]"
        ".map(one => one.getBoundingClientRect().right)"
    )
    assert len(rights) > 20
    assert max(rights) <= screen


def test_every_text_has_enough_contrast(opened: Any) -> None:
    """4.5 is what the guidelines for accessible pages (WCAG 2, AA) ask for."""
    contrasts = opened.execute_script(CONTRASTS)
    assert len(contrasts) > 60
    assert contrasts[0][0] >= 4.5, contrasts[0]


def test_charts_are_drawn_and_have_tables(browser: Any, server: Running) -> None:
    show(browser, server)
    browser.execute_script("document.querySelector('[value=all]').click()")
    seen(browser, "return document.getElementById('sentence').textContent.includes(' decisions up to ')")
    browser.execute_script("document.querySelectorAll('figure details').forEach(one => { one.open = true; })")
    seen(browser, "return document.querySelectorAll('figure details table').length === 3")
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#rewards tbody tr')].map(row => row.cells[1].textContent)"
    )
    assert sum(map(int, rows)) == DECISIONS + 1
    names = browser.execute_script("return [...document.querySelectorAll('.shares .name')].map(one => one.textContent)")
    assert set(names) == {"a", "b", "c", HOSTILE}
    marks = browser.execute_script("return document.querySelectorAll('#actions svg path').length")
    assert marks == 5  # four actions, and the rest


def test_hostile_ids_are_shown_as_text(browser: Any, server: Running) -> None:
    show(browser, server)
    browser.find_element("id", "prefix").send_keys("<img")
    seen(browser, "return document.querySelectorAll('.event').length === 1")
    browser.find_element("css selector", ".event summary").click()
    shown = seen(
        browser, "return document.querySelector('.event table') && document.querySelector('.event').textContent"
    )
    assert shown.count(HOSTILE) >= 4  # the event, two actions and the reward's key
    assert "in time" in shown
    assert "0.25" in shown
    assert browser.execute_script("return document.images.length") == 0
    assert browser.title == "Is it learning?"
    assert browser.get_log("browser") == []


def test_events_are_found_by_prefix(browser: Any, server: Running) -> None:
    show(browser, server)
    browser.find_element("id", "prefix").send_keys("visit-12")
    seen(browser, "return document.getElementById('found').textContent === 'The newest 10 (all)'")
    ids = browser.execute_script("return [...document.querySelectorAll('.event .id')].map(one => one.textContent)")
    assert ids == [f"visit-12{number}" for number in reversed(range(10))]
    browser.find_element("id", "prefix").send_keys("x")
    seen(browser, "return document.getElementById('found').textContent === 'No event id begins with this'")
    browser.find_element("id", "prefix").clear()
    browser.find_element("css selector", "#search button").click()
    seen(browser, "return document.querySelectorAll('.event').length === 20")
    browser.execute_script("document.getElementById('more').click()")
    seen(browser, "return document.querySelectorAll('.event').length === 40")


WHY = "document.querySelector('.event .why')"
OPEN_WHY = f"document.querySelector('.event').open = true; return {WHY} && ({WHY}.open = true)"


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_event_shows_the_contributions_of_features(browser: Any, server: Running, size: tuple[int, int]) -> None:
    show(browser, server, size=size)
    browser.find_element("id", "prefix").send_keys("visit-399")
    seen(browser, "return document.querySelectorAll('.event').length === 1")
    seen(browser, OPEN_WHY)
    seen(browser, f"return {WHY}.querySelectorAll('table').length === 3")
    names = browser.execute_script(f"return [...{WHY}.querySelectorAll('td:first-child')].map(one => one.textContent)")
    assert {"x[0]", "x[1]"} <= set(names)
    assert "shown, drawn" in browser.execute_script(f"return {WHY}.querySelector('h4').textContent")
    wide, screen = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= screen
    assert browser.execute_script(CONTRASTS)[0][0] >= 4.5


def test_unlimited_rewards_need_limits(browser: Any, server: Running) -> None:
    settings = {"width": 2, "rewardWait": 3.0, "modelUpdate": 0.1}
    assert server.ask("PUT", "/loops/unlimited/v1/configuration", settings).status == 200
    assert server.ask("POST", "/loops/unlimited/v1/decide", {"eventId": "one", "arms": ARMS}).status == 200
    assert server.ask("POST", "/loops/unlimited/v1/reward", {"eventId": "one", "value": 36.5}).status == 200
    visit(browser, f"{server.address}/loops/unlimited/dashboard")
    enter(browser, server.key)
    seen(browser, "return document.getElementById('headline').textContent === 'Reward limits are needed'")
    proposal = "Set rewardRange in its configuration, for example to [0, 1]."
    assert proposal in text(browser, "sentence")
    assert browser.execute_script("return document.getElementById('judgements').hidden")


def test_rankings_show_payoffs_and_positions_not_observed(browser: Any, server: Running) -> None:
    settings = {"width": 2, "rewardWait": 3.0, "modelUpdate": 0.1}
    assert server.ask("PUT", "/loops/unlimited/v1/configuration", settings).status == 200
    sent = {"eventId": "ranking", "arms": ARMS, "k": 2, "values": [7.25, 1, 2]}
    assert server.ask("POST", "/loops/unlimited/v1/rank", sent).status == 200
    click = {"eventId": "ranking", "position": 0, "value": 1, "cascade": True}
    assert server.ask("POST", "/loops/unlimited/v1/reward", click).status == 200
    visit(browser, f"{server.address}/loops/unlimited/dashboard")
    enter(browser, server.key)
    browser.find_element("id", "prefix").send_keys("ranking")
    seen(browser, "return document.querySelectorAll('.event').length === 2")
    below, first = browser.execute_script(
        "return [...document.querySelectorAll('.event')].map(one => { one.open = true; return one.textContent })"
    )
    assert "ranking / 1" in below
    assert "reward not observed" in below
    assert "reward 1" in first
    seen(browser, "return document.querySelector('.event').textContent.includes('7.25')")
    seen(browser, OPEN_WHY)
    seen(browser, f"return {WHY}.textContent.includes('value 7.25, cost 0')")
    seen(browser, "return document.getElementById('remark').textContent.includes('compare rewards, not payoffs')")


def test_rewards_out_of_range_are_counted(browser: Any, server: Running) -> None:
    visit(browser, f"{server.address}/loops/even/dashboard")
    enter(browser, server.key)
    cell = "document.querySelector('#statuses tbody tr:nth-child(2) td:last-child')"
    assert seen(browser, f"return {cell}?.textContent") == "1"


def test_a_wrong_key_is_refused_and_a_right_one_is_stored(browser: Any, server: Running) -> None:
    visit(browser, f"{server.address}/dashboard")
    enter(browser, "wrong")
    assert (
        seen(browser, "return document.getElementById('key-problem').textContent")
        == "the key is unknown or revoked; create one with `glb store keys create`"
    )
    enter(browser, server.key)
    seen(browser, READY)
    browser.refresh()
    seen(browser, READY)
    assert browser.execute_script("return [Object.values(sessionStorage), localStorage.length, document.cookie]") == [
        [server.key],
        0,
        "",
    ]


def test_page_refreshes_and_switches_loops(browser: Any, server: Running) -> None:
    visit(browser, f"{server.address}/loops/quiet/dashboard")
    enter(browser, server.key)
    seen(browser, "return document.getElementById('headline').textContent === 'Too early: 0 decisions'")
    assert "No decision is settled yet" in text(browser, "sentence")
    settings = {"width": 2, "rewardWait": 0.1, "modelUpdate": 0.1, "rewardRange": [0, 1]}
    assert server.ask("PUT", "/loops/quiet/v1/configuration", settings).status == 200
    assert server.ask("POST", "/loops/quiet/v1/decide", {"arms": ARMS}).status == 200
    seen(browser, "return document.getElementById('sentence').textContent.includes('over 1 decision in')")
    seen(browser, "return document.querySelectorAll('#loop option').length === 4")
    assert browser.execute_script("return document.getElementById('loop').value") == "quiet"
    browser.execute_script(
        "const choice = document.getElementById('loop');"
        "choice.value = 'default'; choice.dispatchEvent(new Event('change'))"
    )
    seen(browser, READY)
    assert browser.current_url == f"{server.address}/loops/default/dashboard"


def test_page_shows_that_the_server_is_gone(browser: Any, tmp_path: Path) -> None:
    with running(tmp_path) as short:
        visit(browser, f"{short.address}/dashboard")
        enter(browser, short.key)
        seen(browser, "return document.getElementById('live').dataset.state === 'live'")
    seen(browser, "return document.getElementById('live').dataset.state === 'lost'")
    assert "The server does not respond" in text(browser, "notice")
