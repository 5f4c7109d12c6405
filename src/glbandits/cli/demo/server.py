"""The server of `glb demo`: `glb serve` in another process."""

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from glbandits.cli.demo.shop import DemoFailed
from glbandits.cli.main import ERROR_PREFIX
from glbandits.service.storage.api_keys import Keys
from glbandits.service.storage.open_store import open_store

REWARD_WINDOW, SERVING = "1s", "Serving at "
START_SECONDS, STOP_SECONDS = 120.0, 20.0


class DemoServer(NamedTuple):
    """A running server."""

    address: str
    key: str
    """A key with all scopes."""
    read_key: str


@contextmanager
def demo_server(store: Path, port: int, log: Path) -> Iterator[DemoServer]:
    """Run `glb serve` with a new store, and stop it at the end. Raises DemoFailed with its error if it does not start.

    Args:
        store: the new SQLite file.
        port: 0 for any free port.
        log: the file for the log of the server.
    """
    with closing(open_store(str(store), durability="process")) as opened:
        keys = Keys(opened, lambda: time.time_ns() // 1000)
        key, read_key = keys.create("demo").text, keys.create("dashboard", ["read"]).text
    flags = ("--store", str(store), "--port", str(port), "--reward-window", REWARD_WINDOW)
    command = (sys.executable, "-m", "glbandits.cli.main", "serve", *flags)
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(  # in a new session, so that Ctrl-C reaches only the demo
            command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
    try:
        yield DemoServer(_address(process, log), key, read_key)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: "subprocess.Popen[str]", log: Path) -> str:
    """Wait until the server accepts requests, and return its address."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read_lines, args=(process, lines), name="demo-server-output", daemon=True).start()
    line = ""
    while not line.startswith(SERVING):
        try:
            line = lines.get(timeout=START_SECONDS)
        except queue.Empty:
            raise DemoFailed(f"the server did not start within {START_SECONDS:.0f} s") from None
        if not line:
            reason = log.read_text(encoding="utf-8").strip().splitlines()
            raise DemoFailed(
                reason[-1].removeprefix(ERROR_PREFIX) if reason else "the server ended before it was ready"
            )
    return line.removeprefix(SERVING).strip()


def _read_lines(process: "subprocess.Popen[str]", lines: "queue.SimpleQueue[str]") -> None:
    """Put each line that the server prints into the queue, and an empty text when it ends."""
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.put(line)
    lines.put("")
