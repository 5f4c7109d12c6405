"""`glb demo`: run a server and a simulated shop that uses it, and show how the server learns."""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import webbrowser
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

import httpx2
import typer
from rich.console import Console

from glbandits.cli.main import ERROR_PREFIX
from glbandits.cli.progress import work_bar
from glbandits.common.errors import GlbanditsError
from glbandits.service.client import Client
from glbandits.service.domain.variants import NAME_FIELD
from glbandits.service.http.start_message import curl_line
from glbandits.service.runtime.service import DEFAULT_LOOP, microseconds
from glbandits.service.storage.api_keys import Keys
from glbandits.service.storage.open_store import open_store

FAVOURITES = {"student": "laptop", "parent": "toys", "gardener": "seeds", "cook": "knives", "runner": "shoes"}
"""Kinds of customers, and the offer that each kind clicks most often."""
OFFERS = list(FAVOURITES.values())
FAVOURITE_CLICKS, OTHER_CLICKS = 0.6, 0.1
"""Probabilities of a click on the favourite and on any other offer."""
RANDOM_BEST = 1 / len(OFFERS)
RANDOM_REWARD = RANDOM_BEST * FAVOURITE_CLICKS + (1 - RANDOM_BEST) * OTHER_CLICKS
"""The share of best offers and the mean reward of a shop that shows random offers."""
CUSTOMERS_PER_SECOND = 50
COMES_BACK, WAITING_ROOM = 1 / 3, 60
"""Probability that a visit is by one of so many of the newest customers."""
RETURNS, HARMED_RETURNS = 0.05, 0.9
"""Probabilities that a customer returns what was clicked; the second one with --harm, for favourites."""
RECENT = 300
"""Visits for which the progress bar shows the share of best offers."""
REWARD_WINDOW, UNIT_WINDOW = "1s", "3s"
GUARDED: dict[str, Any] = {
    "rewardRange": [0, 1],
    "control": {"share": 0.2},
    "metrics": {
        "reward": {"range": [0, 1], "window": UNIT_WINDOW},
        "returned": {
            "range": [0, 1],
            "good": "lower",
            "combine": "sum",
            "window": UNIT_WINDOW,
            "margin": 0.05,
            "action": "fallback",
        },
    },
}
"""Changed settings of the loop: a control group and guardrails. Customers are the units."""
FLAG, VARIANTS = "offer", {"variants": {offer: {"value": offer} for offer in OFFERS}, "rewardWait": "5s"}
"""The flag of --flags, and its further settings. A person clicks later than a simulated customer."""
START_SECONDS, STOP_SECONDS = 120.0, 20.0


class DemoFailed(GlbanditsError):
    """The demo cannot continue."""


class DemoServer(NamedTuple):
    """A running server."""

    address: str
    key: str
    """A key with all scopes."""
    read_key: str
    page_key: str
    """May evaluate flags and send rewards."""
    loop: str

    @property
    def prefix(self) -> str:
        """The address of the loop."""
        return self.address if self.loop == DEFAULT_LOOP else f"{self.address}/loops/{self.loop}"


class Customer(NamedTuple):
    """A customer, who may visit the shop several times."""

    name: str
    kind: str
    device: str


class Served(NamedTuple):
    """One decision: whether the best offer was shown, and its reward."""

    is_best: bool
    reward: float


