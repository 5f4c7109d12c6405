"""The server of `glb demo`: `glb serve` in a process of its own."""

import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from glbandits.cli.demo_shop import DemoFailed

REWARD_WINDOW = "1s"
START_SECONDS, STOP_SECONDS = 120.0, 20.0


class DemoServer(NamedTuple):
    """A server that answers."""

    address: str
    key: str
    """A key with all scopes."""


@contextmanager
def demo_server(store: Path, port: int, log: Path) -> Iterator[DemoServer]:
    """Run `glb serve` with a new store, and stop it at the end. Raises DemoFailed with its error if it does not start.

    Args:
        store: the new SQLite file.
        port: 0 for any free port.
        log: the file for the log of the server.
    """
    flags = ("--store", str(store), "--port", str(port), "--reward-window", REWARD_WINDOW)
    command = (sys.executable, "-m", "glbandits.cli.main", "serve", *flags)
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(  # in a session of its own, so that Ctrl-C reaches the demo alone
            command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
    try:
        yield _started(process, log)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _started(process: "subprocess.Popen[str]", log: Path) -> DemoServer:
    """Wait until the server has printed its address and its key."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read_lines, args=(process, lines), name="demo-server-output", daemon=True).start()
    printed = ""
    while not (key := re.search(r"^Key: (\S+)$", printed, re.MULTILINE)):
        try:
            line = lines.get(timeout=START_SECONDS)
        except queue.Empty:
            raise DemoFailed(f"the server did not start within {START_SECONDS:.0f} s") from None
        if not line:
            reason = log.read_text(encoding="utf-8").strip().splitlines()
            raise DemoFailed(reason[-1].removeprefix("glb: ") if reason else "the server ended before it was ready")
        printed += line
    address = re.search(r"^Serving at (\S+)$", printed, re.MULTILINE)
    assert address is not None
    return DemoServer(address[1], key[1])


def _read_lines(process: "subprocess.Popen[str]", lines: "queue.SimpleQueue[str]") -> None:
    """Pass on the lines of the server, then an empty text when it ends."""
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.put(line)
    lines.put("")
