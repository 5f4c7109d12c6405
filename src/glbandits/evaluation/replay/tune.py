"""Counterfactual tuning: choose a policy's settings on one part of a log, report on another."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from glbandits.errors import InvalidInput, check_float, lookup
from glbandits.evaluation.estimators.intervals import Interval
from glbandits.evaluation.logs.log_slice import split
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.replay.learning_curve import Learn, LearningCurve
from glbandits.evaluation.replay.log_player import Rules, block_rows, play_together
from glbandits.evaluation.replay.play_log import warn_if_few
from glbandits.maths.philox import seed_list
from glbandits.parallel import check_engine, is_one_process, run_parallel
from glbandits.policy import Grid, Policy, grid_points
from glbandits.policy.policy_checks import check_is_policy

GROUPS = 64
"""Into at most so many groups candidates are cut if they are played in several processes. Each group reads the log."""


@dataclass(frozen=True, eq=False)
class Played:
    """What a policy earned on a part of a log, in the mean over seeds."""

    policy: Policy
    curves: tuple[LearningCurve, ...]
    """One for each seed; of each only the end is recorded."""

    @property
    def value(self) -> float:
        """The reward of a decision; NaN if no row counted with some seed."""
        return float(np.mean([curve.value for curve in self.curves]))

    @property
    def standard_error(self) -> float:
        """Of a single seed's value, which is that of their mean at most: all seeds play the same rows."""
        return float(np.sqrt(np.mean([curve.standard_error**2 for curve in self.curves])))


@dataclass(frozen=True, eq=False, kw_only=True)
class Tuned:
    """What was chosen on the first part of a log, and what it is worth on the second."""

    candidates: tuple[Played, ...]
    """All of them, on the first part. The default comes first."""
    rows: tuple[int, int]
    """Rows of the two parts."""
    winner: Played
    """The candidate with the largest value on the first part, played on the second, which had no say in choosing it."""
    default: Played
    """The first candidate on the second part."""

    @property
    def best(self) -> Policy:
        """The candidate that was chosen."""
        return self.winner.policy

    @property
    def value(self) -> float:
        """What the best candidate earns for each decision, from the second part."""
        return self.winner.value

    @property
    def standard_error(self) -> float:
        """Of that value."""
        return self.winner.standard_error

    @property
    def gain(self) -> float:
        """How much more that is than the default earns, on the second part."""
        return self.winner.value - self.default.value

    @property
    def gain_standard_error(self) -> float:
        """Of the gain, as if the two had been played on rows of their own; 0 if the default is the best."""
        if self.best == self.default.policy:
            return 0.0
        return math.hypot(self.winner.standard_error, self.default.standard_error)

    def gain_interval(self, level: float = 0.95) -> Interval:
        """Return the normal interval of the gain; it has no width if the default is the best."""
        level = check_float("level", level, above=0, at_most=1 - 1e-9)
        reach = float(ndtri(0.5 + level / 2)) * self.gain_standard_error
        return Interval(self.gain - reach, self.gain + reach)


