"""OpenFeature's JavaScript providers, unmodified, for servers and in a browser, against a real server."""

import functools
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.service.http.servers.server_process import Running, eventually
from tests.service.sdk.installed_scripts import installed_scripts
from tests.service.sdk.openfeature_flags import VALUES, code_of_page, flags_running

pytestmark = pytest.mark.system


@pytest.fixture(scope="module", name="scripts")
def scripts_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed_scripts("openfeature", tmp_path_factory)


@pytest.fixture(scope="module", name="pages")
def pages_fixture(scripts: Path) -> Iterator[str]:
    """The address of a web server for the page and the SDKs, another origin than that of the flags."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(scripts))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module", name="server")
def server_fixture(tmp_path_factory: pytest.TempPathFactory, pages: str) -> Iterator[Running]:
    with flags_running(tmp_path_factory.mktemp("server"), cors_origins=pages) as server:
        yield server


def check_values(found: dict[str, Any]) -> None:
    for kind, value in VALUES.items():
        assert found[kind]["value"] == value, kind
        assert (found[kind]["variant"], found[kind]["reason"]) == ("only", "SPLIT")
        assert found[kind]["flagMetadata"]["probability"] == 1


def event(server: Running, details: dict[str, Any]) -> Any:
    return server.ask("GET", f"/loops/banner/v1/events/{details['flagMetadata']['eventId']}").json


def test_the_provider_for_servers(scripts: Path, server: Running) -> None:
    tracking, _ = code_of_page("js")
    (scripts / "tracking.js").write_text(tracking, encoding="utf-8")
    command = ["node", str(scripts / "server.mjs"), server.address, str(server.key), str(scripts / "tracking.js")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    check_values(found)
    codes = {name: found[name]["errorCode"] for name in ("missing", "badContext", "noUnit", "noKey", "down")}
    assert codes == {
        "missing": "FLAG_NOT_FOUND",
        "badContext": "INVALID_CONTEXT",
        "noUnit": "TARGETING_KEY_MISSING",
        "noKey": "GENERAL",
        "down": "GENERAL",
    }
    assert {found[name]["value"] for name in codes} == {"own"}
    assert eventually(lambda: [each["value"] for each in event(server, found["banner"])["rewards"]] == [0.5])


def test_the_provider_for_browsers(
    scripts: Path,  # noqa: ARG001
    server: Running,
    pages: str,
    tmp_path: Path,
) -> None:
    from tests.browser import chromium  # skips without a browser

    _, hook = code_of_page("js")
    words = {"baseUrl": server.address, "key": str(server.key), "hook": hook}
    with chromium(tmp_path / "profile") as browser:
        browser.get(f"{pages}/page.html#{urlencode(words).replace('+', '%20')}")
        assert eventually(lambda: browser.title == "done"), browser.get_log("browser")
        found = json.loads(browser.find_element("tag name", "body").text)
        check_values(found)
        assert found["missing"]["errorCode"] == "FLAG_NOT_FOUND"
        assert {found[name]["value"] for name in ("missing", "noUnit", "noKey", "down")} == {"own"}
        assert event(server, found["banner"])["deferred"]
        assert eventually(lambda: event(server, found["banner"])["activatedAt"] is not None)
    unseen = server.ask("GET", "/loops/string/v1/status").json["counts"]
    assert (unseen["decisions"]["accepted"] > 0, unseen["activations"]["accepted"]) == (True, 0)


def test_the_page_of_the_demo(scripts: Path, server: Running, pages: str, tmp_path: Path) -> None:
    from tests.browser import chromium  # skips without a browser

    page = files("glbandits.cli").joinpath("demo_page/index.html").read_text(encoding="utf-8")
    page, count = re.subn(r"https://cdn\.jsdelivr\.net/npm/(@openfeature/[a-z-]+)@[\d.]+", r"/node_modules/\1", page)
    nested = "/node_modules/@openfeature/ofrep-web-provider/node_modules/@openfeature/ofrep-core"
    (scripts / "demo.html").write_text(page.replace("/node_modules/@openfeature/ofrep-core", nested), encoding="utf-8")
    assert count == 4
    names = ("laptop", "toys")
    offer = {"name": "offer", "configuration": {"variants": {name: {"value": name} for name in names}}}
    assert server.ask("POST", "/v1/loops", offer).status == 201
    words = {"server": server.address, "key": str(server.key), "kinds": "student,parent"}
    counted = "/loops/offer/v1/status"
    with chromium(tmp_path / "profile") as browser:
        browser.get(f"{pages}/demo.html#{urlencode(words)}")
        button = browser.find_element("id", "offer")
        assert eventually(lambda: button.text in names), browser.get_log("browser")
        assert "SPLIT" in browser.find_element("id", "why").text
        button.click()
        assert eventually(lambda: "accepted" in browser.find_element("id", "why").text)
        browser.find_element("id", "next").click()
        assert eventually(lambda: server.ask("GET", counted).json["counts"]["activations"]["accepted"] == 2)
    logged = server.ask("GET", "/loops/offer/v1/events").json["events"]
    assert sorted(len(event["rewards"]) for event in logged if event["activatedAt"]) == [0, 1]
