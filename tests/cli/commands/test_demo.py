"""`glb demo`."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qsl
from urllib.request import Request as UrlRequest
from urllib.request import urlopen

import pytest

from glbandits.cli.commands.demo import COMES_BACK, FAVOURITES, HARMED_RETURNS, RETURNS, Shop
from tests.cli.in_process import Run, glb

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[3]
GLB = (sys.executable, "-m", "glbandits.cli.main")


def variables(folder: Path) -> dict[str, str]:
    """Put temporary files into a folder, and replace the browser by a script that writes the address to a file.

    The server compiles in the background, as it does for users. In the mode of other tests, a request would wait.
    """
    browser = folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {folder}/opened\n')
    browser.chmod(0o755)
    (folder / "temporary").mkdir()
    return {"TMPDIR": str(folder / "temporary"), "BROWSER": str(browser), "GLBANDITS_COMPILE": "background"}


@pytest.fixture
def demo(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A demo that plays for an hour if it is not stopped."""
    with subprocess.Popen(
        [*GLB, "demo", "--seconds", "3600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | variables(tmp_path),
    ) as process:
        yield process
        process.kill()


def printed_until(process: "subprocess.Popen[str]", pattern: str) -> "re.Match[str]":
    assert process.stdout is not None
    for line in process.stdout:
        if match := re.search(pattern, line):
            return match
    raise AssertionError(f"{pattern} was not printed")


def test_demo_shows_that_the_server_learns(tmp_path: Path) -> None:
    """Shares of the best of 5 offers. Without learning, both tenths have 0.2 on average.

    Exact binomial probabilities, if visits are independent and the last tenth of a server that learns has 0.8. With
    1,000 visits in 20 s, one that does not learn passes with probability 7e-06, one that learns fails with
    3e-09. With 200 visits, on a busy machine: 4e-02 and 3e-03.
    """
    run = demo_in_process("--seconds", "20", "--to", "shop.db", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    shares = re.search(r"Best offer: (\d+)% of the first tenth, (\d+)% of the last tenth", run.stdout)
    assert shares is not None, run.stdout
    assert int(shares[2]) >= int(shares[1]) + 25
    assert re.search(r"^Treatment and control: ", run.stdout, re.MULTILINE)
    assert "stopped" not in run.stdout
    assert not (tmp_path / "opened").exists()
    assert (tmp_path / "shop.db").exists()
    assert list((tmp_path / "temporary").iterdir()) == []


class Counter:
    """A client of a server that always shows favourites. It counts what the shop sends."""

    def __init__(self) -> None:
        self.units: list[str] = []
        self.clicks = self.returned = 0

    def decide(self, _arms: object, *, context: dict[str, str], ids: list[str], unit: str) -> SimpleNamespace:
        self.units.append(unit)
        return SimpleNamespace(arm=ids.index(FAVOURITES[context["customer"]]), event_id=unit)

    def reward(self, _event_id: str, value: float) -> None:
        self.clicks += int(value)

    def metrics(self, _event_id: str, metrics: dict[str, float]) -> None:
        self.returned += int(metrics["returned"])


def test_customers_come_back_and_return_favourites() -> None:
    """Counts are binomial: each is within 5 standard deviations with probability 0.999999."""
    counts = {}
    for returns in (RETURNS, HARMED_RETURNS):
        client, shop = Counter(), Shop(returns=returns)
        for _ in range(2_000):
            shop.serve_customer(client)  # type: ignore[arg-type]
        assert abs(len(set(client.units)) - 2_000 * (1 - COMES_BACK)) < 110
        counts[returns] = client.returned / client.clicks
    assert counts[RETURNS] < 0.1
    assert counts[HARMED_RETURNS] > 0.85


def test_the_page_of_the_flag_is_served_from_another_origin(tmp_path: Path) -> None:
    command = [*GLB, "demo", "--flags", "--seconds", "3600"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | variables(tmp_path)
    ) as process:
        try:
            found = printed_until(process, r"^A page with the flag: (http://127.0.0.1:\d+)/#(\S+)$")
            words = dict(parse_qsl(found[2]))
            with urlopen(found[1], timeout=30) as page:
                assert "ofrep-web-provider" in page.read().decode()
            sent = {"X-API-Key": words["key"], "Origin": found[1]}
            body = json.dumps({"context": {"targetingKey": "ann", "customer": "student"}}).encode()
            address = f"{words['server']}/ofrep/v1/evaluate/flags/offer"
            with urlopen(UrlRequest(address, body, sent, method="POST"), timeout=30) as reply:
                assert json.load(reply)["value"] in FAVOURITES.values()
                assert reply.headers["access-control-allow-origin"] == found[1]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=300)
    assert process.returncode == 0


@pytest.mark.slow
def test_guardrail_stops_a_harmful_demo(tmp_path: Path) -> None:
    run = demo_in_process("--harm", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert re.search(r"^After \d+ s: The guardrail of returned stopped the loop", run.stdout, re.MULTILINE)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_demo_and_its_server(
    demo: "subprocess.Popen[str]", number: signal.Signals, tmp_path: Path
) -> None:
    dashboard = printed_until(demo, r"^Dashboard: (http://127.0.0.1:(\d+)/dashboard#key=\S+)$")
    printed_until(demo, r"best offer in")
    assert (tmp_path / "opened").read_text().strip() == dashboard[1]
    with urlopen(dashboard[1].partition("#")[0], timeout=30) as page:
        assert page.status == 200
    demo.send_signal(number)
    printed_until(demo, r"^Best offer: ")
    assert demo.wait(timeout=300) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(dashboard[2])), timeout=5)
    assert list((tmp_path / "temporary").iterdir()) == []


def demo_in_process(*options: str, folder: Path) -> Run:
    """Run the demo in this process, and its server in another."""
    tempfile.tempdir = None  # so that TMPDIR is read again
    try:
        return glb("demo", "--no-browser", *options, folder=folder, environment=variables(folder))
    finally:
        tempfile.tempdir = None


def error_of_demo(*options: str, folder: Path) -> str:
    run = demo_in_process(*options, folder=folder)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1
    assert list((folder / "temporary").iterdir()) == []
    return run.stderr


def test_port_in_use_is_a_one_line_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = error_of_demo("--port", str(port), folder=tmp_path)
    assert message == f"glb: port {port} of 127.0.0.1 is in use by another program; set another --port\n"


def test_demo_does_not_overwrite_an_existing_store(tmp_path: Path) -> None:
    (tmp_path / "mine.db").write_text("precious")
    message = error_of_demo("--to", "mine.db", folder=tmp_path)
    assert message == "glb: mine.db exists, and the demo needs a new store. Give another file with --to.\n"
    assert (tmp_path / "mine.db").read_text() == "precious"
