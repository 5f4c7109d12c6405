"""A run of SGD-TS, relative to the matrix product of scoring and to plain NumPy."""

import numpy as np

from benchmarks.numpy_sgd_ts import NumpySgdTs
from benchmarks.timing import best_seconds
from glbandits import SgdTs
from glbandits.common.arrays import Floats
from glbandits.lab import Synthetic
from glbandits.lab.simulation.play_recipes import play_entry
from glbandits.maths.links import LINKS
from glbandits.maths.philox import generator


def report() -> None:
    """Print the ratios with their targets."""
    horizon, policy, problem = 1000, SgdTs(horizon=1000), Synthetic(dim=6, arms=100)
    blocks = list(problem.rounds(horizon, seed=0))
    arms, counts, expected, payoffs, noise = (
        np.concatenate([getattr(block, part) for block in blocks])
        for part in ("arms", "counts", "expected", "payoffs", "noise")
    )
    best, rows, starts = payoffs.max(axis=1), arms.reshape(-1, 6), np.arange(horizon) * arms.shape[1]
    play = play_entry(SgdTs, LINKS["logistic"], problem.noise, compiled=True)
    settings, theta = policy.packed_settings(6), np.full(6, 0.3)
    choices, regret = np.empty(horizon, dtype=np.int64), np.empty(horizon)

    def compiled() -> None:
        rounds = rows, starts, counts, expected, payoffs, best, noise
        play(policy.init(6), settings, generator(1), *rounds, 0.0, choices, regret)

    def flat_product() -> Floats:
        scores: Floats = arms.reshape(-1, 6) @ theta
        return scores

    def stacked_product() -> Floats:
        scores: Floats = arms @ theta
        return scores

    def plain_numpy() -> None:
        rng = np.random.default_rng(1)
        plain = NumpySgdTs(policy, 6, lambda size: int(rng.integers(size)), rng.standard_normal)
        total = 0.0
        for t in range(horizon):
            arm = plain.choose(arms[t])
            plain.learn(arms[t, arm], float(noise[t] < expected[t, arm]))
            total += best[t] - payoffs[t, arm]
            choices[t], regret[t] = arm, total

    seconds = best_seconds(
        {
            "compiled": compiled,
            "flat product": flat_product,
            "stacked product": stacked_product,
            "plain NumPy": plain_numpy,
        }
    )
    print("A run of T=1000, K=100, d=6 (best of 30, CPU seconds, one BLAS thread)")
    for name, value in seconds.items():
        print(f"  {name:16s} {value:.6f} s   {value / horizon * 1e6:7.2f} us a round")
    run, bare = seconds["compiled"], min(seconds["flat product"], seconds["stacked product"])
    print(f"  compiled / faster product  {run / bare:6.2f}   (wanted: at most 2)")
    print(f"  plain NumPy / compiled     {seconds['plain NumPy'] / run:6.2f}   (wanted: at least 8)")
