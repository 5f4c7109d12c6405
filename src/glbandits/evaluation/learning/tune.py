"""tune: choose the settings of a policy on one part of a log, and evaluate on another."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtri

from glbandits.common.display.displayed import Displayed, percent
from glbandits.common.display.progress_lines import WorkCount, shown_progress
from glbandits.common.display.text_format import format_interval, format_value
from glbandits.common.errors import InvalidInput, check_float, lookup
from glbandits.common.parallel import check_engine, is_one_process, run_parallel
from glbandits.evaluation.estimators.estimator import DEFAULT_LEVEL, Interval
from glbandits.evaluation.estimators.support import MIN_SAMPLE_SIZE
from glbandits.evaluation.learning.learning_curve import Learn, LearningCurve
from glbandits.evaluation.learning.log_player import block_rows, compile_slow, play_policies, policy_for_log
from glbandits.evaluation.learning.play_log import warn_if_few_rows
from glbandits.evaluation.learning.players import PlaySettings
from glbandits.evaluation.logs.checks.log_doubts import LogDoubtSums
from glbandits.evaluation.logs.doubts import Doubt, Withheld, reason_to_withhold
from glbandits.evaluation.logs.log_slice import split
from glbandits.evaluation.logs.logged_data import Log
from glbandits.maths.philox import seed_list
from glbandits.policies.agents import AgentFactory, PolicyLike, PolicyOrAgent
from glbandits.policies.contract import Grid, grid_points

MAX_GROUPS = 64
"""Maximum number of groups of candidates for worker processes. Each group reads the log once."""


@dataclass(frozen=True, eq=False, repr=False)
class CandidateResult(Displayed):
    """The result of a policy on a part of a log, averaged over seeds."""

    policy: PolicyOrAgent
    curves: tuple[LearningCurve, ...]
    """The learning curve of each seed, with its last point only."""

    @property
    def value(self) -> float:
        """Mean reward per decision; NaN if no row counts for some seed."""
        return float(np.mean([curve.value for curve in self.curves]))

    @property
    def standard_error(self) -> float:
        """Standard error for a single seed.

        It is an upper bound for the mean over seeds, because all seeds use the same rows.
        """
        return float(np.sqrt(np.mean([curve.standard_error**2 for curve in self.curves])))

    def _values(self) -> dict[str, object]:
        return {"policy": self.policy, "value": self.value, "error": self.standard_error, "seeds": len(self.curves)}


class TuningVerdictKind(StrEnum):
    """What tuning found."""

    BETTER = "better"
    """The chosen settings are better than the default."""
    KEEP = "keep the default"
    """The chosen settings are the default, are worse, or cannot be distinguished from it."""
    WITHHELD = "withheld"
    """The second part cannot tell, for the stated reason. Keep the default."""


@dataclass(frozen=True, kw_only=True)
class TuningVerdict:
    """Whether to replace the default. `str()` is one sentence."""

    kind: TuningVerdictKind
    policy: PolicyOrAgent
    """The policy to use: the default, unless the chosen one is better."""
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TuningResult(Displayed):
    """The candidate chosen on the first part of a log, and its value on the second part."""

    candidates: tuple[CandidateResult, ...]
    """Results of all candidates on the first part. The default is the first."""
    rows: tuple[int, int]
    """Number of rows of the two parts."""
    winner: CandidateResult
    """Result on the second part of the candidate with the largest value on the first part."""
    default: CandidateResult
    """Result of the default on the second part."""
    doubts: tuple[Doubt, ...] = ()
    """Why the log may mislead."""

    @property
    def unit(self) -> str:
        """What all values are means of: "reward", or "payoff" if the log has values."""
        return self.winner.curves[0].unit

    @property
    def best(self) -> PolicyOrAgent:
        """The chosen policy."""
        return self.winner.policy

    @property
    def value(self) -> float:
        """Mean reward per decision of the chosen policy on the second part."""
        return self.winner.value

    @property
    def standard_error(self) -> float:
        """Standard error of `value`."""
        return self.winner.standard_error

    @property
    def gain(self) -> float:
        """`value` minus the value of the default, on the second part."""
        return self.winner.value - self.default.value

    @property
    def gain_standard_error(self) -> float:
        """Standard error of the gain, as for independent samples; 0 if the default was chosen."""
        if self.best == self.default.policy:
            return 0.0
        return math.hypot(self.winner.standard_error, self.default.standard_error)

    def gain_interval(self, level: float = DEFAULT_LEVEL) -> Interval:
        """Return the normal interval of the gain, of width 0 if the default was chosen."""
        level = check_float("level", level, above=0, at_most=1 - 1e-9)
        half_width = float(ndtri(0.5 + level / 2)) * self.gain_standard_error
        return Interval(self.gain - half_width, self.gain + half_width)

    def verdict(self, level: float = DEFAULT_LEVEL) -> TuningVerdict:
        """Say whether to replace the default, by rows that did not choose the settings.

        If they are as good as the default, the probability of the verdict "better" is at most (1 - level) / 2: only
        one candidate is compared, however many there were.
        """
        best, default = describe_change(self.best, self.default.policy), self.default.policy
        if self.best == default:
            sentence = f"Keep the default: no setting had a higher mean {self.unit} on the first part."
            return TuningVerdict(kind=TuningVerdictKind.KEEP, policy=default, sentence=sentence)
        reason = self._why_withheld()
        if reason:
            sentence = f"No verdict on {best}: {reason}. Keep the default."
            return TuningVerdict(kind=TuningVerdictKind.WITHHELD, policy=default, sentence=sentence)
        interval = self.gain_interval(level)
        bounds = f"{percent(level)} interval {format_interval(interval, sign=True)}"
        gain = f"gain {format_value(self.gain, sign=True)}, {bounds}"
        rows = f"the {self.rows[1]:,} rows that did not choose it"
        if interval.low > 0.0:
            sentence = f"{best} is better than the default on {rows} ({gain})."
            return TuningVerdict(kind=TuningVerdictKind.BETTER, policy=self.best, sentence=sentence)
        found = "worse than" if interval.high < 0.0 else "not distinguishable from"
        sentence = f"{best} is {found} the default on {rows} ({gain}): keep the default."
        return TuningVerdict(kind=TuningVerdictKind.KEEP, policy=default, sentence=sentence)

    def _why_withheld(self) -> str:
        """Return why the second part has no verdict; "" if it has."""
        found = reason_to_withhold(self.doubts, Withheld.ALL)
        if found:
            return found
        few = min(curve.effective_sample_size for played in (self.winner, self.default) for curve in played.curves)
        if few < MIN_SAMPLE_SIZE:
            return f"its rows are worth only {few:.0f} of equal weight, fewer than {MIN_SAMPLE_SIZE}"
        errors = self.winner.standard_error, self.default.standard_error
        return "" if min(errors) > 0.0 else f"all rows that count have the same {self.unit}"

    def _values(self) -> dict[str, object]:
        return {
            "verdict": self.verdict(),
            "best": self.best,
            "of": f"{len(self.candidates)} candidates",
            "value": self.value,
            "error": self.standard_error,
            "gain over the default": self.gain,
            "error of the gain": self.gain_standard_error,
        }


def tune(
    candidates: PolicyLike | Sequence[PolicyLike],
    log: Log,
    *,
    grid: Grid | None = None,
    share: float = 0.5,
    seeds: int | Iterable[int] = 3,
    learn: Learn = "matched",
    jobs: int = 1,
    engine: str = "local",
    progress: Callable[[int, int], None] | None = None,
) -> TuningResult:
    """Choose settings on the first part of a log, and estimate their value on the rest.

    The value on the first part would be too high: the best of many estimates is partly the best by noise, the more so
    the more candidates there are (the winner's curse). The second part was not used for the choice, so its estimate has
    no such bias. On both parts each policy starts untrained.

    Args:
        candidates: policies, or names of policies, or classes or functions that make agents. The first is the default.
            Or a single one, which is the default, and whose settings are varied over a grid.
        log: a log with propensities. The first part has its first rows; if clusters interleave, some of the clusters.
            No cluster is in both parts.
        grid: values to try for settings of a single policy; by default the grid of the policy.
        share: share of the rows in the first part.
        seeds: the seeds, or their number: n means 0 to n-1. Each candidate is played with each seed.
        learn: as in `play_log`.
        jobs: number of worker processes, -1 for one per core. The results do not depend on it.
        engine: "local" for the cores of this machine, "ray" for a Ray cluster; see `common.parallel`.
        progress: called with rows played and rows to play: candidates x seeds x rows of the first part, and 2 x seeds x
            rows of the second. By default lines are printed as in `train`.

    >>> import numpy as np
    >>> from glbandits import EpsilonGreedy
    >>> from glbandits.evaluation import FixedArms, LoggedData, tune
    >>> rng = np.random.default_rng(1)
    >>> chosen = rng.integers(2, size=1000)
    >>> rewards = rng.random(1000) < np.where(chosen == 1, 0.6, 0.4)
    >>> log = LoggedData(
    ...     chosen=chosen, rewards=rewards, propensities=np.full(1000, 0.5), arms=FixedArms(np.eye(2), rows=1000)
    ... )
    >>> result = tune(EpsilonGreedy(exploration=10.0), log, grid={"exploration": (0.1, 1.0)})
    >>> [played.policy.exploration for played in result.candidates], result.best.exploration, result.gain > 0
    ([10.0, 0.1, 1.0], 0.1, True)
    >>> result.verdict().kind.value
    'better'
    """
    policies_to_try, chosen_seeds = _candidates(candidates, grid), seed_list(seeds)
    check_engine(engine, jobs)
    playing = PlaySettings(learn=learn)
    share = check_float("share", share, above=0, at_most=1)
    first, second = split(log, share)
    total = len(chosen_seeds) * (len(policies_to_try) * len(first) + 2 * len(second))
    with shown_progress(progress, "Tuning") as show:
        report = WorkCount(show, total).add
        compile_slow(policies_to_try, log, playing, seeds=len(chosen_seeds))
        play = partial(_play_candidates, seeds=chosen_seeds, settings=playing, jobs=jobs, engine=engine, report=report)
        results = play(policies_to_try, first)
        values = np.array([candidate.value for candidate in results])
        if np.isnan(values).all():
            raise InvalidInput(
                f"no candidate chose the logged arm in any of the {len(first)} rows of the first part. "
                "Use a longer log, or a larger share"
            )
        finalists = [policies_to_try[int(np.nanargmax(values))], policies_to_try[0]]
        winner, default = play(finalists, second)
    warn_if_few_rows(min(winner.curves, key=lambda curve: curve.effective_sample_size), stacklevel=3)
    return TuningResult(
        candidates=tuple(results),
        rows=(len(first), len(second)),
        winner=winner,
        default=default,
        doubts=_doubts(log),
    )


def _doubts(log: Log) -> tuple[Doubt, ...]:
    sums = LogDoubtSums(log.schema)
    for block in log.blocks():
        sums.add(block, block.payoffs)
    return sums.doubts()


def describe_change(policy: PolicyOrAgent, default: PolicyOrAgent) -> str:
    """Name the settings in which a policy differs from the default; all of them if it is another policy."""
    settings, others = policy.get_params(), default.get_params()
    if policy.name == default.name:
        settings = {name: value for name, value in settings.items() if value != others.get(name)}
    return f"{policy.name}:{','.join(f'{name}={value}' for name, value in settings.items())}".rstrip(":")


def _play_candidates(
    policies: Sequence[PolicyOrAgent],
    part: Log,
    *,
    seeds: Sequence[int],
    settings: PlaySettings,
    jobs: int,
    engine: str,
    report: Callable[[int], None],
) -> list[CandidateResult]:
    """Play a part of the log: all policies in one pass, or groups of them in worker processes.

    `report` is called with the number of rows just played, summed over policies and seeds.
    """
    one_process = is_one_process(jobs, engine)
    groups = 1 if one_process else min(len(policies), MAX_GROUPS)
    play = partial(
        play_policies,
        log=part,
        seeds=seeds,
        settings=settings,
        progress=report if one_process else None,
        size=block_rows(policies),
    )
    grouped = [policies[group::groups] for group in range(groups)]
    results: dict[int, CandidateResult] = {}
    for group, curves in run_parallel(play, grouped, jobs=jobs, engine=engine):
        for index, of_policy in zip(range(group, len(policies), groups), curves, strict=True):
            results[index] = CandidateResult(policies[index], tuple(of_policy))
        if not one_process:
            report(len(curves) * len(seeds) * len(part))
    return [results[index] for index in range(len(policies))]


def _candidates(candidates: PolicyLike | Sequence[PolicyLike], grid: Grid | None) -> list[PolicyOrAgent]:
    """The policies to choose from, the default first."""
    if isinstance(candidates, Sequence) and not isinstance(candidates, str):
        if grid is not None:
            raise InvalidInput("grid needs a single policy; got a list of candidates. Leave out grid")
        if len(candidates) < 2:
            raise InvalidInput(f"candidates must be at least two policies, or one with a grid; got {candidates!r}")
        return [policy_for_log(candidate) for candidate in candidates]
    default: Any = policy_for_log(candidates)
    varied: Grid = getattr(default, "grid", {}) if grid is None else grid
    if not varied:
        raise InvalidInput(f"{default.name} has no grid of settings to choose among. Give grid", field="grid")
    if isinstance(default, AgentFactory):
        points = [default.with_settings(point) for point in grid_points(default.name, varied)]
        return [default, *(point for point in points if point != default)]
    settings = {field.name: field for field in fields(default)}
    for name in varied:
        lookup(f"setting of {default.name}", name, settings)
    points = [replace(default, **point) for point in grid_points(default.name, varied)]
    return [default, *(point for point in points if point != default)]
