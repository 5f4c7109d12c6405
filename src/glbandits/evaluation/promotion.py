"""The promotion gate: decide whether a candidate should replace the logging policy.

The gate may be run at any time while the log grows. With probability 1 - alpha, none of its runs promotes a candidate
that is worse than the running policy was on the compared rows. The gain of each candidate has confidence sequences
(`estimators.anytime`), and m candidates share alpha equally. Of the share of a candidate,

- three quarters go to the sequence over all rows. A candidate that learns is trained again before rows 512, 1024,
  2048, ..., on all earlier rows. A sequence allows that a target changes, if it depends only on earlier rows.
- a quarter goes to sequences over the recent rows, from row s on: the largest of 1024, 2048, ... that is at most half
  of the log. Old rows say little about a running policy that changes. Each s starts a new sequence, with the share
  1 / (i (i + 1)), i = 1, 2, ...; all shares sum to 1.

The verdict is "promote" if a lower bound is above 0, "keep" if the upper bounds of all gains are at most `margin`, and
"wait" otherwise (`_verdict`). All rows decide only if the recent rows agree: if their bound at `AGREEMENT` is on the
same side. A candidate on which the log has not enough evidence has no gain.

Doubts about the log (`logs.doubts`) make the gate wait. If a column was known only after the decision, candidates that
do not read it are compared without it. If they are only that the log changed, and the recent rows
start about where the last change was found, or later, they alone promote.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import cast

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput, check_bool, check_float, check_int
from glbandits.evaluation.estimators.anytime import AnytimeInterval, AnytimeSums, why_no_anytime_interval
from glbandits.evaluation.estimators.frozen_agent import frozen
from glbandits.evaluation.estimators.log_rows import LogRows, RowReader
from glbandits.evaluation.estimators.measures import Measure
from glbandits.evaluation.estimators.seen_rows import check_not_learned
from glbandits.evaluation.estimators.support import SupportSums
from glbandits.evaluation.estimators.targets import (
    ExploringTarget,
    Target,
    TargetLike,
    as_target,
    may_read,
    target_probabilities,
)
from glbandits.evaluation.learning.train import train_all
from glbandits.evaluation.logs.checks.log_doubts import LogDoubtSums
from glbandits.evaluation.logs.doubts import Doubt, DoubtKind, Withheld, reason_to_withhold
from glbandits.evaluation.logs.hidden_features import HiddenFeatures
from glbandits.evaluation.logs.log_slice import LogSlice
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.logs.payoffs import payoff_range as possible_payoffs
from glbandits.evaluation.logs.reward_checks import check_reward_range
from glbandits.evaluation.logs.schema import LogSchema
from glbandits.evaluation.models.reward_models import SequentialGlm
from glbandits.evaluation.promotion_result import Gains, Promotion, Verdict
from glbandits.maths.links import find_link
from glbandits.policies.agents import PolicyLike, PolicyOrAgent, learner_of

FIRST_ROWS = 512
"""The number of rows that candidates learn before the first comparison. They learn again after 2, 4, ... times as many.
"""
SHARE_OF_ALL = 0.75
"""The share of alpha of the sequence over all rows."""
AGREEMENT = 0.2
"""The probability that recent rows without a gain ever agree with a promotion, for each s. 0.05 costs up to 20 % more
rows."""

OUTDATED = 0.1
"""The share of the recent rows that may be older than the last change of the log."""

MIN_ROWS, MOST_ROWS = 100, 1e9
"""The number of compared rows from which on there is a forecast, and the largest number that it may name."""


def promotion(
    log: Log,
    candidates: Mapping[str, PolicyLike | TargetLike],
    *,
    alpha: float = 0.05,
    margin: float = 0.0,
    reward_range: tuple[float, float] | None = None,
    payoff_range: tuple[float, float] | None = None,
    least_propensity: float | None = None,
    exploration: float = 0.0,
    explore: bool = True,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Promotion:
    """Decide whether a candidate should replace the logging policy: promote, keep, or wait.

    It may be called repeatedly while the log grows, with the same candidates, alpha and seed.

    Args:
        log: a log with propensities. Intervals are narrower with the probabilities of all arms
            (`LoggedData.probabilities`).
        candidates: candidates by name. A policy, or an agent (a class, or a function of `dim`), learns the log, and is
            always compared on rows that it learns later.
            Any other target of `evaluate` is used unchanged, and must not have learned from this log.
        alpha: bound on the probability that the gate ever promotes a candidate that is worse than the running policy
            was on the compared rows, over all calls and candidates. The running policy may have improved since these
            rows.
        margin: a gain that is too small to wait for. "Keep" means that no gain exceeds it. A larger margin ends the
            comparison earlier. It does not prevent the promotion of a candidate with a smaller gain.
        reward_range: lowest and highest possible reward; by default those of the link.
        payoff_range: lowest and highest possible payoff. A log with values and costs in its rows needs it, because
            they may change while it grows.
        least_propensity: lower bound on the probabilities of the logging policy; see `evaluate`.
        exploration: the share of decisions that will be random, whichever candidate runs. Without it, a candidate would
            seem better only because the running policy explores.
        explore: whether policies that learn explore by their own rule when they decide; see `Bandit.choose`.
        seed: seed of the candidates.
        progress: called with the number of rows done, and of all rows.
    """
    if not candidates:
        raise InvalidInput("candidates is empty. Name at least one candidate.")
    alpha = check_float("alpha", alpha, at_least=1e-9, at_most=0.5)
    margin, seed = check_float("margin", margin, at_least=0), check_int("seed", seed, at_least=0)
    exploration = check_float("exploration", exploration, at_least=0, at_most=1)
    explore = check_bool("explore", explore)
    if least_propensity is not None:
        least_propensity = check_float("least_propensity", least_propensity, above=0, at_most=1)
    schema = log.schema
    bounds = _checked_reward_range(schema, reward_range, payoff_range)
    payoff_bounds = possible_payoffs(log, bounds, payoff_range)
    learners = {name: learner for name, each in candidates.items() if (learner := learner_of(each)) is not None}
    targets = {
        name: as_target(cast(TargetLike, each), log) for name, each in candidates.items() if name not in learners
    }
    check_not_learned(log, candidates)
    schedule = _Schedule(len(log), FIRST_ROWS if learners else 0)

    def compare(rows: Log, names: Collection[str]) -> tuple[dict[str, _Comparison], tuple[Doubt, ...]]:
        """Compare candidates on all rows, and check the rows."""
        known = {name: target for name, target in targets.items() if name in names}
        model = SequentialGlm(find_link(schema.link), log.dim, sparse=log.sparse)
        reader, checks = RowReader(bounds, None, model, 0, payoff_bounds), LogDoubtSums(rows.schema)
        compared = {name: _Comparison(schema, payoff_bounds, least_propensity) for name in names}
        for start, end in schedule.parts:
            learning = {name: each for name, each in learners.items() if name in names}
            known |= _trained(LogSlice(rows, 0, start), learning, seed, explore=explore)
            for block in LogSlice(rows, start, end).blocks():
                read = reader.read(block)
                checks.add(block, block.payoffs)
                for name, target in known.items() if start >= schedule.first else ():
                    probabilities = target_probabilities(ExploringTarget.of(target, exploration), block, read.first_row)
                    compared[name].add(read, probabilities, recent=start >= schedule.recent)
                if progress is not None:
                    progress(read.first_row + len(read), len(log))
        return compared, checks.doubts()

    compared, doubts = compare(log, candidates)
    leaks, hidden = {}, HiddenFeatures.of(log, doubts)
    apart = [] if hidden is None else [name for name, each in targets.items() if not may_read(each, hidden)]
    if hidden is not None and apart:
        of_leaks = [doubt for doubt in doubts if doubt.kind is DoubtKind.LEAK]
        leaks = dict.fromkeys((name for name in candidates if name not in apart), of_leaks[0].short)
        again, others = compare(hidden, apart)
        compared |= again
        doubts = (*others, *(replace(doubt, withholds=Withheld.NOTHING) for doubt in of_leaks))
    return _result(compared, schedule, doubts, leaks, alpha=alpha, margin=margin, unit=schema.unit)


def _checked_reward_range(
    schema: LogSchema, given: tuple[float, float] | None, payoff_range: tuple[float, float] | None
) -> tuple[float, float]:
    """Return the range of rewards. Raises InvalidInput if the log cannot have anytime-valid intervals."""
    schema.check_propensities()
    link = find_link(schema.link)
    bounds = check_reward_range(given, link)
    if not all(map(math.isfinite, bounds)):
        raise InvalidInput(
            f"the gate needs rewards with bounds, and the {link.name} link has none. Give the lowest and the "
            "highest possible reward (--reward-range, in Python reward_range), or read the log with a link that has "
            "bounds, such as 'logistic'",
            field="reward_range",
        )
    if schema.needs_payoff_range(payoff_range):
        raise InvalidInput(
            "the gate needs the lowest and the highest possible payoff, because those of the rows may change while the "
            "log grows. State them (--payoff-range, in Python payoff_range)",
            field="payoff_range",
        )
    reason = why_no_anytime_interval(schema, bounds, payoff_range)
    if reason:
        raise InvalidInput(f"the gate needs anytime-valid intervals, and this log has none: {reason}.")
    return bounds


class _Schedule:
    """The rows of a log at which candidates learn, and at which the comparisons start.

    Args:
        rows: number of rows of the log.
        first: the first compared row.
    """

    def __init__(self, rows: int, first: int) -> None:
        doublings = max(0, math.ceil(math.log2(rows / FIRST_ROWS)))
        starts = [FIRST_ROWS << index for index in range(doublings)]
        self.rows, self.first = rows, first
        self.recent = max((start for start in starts[1:] if 2 * start <= rows), default=first)
        """The first of the recent rows."""
        self.parts = [*pairwise([0, *starts, rows])] if rows > first else []
        """First and last row of each part. Candidates learn all rows before a part."""
        index = max(1, (self.recent // FIRST_ROWS).bit_length() - 1)  # i, where the recent rows start at 512 * 2^i
        self.share_of_recent = (1.0 - SHARE_OF_ALL) / (index * (index + 1))
        """The share of alpha of the sequence over the recent rows."""
        self.latest_change = self.recent + round(OUTDATED * (rows - self.recent))
        """The last row after which the log may change, for the recent rows to decide."""


def _trained(log: Log, learners: Mapping[str, PolicyOrAgent], seed: int, *, explore: bool) -> dict[str, Target]:
    """Return the targets that policies are after they have learned a log; none for a log without rows."""
    if not len(log):
        return {}
    # Each is trained alone: the size of the blocks that it learns would depend on the others.
    trained = (train_all(log, {name: each}, seed=seed, progress=lambda *_: None) for name, each in learners.items())
    return {name: frozen(learner, seed, explore=explore) for each in trained for name, learner in each.items()}


class _Comparison:
    """The gain of a candidate over all compared rows and over the recent ones, and its support."""

    def __init__(self, schema: LogSchema, payoff_bounds: tuple[float, float], least_propensity: float | None) -> None:
        self._all, self._recent = (AnytimeSums(Measure.GAIN, payoff_bounds, least_propensity) for _ in range(2))
        self._support, self._least = SupportSums(schema.max_arms if schema.same_arms else None), least_propensity

    def add(self, rows: LogRows, probabilities: Floats, *, recent: bool) -> None:
        """Add the next rows, with the candidate's probabilities of the arms, (rows, arms)."""
        gain = Measure.GAIN.of_rows(rows, probabilities)
        for sums in (self._all, self._recent) if recent else (self._all,):
            sums.add(rows, gain)
        self._support.add(rows.block, probabilities, rows.of_chosen(probabilities) / rows.propensities)

    def no_evidence(self) -> str:
        """Return why there is no gain; "" if there is one."""
        return self._support.support(least_propensity=self._least).no_evidence()

    def of_all(self, alpha: float) -> AnytimeInterval:
        """Return the gain over all compared rows. Each bound is wrong with probability alpha."""
        return self._all.interval(1.0 - 2.0 * alpha)

    def of_recent(self, alpha: float) -> AnytimeInterval:
        """Return the gain over the recent rows."""
        return self._recent.interval(1.0 - 2.0 * alpha)


