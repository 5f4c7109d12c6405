"""Headless Chromium, driven by Selenium, at two widths. Tests that import this module are skipped without it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if CHROMIUM is None or DRIVER is None:
    pytest.skip("needs chromium and chromedriver on the PATH", allow_module_level=True)
webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
wait = pytest.importorskip("selenium.webdriver.support.wait", reason="needs selenium")

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE, PHONE = (1280, 900), (390, 844)
CHARTS_READY = """
const charts = [...document.querySelectorAll('.chart')];
return document.readyState == 'complete' && charts.every(chart => chart.querySelector('canvas'));
"""
DRAWN_CHARTS = """
return [...document.querySelectorAll('.chart')].map(div => {
  const canvas = div.querySelector('canvas'), {width, height} = canvas;
  const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, width, height).data.buffer);
  return {id: div.id, room: div.clientWidth, width: canvas.clientWidth,
          inked: pixels.filter(pixel => pixel != 0xffffffff).length};
})
"""
"""Script: the width of each chart, of its column, and the number of pixels that are not white."""
SHOTS = "GLB_REPORT_SHOTS"
"""Environment variable: a folder for screenshots of the pages."""


@contextmanager
def chromium(folder: Path) -> Iterator[Any]:
    """A browser with its profile in this folder."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def open_page(browser: Any, page: str, size: tuple[int, int], ready: str) -> Any:
    """Open the page at one size, and wait until the script `ready` returns true."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(page)
    wait.WebDriverWait(browser, timeout=30).until(lambda browser: browser.execute_script(ready))
    if SHOTS in os.environ:
        folder = Path(os.environ[SHOTS])
        folder.mkdir(parents=True, exist_ok=True)
        browser.save_screenshot(str(folder / f"{Path(page).stem}-{width}.png"))
    return browser