def tune(
    candidates: Policy | Sequence[Policy],
    log: Log,
    *,
    grid: Grid | None = None,
    share: float = 0.5,
    seeds: int | Iterable[int] = 3,
    learn: Learn = "matched",
    exact: bool = False,
    least_propensity: float | None = None,
    jobs: int = 1,
    engine: str = "local",
    progress: Callable[[int, int], None] | None = None,
) -> Tuned:
    """Choose settings on the first part of a log, and report on the rest.

    The value on the first part is not reported as the result: the best of many estimates is best in part by luck, and
    the more candidates there are, the more so (the winner's curse). The second part had no say in the choice, so there
    the estimate is as good as for any other policy. On both parts each policy begins knowing nothing.

    Args:
        candidates: policies, the first of which is the default that the best is compared with; or one policy, which
            is then the default, and whose settings are varied over its grid.
        log: with propensities. The first part are its first rows; if clusters interleave, some of the clusters. No
            cluster is in both parts.
        grid: values to try for some settings, if one policy is given; the policy's own grid if None.
        share: of the rows that are in the first part.
        seeds: the seeds themselves, or how many: n means 0 .. n-1. Each candidate is played with each of them.
        learn: as in `play_log`, like the two settings that follow.
        exact: see there.
        least_propensity: see there; the smallest of each part if None.
        jobs: how many processes play at once, -1 for one per core. The numbers do not depend on it.
        engine: "local" for the cores of this machine, "ray" for a Ray cluster; see `glbandits.parallel.run_parallel`.
        progress: called with rows played and rows to play: candidates x seeds x rows of the first part, and 2 x seeds x
            rows of the second.

    >>> import numpy as np
    >>> from glbandits import EpsilonGreedy
    >>> from glbandits.evaluation import FixedArms, LoggedData, tune
    >>> rng = np.random.default_rng(1)
    >>> chosen = rng.integers(2, size=4000)
    >>> rewards = rng.random(4000) < np.where(chosen == 1, 0.6, 0.4)
    >>> log = LoggedData(
    ...     chosen=chosen, rewards=rewards, propensities=np.full(4000, 0.5), arms=FixedArms(np.eye(2), rows=4000)
    ... )
    >>> result = tune(EpsilonGreedy(exploration=10.0), log, grid={"exploration": (0.1, 1.0)})
    >>> [played.policy.exploration for played in result.candidates], result.best.exploration, result.gain > 0
    ([10.0, 0.1, 1.0], 0.1, True)
    """
    listed, chosen_seeds = _candidates(candidates, grid), seed_list(seeds)
    check_engine(engine, jobs)
    rules = Rules(learn=learn, exact=exact, least_propensity=least_propensity)
    share = check_float("share", share, above=0, at_most=1)
    first, second = split(log, share)
    done, total = 0, len(chosen_seeds) * (len(listed) * len(first) + 2 * len(second))

    def report(rows: int) -> None:
        nonlocal done
        done += rows
        if progress is not None:
            progress(done, total)

    how = _How(chosen_seeds, rules, jobs, engine, report)
    played = _played(listed, first, how)
    values = np.array([candidate.value for candidate in played])
    if np.isnan(values).all():
        raise InvalidInput(
            f"no candidate chose as the log did in any of the {len(first)} rows of the first part. "
            "Use a longer log, or a larger share"
        )
    finalists = [listed[int(np.nanargmax(values))], listed[0]]
    winner, default = _played(finalists, second, how)
    warn_if_few(min(winner.curves, key=lambda curve: curve.effective_sample_size), stacklevel=3)
    return Tuned(candidates=tuple(played), rows=(len(first), len(second)), winner=winner, default=default)


class _How(NamedTuple):
    """How the parts of a log are played."""

    seeds: Sequence[int]
    rules: Rules
    jobs: int
    engine: str
    report: Callable[[int], None]
    """Called with rows just played, summed over policies and seeds."""


def _played(policies: Sequence[Policy], part: Log, how: _How) -> list[Played]:
    """Play a part of the log: all policies in one reading of it, or in groups that have processes of their own."""
    here = is_one_process(how.jobs, how.engine)
    groups = 1 if here else min(len(policies), GROUPS)
    play = partial(
        play_together,
        log=part,
        seeds=how.seeds,
        rules=how.rules,
        progress=how.report if here else None,
        size=block_rows(policies),
    )
    grouped = [policies[group::groups] for group in range(groups)]
    played: dict[int, Played] = {}
    for group, curves in run_parallel(play, grouped, jobs=how.jobs, engine=how.engine):
        for index, of_policy in zip(range(group, len(policies), groups), curves, strict=True):
            played[index] = Played(policies[index], tuple(of_policy))
        if not here:
            how.report(len(curves) * len(how.seeds) * len(part))
    return [played[index] for index in range(len(policies))]


def _candidates(given: Policy | Sequence[Policy], grid: Grid | None) -> list[Policy]:
    """The policies to choose among, the default first."""
    if isinstance(given, Sequence):
        if grid is not None:
            raise InvalidInput("a grid varies the settings of one policy; got a list of candidates beside it")
        if len(given) < 2:
            raise InvalidInput(f"candidates must be at least two policies, or one with a grid; got {given!r}")
        return list(given)
    check_is_policy(given)
    varied: Grid = getattr(given, "grid", {}) if grid is None else grid
    if not varied:
        raise InvalidInput(f"{given.name} has no grid of settings to choose among. Give one, or a list of policies")
    settings = {field.name: field for field in fields(given)}  # type: ignore[arg-type]
    for name in varied:
        lookup(f"setting of {given.name}", name, settings)
    policy: Any = given
    points = [replace(policy, **point) for point in grid_points(given.name, varied)]
    return [given, *(point for point in points if point != given)]