def demo_command(
    seconds: Annotated[float, typer.Option(help="Duration of the simulation in seconds.", min=1.0)] = 60.0,
    port: Annotated[int, typer.Option(help="The port to listen on; 0 for any free port.", min=0, max=65535)] = 0,
    to: Annotated[
        Path | None, typer.Option(help="The file to write. It must be new: the store, which is otherwise removed.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the dashboard in the browser.")] = True,
    keep: Annotated[bool, typer.Option("--keep", help="Continue to serve after the simulation, until Ctrl-C.")] = False,
    harm: Annotated[
        bool,
        typer.Option(
            "--harm",
            help="Customers return their favourites, and a guardrail stops the loop after about 30 seconds.",
        ),
    ] = False,
    flags: Annotated[
        bool, typer.Option("--flags", help="The offer is a feature flag. Open a page that uses OpenFeature's web SDK.")
    ] = False,
) -> None:
    """Run a server and a simulated shop that uses it, and show how the server learns."""
    console = Console(highlight=False)
    if to is not None and to.exists():
        raise DemoFailed(f"{to} exists, and the demo needs a new store. Give another file with --to.")
    console.print("Starting a server. This takes a few seconds.")
    with _stopped_by_signals(), tempfile.TemporaryDirectory(prefix="glb-demo-") as folder, ExitStack() as opened:
        path, loop = to or Path(folder) / "demo.db", FLAG if flags else DEFAULT_LOOP
        page = opened.enter_context(_flag_page()) if flags else ""
        with _server(path, port, Path(folder) / "server.log", loop, page) as server:
            headers, settings = {"Authorization": f"Bearer {server.key}"}, GUARDED | (VARIANTS if flags else {})
            httpx2.patch(f"{server.prefix}/v1/configuration", json=settings, headers=headers).raise_for_status()
            _introduce(console, server, browser)
            if flags:
                words = {"server": server.address, "key": server.page_key, "kinds": ",".join(FAVOURITES)}
                console.print(f"A page with the flag: {(page := f'{page}/#{urlencode(words)}')}\n", soft_wrap=True)
                _ = browser and webbrowser.open(page)
            shop = Shop(HARMED_RETURNS if harm else RETURNS)
            try:
                _play(console, server, seconds, shop)
            finally:
                _summarize(console, shop, to)
            if keep:
                console.print("\nThe server runs until you press Ctrl-C. Try:")
                console.print(f"  {curl_line(server.prefix, server.key)}", markup=False, soft_wrap=True)
                threading.Event().wait()


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does, and end the block when it is raised."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _flag_page() -> Iterator[str]:
    """Serve the page of --flags, and return its address: another origin than that of the server."""
    handler = partial(_Quiet, directory=str(files("glbandits.cli").joinpath("demo_page")))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@contextmanager
def _server(store: Path, port: int, log: Path, loop: str, page: str) -> Iterator[DemoServer]:
    """Run `glb serve` with a new store in another process, and stop it at the end. Its output goes to the file `log`.

    Pages of the origin `page` may call it. Raises DemoFailed with its error if it does not start.
    """
    with closing(open_store(str(store), durability="process")) as opened:
        keys = Keys(opened, microseconds)
        key, read_key = keys.create("demo").text, keys.create("dashboard", ["read"]).text
        page_key = keys.create("page", ["evaluate", "reward"]).text
    options = ("--store", str(store), "--port", str(port), "--reward-window", REWARD_WINDOW, "--loops", loop)
    command = (sys.executable, "-m", "glbandits.cli.main", "serve", *options)
    with log.open("w", encoding="utf-8") as output:  # a new session, so that Ctrl-C reaches only the demo
        environment = os.environ | {"GLB_SERVE_CORS_ORIGINS": page}
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True, env=environment)
    try:
        yield DemoServer(_wait_for_address(process, log), key, read_key, page_key, loop)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Wait until the server accepts requests, and return its address."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        is_running, printed = process.poll() is None, log.read_text(encoding="utf-8")
        if serving := re.search(r"^Serving at (\S+)\n", printed, re.MULTILINE):
            return serving[1]
        if not is_running:
            raise DemoFailed(printed.rpartition(ERROR_PREFIX)[2].strip() or "the server ended before it was ready")
        time.sleep(0.05)
    raise DemoFailed(f"the server did not start within {START_SECONDS:.0f} s")


def _introduce(console: Console, server: DemoServer, browser: bool) -> None:
    dashboard = f"{server.prefix}/dashboard#key={server.read_key}"
    console.print(f"Serving at {server.address}")
    console.print(f"Dashboard: {dashboard}", soft_wrap=True)
    console.print(
        f"A shop has {len(OFFERS)} offers. Each kind of customer has a favourite, which the server\n"
        f"does not know. It learns from clicks, {REWARD_WINDOW} after each decision. A fifth of\n"
        "the customers are the control group. A guardrail stops the loop if it makes\n"
        "customers return more.\n"
    )
    if browser:
        webbrowser.open(dashboard)