def _result(
    compared: Mapping[str, _Comparison],
    schedule: _Schedule,
    doubts: Sequence[Doubt],
    leaks: Mapping[str, str],
    *,
    alpha: float,
    margin: float,
    unit: str,
) -> Promotion:
    if not schedule.parts:
        return Promotion(
            verdict=Verdict.WAIT,
            candidate=None,
            gains={},
            no_evidence={},
            first_row=schedule.rows,
            alpha=alpha,
            margin=margin,
            rows_needed=2 * FIRST_ROWS,
            unit=unit,
        )
    no_evidence = {name: reason for name, each in compared.items() if (reason := each.no_evidence())}
    no_evidence |= leaks
    known, share = {name: each for name, each in compared.items() if name not in no_evidence}, alpha / len(compared)
    of_all = {name: each.of_all(SHARE_OF_ALL * share) for name, each in known.items()}
    of_recent = {name: each.of_recent(share * schedule.share_of_recent) for name, each in known.items()}
    agreement = {name: each.of_recent(AGREEMENT) for name, each in known.items()}
    since = max((doubt.since or 0 for doubt in doubts), default=0)
    others = [doubt for doubt in doubts if doubt.since is None]
    verdict, gains, best = _verdict(of_all, of_recent, agreement, complete=not no_evidence, margin=margin)
    outdated = verdict is Verdict.PROMOTE and since > schedule.latest_change
    if outdated or reason_to_withhold(others, Withheld.ALL, Withheld.GAIN):
        verdict, gains, best = (Verdict.WAIT, cast(Gains, of_all), None)
    elif verdict is Verdict.PROMOTE and since > schedule.first:  # only the rows since the change decide
        verdict, gains, best = _verdict(of_recent, of_recent, agreement, complete=not no_evidence, margin=margin)
    return Promotion(
        verdict=verdict,
        candidate=best,
        gains=gains,
        no_evidence=no_evidence,
        first_row=schedule.first if gains is of_all else schedule.recent,
        alpha=alpha,
        margin=margin,
        rows_needed=schedule.first + _rows_needed(gains) if verdict is Verdict.WAIT and not doubts else math.nan,
        unit=unit,
        doubts=tuple(doubts),
    )


