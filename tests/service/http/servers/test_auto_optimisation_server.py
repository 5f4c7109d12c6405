"""Auto-optimisation of real servers: `glb serve` in processes of their own, on both kinds of stores."""

import signal
import time
from collections.abc import Callable
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psutil
import pytest

from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.optimisation_rules import OPTIMISATION
from glbandits.service.runtime.loops.loop_documents import CONFIGURATION
from glbandits.service.runtime.service import microseconds
from glbandits.service.storage.open_store import open_store
from tests.service.export.written_loop import ARMS, play, uniform_loop
from tests.service.http.servers.server_process import Running, running
from tests.service.runtime.loops.loop_helpers import Clock

pytestmark = pytest.mark.slow

LONGEST = 300.0
"""Seconds: on a busy machine, the other process, at low priority, takes minutes to start and to compile."""
SERVICE = "/personalizer/v1.1-preview.3/configurations/service"
ON = {"isAutoOptimizationEnabled": True, "autoOptimizationStartDate": "2020-01-01T00:00:00Z"}


def write_log(address: str, rounds: int = 3000, gain: float = 0.4) -> None:
    with closing(open_store(address, durability="process")) as store:
        clock = Clock()
        clock.now = microseconds() - 600_000_000
        play(uniform_loop(store, clock), store, clock, rounds, gain)


def until(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + LONGEST
    while not (result := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return result


def last_look(server: Running, key: str | None = None) -> Any:
    status = server.ask("GET", "/v1/status", key=key).json
    return status["optimisation"]["last"] | {"policy": status["policy"]} if status["optimisation"]["last"] else None


def optimisers(server: Running) -> list[psutil.Process]:
    """The processes of looks that run."""
    children = psutil.Process(server.process.pid).children()
    return [child for child in children if any("spawn_main" in word for word in child.cmdline())]


def saved(address: str) -> tuple[str, int]:
    """The policy of the loop in the store, and the number of looks."""
    with closing(open_store(address, durability="process")) as store:
        configuration = store.latest_document("default", CONFIGURATION)
        assert configuration is not None
        policy = msgspec.json.decode(configuration.body, type=LoopConfig).policy
        return policy, len(store.documents("default", OPTIMISATION))


def share_of_the_best(server: Running, key: str | None) -> float:
    request_body = {"decide": [{"arms": ARMS.tolist()} for _ in range(200)]}
    made = server.ask("POST", "/v1/batch", request_body, key).json["decide"]
    return float(np.mean([one["decided"]["arm"] == 0 for one in made]))


def is_better(server: Running, key: str | None) -> bool:
    return last_look(server, key)["policy"] == "optimist" and share_of_the_best(server, key) > 0.72


def test_one_of_two_servers_promotes_a_better_policy(tmp_path: Path, new_address: Callable[[], str]) -> None:
    address = new_address()
    write_log(address)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with running(tmp_path / "one", store=address) as first, running(tmp_path / "two", store=address) as second:
        key = first.key
        assert share_of_the_best(first, key) < 0.4
        reply = first.ask("PUT", SERVICE, ON, key)
        assert reply.status == 200, reply.body
        look = until(lambda: last_look(second, key), "no look was seen")
        assert look["verdict"] == "promote"
        assert look["decisions"] in (3000, 3200)  # the 200 above may be learned by then
        assert look["sentence"].startswith("Promoted optimist: it is better than uniform by")
        assert look["gains"]["optimist"]["low"] > 0.0
        for server in (first, second):
            # Known: 0.8 + 0.2 / 4. Five standard deviations of 200 draws are 0.13.
            until(partial(is_better, server, key), "decisions are no better")
        assert first.ask("GET", SERVICE, key=key).json["isAutoOptimizationEnabled"]
        logged = first.errors.read_text() + second.errors.read_text()
        assert logged.count("Loop default: auto-optimisation: Promoted optimist") == 1
    assert saved(address) == ("optimist", 1)


def test_a_policy_without_a_difference_stays(tmp_path: Path) -> None:
    # False alarms: at most 2.5 %, and the seed of the rewards is fixed.
    address = str(tmp_path / "store.db")
    write_log(address, gain=0.0)
    with running(tmp_path) as server:
        sent = {"autoOptimisation": True, "rewardRange": [0, 1]}
        assert server.ask("PATCH", "/v1/configuration", sent).status == 200
        look = until(lambda: last_look(server), "no look was seen")
        assert (look["verdict"], look["policy"]) == ("wait", "uniform")
        assert look["sentence"].startswith("Wait: the log does not have enough evidence yet")
    assert saved(address) == ("uniform", 1)


@contextmanager
def looking(folder: Path) -> Any:
    """A server in the middle of a look, and the process of the look."""
    with running(folder) as server:
        if server.key is not None:
            assert server.ask("PUT", SERVICE, ON).status == 200
        yield server, until(lambda: optimisers(server), "no look began")[0]


def test_a_killed_server_leaves_the_loop_and_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    address = str(tmp_path / "store.db")
    write_log(address, rounds=20_000)
    with looking(tmp_path) as (server, process):
        until(lambda: any((tmp_path / "temporary").glob("*/log/*.parquet")), "no log was exported")
        key = server.key
        server.signal(signal.SIGKILL)
        server.wait()
        process.wait(LONGEST)
    assert saved(address) == ("uniform", 0)
    assert list((tmp_path / "temporary").iterdir()) == []
    with running(tmp_path) as again:
        look = until(lambda: last_look(again, key), "the look was not repeated")
        assert (look["verdict"], look["policy"]) == ("promote", "optimist")


def test_a_running_look_does_not_delay_the_stop(tmp_path: Path) -> None:
    address = str(tmp_path / "store.db")
    write_log(address, rounds=20_000)
    with looking(tmp_path) as (server, process):
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert not process.is_running()
    assert saved(address) == ("uniform", 0)
