"""Acknowledged means kept: kill -9 under load, again and again, loses nothing that was acknowledged."""

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import pytest

from glbandits.serving.storage.sqlite_store import SqliteStore

LONGEST = 0.4
"""Seconds that a writer lives at most."""


def kill_again_and_again(folder: Path, times: int, seed: int) -> int:
    """Kill a writer at random moments, each time going on with the store of the one before. Acknowledged events."""
    dice = random.Random(seed)
    path = folder / "events.db"
    acknowledged = 0
    with subprocess.Popen(
        [sys.executable, "-m", "tests.serving.storage.appender"],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        for _ in range(times):
            parent.stdin.write(f"{path}\n")
            lines = _lines_until_killed(parent.stdout, dice.uniform(0.0, LONGEST))
            _check(path, lines)
            acknowledged += len(lines)
        parent.stdin.close()
    return acknowledged


def _lines_until_killed(output: IO[str], seconds: float) -> list[str]:
    pid = int(output.readline().split()[1])
    killer = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
    killer.start()
    lines = []
    while (line := output.readline()) != "dead\n":
        assert line.endswith("\n"), "the writers' parent died"
        lines.append(line)
    killer.join()
    return lines


def _check(path: Path, lines: list[str]) -> None:
    store = SqliteStore(path)
    assert store.check() == []
    found = {each.decision.event_id: each for each in store.search("shop", "", 10**6)}
    for line in lines:
        kind, name = line.split()
        assert name in found, f"{name} was acknowledged and is lost"
        assert kind == "d" or len(found[name].rewards) == 1, f"the reward of {name} was acknowledged and is lost"
    store.delete_log("shop")
    store.close()


def test_ten_kills_lose_nothing(tmp_path: Path) -> None:
    assert kill_again_and_again(tmp_path, times=10, seed=1) > 100


@pytest.mark.slow
def test_two_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    assert kill_again_and_again(tmp_path, times=200, seed=2) > 2_000