class Shop:
    """Customers who visit a shop, one after another.

    Args:
        returns: the probability that a clicked favourite is returned.
    """

    def __init__(self, returns: float) -> None:
        self.visits: list[Served] = []
        self.verdict = "not compared yet"
        """The last verdict of the server on treatment and control."""
        self._random, self._returns = random.Random(0), returns
        self._newest: deque[Customer] = deque(maxlen=WAITING_ROOM)
        self._customers = 0

    def serve_customer(self, client: Client) -> None:
        """Show a customer the offer that the server chooses. Send a reward of 1 for a click, else of 0, and returns."""
        customer, flip = self._next_customer(), self._random.random
        context = {"customer": customer.kind, "device": customer.device}
        arms = [{NAME_FIELD: offer} for offer in OFFERS]  # as a flag has them
        decided = client.decide(arms, context=context, ids=OFFERS, unit=customer.name)
        is_best = OFFERS[decided.arm] == FAVOURITES[customer.kind]
        reward = float(flip() < (FAVOURITE_CLICKS if is_best else OTHER_CLICKS))
        client.reward(decided.event_id, reward)
        if reward and flip() < (self._returns if is_best else RETURNS):
            client.metrics(decided.event_id, {"returned": 1})
        self.visits.append(Served(is_best, reward))

    def _next_customer(self) -> Customer:
        if self._newest and self._random.random() < COMES_BACK:
            return self._random.choice(self._newest)
        kind, device = self._random.choice(list(FAVOURITES)), self._random.choice(["phone", "desktop"])
        self._customers += 1
        self._newest.append(Customer(f"customer-{self._customers}", kind, device))
        return self._newest[-1]


def _play(console: Console, server: DemoServer, seconds: float, shop: Shop) -> None:
    """Let customers come at a constant rate, or as fast as the server answers if that is slower."""
    begin, visits, is_stopped = time.monotonic(), shop.visits, False
    with Client(server.address, server.key, server.loop) as client, work_bar(console) as bar:
        while (elapsed := time.monotonic() - begin) < seconds:
            shop.serve_customer(client)
            recent = visits[-RECENT:]
            bar(f"best offer in {_best_share(recent):.0%} of the last {len(recent)} decisions", elapsed, seconds)
            if len(visits) % CUSTOMERS_PER_SECOND == 0:
                guardrails = client.guardrails()
                shop.verdict = guardrails.sentence
                if guardrails.state == "fallback" and not is_stopped:
                    is_stopped = True
                    console.print(f"After {elapsed:.0f} s: {shop.verdict}\n", markup=False, soft_wrap=True)
            time.sleep(max(0.0, begin + len(visits) / CUSTOMERS_PER_SECOND - time.monotonic()))


def _summarize(console: Console, shop: Shop, store: Path | None) -> None:
    visits = shop.visits
    tenth, reward = max(1, len(visits) // 10), sum(visit.reward for visit in visits) / max(1, len(visits))
    first, last = (f"{_best_share(part):.0%}" for part in (visits[:tenth], visits[-tenth:]))
    lines = [
        f"{len(visits)} decisions, reward {reward:.2f} on average (random play {RANDOM_REWARD:.2f})",
        f"Best offer: {first} of the first tenth, {last} of the last tenth (random play {RANDOM_BEST:.0%})",
        f"Treatment and control: {shop.verdict}",
        "",
        "Next:",
        "  glb serve --reward-window 5s   # your own server; it prints a curl command",
        "  glb demo --keep                # this server, until you press Ctrl-C",
        "  glb demo --harm                # customers return their favourites, and a guardrail stops the loop",
        *([] if store is None else [f"  glb store verify --store {store}   # repeat every decision from the log"]),
        "  docs/service.md, docs/personalizer.md, docs/guarded-loops.md",
    ]
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _best_share(visits: list[Served]) -> float:
    return sum(visit.is_best for visit in visits) / max(1, len(visits))
