"""Timing on shared machines: alternate the functions, and keep the best time of each."""

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np


def best_seconds(functions: Mapping[str, Callable[[], object]], repeats: int = 30) -> dict[str, float]:
    """Return the least CPU seconds of each function.

    They take turns, so that noise affects all equally.
    """
    best = dict.fromkeys(functions, float("inf"))
    for run in functions.values():
        run()
    for _ in range(repeats):
        for name, run in functions.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    return best


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the exponent p of seconds ~ size^p, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
