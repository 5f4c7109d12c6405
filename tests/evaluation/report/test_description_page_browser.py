"""The page of `glb describe` in a real browser."""

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from glbandits.evaluation import Columns
from glbandits.evaluation.readers.describe_table import describe_table
from glbandits.evaluation.report.description_page import write_description
from tests.browser import CHARTS_READY, DRAWN_CHARTS, PHONE, WIDE, chromium, open_page

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    table = {"arm": ["a", "<b>", "B"] * 90, "reward": [0, 1, 2] * 90, "propensity": [0.9, 0.1, 0.001] * 90}
    description = describe_table(pl.LazyFrame(table | {"city": ["x" * 90] * 270}), Columns(), "log.csv")
    return write_description(description, tmp_path_factory.mktemp("page"), "glb describe log.csv").as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_page_has_no_errors_fits_and_draws_its_charts(browser: Any, page: str, size: tuple[int, int]) -> None:
    opened = open_page(browser, page, size, CHARTS_READY)
    assert opened.get_log("browser") == []
    wide, screen = opened.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= screen
    drawn = {chart["id"]: chart for chart in opened.execute_script(DRAWN_CHARTS)}
    assert set(drawn) == {"chart-arm-rows", "chart-arm-rewards", "chart-propensities"}
    for name, chart in drawn.items():
        assert 300 < chart["width"] <= chart["room"], name
        assert chart["inked"] > 1000, name
