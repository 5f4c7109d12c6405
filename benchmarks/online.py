"""One decision and one reward at a time: Bandit against plain NumPy at K=10, d=20."""

import numpy as np

from benchmarks.numpy_sgd_ts import NumpySgdTs
from benchmarks.timing import best_seconds
from glbandits import Bandit, SgdTs

CALLS = 5000


def report() -> None:
    """Print the ratio of choose + learn, including checks, to the NumPy loop, which has none."""
    policy, rng = SgdTs(), np.random.default_rng(0)
    tau = policy.tau(20)
    arms = rng.uniform(-1, 1, (64, 10, 20)) / np.sqrt(20)
    rewards = (rng.random(64) < 0.5).astype(float).tolist()
    bandit = Bandit(policy, dim=20, seed=1)
    plain = NumpySgdTs(policy, 20, lambda size: int(rng.integers(size)), rng.standard_normal)
    for t in range(2 * tau):  # after the first block, where both make the same choices
        bandit.learn(arms[t % 64, t % 10], rewards[(t * 7) % 64])
        plain.learn(arms[t % 64, t % 10], rewards[(t * 7) % 64])

    def play(player: Bandit | NumpySgdTs) -> None:
        for t in range(CALLS):
            now = arms[t % 64]
            arm = player.choose(now)
            player.learn(now[arm], rewards[t % 64])

    seconds = best_seconds({"Bandit": lambda: play(bandit), "plain NumPy": lambda: play(plain)})
    print("Online choose + learn at K=10, d=20 (best of 30, CPU seconds)")
    for name, value in seconds.items():
        print(f"  {name:14s} {value / CALLS * 1e6:6.2f} us")
    print(f"  Bandit / plain NumPy     {seconds['Bandit'] / seconds['plain NumPy']:6.2f}   (wanted: at most 0.4)")
