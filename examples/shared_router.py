"""Route prompts to language models in two gateways that share one learner.

    python examples/shared_router.py                                             # starts a server with a new store
    GLB_KEY=... python examples/shared_router.py --url http://127.0.0.1:8711     # uses a running one

Each gateway is a process that asks a loop of the service for the model of each prompt. The loop learns the quality of
the models from both. A gateway learns what models cost, and keeps its own budget. Prompts and answers are simulated.
"""

# ruff: noqa: T201
import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path

import httpx2
import numpy as np
from numpy.typing import NDArray

from glbandits import Budget
from glbandits.evaluation import evaluate
from glbandits.evaluation.readers.service_export import read_export
from glbandits.routing import ModelCosts
from glbandits.service.client import Client

Floats = NDArray[np.float64]
GLB = (sys.executable, "-m", "glbandits.cli.main")
MODELS = {"small": 0.03, "medium": 0.5, "fast": 0.9, "large": 15.0}  # dollars for 1,000 typical prompts
QUALITY = np.array([[0.95, 0.99, 0.98, 0.98], [0.78, 0.93, 0.94, 0.95], [0.70, 0.90, 0.90, 0.91]])
COST = np.array([[0.03, 0.55, 0.55, 10.5], [0.03, 0.45, 1.00, 16.0], [0.02, 0.45, 0.60, 12.0]])
CENTRES = np.random.default_rng(20).normal(size=(3, 8))  # the means of three kinds of prompts
GATEWAYS, RATE, LOOP = 2, 50, "prompts"  # RATE: prompts a second of each gateway
CONFIGURATION = {
    "rewardWait": "1s",  # as long as your judge may need
    "modelUpdate": 0.2,
    "exploration": 0.1,  # the share of random decisions, which the audit needs
    "rewardRange": [0, 1],
    "sticky": True,  # a conversation keeps its model
    "metrics": {"cost": {"range": [0, 50], "good": "lower", "window": "3s", "action": "none"}},
}


def simulated_prompts(n: int, gateway: int) -> tuple[NDArray[np.int64], Floats, Floats, Floats]:
    """Simulate conversations and embeddings of prompts, and the quality and the cost of every model, (n, models)."""
    rng = np.random.default_rng(gateway)
    conversation = np.cumsum(rng.random(n) < 2 / 3, dtype=np.int64)  # a third continue the last one
    kind = rng.integers(3, size=n + 1)[conversation]
    embeddings = CENTRES[kind] + 0.6 * rng.normal(size=(n, CENTRES.shape[1]))
    quality = rng.beta(5 * QUALITY[kind], 5 * (1 - QUALITY[kind]))
    return conversation, embeddings, quality, COST[kind] * rng.lognormal(-0.125, 0.5, size=quality.shape)


def route(gateway: int, url: str, key: str, n: int, limit: float) -> list[int]:
    """Route the prompts of a gateway, and return the model of each."""
    budget, costs, chosen = Budget(limit), ModelCosts(1 + CENTRES.shape[1]), list[int]()
    for typical_cost in MODELS.values():
        costs.add(typical_cost, np.eye(1, 1 + CENTRES.shape[1])[0])
    start, has_learned = time.monotonic(), False
    with Client(url, key, LOOP) as client:
        for conversation, embedding, qualities, real_costs in zip(*simulated_prompts(n, gateway), strict=True):
            expected = costs.predict(x := np.append(1.0, embedding))
            affordable = max(limit * (10 if has_learned else 1), expected.min())
            decided = client.decide(
                [{"model": name, "_cost": cost} for name, cost in zip(MODELS, expected.tolist(), strict=True)],
                context={"embedding": embedding.tolist(), "_price": budget.price},  # names with _ are only logged
                ids=list(MODELS),
                values=np.ones(len(MODELS)),
                costs=budget.price * expected,
                excluded=np.flatnonzero(expected > affordable).tolist(),
                unit=f"{os.getpid()}-{conversation}",
            )
            quality, cost = qualities[decided.arm], real_costs[decided.arm]  # here you ask the model, and the judge
            client.reward(decided.event_id, quality)
            client.metrics(decided.event_id, {"cost": cost})
            budget.spend(cost)
            costs.learn(decided.arm, x[np.newaxis], np.array([cost]))
            has_learned = not decided.model_version.endswith(".0")  # before that, decisions are random
            chosen.append(decided.arm)
            time.sleep(max(0.0, start + len(chosen) / RATE - time.monotonic()))
    return chosen


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, str]]:
    """Run `glb serve` with a new store, and yield its address and its key."""
    command, log = [*GLB, "serve", "--port", "0", "--store", str(folder / "glb.db")], folder / "server.txt"
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            while not (started := re.search(r"Serving at (\S+)\nKey: (\S+)\n", log.read_text())):
                if process.poll() is not None:
                    sys.exit(log.read_text())
                time.sleep(0.1)
            yield started[1], started[2]
        finally:
            process.terminate()


