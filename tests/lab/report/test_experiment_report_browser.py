"""The report in a real browser: headless Chromium, driven by Selenium."""

from collections.abc import Iterator
from typing import Any

import pytest

from glbandits.lab.report import write_experiment_report
from tests.browser import PHONE, WIDE, chromium, open_page, wait, webdriver
from tests.lab.report.small_results import small_results

pytestmark = pytest.mark.system

READY = """
const charts = [...document.querySelectorAll('.plotly-graph-div')];
return document.readyState == 'complete'
  && charts.every(chart => chart.querySelector('.legendtoggle') && chart.querySelector('.modebar-btn'));
"""
DRAWN = """
return [...document.querySelectorAll('.plotly-graph-div')].map(div => {
  const marks = [...div.querySelectorAll('.scatterlayer .js-line, .barlayer .point path')];
  return {
    id: div.id, marks: marks.length, room: div.getBoundingClientRect().width,
    width: div.querySelector('.main-svg').getBoundingClientRect().width,
    seen: marks.filter(m => m.getBoundingClientRect().width > 0 && m.getBoundingClientRect().height > 0).length,
  };
})
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_experiment_report(small_results(), tmp_path_factory.mktemp("report"), "glb paper all").as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture(params=[WIDE, PHONE], ids=["wide", "phone"])
def opened(request: pytest.FixtureRequest, browser: Any, page: str) -> Any:
    """The page, open at one width."""
    return open_page(browser, page, request.param, READY)


def test_page_has_no_errors_and_fetches_nothing(opened: Any) -> None:
    assert opened.get_log("browser") == []
    assert opened.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)") == []


def test_every_chart_is_drawn(opened: Any) -> None:
    drawn = {chart["id"]: chart for chart in opened.execute_script(DRAWN)}
    kinds = ("forest-1-{}", "forest-1-{}-pulls", "news-{}")
    assert set(drawn) == {f"chart-{kind.format(protocol)}" for kind in kinds for protocol in ("paper", "fresh")}
    for name, chart in drawn.items():
        assert 300 < chart["width"] <= chart["room"], name
        policies = 3 if "forest-1-fresh" in name else 2  # the extra policy plays on fresh seeds only
        assert chart["marks"] == (4 if name.endswith("pulls") else 2) * policies, name  # bars, or lines and bands
        assert chart["seen"] >= 2, name
    assert opened.execute_script("return [...document.images].every(image => image.naturalWidth > 1000)")


def test_only_tables_scroll_sideways(opened: Any) -> None:
    wide, screen = opened.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= screen
    boxes = opened.execute_script(
        "return [...document.querySelectorAll('.scroll')].map(b => [b.getBoundingClientRect().right, b.scrollWidth])"
    )
    assert boxes
    assert all(right <= screen for right, _ in boxes)
    if screen == PHONE[0]:
        assert any(inside > screen for _, inside in boxes)


def test_protocols_are_side_by_side_on_wide_screens(opened: Any) -> None:
    left, right = opened.execute_script(
        "return ['paper', 'fresh'].map(name => document.getElementById('chart-news-' + name).getBoundingClientRect())"
    )
    if opened.execute_script("return innerWidth") == WIDE[0]:
        assert right["left"] >= left["right"]
        assert right["top"] == left["top"]
    else:
        assert right["top"] >= left["bottom"]


def test_click_on_a_name_hides_line_and_band(opened: Any) -> None:
    chart = "#chart-forest-1-fresh"

    def click_first_name() -> None:
        name = opened.find_element("css selector", f"{chart} .legend .legendtoggle")
        opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", name)
        webdriver.ActionChains(opened).move_to_element(name).click().perform()

    def wait_for_traces(many: int) -> None:
        is_so = f"return document.querySelectorAll('{chart} .scatterlayer .trace').length == {many}"
        wait.WebDriverWait(opened, timeout=20).until(lambda browser: browser.execute_script(is_so))

    wait_for_traces(6)
    click_first_name()
    wait_for_traces(4)
    shown = opened.execute_script(
        f"return document.querySelector('{chart}')._fullData.map(trace => [trace.legendgroup, String(trace.visible)])"
    )
    hidden, *others = (("sgd-ts", "legendonly"), ("epsilon-greedy", "true"), ("uniform", "true"))
    assert sorted(map(tuple, shown)) == sorted(2 * [hidden, *others])
    click_first_name()
    wait_for_traces(6)
    assert opened.get_log("browser") == []


def test_no_button_uploads_a_chart(opened: Any) -> None:
    titles = opened.execute_script(
        "return [...document.querySelectorAll('.modebar-btn')].map(button => button.getAttribute('data-title'))"
    )
    assert len(titles) == 6 * 4
    assert set(titles) == {"Download plot as a PNG", "Zoom", "Pan", "Reset axes"}


def test_first_screen_has_the_conclusions(opened: Any) -> None:
    cards = opened.execute_script("return [...document.querySelectorAll('.card')].map(c => c.getBoundingClientRect())")
    assert len(cards) == 2
    height, width = opened.execute_script("return [innerHeight, innerWidth]")
    assert cards[0]["bottom"] < height
    if width == WIDE[0]:
        assert cards[1]["bottom"] < height
    overflow = opened.execute_script(
        "return [...document.querySelectorAll('.card .scroll')].map(box => box.scrollWidth - box.clientWidth)"
    )
    assert max(overflow) <= 0
