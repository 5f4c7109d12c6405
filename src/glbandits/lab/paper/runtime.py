"""Table 1: CPU seconds per run, beside the paper's, and their growth in T and d."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glbandits.common.errors import InvalidInput
from glbandits.lab.environments import Environment, Synthetic
from glbandits.lab.experiments.progress import Progress, no_progress
from glbandits.lab.simulation import prepare, simulate
from glbandits.policies import POLICIES
from glbandits.policies.contract import Policy, settings_of

HORIZON, ARMS, DIM = 1000, 100, 6
RUNS, QUICK_RUNS = 5, 2
HORIZONS, DIMENSIONS = (500, 1000, 2000), (6, 12, 24)
PAPER_SECONDS = {
    "ucb-glm": (2.024, 29.643),
    "laplace-ts": (0.964, 27.786),
    "gloc": (0.330, 0.351),
    "glm-tsl": (8.253, 81.580),
    "supcb-glm": (4.609, 26.842),
    "epsilon-greedy": (2.020, 35.901),
    "sgd-ts": (0.099, 0.127),
}
"""Table 1 of the paper: seconds on the simulation and the news.

The paper's SupCB-GLM is another algorithm (docs/theory/supcb-glm.md).
"""
BASE = "sgd-ts"
"""Ratios are relative to this policy."""


@dataclass(frozen=True)
class RuntimeRow:
    """CPU seconds of a policy's fastest run at default settings."""

    label: str
    simulation: float
    news: float
    paper_simulation: float | None
    """None for a policy that is not in the paper."""
    paper_news: float | None
    growth_T: float
    """Fitted exponent of the seconds in T."""
    growth_d: float
    """Fitted exponent of the seconds in d."""


@dataclass(frozen=True)
class RuntimeTable:
    """Table 1."""

    rows: tuple[RuntimeRow, ...]
    news_horizon: int
    news_is_simulated: bool

    def row(self, label: str) -> RuntimeRow:
        """Return the row of a policy."""
        for row in self.rows:
            if row.label == label:
                return row
        raise InvalidInput(f"Table 1 has no row for {label}; its rows are {', '.join(row.label for row in self.rows)}")

    def ratio(self, label: str, column: str) -> float | None:
        """Return the seconds of a policy relative to SGD-TS; None if the cell is empty."""
        value, base = getattr(self.row(label), column), getattr(self.row(BASE), column)
        return None if value is None else float(value / base)


def measure_runtime(
    news: Environment,
    news_horizon: int,
    *,
    names: Sequence[str] = tuple(POLICIES),
    quick: bool = False,
    progress: Progress = no_progress,
) -> RuntimeTable:
    """Time these policies at their default settings, in this process, one after another.

    A time is the least of `RUNS` runs, or of `QUICK_RUNS`.
    """

    def seconds(name: str, problem: Environment, horizon: int) -> float:
        runs = simulate(
            _policy(name, horizon), problem, horizon, QUICK_RUNS if quick else RUNS, jobs=1, keep_choices=False
        )
        return float(runs.seconds.min())

    problems, rows = {dim: Synthetic(dim=dim, arms=ARMS) for dim in DIMENSIONS}, []
    for done, name in enumerate(names):
        progress(f"timing {name}", done, len(names))
        paper = PAPER_SECONDS.get(name, (None, None))
        by_horizon = {horizon: seconds(name, problems[DIM], horizon) for horizon in HORIZONS}
        by_dim = {DIM: by_horizon[HORIZON]} | {
            dim: seconds(name, problem, HORIZON) for dim, problem in problems.items() if dim != DIM
        }
        rows.append(
            RuntimeRow(
                label=name,
                simulation=by_horizon[HORIZON],
                news=seconds(name, news, news_horizon),
                paper_simulation=paper[0],
                paper_news=paper[1],
                growth_T=slope(list(by_horizon), list(by_horizon.values())),
                growth_d=slope(list(by_dim), list(by_dim.values())),
            )
        )
    progress("timing", len(names), len(names))
    return RuntimeTable(tuple(rows), news_horizon, bool(getattr(news, "simulated", False)))


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the exponent p of cost ~ size^p, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def compile_for_runtime(names: Iterable[str]) -> None:
    """Compile the functions that are timed for these policies."""
    prepare([_policy(name, HORIZON) for name in names], Synthetic(dim=DIM, arms=ARMS))


def _policy(name: str, horizon: int) -> Policy:
    kind: Any = POLICIES[name]
    known = settings_of(kind())
    policy: Policy = kind(**{k: v for k, v in {"horizon": horizon, "link": "logistic"}.items() if k in known})
    return policy
