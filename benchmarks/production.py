"""Sizes of a running service: decisions a second, bytes a decision, restart with a long log, memory.

`GLB_BENCHMARK_DECISIONS` is the length of the log, a million by default, which takes some minutes.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import numpy as np

from benchmarks.service import ACTIONS, CONNECTIONS, FEATURES, JSON, RANK, TURNS, cases_of, measure
from benchmarks.service_load import send
from benchmarks.service_servers import GLB, Server, new_key, postgres, running

DECISIONS = int(os.environ.get("GLB_BENCHMARK_DECISIONS", "1000000"))
SAMPLE_SECONDS = 5
"""Duration of the load from which bytes are measured."""
BATCH, MAX_BODY = 400, 2**20
"""Decisions in a request that fills the log. Each has a reward."""
LOOPS = "--loops=default,dense"


def report() -> None:
    """Print a table for each measurement."""
    print(f"A JSON decision has {ACTIONS} actions of {FEATURES} numbers, a Personalizer rank as many with names.")
    for name, place in (("SQLite", _sqlite), ("PostgreSQL", postgres)):
        for processes in (1, 2):
            with place() as (store, database):
                _report_rates(name, store, processes, database)
        with place() as (store, _):
            _report_bytes(name, store)
        with place() as (store, _):
            _report_restart(name, store)


@contextmanager
def _sqlite() -> Iterator[tuple[str, None]]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"{folder}/glb.db", None


def _report_rates(name: str, store: str, processes: int, database: int | None) -> None:
    with running(*GLB, f"--store={store}", LOOPS, key=new_key(store), processes=processes) as server:
        for case in cases_of(server, server, server):
            if case.name in (JSON, RANK):
                turns = [measure([server], case.requests, CONNECTIONS, database) for _ in range(TURNS + 1)][1:]
                rates, p99 = [turn.rate for turn in turns], np.median([turn.p99 for turn in turns])
                print(
                    f"{name}, processes: {processes}, {case.name}: {np.median(rates):.0f} a second "
                    f"(best {max(rates):.0f}), p99 {p99 * 1e3:.0f} ms; memory {_memory(server.pid):.0f} MB",
                    flush=True,
                )


def _report_bytes(name: str, store: str) -> None:
    """Print by how many bytes a decision makes the store grow."""
    key = new_key(store)
    command = [*GLB, f"--store={store}", LOOPS]
    with running(*command, key=key) as server:
        cases = [case for case in cases_of(server, server, server) if case.name in (JSON, RANK)]
    for case in cases:
        before = _size(store)
        with running(*command, key=key) as server:
            (sent,) = send([server.address], case.requests, SAMPLE_SECONDS, CONNECTIONS)
        print(f"{name}, {case.name}: {(_size(store) - before) / sent.requests:.0f} bytes", flush=True)


def _report_restart(name: str, store: str) -> None:
    """Fill a log, and print how long a start takes with it, and with an empty one."""
    key, command = new_key(store), [*GLB, f"--store={store}"]
    _report_start(f"{name}, start with an empty log", command, key)
    with running(*command, key=key, max_body=MAX_BODY) as server:
        began = time.perf_counter()
        _fill(server)
        seconds, memory = time.perf_counter() - began, _memory(server.pid)
    print(f"{name}, {DECISIONS} decisions with rewards: written and learned in {seconds:.0f} s; memory {memory:.0f} MB")
    print(f"{name}, a decision with its reward: {_size(store) / DECISIONS:.0f} bytes")
    _report_start(f"{name}, start with {DECISIONS} decisions", command, key)


def _report_start(title: str, command: list[str], key: str) -> None:
    began = time.perf_counter()
    with running(*command, key=key) as server:
        while not _is_ready(server):
            time.sleep(0.05)
        print(f"{title}: ready in {time.perf_counter() - began:.1f} s; memory {_memory(server.pid):.0f} MB", flush=True)


def _fill(server: Server) -> None:
    server.call("PATCH", "/v1/configuration", {"width": FEATURES, "rewardWait": 5.0})
    rng = np.random.default_rng(0)
    for first in range(0, DECISIONS, BATCH):
        arms = rng.uniform(-1, 1, (BATCH, ACTIONS, FEATURES)).round(3).tolist()
        names = [f"{first + i:08d}" for i in range(BATCH)]
        decide = [{"eventId": name, "arms": rows} for name, rows in zip(names, arms, strict=True)]
        reward = [{"eventId": name, "value": float(rng.random() < 0.5)} for name in names]
        reply = json.loads(server.call("POST", "/v1/batch", {"decide": decide, "reward": reward}))
        assert all("problem" not in item for item in (*reply["decide"], *reply["reward"])), "the server is overloaded"
    while json.loads(server.call("GET", "/v1/status"))["learnedTo"] < 2 * DECISIONS - BATCH - 1:
        time.sleep(0.2)


def _is_ready(server: Server) -> bool:
    try:
        return bool(server.call("GET", "/readyz"))
    except HTTPError:
        return False


def _memory(pid: int) -> float:
    """Megabytes of a process and its descendants. A page that several share counts once (Pss)."""
    fields = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return int(fields[fields.index("Pss:") + 1]) * 1024 / 1e6 + sum(_memory(int(child)) for child in children)


def _size(store: str) -> int:
    """Bytes of a store."""
    if not store.startswith("postgresql"):
        return sum(file.stat().st_size for file in Path(store).parent.iterdir())
    import psycopg

    with psycopg.connect(store) as connection:
        row: Any = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        return int(row[0])
