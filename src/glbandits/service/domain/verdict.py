"""The verdict on a loop: whether it is better or worse than its baseline, and than random choice.

With probability 95 % no verdict "better" or "worse" is ever wrong in the life of a loop, however often it is read. Of
the 5 %, 2 go to the verdict on all decisions against the baseline, 2 to that against random choice, and 1 to the
verdicts on the present model: segment i gets the share 1 / ((i + 1) (i + 2)) of it. The shares sum to 1.
"""

import math
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from glbandits.maths.online_statistics.confidence_sequence import PRIOR_ROWS, rows_to_exclude_zero
from glbandits.service.domain.events import as_datetime
from glbandits.service.domain.evidence import FIRST_SPLIT, LoopEvidence, Segment
from glbandits.service.domain.loop_config import SECOND

ALPHA_PAST, ALPHA_UNIFORM, ALPHA_PRESENT = 0.02, 0.02, 0.01
"""The probabilities that a verdict of each kind is ever wrong in the life of a loop."""
MIN_DECISIONS = 100
"""Decisions needed for a forecast of the answer, and for the verdict that no rewards come."""
MAX_UNSUPPORTED = 0.1
"""The largest share of decisions in which an action of the other choice had probability 0. Above it the verdict is
`BLIND` instead of `EARLY` or `SAME`."""
SMALL_EFFECT = 0.2
"""A difference, in standard deviations of rewards, that must be detectable before the verdict can be `SAME`."""

LONGEST_FORECAST = 3650 * 86_400 * SECOND
"""Ten years, in microseconds."""


class LoopVerdict(StrEnum):
    """The result of comparing a loop with its baseline, or with random choice."""

    EARLY = "early"
    """Too few decisions to detect a small difference, or the forecast is an answer within as many decisions again."""
    SILENT = "silent"
    """No reward came in time: every decision got the default reward."""
    APPRENTICE = "apprentice"
    """The mode is Apprentice: the baseline was always shown, so there is nothing to compare."""
    UNLIMITED = "unlimited"
    """Rewards have no limits, which confidence sequences need. Set `reward_range`."""
    BLIND = "blind"
    """In too many decisions an action to compare with had probability 0, so that they say nothing about it."""
    BETTER = "better"
    SAME = "same"
    """No difference seen yet: the interval contains 0 and is narrow, and no answer is forecast soon."""
    WORSE = "worse"


class Judgement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A verdict and its evidence. The interval holds at every number of decisions at once."""

    verdict: LoopVerdict
    decisions: int
    """The number of decisions that count."""
    since: datetime | None
    """The time of the first of these decisions."""
    difference: float | None
    """The mean reward of the shown actions minus that of the other choice. None without decisions, like its bounds."""
    low: float | None
    high: float | None
    unsupported: int
    """Decisions in which an action of the other choice had probability 0, which say nothing about it."""
    decisions_needed: int | None
    """Forecast of the further decisions that an answer needs, if the difference stays. None if there is an answer, or
    no forecast."""
    expected_at: datetime | None
    """Forecast of the time of the answer, at the present rate of decisions. None if it is over ten years away."""


def judge_past(evidence: LoopEvidence) -> Judgement:
    """Return the verdict on all decisions of the loop so far, against the baseline."""
    return _judge_all(evidence, evidence.past, ALPHA_PAST)


def judge_uniform(evidence: LoopEvidence) -> Judgement:
    """Return the verdict on all decisions of the loop so far, against a uniformly random choice of allowed actions."""
    return _judge_all(evidence, evidence.uniform, ALPHA_UNIFORM)


def judge_present(evidence: LoopEvidence) -> Judgement:
    """Return the verdict on the present model against the baseline, from its last decisions."""
    if not evidence.past.decisions:
        return _judgement(_verdict_without_evidence(evidence))
    present, total = evidence.present, evidence.decisions_of_model
    if present is None:
        return _judgement(LoopVerdict.EARLY, **_forecast(2 * FIRST_SPLIT - total, evidence))
    count = present.decisions

    def more(needed: float) -> float:
        # The next segment replaces this one when this one has three times as many decisions as came before it.
        return needed - count if needed <= 3 * (total - count) else 2 * needed - total

    return _judge(evidence, present, ALPHA_PRESENT / ((present.index + 1) * (present.index + 2)), more)


def _judge_all(evidence: LoopEvidence, segment: Segment, alpha: float) -> Judgement:
    if not segment.decisions:
        return _judgement(_verdict_without_evidence(evidence))
    return _judge(evidence, segment, alpha, lambda needed: needed - segment.decisions)


def _judgement(verdict: LoopVerdict, **known: Any) -> Judgement:
    nothing: dict[str, Any] = dict.fromkeys(Judgement.__struct_fields__) | {"decisions": 0, "unsupported": 0}
    return Judgement(**nothing | {"verdict": verdict} | known)


def _verdict_without_evidence(evidence: LoopEvidence) -> LoopVerdict:
    if evidence.unlimited:
        return LoopVerdict.UNLIMITED
    return LoopVerdict.APPRENTICE if evidence.apprentice else LoopVerdict.EARLY


def _judge(evidence: LoopEvidence, segment: Segment, alpha: float, more: Callable[[float], float]) -> Judgement:
    """Judge a segment. `more` returns the further decisions of the loop until the segment has as many as it needs."""
    sequence = segment.sequence()
    interval = (sequence.mean, *sequence.interval(1.0 - alpha))
    scale = segment.scale_sum / segment.decisions
    difference, low, high = (scale * bound for bound in interval)
    verdict, forecast = _verdict(segment, *interval), {}
    if verdict in (LoopVerdict.EARLY, LoopVerdict.SAME) and segment.decisions >= MIN_DECISIONS:
        forecast = _forecast(more(rows_to_exclude_zero(segment.decisions, difference, low, high)), evidence)
    return _judgement(
        verdict,
        decisions=segment.decisions,
        since=as_datetime(segment.first),
        difference=difference,
        low=low,
        high=high,
        unsupported=segment.unsupported,
        **forecast,
    )


def _verdict(segment: Segment, mean: float, low: float, high: float) -> LoopVerdict:
    if not segment.rewarded and segment.decisions >= MIN_DECISIONS:
        return LoopVerdict.SILENT
    if low > 0.0 or high < 0.0:
        return LoopVerdict.BETTER if low > 0.0 else LoopVerdict.WORSE
    if segment.unsupported > MAX_UNSUPPORTED * segment.decisions:
        return LoopVerdict.BLIND
    wide = high - low > 2.0 * SMALL_EFFECT * _deviation(segment)
    near = rows_to_exclude_zero(segment.decisions, mean, low, high) <= 2 * segment.decisions
    return LoopVerdict.EARLY if wide or near else LoopVerdict.SAME


def _deviation(segment: Segment) -> float:
    """Return the standard deviation of rewards, regularized so that a few equal rewards do not make it 0."""
    squares = segment.square_sum - segment.reward_sum**2 / segment.decisions
    return math.sqrt((max(0.0, squares) + PRIOR_ROWS / 4.0) / (segment.decisions + PRIOR_ROWS))


def _forecast(more: float, evidence: LoopEvidence) -> dict[str, Any]:
    """Return the forecast of the answer after `more` decisions, at the rate of the newest decisions."""
    if not math.isfinite(more):
        return {}
    recent = evidence.present or evidence.past
    wait = round(math.ceil(more) * (recent.last - recent.first) / max(1, recent.decisions - 1))
    expected_at = as_datetime(evidence.past.last + wait) if 0 < wait < LONGEST_FORECAST else None
    return {"decisions_needed": math.ceil(more), "expected_at": expected_at}
