"""The time of a decision from a catalogue, relative to NumPy's product of its size.

`python -m benchmarks.catalogue` ARMS DIM KIND measures one case in this process.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from glbandits import Bandit, Catalogue, Optimist, cross_features
from glbandits.bandit import policy_jobs
from glbandits.common.arrays import Floats
from glbandits.compilation.entry_point import compile_all

DECISIONS = int(os.environ.get("CATALOGUE_DECISIONS", "2000"))
KINDS: dict[str, Callable[[np.random.Generator, int, int], Floats]] = {
    "normal": lambda rng, arms, dim: rng.normal(size=(arms, dim)) / np.sqrt(dim),
    "nearly alike": lambda rng, arms, dim: 1.0 + 1e-3 * rng.normal(size=(arms, dim)),
    "equal": lambda _, arms, dim: np.ones((arms, dim)),
    "contexts": lambda rng, arms, dim: rng.normal(size=(arms, dim)) / np.sqrt(dim),
    "half-life 100": lambda rng, arms, dim: rng.normal(size=(arms, dim)) / np.sqrt(dim),
}
"""Kinds of features. With a half-life the policy replaces its prior every 12 rewards."""
CONTEXT = 5
"""Features of the context in "contexts". The bandit gets the features of arm and context and all their products."""


def report() -> None:
    """Print a row for each size, and for the worst cases at the largest size."""
    print(f"Decisions from a catalogue by optimist, {DECISIONS} with a reward after each, ms (wanted: p99 <= 20)")
    print("  arms       d  features        p50     p99     max | CPU: p50   p99     max | X @ theta  ratio  peak MB")
    cases = [(arms, dim, "normal") for dim in (16, 64) for arms in (1_000, 10_000, 100_000)]
    worst = [(100_000, 16 if kind == "contexts" else 64, kind) for kind in list(KINDS)[1:]]
    for arms, dim, kind in cases + worst:
        subprocess.run([sys.executable, "-m", "benchmarks.catalogue", str(arms), str(dim), kind], check=True)


def measure(arms: int, dim: int, kind: str) -> None:
    """Print the row of one case. The timing starts with the first decision, after compilation."""
    rng = np.random.default_rng(0)
    features, theta = KINDS[kind](rng, arms, dim), rng.normal(size=dim)
    policy = Optimist(half_life=100 if kind == "half-life 100" else None)
    in_contexts = kind == "contexts"
    catalogue = Catalogue(range(arms), features, combine=cross_features if in_contexts else None)
    bandit = Bandit(policy, dim + CONTEXT + dim * CONTEXT if in_contexts else dim, seed=1)
    compile_all(policy_jobs(policy, bandit.dim))
    wall, cpu, product = np.empty(DECISIONS), np.empty(DECISIONS), np.empty(DECISIONS)
    for i in range(DECISIONS):
        context = rng.normal(size=CONTEXT) if in_contexts else None
        start, cpu_start = time.perf_counter(), time.thread_time()
        arm = bandit.choose_from(catalogue, context)
        wall[i], cpu[i] = time.perf_counter() - start, time.thread_time() - cpu_start
        mean = 1.0 / (1.0 + np.exp(-catalogue[arm] @ theta))
        bandit.learn(catalogue.features_for(arm, context), float(rng.random() < mean))
        cpu_start = time.thread_time()
        features @ theta
        product[i] = time.thread_time() - cpu_start
    milliseconds = [
        1e3 * value for times in (wall, cpu) for value in (np.median(times), np.quantile(times, 0.99), times.max())
    ]
    numpy_time, peak = 1e3 * np.median(product), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"  {arms:7d}  {dim:3d}  {kind:13s}"
        + "".join(f" {value:7.2f}" for value in milliseconds)
        + f"   {numpy_time:9.2f} {milliseconds[3] / numpy_time:6.2f} {peak:8.0f}",
        flush=True,
    )


if __name__ == "__main__":
    measure(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
