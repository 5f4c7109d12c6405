"""CPU and latency of the service beside a bare uvicorn reply and FastAPI applications, and its throughput.

The ratios to the bare reply of the same run are the result. Absolute times depend on the machine.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.service_load import UNIQUE, post, send
from benchmarks.service_servers import Server, cpu_seconds, new_key, postgres, rival, service

ACTIONS, FEATURES = 20, 6
CONNECTIONS = 16
SECONDS = 1
TURNS = int(os.environ.get("GLB_BENCHMARK_TURNS", "6"))
"""The contestants take turns, because others may use the machine. The turn with the least CPU of each counts."""
EVENTS = 200
"""Decisions that the rewards are for."""
BARE, JSON, RANK = "bare uvicorn reply", "decision, JSON", "Personalizer rank"
WANTED = {JSON: 5.0, RANK: 10.0}
"""Limits of CPU per request, as ratios to the bare reply, with SQLite and one process."""
RANKER_HOSTS = ("127.0.0.1", "127.0.0.2")
RANKER_CONNECTIONS = 64
WANTED_RATE = 2000
"""Durable decisions a second of both rankers together."""


class Case(NamedTuple):
    """A contestant."""

    name: str
    server: Server
    requests: Sequence[bytes]


class Measured(NamedTuple):
    """A turn of a contestant."""

    cpu: float
    """Seconds of CPU of the server for each request."""
    database: float
    """Seconds of CPU of PostgreSQL for each request."""
    rate: float
    """Requests a second."""
    p50: float
    p99: float


def report() -> None:
    """Print the table of each store and number of processes, then the throughput of two rankers."""
    for processes in (1, 2):
        for durability in ("process", "power"):
            with tempfile.TemporaryDirectory() as folder:
                store = str(Path(folder) / "events.db")
                _compare(f"SQLite, durability {durability}", store, durability, processes, None)
        with postgres() as (store, pid):
            _compare("PostgreSQL", store, "process", processes, pid)
    with postgres() as (store, pid):
        _report_rankers(store, pid)


def _compare(title: str, store: str, durability: str, processes: int, database: int | None) -> None:
    key, best = new_key(store), dict[str, Measured]()
    with (
        rival("bare", processes) as bare,
        rival("app", processes) as fastapi,
        service(store, key, durability=durability, processes=processes) as ours,
    ):
        cases = _cases(bare, fastapi, ours)
        for turn in range(TURNS + 1):
            for case in cases:
                measured = _measure([case.server], case.requests, CONNECTIONS, database)
                if turn:  # the first one warms up
                    best[case.name] = min(best.get(case.name, measured), measured)
        durable = _degraded(ours) == 0
    print(f"{title}, processes: {processes}. {CONNECTIONS} connections, best of {TURNS} turns")
    print(f"  {'':34s}   CPU us  / bare  database us  requests/s  p50 ms  p99 ms")
    for name, one in best.items():
        times = f"{one.rate:10.0f}  {one.p50 * 1e3:6.2f}  {one.p99 * 1e3:6.2f}"
        limit = f"  (wanted: at most {WANTED[name]:g} x bare)" if name in WANTED and database is None else ""
        ratio = one.cpu / best[BARE].cpu
        print(f"  {name:34s}  {one.cpu * 1e6:7.0f}  {ratio:6.2f}  {one.database * 1e6:11.0f}  {times}{limit}")
    print(f"  {'all' if durable else 'NOT all'} decisions were durable when they were returned\n", flush=True)


def _measure(servers: Sequence[Server], requests: Sequence[bytes], connections: int, database: int | None) -> Measured:
    def used() -> tuple[float, float]:
        return sum(server.cpu_seconds() for server in servers), cpu_seconds(database) if database else 0.0

    before = used()
    results = send({server.address: requests for server in servers}, SECONDS, connections)
    after = used()
    if errors := sum(result.errors for result in results):
        raise RuntimeError(f"{errors} requests failed")
    total = sum(result.requests for result in results)
    rate = sum(result.requests / result.seconds for result in results)
    cpu, database_cpu = ((late - early) / total for early, late in zip(before, after, strict=True))
    return Measured(cpu, database_cpu, rate, max(one.p50 for one in results), max(one.p99 for one in results))


def _degraded(server: Server) -> float:
    """Decisions that the server returned before they were durable."""
    lines = server.call("GET", "/metrics").decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("glb_degraded_total{"))


def _cases(bare: Server, fastapi: Server, ours: Server) -> list[Case]:
    """The contestants. The loops of the service have learned a little before."""
    rng = np.random.default_rng(0)
    vectors = [arms.tolist() for arms in rng.uniform(-1, 1, (64, ACTIONS, FEATURES)).round(6)]
    described = [_described(arms) for arms in vectors]
    _teach(ours, vectors, described)
    numbers = [_json({"arms": arms}) for arms in vectors]
    floats = [np.array(arms, "<f4").tobytes() for arms in vectors]
    objects = [_json(question) for question in described]
    rewards = [_json({"eventId": f"event-{i}", "value": rng.random(), "key": UNIQUE.decode()}) for i in range(EVENTS)]
    dense, key = "/loops/dense/v1", ours.key
    octets = "application/octet-stream"
    return [
        Case(BARE, bare, [post("/", body) for body in numbers]),
        Case(JSON, ours, [post(f"{dense}/decide", body, key) for body in numbers]),
        Case("decision, float32", ours, [post(f"{dense}/decide?arms={ACTIONS}", body, key, octets) for body in floats]),
        Case(RANK, ours, [post("/personalizer/v1.0/rank", body, key) for body in objects]),
        Case("reward", ours, [post(f"{dense}/reward", body, key) for body in rewards]),
        Case("FastAPI, JSON, NumPy weights", fastapi, [post("/numpy", body) for body in numbers]),
        Case("FastAPI, JSON, scikit-learn", fastapi, [post("/decide", body) for body in numbers]),
        Case("FastAPI, objects, scikit-learn", fastapi, [post("/rank", body) for body in objects]),
    ]


def _teach(server: Server, vectors: Sequence[Any], described: Sequence[Any]) -> None:
    """Let both loops learn, then make the decisions that rewards are sent for."""
    for loop, settings in (("default", {}), ("dense", {"width": FEATURES})):
        _configure(server, loop, settings | {"rewardWait": 1.0, "modelUpdate": 0.05})
    for i in range(EVENTS):
        server.call("POST", "/personalizer/v1.0/rank", described[i % 64] | {"eventId": f"learned-{i}"})
        server.call("POST", f"/personalizer/v1.0/events/learned-{i}/reward", {"value": i % 2})
        server.call("POST", "/loops/dense/v1/decide", {"eventId": f"learned-{i}", "arms": vectors[i % 64]})
        server.call("POST", "/loops/dense/v1/reward", {"eventId": f"learned-{i}", "value": i % 2})
    time.sleep(2.0)  # they are learned
    for loop in ("default", "dense"):
        _configure(server, loop, {"rewardWait": 3600.0, "modelUpdate": 1.0})
    time.sleep(2.0)  # all processes have the configuration
    for i in range(EVENTS):
        server.call("POST", "/loops/dense/v1/decide", {"eventId": f"event-{i}", "arms": vectors[i % 64]})


def _configure(server: Server, loop: str, settings: dict[str, Any]) -> None:
    server.call("PATCH", f"/loops/{loop}/v1/configuration", settings)


def _described(arms: list[list[float]]) -> dict[str, Any]:
    """The same actions as JSON objects, as programs for Personalizer describe them."""
    names = ("price", "age", "rank", "clicks", "size", "score")
    return {
        "contextFeatures": [{"hour": "morning", "device": {"mobile": True}}],
        "actions": [
            {"id": f"action-{i}", "features": [{"topic": f"topic-{i}"} | dict(zip(names, row, strict=True))]}
            for i, row in enumerate(arms)
        ],
    }


def _json(content: Any) -> bytes:
    return json.dumps(content).encode()


def _report_rankers(store: str, database: int) -> None:
    """Print the durable decisions a second of one ranker and of two, each at an address of its own."""
    with _rankers(store) as rankers:
        cases = _cases(rankers[0], rankers[0], rankers[0])
        for name in (JSON, RANK):
            requests = next(case.requests for case in cases if case.name == name)
            for count in (1, 2):
                turns = [_measure(rankers[:count], requests, RANKER_CONNECTIONS, database) for _ in range(TURNS + 1)]
                _show_rankers(name, count, turns[1:])
        degraded = sum(map(_degraded, rankers))
    print(f"  decisions returned before they were durable: {degraded:g}")


@contextmanager
def _rankers(store: str) -> Iterator[list[Server]]:
    key = new_key(store)
    with ExitStack() as stack:
        yield [stack.enter_context(service(store, key, host=host)) for host in RANKER_HOSTS]


def _show_rankers(name: str, count: int, turns: Sequence[Measured]) -> None:
    best = max(turns, key=lambda one: one.rate)
    rates = sorted(one.rate for one in turns)
    per_core = 1 / min(one.cpu + one.database for one in turns)
    wanted = f" (wanted: {WANTED_RATE})" if count == 2 and name == JSON else ""
    print(
        f"PostgreSQL, {name}, {count} rankers, {RANKER_CONNECTIONS} connections each: {best.rate:.0f} a second{wanted}, "
        f"median turn {rates[len(rates) // 2]:.0f}, {per_core:.0f} for each core of rankers and database, "
        f"ranker {best.cpu * 1e6:.0f} us, database {best.database * 1e6:.0f} us, "
        f"p50 {best.p50 * 1e3:.1f} ms, p99 {best.p99 * 1e3:.1f} ms",
        flush=True,
    )
