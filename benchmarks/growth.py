"""Growth of the CPU time of SGD-TS with T, d and K, and of its memory with T."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import numpy as np

from benchmarks.timing import slope
from glbandits import Policy, SgdTs
from glbandits.common.arrays import Floats
from glbandits.lab import NOISES, Synthetic, simulate
from glbandits.lab.environments.rounds import Rounds


def report() -> None:
    """Print fitted exponents and peak memory."""
    print("Growth of the cost of a run (log-log slope; wanted: at most 1.05 in T and d)")
    by_horizon()
    by_dimension()
    by_arms()
    memory_by_horizon()


def by_horizon() -> None:
    """T = 1e3 .. 1e6 at K=10, d=6, through `simulate`."""
    sizes, problem = (10**3, 10**4, 10**5, 10**6), Synthetic(dim=6, arms=10)

    def policy_seconds(horizon: int) -> float:
        repeats = max(3, 30_000 // horizon)
        policy = SgdTs(block_length=60)
        return float(simulate(policy, problem, horizon, repeats, jobs=1, keep_choices=False).seconds.min())

    policy_seconds(1000)
    print_growth("T", sizes, [policy_seconds(size) for size in sizes])


def by_dimension() -> None:
    """D = 10 to 1e5 at K=4, 1000 rounds with blocks of 20, including the first fit."""
    sizes = (10, 100, 1000, 10_000, 100_000)
    policy = SgdTs(block_length=20)
    print_growth("d", sizes, [run_seconds(policy, dim=size, arms=4, rounds=1000) for size in sizes])


def by_arms() -> None:
    """K = 10 .. 1e4 at d=6."""
    sizes = (10, 100, 1000, 10_000)
    policy = SgdTs(block_length=20)
    print_growth("K", sizes, [run_seconds(policy, dim=6, arms=size, rounds=500) for size in sizes])


def run_seconds(policy: Policy, dim: int, arms: int, rounds: int) -> float:
    """CPU seconds of a run that repeats a few rounds, so that large problems fit into memory.

    Only for policies that do not store observations, because stored observations with equal features are merged.
    """
    found = simulate(policy, RepeatedRounds(dim, arms), rounds, 4, jobs=1, keep_choices=False)
    return float(found.seconds[1:].min())


class RepeatedRounds:
    """An environment that repeats 20 rounds."""

    noise = NOISES["bernoulli"]

    def __init__(self, dim: int, arms: int) -> None:
        self.dim, length, rng = dim, 20, np.random.default_rng(0)
        features: Floats = rng.uniform(-1, 1, (length, arms, dim)) / np.sqrt(dim)
        means = rng.uniform(0.2, 0.8, (length, arms))
        self._few = Rounds(features, np.full(length, arms), means, rng.random(length), means)

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:  # noqa: ARG002
        """Yield the same rounds again and again."""
        return repeat(self._few, horizon // len(self._few))


def memory_by_horizon() -> None:
    """Peak memory of a new process that runs T = 1e4 and then 1e6 rounds."""
    peaks = {horizon: _peak_megabytes(horizon) for horizon in (10**4, 10**6)}
    (small, first), (large, last) = peaks.items()
    print(f"  memory: peak {first:.1f} MB at T={small:.0e}, {last:.1f} MB at T={large:.0e}: {last / first - 1:+.1%}")
    print("          (wanted: within 5 %)")


def _peak_megabytes(horizon: int) -> float:
    out = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth", str(horizon)], capture_output=True, text=True, check=True
    )
    return float(out.stdout)


def print_growth(name: str, sizes: tuple[int, ...], seconds: list[float]) -> None:
    """Print the fitted exponent, the exponent between the last two sizes, and the seconds."""
    costs: Iterator[str] = (f"{size:.0e}: {value:.2g} s" for size, value in zip(sizes, seconds, strict=True))
    last = slope(sizes[-2:], seconds[-2:])
    print(f"  {name}: slope {slope(sizes, seconds):.3f}, {last:.3f} at the end   ({', '.join(costs)})")


if __name__ == "__main__":
    simulate(SgdTs(horizon=1000), Synthetic(), int(sys.argv[1]), 1, keep_choices=False)
    # Linux only. Unlike getrusage, VmHWM does not include the memory of the parent process.
    lines = Path("/proc/self/status").read_text().splitlines()
    print(next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")))
