"""Acknowledged means durable: kill -9 under load, again and again, loses nothing that was acknowledged."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

import pytest

from glbandits.service.storage.open_store import open_store
from tests.service.helpers import wait_until
from tests.service.storage.postgres.postgres_server import PostgresServer

pytestmark = pytest.mark.system


@contextmanager
def appender() -> Iterator[tuple[IO[str], IO[str]]]:
    """Input and output of the process that forks writers."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.service.storage.appender"],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        yield parent.stdin, parent.stdout
        parent.stdin.close()


def kill_writers(address: str, times: int, seed: int, longest: float = 0.4) -> int:
    """Kill writers while they start, or at most `longest` seconds after their first acknowledged event.

    Returns the number of acknowledged events.
    """
    dice = random.Random(seed)
    acknowledged = 0

    def wait(lines: list[str]) -> None:
        if dice.random() < 0.8:
            wait_until(lambda: bool(lines))
        time.sleep(dice.uniform(0.0, longest))

    with appender() as (commands, output):
        for _ in range(times):
            commands.write(f"{address}\n")
            lines = lines_until_killed(output, wait)
            check(address, lines)
            acknowledged += len(lines)
    return acknowledged


def kill_database(server: PostgresServer, times: int, seed: int) -> int:
    """Kill the database under a writer, several times. Returns the number of acknowledged events."""
    dice = random.Random(seed)
    address = server.new_address()

    def kill_and_restart(lines: list[str]) -> None:
        for _ in range(times):
            wait_for_more(lines)
            time.sleep(dice.uniform(0.0, 0.5))
            server.kill()
            server.start()
        wait_for_more(lines)

    with appender() as (commands, output):
        commands.write(f"{address}\n")
        lines = lines_until_killed(output, kill_and_restart)
    check(address, lines)
    return len(lines)


def wait_for_more(lines: list[str]) -> None:
    """Wait until the writer has more events acknowledged."""
    before = len(lines)
    wait_until(lambda: len(lines) > before)


def lines_until_killed(output: IO[str], wait: Callable[[list[str]], None]) -> list[str]:
    """Kill the writer when `wait` returns. Returns what it printed."""
    pid = int(output.readline().split()[1])

    problems: list[BaseException] = []

    def kill() -> None:
        try:
            wait(lines)
        except BaseException as error:
            problems.append(error)
        finally:
            os.kill(pid, signal.SIGKILL)

    lines: list[str] = []
    killer = threading.Thread(target=kill)
    killer.start()
    while (line := output.readline()) != "dead\n":
        assert line.endswith("\n"), "the writers' parent died"
        lines.append(line)
    killer.join()
    assert not problems, problems
    return lines


def check(address: str, lines: list[str]) -> None:
    with closing(open_store(address, durability="process")) as store:
        assert store.check() == []
        page = {each.decision.event_id: each for each in store.search("shop", "", 10**6)}
        for line in lines:
            kind, name = line.split()
            assert name in page, f"{name} was acknowledged and is lost"
            expected = {"d": {0, 1}, "r": {1}, "m": {1}, "refused-r": {0}, "refused-m": {0, 1}}[kind]
            metric = "ms" if kind.endswith("m") else ""
            count = sum(reward.metric == metric for reward in page[name].rewards)
            assert count in expected, f"{line.strip()}: {count} numbers"
        starts = store.units_after("shop", 0, 10**6)
        firsts = [start.first for start in starts]
        parts = [firsts[start : start + 1_000] for start in range(0, len(firsts), 1_000)]
        members = [(first, logged) for part in parts for first, logged in store.decisions_of_units(part, 10**6)]
        assert len(members) == len(page)
        assert len({logged.decision.unit for logged in page.values()}) == len(starts)
        assert len({(first, logged.decision.unit) for first, logged in members}) == len(starts)
        store.delete_log("shop")


def test_ten_kills_lose_nothing(tmp_path: Path) -> None:
    assert kill_writers(str(tmp_path / "events.db"), times=10, seed=1) > 100


def test_ten_kills_lose_nothing_in_postgres(postgres: PostgresServer) -> None:
    assert kill_writers(postgres.new_address(), times=10, seed=1, longest=1.0) > 100


def test_three_kills_of_the_database_lose_nothing(postgres: PostgresServer) -> None:
    assert kill_database(postgres, times=3, seed=1) > 100


@pytest.mark.slow
def test_two_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    assert kill_writers(str(tmp_path / "events.db"), times=200, seed=2) > 2_000


@pytest.mark.slow
def test_two_hundred_kills_lose_nothing_in_postgres(postgres: PostgresServer) -> None:
    assert kill_writers(postgres.new_address(), times=200, seed=2, longest=1.0) > 2_000


@pytest.mark.slow
def test_thirty_kills_of_the_database_lose_nothing(postgres: PostgresServer) -> None:
    assert kill_database(postgres, times=30, seed=2) > 2_000
