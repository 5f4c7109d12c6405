"""The page of an evaluation in a real browser."""

from collections.abc import Iterator
from typing import Any

import pytest

from glbandits.evaluation.report import write_evaluation_report
from tests.browser import CHARTS_READY, DRAWN_CHARTS, PHONE, WIDE, chromium, open_page
from tests.evaluation.small_comparison import small_comparison

pytestmark = pytest.mark.system

CHARTS = ("estimates", "gains", "weights", "arms", "running-snips", "running-dr", "running-dm", "while-learning")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_evaluation_report(small_comparison(), tmp_path_factory.mktemp("page"), "glb evaluate tiny.parquet")[
        0
    ].as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture(params=[WIDE, PHONE], ids=["wide", "phone"])
def opened(request: pytest.FixtureRequest, browser: Any, page: str) -> Any:
    """The page, open at one width."""
    return open_page(browser, page, request.param, CHARTS_READY)


def test_page_has_no_errors_fetches_nothing_and_fits(opened: Any) -> None:
    assert opened.get_log("browser") == []
    assert opened.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)") == []
    wide, screen = opened.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= screen


def test_every_chart_is_drawn(opened: Any) -> None:
    drawn = {chart["id"]: chart for chart in opened.execute_script(DRAWN_CHARTS)}
    assert set(drawn) == {f"chart-{name}" for name in CHARTS}
    for name, chart in drawn.items():
        assert 300 < chart["width"] <= chart["room"], name
        assert chart["inked"] > 1000, name
