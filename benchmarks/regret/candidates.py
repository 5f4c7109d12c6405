"""Which settings of each policy are tried, and on how many seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.regret.problem import STUCK, TABLES
from glbandits.lab.environments import Environment
from glbandits.lab.experiments.experiment import PolicyEntry
from glbandits.policies import POLICIES
from glbandits.policies.contract import Grid, Policy, settings_of

SUBJECT = "optimist"
"""The policy under test. It is not tuned."""
RANDOM_FIRST = ("block_factor", "warm_up_factor")
"""Settings for the length of the random phase, in units of max(log T, d)."""

GRID: Grid = {
    "exploration": (0.03, 0.1, 0.3, 1.0, 3.0),
    "exploration_a1": (0.01, 0.1, 1.0),
    "step": (0.1, 0.5, 1.0, 5.0),
    "block_factor": (1.0, 5.0, 10.0),
    "warm_up_factor": (1.0, 5.0),
}
"""Values for the settings in a policy's own grid. Other settings have their defaults."""
THIN_GRID: Grid = {
    "exploration": (0.1, 0.3, 1.0),
    "exploration_a1": (0.01, 0.1),
    "step": (0.5, 1.0, 5.0),
    "block_factor": (1.0, 5.0, 10.0),
}
"""The grid of slow policies."""
MORE_SETTINGS: dict[str, Grid] = {"online-laplace": {"rule": ("fp", "ucb", "ts")}}
"""Settings that are tuned although a policy's own grid does not have them."""

FAST, SLOW, TOO_SLOW = 0.02, 0.03, 0.5
"""CPU seconds of a run. A policy that takes at most FAST gets more seeds on stuck problems, one above SLOW gets `LESS`,
and one above TOO_SLOW no runs."""


@dataclass(frozen=True)
class Effort:
    """Seeds and grid of a policy on a problem."""

    tuning: Sequence[int]
    fresh: Sequence[int]
    """Seeds of the reported runs."""
    grid: Grid


FULL = Effort(range(1, 6), range(1001, 1031), GRID)
LESS = Effort(range(1, 3), range(1001, 1011), THIN_GRID)
STUCK_SEEDS = range(1001, 1301)
TABLE_SEEDS = range(1001, 1011)


def effort_for(name: str, kind: str, seconds: float) -> Effort:
    """The effort for a policy whose run takes so many seconds on a problem of this kind."""
    is_subject = name == SUBJECT
    effort = LESS if seconds > SLOW and not is_subject else FULL
    if kind == TABLES:
        return replace(effort, fresh=TABLE_SEEDS)
    if kind == STUCK and (seconds <= FAST or is_subject):
        return replace(effort, fresh=STUCK_SEEDS)
    return effort


def policy_entry(name: str, environment: Environment, link: str, horizon: int, grid: Grid) -> PolicyEntry:
    """A policy with the link, horizon and dimension of the problem, and its grid."""
    kind: Any = POLICIES[name]
    known = {"link": link, "horizon": horizon, "context_dim": getattr(environment, "block", 1)}
    fixed = {key: value for key, value in known.items() if key in settings_of(kind())}
    if name == SUBJECT:
        return PolicyEntry(kind, fixed, {})
    tuned = {key: grid[key] for key in kind.grid if key in grid} | dict(MORE_SETTINGS.get(name, {}))
    for key in RANDOM_FIRST:
        if key in tuned:
            tuned[key] = shorten(tuned[key], horizon, environment.dim)
    return PolicyEntry(kind, fixed, tuned)


def default_policy(entry: PolicyEntry) -> Policy:
    """The policy with its default settings."""
    build: Any = entry.kind
    policy: Policy = build(**entry.settings)
    return policy


def shorten(factors: Sequence[float], horizon: int, dim: int) -> tuple[float, ...]:
    """Scale the factors so that the largest random phase takes at most half of the horizon.

    >>> shorten((1.0, 5.0, 10.0), horizon=1000, dim=6)
    (1.0, 5.0, 10.0)
    >>> shorten((1.0, 5.0, 10.0), horizon=1000, dim=650)
    (0.077, 0.38, 0.77)
    """
    longest = max(factors) * max(math.log(horizon), dim)
    if longest <= horizon / 2:
        return tuple(factors)
    return tuple(float(f"{factor * horizon / 2 / longest:.2g}") for factor in factors)
