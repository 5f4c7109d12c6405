"""The report in a real browser: headless Chromium, driven by Selenium."""

from collections.abc import Iterator
from typing import Any

import pytest

from glbandits.lab.report import write_experiment_report
from tests.browser import CHARTS_READY, DRAWN_CHARTS, PHONE, WIDE, chromium, open_page, webdriver
from tests.lab.report.small_results import small_results

pytestmark = pytest.mark.system


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
    return open_page(browser, page, request.param, CHARTS_READY)


def test_page_has_no_errors_and_fetches_nothing(opened: Any) -> None:
    assert opened.get_log("browser") == []
    assert opened.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)") == []


def test_every_chart_is_drawn(opened: Any) -> None:
    drawn = {chart["id"]: chart for chart in opened.execute_script(DRAWN_CHARTS)}
    kinds = ("forest-1-{}", "forest-1-{}-pulls", "news-{}")
    assert set(drawn) == {f"chart-{kind.format(protocol)}" for kind in kinds for protocol in ("paper", "fresh")}
    for name, chart in drawn.items():
        assert 300 < chart["width"] <= chart["room"], name
        assert chart["inked"] > 1000, name


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


def test_click_on_a_name_dims_the_others(opened: Any) -> None:
    canvas = opened.find_element("css selector", "#chart-forest-1-fresh canvas")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    picture = "return arguments[0].toDataURL()"
    before = opened.execute_script(picture, canvas)
    offset = 60 - canvas.size["width"] // 2, canvas.size["height"] // 2 - 18  # a name in the last line of the legend
    webdriver.ActionChains(opened).move_to_element_with_offset(canvas, *offset).click().perform()
    assert opened.execute_script(picture, canvas) != before
    assert opened.get_log("browser") == []


def test_menu_of_a_chart_only_saves_it(opened: Any) -> None:
    texts = opened.execute_script(
        "return [...document.querySelectorAll('.vega-actions a')].map(link => link.textContent)"
    )
    assert set(texts) == {"Save as SVG", "Save as PNG"}


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
