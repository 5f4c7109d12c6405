"""`glb demo`: run a server and a simulated shop, and show the progress."""

import signal
import tempfile
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from glbandits.cli.demo.server import REWARD_WINDOW, DemoServer, demo_server
from glbandits.cli.demo.shop import OFFERS, RANDOM_BEST, RANDOM_REWARD, DemoFailed, Shop, Visit, best_share, mean_reward
from glbandits.service.http.start_message import curl_line

CUSTOMERS_PER_SECOND = 50
RECENT = 300
"""Visits for which the display shows the share of best offers."""
LINE_SECONDS, FRAME_SECONDS = 5.0, 0.25
"""Seconds between two lines without a terminal, and between two updates of the display with one."""


def demo_command(
    seconds: Annotated[float, typer.Option(help="Duration of the simulation in seconds.", min=1.0)] = 60.0,
    port: Annotated[int, typer.Option(help="Port of the server; 0 for any free port.", min=0, max=65535)] = 0,
    store: Annotated[
        Path | None, typer.Option(help="A new file for the store, which is not removed afterwards.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the dashboard in the browser.")] = True,
    keep: Annotated[bool, typer.Option("--keep", help="Continue to serve after the simulation, until Ctrl-C.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the customers.")] = 0,
) -> None:
    """Run a server and a simulated shop that uses it, and show how the server learns."""
    console = Console(highlight=False)
    if store is not None and store.exists():
        raise DemoFailed(f"{store} exists, and the demo needs a new store. Give another file with --store.")
    console.print("Starting a server. This takes a few seconds.")
    with _stopped_by_signals(), tempfile.TemporaryDirectory(prefix="glb-demo-") as folder:
        path = store or Path(folder) / "demo.db"
        with demo_server(path, port, Path(folder) / "server.log") as server:
            _introduce(console, server, browser)
            visits: list[Visit] = []
            try:
                _play(console, server, seconds, seed, visits)
            finally:
                _summarize(console, visits, store)
            if keep:
                _keep_serving(console, server)


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


def _introduce(console: Console, server: DemoServer, browser: bool) -> None:
    dashboard = f"{server.address}/dashboard#key={server.read_key}"
    console.print(f"Serving at {server.address}")
    console.print(f"Dashboard: {dashboard}", soft_wrap=True)
    console.print(
        f"A shop has {len(OFFERS)} offers. Each kind of customer has a favourite, which the server\n"
        f"does not know. It learns from clicks, {REWARD_WINDOW} after each decision.\n"
    )
    if browser:
        webbrowser.open(dashboard)


def _play(console: Console, server: DemoServer, seconds: float, seed: int, visits: list[Visit]) -> None:
    """Let customers come at a constant rate, or as fast as the server answers if that is slower."""
    begin = time.monotonic()
    with closing(Shop(server.address, server.key, seed)) as shop, _display(console, seconds) as show:
        while (elapsed := time.monotonic() - begin) < seconds:
            visits.append(shop.serve_customer())
            show(visits, elapsed)
            time.sleep(max(0.0, begin + len(visits) / CUSTOMERS_PER_SECOND - time.monotonic()))


@contextmanager
def _display(console: Console, seconds: float) -> Iterator[Callable[[list[Visit], float], None]]:
    """Yield a function that shows the progress: live in a terminal, else a line every few seconds."""
    pause, shown = FRAME_SECONDS if console.is_terminal else LINE_SECONDS, 0.0
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def show(visits: list[Visit], elapsed: float) -> None:
            nonlocal shown
            if elapsed - shown < pause:
                return
            shown = elapsed
            if console.is_terminal:
                bar = ProgressBar(total=seconds, completed=elapsed, width=60)
                live.update(Group(bar, Text("\n".join(progress_lines(visits)))), refresh=True)
            else:
                console.print(f"{elapsed:3.0f} s: {'; '.join(progress_lines(visits))}", markup=False, soft_wrap=True)

        yield show


def progress_lines(visits: list[Visit]) -> list[str]:
    """Return the progress of the simulation."""
    recent = visits[-RECENT:]
    return [
        f"{len(visits)} decisions",
        f"best offer in {best_share(recent):.0%} of the last {len(recent)} (random play {RANDOM_BEST:.0%})",
        f"reward {mean_reward(visits):.2f} on average (random play {RANDOM_REWARD:.2f})",
    ]


def _summarize(console: Console, visits: list[Visit], store: Path | None) -> None:
    tenth = max(1, len(visits) // 10)
    first, last = (f"{best_share(part):.0%}" for part in (visits[:tenth], visits[-tenth:]))
    lines = [
        f"{len(visits)} decisions, reward {mean_reward(visits):.2f} on average (random play {RANDOM_REWARD:.2f})",
        f"Best offer: {first} of the first tenth, {last} of the last tenth (random play {RANDOM_BEST:.0%})",
        "",
        "Next:",
        "  glb serve --reward-window 5s   # your own server; it prints a curl command",
        "  glb demo --keep                # this server, until you press Ctrl-C",
        *([] if store is None else [f"  glb replay {store} --verify   # repeat every decision from the log"]),
        "  docs/service.md, docs/personalizer.md, docs/dashboard.md",
    ]
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _keep_serving(console: Console, server: DemoServer) -> None:
    """Wait until a signal stops the demo."""
    console.print("\nThe server runs until you press Ctrl-C. Try:")
    console.print(f"  {curl_line(server.address, server.key)}", markup=False, soft_wrap=True)
    threading.Event().wait()
