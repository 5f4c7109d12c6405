"""Rows until the gate promotes, and how often it promotes wrongly: `python -m benchmarks promotion`.

Every log has four arms and rewards of 0 and 1. In the first table the candidate is arm d, which the running policy
chooses with probability 0.1, and the gain of d is known. A test for a fixed n has a power of 50 % at the given rows. In
the second table all arms are equal, so no candidate is better. The gate runs at eight looks in each doubling of a log.
`GLBANDITS_LOGS` sets the number of logs of each kind, 100 by default.
"""

import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.stats import norm

from glbandits import Optimist
from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.evaluation import FixedArms, LoggedData, promotion
from glbandits.evaluation.estimators.targets import TargetLike
from glbandits.evaluation.promotion_result import Verdict
from glbandits.policies import Policy

ARMS, SHARE, BASE = "abcd", 0.1, 0.4
LOOKS = [math.ceil(256 * 2 ** (step / 8)) for step in range(49)]
NO_GAIN_ROWS = 4096
World: TypeAlias = Callable[[np.random.Generator, int], LoggedData]


class Case(NamedTuple):
    """A kind of logs, and the candidates."""

    name: str
    world: World
    candidates: Mapping[str, Policy | TargetLike]


def constant(rng: np.random.Generator, rows: int, gain: float = 0.0, drift: float = 0.0) -> LoggedData:
    """A running policy that stays the same. All arms drift alike, and d gains `gain` over the running policy."""
    probabilities = np.tile([(1.0 - SHARE) / 3.0] * 3 + [SHARE], (rows, 1))
    means = BASE + drift * np.sin(np.arange(rows) / 500.0)
    chosen = (rng.random((rows, 1)) > probabilities.cumsum(axis=1)).sum(axis=1).clip(0, 3)
    rewards = rng.random(rows) < means + np.where(chosen == 3, gain / (1.0 - SHARE), 0.0)
    return log_of(chosen, rewards, probabilities)


def learning(rng: np.random.Generator, rows: int) -> LoggedData:
    """A running policy that learns: half uniform, half the arm with the best mean so far. All arms are equal."""
    counts, sums, probabilities = np.ones(4), np.full(4, BASE), np.full((rows, 4), 0.125)
    chosen, rewards = np.empty(rows, dtype=np.int64), rng.random(rows) < BASE
    for row in range(rows):
        best = int(np.argmax(sums / counts))
        probabilities[row, best] += 0.5
        arm = chosen[row] = best if rng.random() < 0.5 else rng.integers(4)
        sums[arm] += rewards[row]
        counts[arm] += 1.0
    return log_of(chosen, rewards, probabilities)


def log_of(chosen: Ints, rewards: Bools, probabilities: Floats) -> LoggedData:
    """Return the rows as a log."""
    return LoggedData(
        chosen=chosen,
        rewards=rewards.astype(np.float64),
        probabilities=probabilities,
        arms=FixedArms(np.eye(4), rows=len(chosen)),
        link="logistic",
        arm_names=tuple(ARMS),
    )


ALL_ARMS = {arm: arm for arm in ARMS}
GAINS = (0.05, 0.1)
NO_GAIN = (
    Case("one candidate", constant, {"d": "d"}),
    Case("four candidates", constant, ALL_ARMS),
    Case("four candidates, running policy learns", learning, ALL_ARMS),
    Case("four candidates, rewards drift", partial(constant, drift=0.2), ALL_ARMS),
    Case("a policy that learns", constant, {"greedy": Optimist(link="logistic", floor=0.0)}),
)


def rows_until_promotion(seed: int, case: Case, most_rows: int) -> float:
    """Return the number of rows at the first look that promotes; infinite without one."""
    looks = [rows for rows in LOOKS if rows <= most_rows]
    log = case.world(np.random.default_rng(seed), looks[-1])
    promoted = (rows for rows in looks if promotion(log[:rows], case.candidates).verdict is Verdict.PROMOTE)
    return next(promoted, math.inf)


def fixed_rows(gain: float) -> float:
    """Return the rows at which a two-sided test at 5 % has a power of 50 %, if the means of all arms are known."""
    rate = BASE + gain / (1.0 - SHARE)
    variance = (1.0 - SHARE) ** 2 / SHARE * rate * (1.0 - rate) + (1.0 - SHARE) * BASE * (1.0 - BASE)
    return float(variance * (norm.ppf(0.975) / gain) ** 2)


def report() -> None:
    """Print both tables."""
    logs = int(os.environ.get("GLBANDITS_LOGS", "100"))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        print(f"{'true gain':>9s} {'fixed n':>8s} {'median rows of the gate':>24s} {'ratio':>6s}   {logs} logs each")
        for gain in GAINS:
            case = Case("", partial(constant, gain=gain), {"d": "d"})
            rows = np.median(list(pool.map(partial(rows_until_promotion, case=case, most_rows=LOOKS[-1]), range(logs))))
            print(f"{gain:9g} {fixed_rows(gain):8.0f} {rows:24.0f} {rows / fixed_rows(gain):6.2f}", flush=True)
        print(f"\nno candidate is better: logs with a promotion within {NO_GAIN_ROWS:,} rows, of {logs}")
        for case in NO_GAIN:
            found = list(pool.map(partial(rows_until_promotion, case=case, most_rows=NO_GAIN_ROWS), range(logs)))
            print(f"{case.name:40s} {np.isfinite(found).sum():4d}", flush=True)
