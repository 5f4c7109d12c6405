"""CPU and latency of the service and of FastAPI, and the throughput of two rankers.

The ratios to the bare reply of the same run are the result. Absolute times depend on the machine.
"""

import json
import os
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.service_load import UNIQUE, post, send
from benchmarks.service_servers import GLB, UVICORN, Server, cpu_seconds, new_key, postgres, running

ACTIONS, FEATURES = 20, 6
CONNECTIONS, SECONDS = 16, 1
TURNS = int(os.environ.get("GLB_BENCHMARK_TURNS", "6"))
"""The cases take turns, because other work may use the machine. "Best" is the turn of a case with the least CPU,
"median" is the median of its ratios to the bare reply of the same turn. One more turn warms up first."""
LOOPS = "default,dense,guarded"
EVENTS = 200
"""Number of decisions that receive rewards."""
BARE, JSON, GUARDED, RANK = "bare uvicorn reply", "decision, JSON", "decision, guarded loop", "Personalizer rank"
BATCH, BATCH_SIZE = "decision in a batch of 50", 50
WANTED = {JSON: 7.0, RANK: 12.0, BATCH: 4.0}
"""Limits of CPU relative to the bare reply, with SQLite and durability process."""
GUARDED_LIMIT = 1.25
"""Limit of CPU of a decision with a unit in a loop with a control group and two metrics, relative to one without."""
HOSTS, RANKER_CONNECTIONS = ("127.0.0.1", "127.0.0.2"), 64
"""Of the two rankers. Target: 2,000 durable decisions per second together."""


class Case(NamedTuple):
    """A server and the requests that it gets."""

    name: str
    server: Server
    requests: Sequence[bytes]
    size: int = 1
    """Decisions in a request, which are measured instead of requests."""


class Measured(NamedTuple):
    """The measurements of one turn of a case."""

    cpu: float
    """CPU seconds of the server per request."""
    database: float
    """CPU seconds of PostgreSQL per request."""
    rate: float
    """Requests per second."""
    p50: float
    p99: float


def report() -> None:
    """Print a table for each store, then the rankers' throughput."""
    for durability in ("process", "power"):
        with tempfile.TemporaryDirectory() as folder:
            _compare(f"SQLite, durability {durability}", f"{folder}/events.db", durability)
    with postgres() as (store, pid):
        _compare("PostgreSQL", store, "process", pid)
    with postgres() as (store, pid):
        _report_rankers(store, pid)


def _compare(title: str, store: str, durability: str, database: int | None = None) -> None:
    key, turns = new_key(store), dict[str, list[Measured]]()
    options = [f"--store={store}", f"--loops={LOOPS}"]
    with (
        running(*UVICORN, "benchmarks.service_baselines:bare") as empty,
        running(*UVICORN, "benchmarks.service_baselines:app") as fastapi,
        running(*GLB, *options, key=key, durability=durability) as ours,
    ):
        cases = cases_of(empty, fastapi, ours)
        for _ in range(TURNS + 1):
            for case in cases:
                turn = measure([case.server], case.requests, CONNECTIONS, database, case.size)
                turns.setdefault(case.name, []).append(turn)
    print(f"{title} ({CONNECTIONS} connections, {TURNS} turns)")
    print(f"  {'':30s}  CPU us  best / bare  median / bare  database us  requests/s  p50 ms  p99 ms")
    for name, measured in turns.items():
        best, ratios = (
            min(measured[1:]),
            [turn.cpu / bare.cpu for turn, bare in zip(measured, turns[BARE], strict=True)],
        )
        cpu = f"{best.cpu * 1e6:6.0f}  {best.cpu / min(turns[BARE][1:]).cpu:11.2f}  {np.median(ratios[1:]):13.2f}"
        rest = f"{best.database * 1e6:11.0f}  {best.rate:10.0f}  {best.p50 * 1e3:6.2f}  {best.p99 * 1e3:6.2f}"
        print(f"  {name:30s}  {cpu}  {rest}", flush=True)
    ratios = [own.cpu / plain.cpu for own, plain in zip(turns[GUARDED][1:], turns[JSON][1:], strict=True)]
    print(f"  {GUARDED}: {np.median(ratios):.2f} of the CPU of {JSON} (median; limit {GUARDED_LIMIT})")
    print(f"  limits for SQLite, durability process: {WANTED}\n")


def measure(
    servers: Sequence[Server], requests: Sequence[bytes], connections: int, database: int | None, size: int = 1
) -> Measured:
    """Send requests to all servers for some seconds. `size` is `Case.size`."""

    def used() -> Any:
        return np.array(
            [sum(cpu_seconds(server.pid) for server in servers), cpu_seconds(database) if database else 0.0]
        )

    before = used()
    results = send([server.address for server in servers], requests, SECONDS, connections)
    cpu, database_cpu = ((used() - before) / sum(size * result.requests for result in results)).tolist()
    if errors := sum(result.errors for result in results):
        raise RuntimeError(f"{errors} requests failed")
    rate = sum(size * result.requests / result.seconds for result in results)
    return Measured(cpu, database_cpu, rate, max(load.p50 for load in results), max(load.p99 for load in results))


