"""A real server in a process of its own, and requests to it."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from glbandits.service.server_settings import PREFIX

GLB = (sys.executable, "-c", "from glbandits.cli.main import main; main()")
ACTIONS = [{"id": "tea", "features": [{"hot": True}]}, {"id": "cola", "features": [{"hot": False}]}]


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


class Running:
    """A server that runs, and what it said when it started."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self.process, self.errors = process, folder / "stderr"
        assert process.stdout is not None
        self.printed = ""
        while line := process.stdout.readline():
            self.printed += line
            if line.startswith("Serving at "):
                break
        assert line, f"the server did not start: {self.printed}{self.errors.read_text()}"
        self.address = line.split()[-1]
        while not self.printed.rstrip().endswith("'"):  # the last line is the one to try
            self.printed += process.stdout.readline()
        key = re.search(r"^Key: (\S+)$", self.printed, re.MULTILINE)
        self.key = key[1] if key else None

    def connect(self) -> http.client.HTTPConnection:
        """A connection, for many requests."""
        parts = urlsplit(self.address)
        assert parts.hostname is not None
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None, **headers: str) -> Reply:
        """One request on a connection of its own."""
        connection = self.connect()
        try:
            return ask(connection, method, path, body, key or self.key, **headers)
        finally:
            connection.close()

    def metric(self, name: str, key: str | None = None) -> float:
        """The value of a metric without labels, or its first one with them."""
        lines = self.ask("GET", "/metrics", key=key).body.decode().splitlines()
        return float(next(line for line in lines if line.startswith((f"{name} ", f"{name}{{"))).split()[-1])

    def learns(self, key: str | None = None) -> bool:
        """Whether this server learns."""
        return self.metric("glb_learner", key) == 1.0

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Until it has ended: its exit code."""
        return self.process.wait(timeout=120)


def eventually(true: Callable[[], bool]) -> bool:
    """Whether something becomes true within a minute: long, because the tests may run on a busy machine."""
    end = time.monotonic() + 60
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any = None,
    key: str | None = None,
    **headers: str,
) -> Reply:
    """One request on a connection."""
    sent = {"Authorization": f"Bearer {key}"} if key else {}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, None if body is None else json.dumps(body), sent)
    response = connection.getresponse()
    return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


@contextmanager
def running(
    folder: Path,
    *options: str,
    command: Sequence[str] = GLB,
    store: str | None = None,
    compile_mode: str = "never",
    **settings: str,
) -> Iterator[Running]:
    """Run a server with its store at an address, or else in this folder. It is killed if it still runs at the end.

    `settings` are those of the environment: `max_body="2000"` is GLB_SERVE_MAX_BODY.

    A server that compiles "now" keeps up with many clients. For few requests, "never" saves half a minute.
    """
    words = [*command, "serve", "--port", "0", "--store", store or str(folder / "store.db"), *options]
    with (folder / "stderr").open("a") as errors:
        environment = os.environ | {"GLBANDITS_COMPILE": compile_mode}
        environment |= {PREFIX + name.upper(): value for name, value in settings.items()}
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder, env=environment)
    try:
        yield Running(process, folder)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
