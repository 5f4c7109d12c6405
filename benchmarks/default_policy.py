"""Optimist, the default: its time against SGD-TS, how its cost grows, and the regret that its sketch costs."""

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.growth import print_growth, run_seconds
from benchmarks.timing import best_seconds
from glbandits import Bandit, Optimist, Policy, SgdTs
from glbandits.environments import Environment, Shaped, Synthetic
from glbandits.policies.optimist import RANK
from glbandits.records import Floats
from glbandits.simulation import simulate

SIMULATED = ((100, 6), (32, 55))
"""Arms and features: the paper's simulation, and its forest cover."""
SKETCHED: dict[str, Environment] = {
    "moving arms, d=60, K=20": Synthetic(dim=60, arms=20, theta_norm=3.0),
    "fixed arms, d=60, K=40": Synthetic(dim=60, arms=40, fixed_arms=True, theta_norm=4.0),
    "moving arms, d=128, K=20": Synthetic(dim=128, arms=20, theta_norm=3.0),
    "correlated features, d=100, K=20": Shaped(dim=100, arms=20, features="correlated", theta_norm=3.0),
}


def report() -> None:
    """Print ratios of time, fitted exponents, and ratios of regret."""
    simulated_time()
    online_time()
    growth()
    sketched_regret()


def simulated_time(horizons: Sequence[int] = (1000, 10_000), turns: int = 7, seeds: int = 3) -> None:
    """Whole runs through `simulate`: for each seed the least of several turns, then the mean over seeds."""
    print(f"CPU time of a round, simulated (least of {turns} turns, mean of {seeds} seeds; wanted: at most 2)")
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
    """A fresh Bandit that chooses and learns so many times, one call after the other."""
    print(f"CPU time of an online choose + learn (best of {repeats}; wanted: at most 2)")
    rng = np.random.default_rng(0)
    arms = rng.uniform(-1, 1, (64, 100, 6)) / np.sqrt(6)
    rewards = (rng.random(61) < 0.5).astype(float).tolist()  # not in step with the arms

    def player(policy: Policy, calls: int) -> Callable[[], None]:
        def play() -> None:
            bandit = Bandit(policy, dim=6, seed=1)
            for t in range(calls):
                now = arms[t % 64]
                bandit.learn(now[bandit.choose(now)], rewards[t % 61])

        return play

    for calls in horizons:
        contestants = {"optimist": player(Optimist(), calls), "sgd-ts": player(SgdTs(horizon=calls), calls)}
        seconds = best_seconds(contestants, repeats)
        _print_time_ratio(f"K=100, d=6, T={calls}", *(seconds[name] / calls for name in contestants))


def _print_time_ratio(name: str, optimist: float, sgd_ts: float) -> None:
    times = f"optimist {optimist * 1e6:7.2f} us, sgd-ts {sgd_ts * 1e6:7.2f} us"
    print(f"  {name:22s} {times}   ratio {optimist / sgd_ts:5.2f}")


def growth(
    dimensions: tuple[int, ...] = (1000, 3000, 10_000, 30_000, 100_000),
    horizons: tuple[int, ...] = (10**3, 10**4, 10**5),
    arms: tuple[int, ...] = (10, 100, 1000),
    rounds: int = 300,
) -> None:
    """Exponents of a run's cost: in d where it sketches; in T and K for the whole covariance and for a sketch."""
    print("Growth of the cost of a run of Optimist (log-log slope; wanted: at most 1.1 in d and in T)")
    policy = Optimist()
    print_growth("d, sketched, K=4", dimensions, [run_seconds(policy, size, 4, rounds) for size in dimensions])
    for dim in (6, 200):
        kind = "whole" if policy.directions(dim) == 0 else "sketched"
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


def sketched_regret(horizon: int = 1500, seeds: Sequence[int] = range(20_000, 20_040)) -> None:
    """The sketch that many features get, against the whole covariance, on the same rounds."""
    print(f"Regret of a sketch of {RANK} directions over that of the whole covariance (wanted: within 10 %)")
    print(f"  T={horizon}, {len(seeds)} seeds; ratio of means, with a bootstrap interval of 95 % over seeds")
    for name, problem in SKETCHED.items():
        sketched, whole = (
            simulate(Optimist(rank=rank), problem, horizon, seeds, keep_choices=False).final_regret
            for rank in (RANK, 0)
        )
        low, high = _interval(sketched, whole)
        means = f"{sketched.mean():7.1f} / {whole.mean():7.1f}"
        print(f"  {name:34s} {means}   ratio {sketched.mean() / whole.mean():5.3f}  ({low:.3f} to {high:.3f})")


def _interval(one: Floats, other: Floats, draws: int = 10_000) -> tuple[float, float]:
    """Of the ratio of two means over the same seeds: the middle 95 % when seeds are drawn again."""
    picked = np.random.default_rng(0).integers(0, len(one), (draws, len(one)))
    low, high = np.quantile(one[picked].mean(axis=1) / other[picked].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)