def cases_of(bare: Server, fastapi: Server, ours: Server) -> list[Case]:
    """Teach both loops of our server, and return all cases."""
    rng = np.random.default_rng(0)
    vectors = [arms.tolist() for arms in rng.uniform(-1, 1, (64, ACTIONS, FEATURES)).round(6)]
    described = [_described(arms) for arms in vectors]
    _teach(ours, vectors, described)
    numbers, objects = [as_json({"arms": arms}) for arms in vectors], [as_json(question) for question in described]
    of_units = [as_json({"arms": arms, "unit": f"user-{UNIQUE.decode()}"}) for arms in vectors]
    rewards = [as_json({"eventId": f"event-{i}", "value": i % 2, "key": UNIQUE.decode()}) for i in range(EVENTS)]
    batches = [
        as_json({"decide": [{"arms": vectors[(first + i) % 64]} for i in range(BATCH_SIZE)]}) for first in (0, 32)
    ]
    decide, key = "/loops/dense/v1/decide", ours.key
    return [
        Case(BARE, bare, [post("/", body) for body in numbers]),
        Case(JSON, ours, [post(decide, body, key) for body in numbers]),
        Case(BATCH, ours, [post("/loops/dense/v1/batch", body, key) for body in batches], BATCH_SIZE),
        Case(GUARDED, ours, [post("/loops/guarded/v1/decide", body, key) for body in of_units]),
        Case(RANK, ours, [post("/personalizer/v1.0/rank", body, key) for body in objects]),
        Case("reward", ours, [post("/loops/dense/v1/reward", body, key) for body in rewards]),
        Case("FastAPI, JSON, NumPy", fastapi, [post("/decide", body) for body in numbers]),
        Case("FastAPI, objects, scikit-learn", fastapi, [post("/rank", body) for body in objects]),
    ]


def _described(arms: list[list[float]]) -> dict[str, Any]:
    """The same actions as JSON objects, in the form of Personalizer's API."""
    names = ("price", "age", "rank", "clicks", "size", "score")
    actions = [
        {"id": f"action-{i}", "features": [{"topic": f"topic-{i}"} | dict(zip(names, row, strict=True))]}
        for i, row in enumerate(arms)
    ]
    return {"contextFeatures": [{"hour": "morning", "device": {"mobile": True}}], "actions": actions}


def as_json(content: Any) -> bytes:
    """Return the content as the body of a request."""
    return json.dumps(content).encode()


def _teach(server: Server, vectors: Sequence[Any], described: Sequence[Any]) -> None:
    """Let both loops learn some rewards, then make the decisions that receive rewards."""
    rank, dense, guarded = "/personalizer/v1.0", "/loops/dense/v1", "/loops/guarded/v1"
    metrics = {name: {"range": [0, 1000], "good": "lower"} for name in ("latency_ms", "returned")}
    guards = {"width": FEATURES, "rewardRange": [0, 1], "control": {"share": 0.1}, "metrics": metrics}
    for path, settings in (("/v1", {}), (dense, {"width": FEATURES}), (guarded, guards)):
        server.call("PATCH", f"{path}/configuration", settings | {"rewardWait": 1.0, "modelUpdate": 0.05})
    time.sleep(2)
    for i in range(EVENTS):
        server.call("POST", f"{rank}/rank", described[i % 64] | {"eventId": f"learned-{i}"})
        server.call("POST", f"{rank}/events/learned-{i}/reward", {"value": i % 2})
        for path in (dense, guarded):
            server.call("POST", f"{path}/decide", {"eventId": f"learned-{i}", "arms": vectors[i % 64]})
            server.call("POST", f"{path}/reward", {"eventId": f"learned-{i}", "value": i % 2})
    time.sleep(2)  # the decisions are learned
    for path in ("/v1", dense, guarded):
        server.call("PATCH", f"{path}/configuration", {"rewardWait": 3600.0, "modelUpdate": 1.0})
    time.sleep(2)
    for i in range(EVENTS):
        server.call("POST", f"{dense}/decide", {"eventId": f"event-{i}", "arms": vectors[i % 64]})


def _report_rankers(store: str, database: int) -> None:
    """Print the durable decisions per second of one ranker and of two."""
    command, key = [*GLB, f"--store={store}", f"--loops={LOOPS}"], new_key(store)
    with running(*command, key=key, host=HOSTS[0]) as first, running(*command, key=key, host=HOSTS[1]) as second:
        for name, _, requests, _ in [case for case in cases_of(first, first, first) if case.name == JSON]:
            degraded, turns = _degraded(first, second), dict[int, list[Measured]]({1: [], 2: []})
            for _ in range(TURNS):
                for count, measured in turns.items():
                    measured.append(measure([first, second][:count], requests, RANKER_CONNECTIONS, database))
            for count, measured in turns.items():
                best, median = max(measured, key=lambda run: run.rate), np.median([run.rate for run in measured])
                cpu = min(run.cpu + run.database for run in measured)
                print(
                    f"PostgreSQL, {name}, rankers: {count}, {RANKER_CONNECTIONS} connections each: {best.rate:.0f} "
                    f"a second (median {median:.0f}), p50 {best.p50 * 1e3:.0f} ms, p99 {best.p99 * 1e3:.0f} ms, "
                    f"{cpu * 1e6:.0f} us with the database: {1 / cpu:.0f} a second for each core",
                    flush=True,
                )
            print(f"  of these, {_degraded(first, second) - degraded} were returned before they were durable")


def _degraded(*servers: Server) -> int:
    lines = b"".join(server.call("GET", "/metrics") for server in servers).decode().splitlines()
    return sum(round(float(line.split()[-1])) for line in lines if line.startswith("glb_degraded_total{"))
