"""The runtime (Table 1): seconds of a run for every policy, beside the paper's, and how they grow in T and d."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glbandits.environments import Synthetic
from glbandits.experiments.results import RuntimeRow, RuntimeTable
from glbandits.policies import POLICIES
from glbandits.policy import Policy, settings_of
from glbandits.simulation import simulate

NAME = "runtime"
TITLE = "Runtime on the simulation: T=1000, K=100, d=6"
HORIZON, ARMS, DIM, RUNS = 1000, 100, 6, 5
HORIZONS, DIMENSIONS = (500, 1000, 2000), (6, 12, 24)
PAPER_SECONDS = {
    "ucb-glm": 2.024,
    "laplace-ts": 0.964,
    "gloc": 0.330,
    "glm-tsl": 8.253,
    "supcb-glm": 4.609,
    "epsilon-greedy": 2.020,
    "sgd-ts": 0.099,
}
"""Table 1, simulation column. Its SupCB-GLM is another algorithm (docs/theory/supcb-glm.md)."""


def measure(names: Sequence[str] = tuple(POLICIES), progress: Callable[[str], None] | None = None) -> RuntimeTable:
    """Time these policies, at their default settings, in this process and one after another."""
    rows = []
    for name in names:
        if progress is not None:
            progress(name)
        rows.append(
            RuntimeRow(
                label=name,
                seconds=min(seconds(name), seconds(name)),
                paper_seconds=PAPER_SECONDS.get(name),
                growth_T=slope(HORIZONS, [seconds(name, horizon=horizon) for horizon in HORIZONS]),
                growth_d=slope(DIMENSIONS, [seconds(name, dim=dim) for dim in DIMENSIONS]),
            )
        )
    return RuntimeTable(tuple(rows), HORIZONS, DIMENSIONS)


def seconds(name: str, horizon: int = HORIZON, dim: int = DIM) -> float:
    """The least CPU seconds that the policy itself takes for a run."""
    kind: Any = POLICIES[name]
    known = settings_of(kind())
    policy: Policy = kind(**{k: v for k, v in {"horizon": horizon, "link": "logistic"}.items() if k in known})
    problem = Synthetic(dim=dim, arms=ARMS)
    return float(simulate(policy, problem, horizon, RUNS, jobs=1, keep_choices=False).seconds.min())


def slope(sizes: Sequence[float], taken: Sequence[float]) -> float:
    """The exponent p of seconds ~ size^p, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(taken), 1)[0])
