"""Servers over one store, each in its own process, that are killed and started again."""

import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from glbandits.service.storage.open_store import is_postgres
from tests.service.helpers import wait_until
from tests.service.http.servers.server_process import GLB, Running, running


class Ranker:
    """A server that is started and killed many times. Its port changes with each start.

    Args:
        folder: for its log.
        store: address of the store.
        host: IP address to listen at.
    """

    def __init__(self, folder: Path, store: str, host: str) -> None:
        self.name = f"ranker {host}"
        self.folder = folder / host
        self.folder.mkdir()
        self._host = host
        self._store = f"{store}&application_name={self.name.replace(' ', '%20')}" if is_postgres(store) else store
        self._stack = ExitStack()
        self.server: Running

    def start(self) -> None:
        """Start the server. Returns when it answers."""
        self.server = self._stack.enter_context(
            running(self.folder, "--host", self._host, store=self._store, compile_mode="now")
        )

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self.server.signal(signal.SIGKILL)
        assert self.server.wait() == -signal.SIGKILL
        self._stack.close()

    def stop(self) -> None:
        """Stop the server with SIGTERM, and check that it ended in order."""
        self.server.signal(signal.SIGTERM)
        assert self.server.wait() == 0
        self._stack.close()

    def start_and_kill(self, seconds: float) -> None:
        """Start another server of the same store, and kill it after so many seconds."""
        command = [*GLB, "serve", "--port", "0", "--store", self._store]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()

    def close(self) -> None:
        """Kill the server if it runs."""
        self._stack.close()


@contextmanager
def rankers(folder: Path, store: str, hosts: Sequence[str]) -> Iterator[list[Ranker]]:
    """Start a ranker at each host, all at once, over an empty store. They are killed at the end."""
    started = [Ranker(folder, store, host) for host in hosts]
    try:
        start_all(started)
        yield started
    finally:
        for ranker in started:
            ranker.close()


def start_all(stopped: Sequence[Ranker]) -> None:
    """Start rankers at the same moment."""
    with ThreadPoolExecutor(len(stopped)) as pool:
        list(pool.map(Ranker.start, stopped))


def first_key_of(started: Sequence[Ranker]) -> str:
    """The key that one of the rankers printed when they started over an empty store."""
    (key,) = [ranker.server.key for ranker in started if ranker.server.key is not None]
    return key


def configure(started: Sequence[Ranker], key: str, configuration: dict[str, Any]) -> float:
    """Change the configuration at the first ranker. Returns the seconds until all rankers had it."""
    reply = started[0].server.ask("PATCH", "/v1/configuration", configuration, key)
    assert reply.status == 200, reply
    wanted, began = {name: reply.json[name] for name in configuration}, time.monotonic()

    def configured(ranker: Ranker) -> bool:
        current: dict[str, Any] = ranker.server.ask("GET", "/v1/configuration", key=key).json
        return wanted.items() <= current.items()

    wait_until(lambda: all(map(configured, started)))
    return time.monotonic() - began