def report(chosen: NDArray[np.int64], limit: float) -> None:
    """Print what the gateways had together."""
    prompts = [simulated_prompts(len(chosen) // GATEWAYS, gateway) for gateway in range(GATEWAYS)]
    quality, cost = np.concatenate([tables[2:] for tables in prompts], axis=1)
    had, spent = (table[np.arange(len(chosen)), chosen].mean() for table in (quality, cost))
    points = sorted(zip(cost.mean(axis=0), quality.mean(axis=0), strict=True))
    mixes = [np.interp(spent, [a, b], [q, r]) for (a, q), (b, r) in combinations(points, 2) if a <= spent]
    print(f"{len(chosen):,} prompts, quality {had:.3f}, mean cost {spent:.3f}, limit {limit:g}")
    print(f"quality of the best random mix of two models at this cost: {max(mixes):.3f}")
    print("chosen: " + ", ".join(f"{name} {np.mean(chosen == model):.1%}" for model, name in enumerate(MODELS)))


def audit(folder: Path) -> None:
    """Export the log, and print what single models would have had, with 95 % intervals."""
    subprocess.run([*GLB, "store", "export", folder / "log", "--store", folder / "glb.db", "--loop", LOOP], check=True)
    for what in ("reward", "metric:cost"):
        log = read_export(folder / "log", payoffs=False, reward=what)
        for name in log.schema.names:  # without models that were never offered
            estimate = evaluate(log, f"arm:{name}", "snips")["snips"]
            print("always {:8s} {:12s} {:.2f} [{:.2f}, {:.2f}]".format(name, what, estimate.value, *estimate.normal))


def main() -> None:
    """Run the gateways, print what they had, and audit the log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a running server, whose key is in the variable GLB_KEY")
    parser.add_argument("--prompts", type=int, default=1000, help="the prompts of each gateway")
    parser.add_argument("--limit", type=float, default=0.3, help="the mean cost")
    args = parser.parse_args()
    (folder := Path(time.strftime("out/shared-router-%H%M%S"))).mkdir(parents=True)
    with nullcontext((args.url, os.environ["GLB_KEY"])) if args.url else server(folder) as (url, key):
        body, headers = {"name": LOOP, "configuration": CONFIGURATION}, {"Authorization": f"Bearer {key}"}
        response = httpx2.post(f"{url}/v1/loops", json=body, headers=headers, timeout=60)
        if response.status_code not in (201, 409):  # 409: the loop exists
            sys.exit(response.text)
        with ProcessPoolExecutor(GATEWAYS, get_context("spawn")) as pool:
            runs = [pool.submit(route, each, url, key, args.prompts, args.limit) for each in range(GATEWAYS)]
            chosen = np.concatenate([each.result() for each in runs])
        report(chosen, args.limit)
        time.sleep(3.5)  # until the window of the metric has closed
    if not args.url:
        audit(folder)


if __name__ == "__main__":
    main()
