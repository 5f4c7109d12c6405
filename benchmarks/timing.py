"""Timing on machines that are shared and noisy: alternate the contestants, keep each one's best."""

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np


def best_seconds(contestants: Mapping[str, Callable[[], object]], repeats: int = 30) -> dict[str, float]:
    """The shortest CPU time of each, after one run to warm up, taking turns so that noise hits all alike."""
    best = dict.fromkeys(contestants, float("inf"))
    for run in contestants.values():
        run()
    for _ in range(repeats):
        for name, run in contestants.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    return best


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The exponent p of seconds ~ size^p, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
