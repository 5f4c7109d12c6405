"""Who plays, and what is tuned: every policy of the table on a grid, save the one that claims to need none."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glbandits.environments import Environment
from glbandits.experiments.experiment import PolicyEntry
from glbandits.policies import POLICIES
from glbandits.policy import Grid, Policy, settings_of

SUBJECT = "optimist"
"""The policy that is on trial: it plays its default."""
RANDOM_FIRST = ("block_factor", "warm_up_factor")
"""Settings that say how long a policy plays at random before it learns, in units of max(log T, d)."""

TUNED: Grid = {
    "exploration": (0.03, 0.1, 0.3, 1.0, 3.0),
    "exploration_a1": (0.01, 0.1, 1.0),
    "step": (0.1, 0.5, 1.0, 5.0),
    "block_factor": (1.0, 5.0, 10.0),
    "warm_up_factor": (1.0, 5.0),
}
"""What is tried of the settings in a policy's own grid; the rest stay at their defaults."""
TUNED_SLOWLY: Grid = {
    "exploration": (0.1, 0.3, 1.0),
    "exploration_a1": (0.01, 0.1),
    "step": (0.5, 1.0, 5.0),
    "block_factor": (1.0, 5.0, 10.0),
}
"""The same for a policy that takes long."""
ALSO: dict[str, Grid] = {"online-laplace": {"rule": ("fp", "ucb", "ts")}}
"""What else is tried: words that a policy's grid does not hold."""


@dataclass(frozen=True)
class Effort:
    """How much is done for a policy on a problem."""

    tuning: Sequence[int]
    """Seeds on which a setting is chosen."""
    fresh: Sequence[int]
    """Seeds on which it is judged."""
    grid: Grid


FULL = Effort(range(1, 11), range(1001, 1051), TUNED)
LESS = Effort(range(1, 4), range(1001, 1021), TUNED_SLOWLY)
"""For policies whose run takes long. Its seeds are among the others, so that policies can be compared seed by seed."""


def contestant(name: str, environment: Environment, link: str, horizon: int, grid: Grid) -> PolicyEntry:
    """A policy with all that it may be told of the problem, and what of this grid it has."""
    kind: Any = POLICIES[name]
    has = settings_of(kind())
    told = {"link": link, "horizon": horizon, "context_dim": getattr(environment, "block", 1)}
    fixed = {key: value for key, value in told.items() if key in has}
    tried = {key: grid[key] for key in kind.grid if key in grid} | dict(ALSO.get(name, {}))
    for key in RANDOM_FIRST:
        if key in tried:
            tried[key] = short_enough(tried[key], horizon, environment.dim)
    return PolicyEntry(kind, fixed, {} if name == SUBJECT else tried)


def short_enough(factors: Sequence[float], horizon: int, dim: int) -> tuple[float, ...]:
    """The factors, all made smaller where the largest would have a policy play at random for over half of the run.

    With d = 650 and T = 1000 every factor of the paper's grid would: its policies would be tuned among ways to lose.

    >>> short_enough((1.0, 5.0, 10.0), horizon=1000, dim=6)
    (1.0, 5.0, 10.0)
    >>> short_enough((1.0, 5.0, 10.0), horizon=1000, dim=650)
    (0.077, 0.38, 0.77)
    """
    longest = max(factors) * max(math.log(horizon), dim)
    if longest <= horizon / 2:
        return tuple(factors)
    return tuple(float(f"{factor * horizon / 2 / longest:.2g}") for factor in factors)


def typical(one: PolicyEntry) -> Policy:
    """The default; where it is not among the values that are tried, the last of these."""
    build: Any = one.kind
    default = settings_of(build(**one.fixed))
    others = {key: values[-1] for key, values in (one.grid or {}).items() if default[key] not in values}
    policy: Policy = build(**one.fixed, **others)
    return policy
