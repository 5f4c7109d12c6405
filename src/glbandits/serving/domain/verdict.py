"""The verdict on a loop: better than its baseline, worse, no difference seen yet, or too early to tell.

With probability 95 % no verdict "better" or "worse" is ever wrong, however often somebody looks. Half of the 5 % goes
to the verdict on all decisions, half to those on the present model, of which segment i has the share
1 / ((i + 1) (i + 2)); all shares sum to 1.
"""

import math
from enum import StrEnum
from typing import NamedTuple

from glbandits.maths.online_statistics.confidence_sequence import PRIOR_ROWS, rows_to_exclude_zero
from glbandits.serving.domain.evidence import FIRST_SPLIT, Evidence, Segment
from glbandits.serving.domain.loop_config import SECOND

ALPHA = 0.05
"""The probability that a verdict is ever wrong in the life of a loop."""
ENOUGH = 100
"""Decisions below which it is not estimated when there will be an answer, nor said that no rewards come."""
MOST_UNSUPPORTED = 0.1
"""The share of decisions in which the baseline had probability 0, above which an open verdict is blamed on them."""
SMALL_EFFECT = 0.2
"""A difference that should have been seen before one says that none was seen, in standard deviations of rewards."""

LONGEST_FORECAST = 3650 * 86_400 * SECOND
"""Ten years, in microseconds."""


class Verdict(StrEnum):
    """What the confidence sequence of the difference to the baseline says."""

    EARLY = "early"
    """Too few decisions to see a small difference, or the answer is near: it takes at most as many again."""
    SILENT = "silent"
    """No reward came in time: every decision counts the default."""
    APPRENTICE = "apprentice"
    """The baseline was always shown, so there is nothing to compare."""
    UNLIMITED = "unlimited"
    """Rewards have no limits, which confidence sequences need. Set `reward_range`."""
    NO_BASELINE = "no_baseline"
    """Decisions from the catalogue named no baseline, so there is nothing to compare."""
    BLIND = "blind"
    """In too many decisions the baseline had probability 0: they say nothing of it."""
    BETTER = "better"
    SAME = "same"
    """No difference is seen yet: the interval has 0 in it and is narrow, and the answer is not near."""
    WORSE = "worse"


class Judgement(NamedTuple):
    """A verdict and what it rests on. Differences are in units of the reward."""

    verdict: Verdict
    decisions: int = 0
    since: int | None = None
    """Timestamp of the first of them."""
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    unsupported: int = 0
    """Decisions in which the baseline had probability 0."""
    decisions_needed: int | None = None
    """About how many more decisions an answer takes, if the estimate is right; None if there is one, or if unknown."""
    expected_at: int | None = None
    """About when they will be made, at the present rate: a timestamp. None if that takes longer than ten years."""


def judge_past(evidence: Evidence) -> Judgement:
    """Judge all decisions: what the loop has earned so far."""
    if not evidence.past.decisions:
        return Judgement(_why_none(evidence))
    judged = _judge(evidence, evidence.past, ALPHA / 2.0)
    needed = _rows_needed(judged)
    return _with_forecast(judged, needed - judged.decisions, evidence)


def judge_present(evidence: Evidence) -> Judgement:
    """Judge the present model, by the last decisions."""
    if not evidence.past.decisions:
        return Judgement(_why_none(evidence))
    present = evidence.present
    if present is None:
        return _with_forecast(Judgement(Verdict.EARLY), 2 * FIRST_SPLIT - evidence.of_model, evidence)
    judged = _judge(evidence, present, ALPHA / 2.0 / ((present.index + 1) * (present.index + 2)))
    needed, before = _rows_needed(judged), evidence.of_model - judged.decisions
    # The next segment takes over when this one has three times as many decisions as came before it.
    more = needed - judged.decisions if needed <= 3 * before else 2 * needed - evidence.of_model
    return _with_forecast(judged, more, evidence)


def _why_none(evidence: Evidence) -> Verdict:
    if evidence.unlimited:
        return Verdict.UNLIMITED
    if evidence.without_baseline:
        return Verdict.NO_BASELINE
    return Verdict.APPRENTICE if evidence.apprentice else Verdict.EARLY


def _judge(evidence: Evidence, segment: Segment, alpha: float) -> Judgement:
    sequence = segment.sequence()
    low, high = sequence.interval(1.0 - alpha)
    assert evidence.limits is not None
    scale = evidence.limits[1] - evidence.limits[0]
    return Judgement(
        verdict=_verdict(segment, sequence.mean, low, high),
        decisions=segment.decisions,
        since=segment.first,
        difference=scale * sequence.mean,
        low=scale * low,
        high=scale * high,
        unsupported=segment.unsupported,
    )


def _verdict(segment: Segment, mean: float, low: float, high: float) -> Verdict:
    if not segment.rewarded and segment.decisions >= ENOUGH:
        return Verdict.SILENT
    if low > 0.0 or high < 0.0:
        return Verdict.BETTER if low > 0.0 else Verdict.WORSE
    if segment.unsupported > MOST_UNSUPPORTED * segment.decisions:
        return Verdict.BLIND
    wide = high - low > 2.0 * SMALL_EFFECT * _deviation(segment)
    near = rows_to_exclude_zero(segment.decisions, mean, low, high) <= 2 * segment.decisions
    return Verdict.EARLY if wide or near else Verdict.SAME


def _deviation(segment: Segment) -> float:
    """The standard deviation of rewards, with a prior of the widest: a few equal rewards do not make it 0."""
    squares = segment.square_sum - segment.reward_sum**2 / segment.decisions
    return math.sqrt((max(0.0, squares) + PRIOR_ROWS / 4.0) / (segment.decisions + PRIOR_ROWS))


def _rows_needed(judged: Judgement) -> float:
    if judged.verdict not in (Verdict.EARLY, Verdict.SAME) or judged.decisions < ENOUGH:
        return math.nan
    assert judged.difference is not None
    assert judged.low is not None
    assert judged.high is not None
    return rows_to_exclude_zero(judged.decisions, judged.difference, judged.low, judged.high)


def _with_forecast(judged: Judgement, more: float, evidence: Evidence) -> Judgement:
    """Add when there will be an answer, at the rate of the newest decisions."""
    if not math.isfinite(more):
        return judged
    recent = evidence.present or evidence.past
    wait = round(math.ceil(more) * (recent.last - recent.first) / max(1, recent.decisions - 1))
    expected_at = evidence.past.last + wait if 0 < wait < LONGEST_FORECAST else None
    return judged._replace(decisions_needed=math.ceil(more), expected_at=expected_at)