def _verdict(
    of_all: Gains, of_recent: Gains, agreement: Gains, *, complete: bool, margin: float
) -> tuple[Verdict, Gains, str | None]:
    """Return the verdict, the gains that decided, and the candidate to promote."""
    for gains in (of_all, of_recent):
        better = [name for name, gain in gains.items() if min(gain.low, agreement[name].low) > 0.0]
        if better:
            return Verdict.PROMOTE, gains, max(better, key=lambda name: gains[name].low)
    for gains in (of_all, of_recent):
        if complete and all(max(gain.high, agreement[name].high) <= margin for name, gain in gains.items()):
            return Verdict.KEEP, gains, None
    return Verdict.WAIT, of_all, None


def _rows_needed(gains: Gains) -> float:
    """About how many compared rows would be enough: for one candidate to be better, or for all to be worse.

    Infinite if the rows so far are too few, or the number too large, for a forecast.
    """
    undecided = [gain for gain in gains.values() if gain.low <= 0.0 <= gain.high and gain.rows >= MIN_ROWS]
    better = [gain.rows_to_exclude_zero() for gain in undecided if gain.value > 0.0]
    needed = min(better) if better else max((gain.rows_to_exclude_zero() for gain in undecided), default=math.inf)
    return needed if needed <= MOST_ROWS else math.inf
