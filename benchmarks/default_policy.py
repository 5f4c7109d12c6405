"""The default policy `optimist`: CPU time relative to SGD-TS, and growth of its cost."""

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.growth import print_growth, run_seconds
from benchmarks.timing import best_seconds
from glbandits import Bandit, Optimist, Policy, SgdTs
from glbandits.lab import Synthetic, simulate
from glbandits.lab.environments import Environment
from glbandits.maths.posteriors.block_covariance import LARGEST_BLOCK

SIMULATED = ((100, 6), (32, 55))
"""Numbers of arms and features: the paper's simulation, and forest cover."""


def report() -> None:
    """Print ratios of time and fitted exponents."""
    simulated_time()
    online_time()
    growth()


def simulated_time(horizons: Sequence[int] = (1000, 10_000), turns: int = 7, seeds: int = 3) -> None:
    """Time runs of `simulate`: for each seed the minimum of turns, then the mean over seeds."""
    print(f"CPU time of a round, simulated (least of {turns} turns, mean of {seeds} seeds; wanted: at most 5 at d=6)")
    for arms, dim in SIMULATED:
        for horizon in horizons:
            problem = Synthetic(dim=dim, arms=arms)
            policies: tuple[Policy, Policy] = Optimist(), SgdTs(horizon=horizon)
            least = [np.full(seeds, np.inf) for _ in policies]
            for turn in range(turns + 1):
                for policy, best in zip(policies, least, strict=True):
                    taken = simulate(policy, problem, horizon, seeds, jobs=1, keep_choices=False).seconds
                    if turn > 0:  # the first one warms up
                        np.minimum(best, taken, out=best)
            _print_time_ratio(f"K={arms}, d={dim}, T={horizon}", *(best.mean() / horizon for best in least))


def online_time(horizons: Sequence[int] = (1000, 10_000), repeats: int = 10) -> None:
    """Time a new Bandit that alternately chooses and learns."""
    print(f"CPU time of an online choose + learn (best of {repeats}; wanted: at most 5 at d=6)")
    rng = np.random.default_rng(0)
    arms = rng.uniform(-1, 1, (64, 100, 6)) / np.sqrt(6)
    rewards = (rng.random(61) < 0.5).astype(float).tolist()  # a period that differs from that of the arms

    def player(policy: Policy, calls: int) -> Callable[[], None]:
        def play() -> None:
            bandit = Bandit(policy, dim=6, seed=1)
            for t in range(calls):
                now = arms[t % 64]
                bandit.learn(now[bandit.choose(now)], rewards[t % 61])

        return play

    for calls in horizons:
        players = {"optimist": player(Optimist(), calls), "sgd-ts": player(SgdTs(horizon=calls), calls)}
        seconds = best_seconds(players, repeats)
        _print_time_ratio(f"K=100, d=6, T={calls}", *(seconds[name] / calls for name in players))


def _print_time_ratio(name: str, optimist: float, sgd_ts: float) -> None:
    times = f"optimist {optimist * 1e6:7.2f} us, sgd-ts {sgd_ts * 1e6:7.2f} us"
    print(f"  {name:22s} {times}   ratio {optimist / sgd_ts:5.2f}")


def growth(
    dimensions: tuple[int, ...] = (1000, 3000, 10_000, 30_000, 100_000),
    horizons: tuple[int, ...] = (10**3, 10**4, 10**5),
    arms: tuple[int, ...] = (10, 100, 1000),
    rounds: int = 300,
) -> None:
    """Exponents of a run's cost: in d with blocks; in T and K with one block and with several."""
    print("Growth of the cost of a run of Optimist (log-log slope; wanted: at most 1.1 in d and in T)")
    policy = Optimist()
    print_growth("d, blocks, K=4", dimensions, [run_seconds(policy, size, 4, rounds) for size in dimensions])
    for dim in (6, 200):
        kind = "one block" if dim <= LARGEST_BLOCK else "blocks"
        problem = Synthetic(dim=dim, arms=10)
        seconds = [_simulated_seconds(policy, problem, horizon) for horizon in horizons]
        print_growth(f"T, {kind}, K=10, d={dim}", horizons, seconds)
        print_growth(f"K, {kind}, d={dim}", arms, [run_seconds(policy, dim, size, rounds) for size in arms])
    smallest, largest = (policy.init(dim).size for dim in (dimensions[0], dimensions[-1]))
    print(
        f"  state: {smallest / dimensions[0]:.2f} numbers a feature at d={dimensions[0]:.0e}, "
        f"{largest / dimensions[-1]:.2f} at d={dimensions[-1]:.0e} ({largest * 8 / 1e6:.1f} MB)"
    )


def _simulated_seconds(policy: Policy, problem: Environment, horizon: int) -> float:
    repeats = max(2, 10_000 // horizon)
    return float(simulate(policy, problem, horizon, repeats, jobs=1, keep_choices=False).seconds.min())
