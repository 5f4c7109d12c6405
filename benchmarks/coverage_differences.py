"""Coverage of intervals of the difference between two targets, on logs of a policy that learns.

The seeds differ from those of `python -m benchmarks coverage`, and no formula was chosen on these logs.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.learning_logs import LearningLog, learning_log
from glbandits.common.arrays import Floats
from glbandits.evaluation import evaluate

LOGS, FIRST_SEED = 200, 7000
PAIRS = (("good", "uniform"), ("final", "good"), ("final", "uniform"), ("bad", "uniform"), ("good", "bad"))
"""Target and reference."""


class Kind(NamedTuple):
    """A kind of logs."""

    floor: float
    varying: bool
    rows: int


KINDS = (Kind(0.05, True, 2000), Kind(0.1, False, 1000), Kind(0.2, True, 1000))


def coverage_of(seed: int, kind: Kind, pairs: Sequence[tuple[str, str]] = PAIRS) -> Floats:
    """Coverage and width of the fixed-n and the anytime-valid interval of each pair, (pairs, 4); NaN without one."""
    simulated = learning_log(seed, kind.rows, floor=kind.floor, varying=kind.varying)
    return np.array([list(_outcomes(simulated, *pair)) for pair in pairs])


def _outcomes(simulated: LearningLog, target: str, reference: str) -> Iterator[float]:
    headline = evaluate(simulated.log, simulated.targets[target], "dr", reference=simulated.targets[reference]).headline
    assert headline is not None
    assert headline.difference is not None
    truth = simulated.values[target] - simulated.values[reference]
    for interval in (headline.difference.fixed_n, headline.difference.interval):
        if interval is None:
            yield from (np.nan, np.nan)
        else:
            yield from (float(interval.low <= truth <= interval.high), interval.high - interval.low)


def report() -> None:
    """Print a table for each kind of logs."""
    print(f"coverage of 95 % intervals of differences, and their mean width; {LOGS} logs of each kind")
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for kind in KINDS:
            seeds = range(FIRST_SEED, FIRST_SEED + LOGS)
            outcomes = np.array(list(pool.map(partial(coverage_of, kind=kind), seeds, chunksize=5)))
            print(f"\nfloor {kind.floor}, {kind.rows} rows, arms that {'vary' if kind.varying else 'stay the same'}")
            print(f"{'target - reference':18s} {'fixed n':>14s} {'without':>8s} {'anytime':>14s}")
            for (target, reference), of_pair in zip(PAIRS, outcomes.swapaxes(0, 1), strict=True):
                covered, width, covered_anytime, width_anytime = np.nanmean(of_pair, axis=0)
                without = np.isnan(of_pair[:, 0]).sum()
                print(f"{target + ' - ' + reference:18s} {covered:6.3f} {width:7.3f} {without:8d} "
                      f"{covered_anytime:6.3f} {width_anytime:7.3f}", flush=True)  # fmt: skip
