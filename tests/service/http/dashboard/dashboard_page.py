"""The dashboard in a browser: open it, wait until it is drawn, and read it."""

from typing import Any

from tests.browser import WIDE, wait
from tests.service.http.servers.server_process import Running

READY = """
return document.querySelector('#live').dataset.state === 'live'
  && document.querySelectorAll('#rewards svg, #actions svg, #exploration svg, #delay svg').length === 4
  && document.querySelectorAll('.event').length > 0;
"""
CONTRASTS = """
const channel = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = text => {
  const [r, g, b] = text.match(/[\\d.]+/g).map(Number);
  return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
};
const behind = one => {
  for (; one; one = one.parentElement) {
    const colour = getComputedStyle(one).backgroundColor;
    if (!colour.endsWith(', 0)')) return colour;
  }
  return 'rgb(255, 255, 255)';
};
return [...document.querySelectorAll('p, h1, h2, dt, dd, small, td, th, li, summary, button, label, svg text')]
  .filter(one => one.textContent.trim() && one.getClientRects().length)
  .map(one => {
    const style = getComputedStyle(one);
    const both = [light(one.closest('svg') ? style.fill : style.color), light(behind(one))];
    return [(Math.max(...both) + 0.05) / (Math.min(...both) + 0.05), one.outerHTML.slice(0, 80)];
  })
  .sort((a, b) => a[0] - b[0]);
"""
"""Script: the contrast of each text and its element, the lowest first."""


def visit(browser: Any, address: str, size: tuple[int, int] = WIDE, scheme: str = "light") -> None:
    """A page as one sees it for the first time: no key is kept, and no complaint is from before."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get(address)
    browser.execute_script("sessionStorage.clear()")
    browser.get(address)
    browser.get_log("browser")


def enter(browser: Any, key: str | None) -> None:
    browser.find_element("id", "key").send_keys(key)
    browser.find_element("css selector", "#key-form button").click()


def seen(browser: Any, script: str) -> Any:
    """What a script returns, as soon as it returns something."""
    return wait.WebDriverWait(browser, timeout=30).until(lambda browser: browser.execute_script(script))


def show(browser: Any, server: Running, *, path: str = "", size: tuple[int, int] = WIDE) -> None:
    """Open the dashboard of a loop, and wait until everything is drawn."""
    visit(browser, f"{server.address}{path}/dashboard", size)
    enter(browser, server.key)
    seen(browser, READY)


def text(browser: Any, name: str) -> str:
    return str(browser.execute_script(f"return document.getElementById('{name}').textContent"))
