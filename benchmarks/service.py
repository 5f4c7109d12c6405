"""What a decision costs over HTTP, beside what a bare reply of uvicorn costs in the same run."""

import http.client
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from benchmarks.service_load import Load, Measured, Running, bare_server, service

ACTIONS, FEATURES = 20, 6
CONNECTIONS = 16
SECONDS = 0.5
ROUNDS = 8
"""Times that each case is measured, beside a bare reply: the machine may be shared, so ratios are of neighbours."""
WANTED = {"JSON": 5.0, "Personalizer's JSON": 10.0}
"""Times the bare reply."""
REWARDED = 500
"""Events that rewards are sent for."""
BARE = "bare uvicorn reply"


def report() -> None:
    """Print CPU for each request of the server, as a ratio to the bare one, and how long replies took."""
    load = Load(CONNECTIONS)
    try:
        for durability, processes in (("process", 1), ("process", 2), ("power", 1)):
            with tempfile.TemporaryDirectory() as folder:
                results = _measure(load, Path(folder) / "events.db", durability, processes)
            _show(f"durability {durability}, processes {processes}", results)
    finally:
        load.close()


class Result(NamedTuple):
    """A case, with its best round and the median of its ratios to the bare reply beside it."""

    best: Measured
    ratio: float


def _measure(load: Load, store: Path, durability: str, processes: int) -> dict[str, Result]:
    best: dict[str, Measured] = {}
    ratios: dict[str, list[float]] = {BARE: [1.0]}
    with bare_server(400) as bare, service(store, durability, processes) as ours:
        cases = _cases(load, ours)
        for _ in range(ROUNDS):
            for name, requests in cases.items():
                beside = load.measure(bare, cases["JSON"], SECONDS)
                now = load.measure(ours, requests, SECONDS)
                ratios.setdefault(name, []).append(now.cpu / beside.cpu)
                for kind, measured in ((BARE, beside), (name, now)):
                    best[kind] = min(best.get(kind, measured), measured, key=lambda one: one.cpu)
    return {name: Result(measured, median(ratios[name])) for name, measured in best.items()}


def _show(title: str, results: dict[str, Result]) -> None:
    print(f"{ACTIONS} actions, {CONNECTIONS} connections, {title} ({ROUNDS} rounds)")
    print(f"  {'':30s} best CPU us  best / bare  median / bare  requests/s  p50 ms  p99 ms")
    for name, (best, ratio) in results.items():
        times = f"{best.p50 * 1e3:6.2f}  {best.p99 * 1e3:6.2f}"
        of_bests = best.cpu / results[BARE].best.cpu
        print(f"  {name:30s} {best.cpu * 1e6:11.0f}  {of_bests:11.2f}  {ratio:13.2f}  {best.rate:10.0f}  {times}")
    wanted = ", ".join(f"{name} {limit:g}" for name, limit in WANTED.items())
    print(f"  wanted at durability process and 1 process, times the bare reply: {wanted}")


def _cases(load: Load, server: Running) -> dict[str, Sequence[bytes]]:
    """The requests of each case. The loop of dense arms has learned a little before."""
    rng = np.random.default_rng(0)
    _configure(server, "dense", {"width": FEATURES, "rewardWait": 0.2, "modelUpdate": 0.05})
    arms = rng.uniform(-1, 1, (64, ACTIONS, FEATURES)).round(6)
    path = "/loops/dense/v1/"
    named = [{"eventId": f"event-{i}", "arms": arms[i % 64].tolist()} for i in range(REWARDED)]
    load.send_once(server, [_post(server, path + "decide", _json(question)) for question in named])
    rewards = [{"eventId": f"event-{i}", "value": float(rng.random())} for i in range(REWARDED)]
    load.send_once(server, [_post(server, path + "reward", _json(reward)) for reward in rewards])
    _configure(server, "dense", {"rewardWait": 600.0})
    return {
        "JSON": [_post(server, path + "decide", _json({"arms": question.tolist()})) for question in arms],
        "float32 body": [
            _post(server, f"{path}decide?arms={ACTIONS}", question.astype("<f4").tobytes(), "application/octet-stream")
            for question in arms
        ],
        "reward": [_post(server, path + "reward", _json(reward)) for reward in rewards],
        "Personalizer's JSON": [
            _post(server, "/personalizer/v1.0/rank", _json(_described(question))) for question in arms
        ],
    }


def _described(question: Any) -> dict[str, Any]:
    """The same arms as the objects of a program that was written for Personalizer."""
    names = ("price", "age", "rank", "clicks", "size", "score")
    return {
        "contextFeatures": [{"hour": "morning", "device": {"mobile": True}}],
        "actions": [
            {"id": f"action-{place}", "features": [{"topic": f"topic-{place}"} | dict(zip(names, row, strict=True))]}
            for place, row in enumerate(question.tolist())
        ],
    }


def _json(content: Any) -> bytes:
    return json.dumps(content).encode()


def _post(server: Running, path: str, body: bytes, kind: str = "application/json") -> bytes:
    """A request as it goes over the wire."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {server.key}\r\n"
        f"content-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _configure(server: Running, loop: str, settings: dict[str, Any]) -> None:
    connection = http.client.HTTPConnection(urlsplit(server.address).netloc)
    headers = {"authorization": f"Bearer {server.key}"}
    connection.request("PATCH", f"/loops/{loop}/v1/configuration", _json(settings), headers)
    reply = connection.getresponse()
    if reply.status != 200:
        raise RuntimeError(f"the server refused its configuration: {reply.read()!r}")
    connection.close()
    time.sleep(2.0)  # until other processes have it too
