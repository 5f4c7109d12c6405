"""The verdict of a policy comparison as records: what is better than the logging policy, what is best, how sure.

A verdict that calls a policy better or worse is wrong with a probability of at most 1 - level, if it is read once:

- Gains over the logging policy share 1 - level equally among all candidates (`Headline.joint_gain`).
- The best candidate needs a positive lower bound of its difference from each other candidate. The differences from the
  reference hold at once for all pairs, so that d(a) - d(b) is at least the lower bound of d(a) minus the upper bound of
  d(b).

The intervals are those at this n. Where those at every n say the same, the verdict holds however often it is read.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from glbandits.common.display.text_format import join_words
from glbandits.evaluation.estimators.estimator import Interval
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate, Headline
from glbandits.evaluation.estimators.results import Evaluation
from glbandits.evaluation.logs.doubts import Withheld, reason_to_withhold
from glbandits.maths.online_statistics.confidence_sequence import rows_to_exclude_zero

NO_BOUNDS = Interval(-math.inf, math.inf)
ROUNDING = 1e-6
"""A smaller gain counts as 0."""


class VerdictKind(StrEnum):
    """What a verdict says about its candidate."""

    BETTER = "better"
    """It is better than the logging policy."""
    WORSE = "worse"
    """It is worse than the logging policy."""
    SAME = "same"
    """It decides as the logging policy does."""
    OPEN = "open"
    """Whether it is better or worse than the logging policy is open."""
    BEST = "best"
    """It is better than each of the rivals."""
    HIGHEST = "highest"
    """It has the highest estimate, but the rivals may be as good."""
    WITHHELD = "withheld"
    """There is no verdict, for the stated reason."""


@dataclass(frozen=True, kw_only=True)
class PolicyVerdict:
    """One verdict."""

    kind: VerdictKind
    candidate: str
    """Its label; "" if the reason concerns all candidates."""
    rivals: tuple[str, ...] = ()
    """The other candidates that it is compared with; none if it is compared with the logging policy."""
    estimate: DoublyRobustEstimate | None = None
    """The gain, or the difference that decides about the candidate with the highest estimate."""
    always: bool = False
    """Whether the verdict holds however often it is read."""
    reason: str = ""
    """Why it is withheld."""
    rows_needed: float = math.nan
    """About how many rows of the log would be enough, if the estimate is right; inf for too many, NaN if unknown."""


class Compared(NamedTuple):
    """The numbers of a policy comparison."""

    evaluations: Mapping[str, Evaluation]
    """Of all candidates, by their labels."""
    differences: Mapping[str, DoublyRobustEstimate | None]
    """Of all candidates from the reference, except for the reference."""
    reference: str
    rows: int
    """Of the whole log."""
    level: float
    gate: str = ""
    """The decision of the promotion gate, which then compares the candidates with the logging policy."""
    unit: str = "reward"
    """What gains are differences of: "reward" or "payoff"."""
    evaluated_rows: Mapping[str, str] = MappingProxyType({})
    """Which rows each candidate was evaluated on, in words."""
    since_change: frozenset[str] = frozenset()
    """Candidates that were evaluated on the rows since a change that was found in this log: so only at this n."""

    @property
    def gain(self) -> str:
        """The word for a gain."""
        return "gain" if self.unit == "reward" else f"gain in {self.unit}"


def policy_verdicts(compared: Compared) -> tuple[PolicyVerdict, ...]:
    """Return which candidates are better than the logging policy, which is best, and what the log cannot tell."""
    evaluations = compared.evaluations
    if any(each.headline is None for each in evaluations.values()):
        reason = "There is no verdict without the doubly robust estimate: add the estimator dr."
        return (PolicyVerdict(kind=VerdictKind.WITHHELD, candidate="", reason=reason),)
    doubts = {label: doubt for label, each in evaluations.items() if (doubt := _doubt(each))}
    known = compared._replace(evaluations={label: evaluations[label] for label in evaluations if label not in doubts})
    withheld = [
        PolicyVerdict(kind=VerdictKind.WITHHELD, candidate=label, reason=f"No verdict on {label}: {doubt}.")
        for label, doubt in doubts.items()
    ]
    return (*_against_log(known), *_best(known), *withheld)


def _doubt(evaluation: Evaluation) -> str:
    """Why a candidate has no part in the verdict; "" if it has."""
    return evaluation.no_evidence or reason_to_withhold(evaluation.doubts, Withheld.ALL)


def _against_log(compared: Compared) -> Iterator[PolicyVerdict]:
    """Compare each candidate with the logging policy."""
    for label, evaluation in compared.evaluations.items():
        reason = reason_to_withhold(evaluation.doubts, Withheld.GAIN)
        if reason:
            text = f"Whether {label} is better than the logging policy is withheld: {reason}."
            yield PolicyVerdict(kind=VerdictKind.WITHHELD, candidate=label, reason=text)
            continue
        gain = _headline(evaluation).joint_gain
        interval = interval_of(gain)
        sign = _sign(interval)
        kind = {1: VerdictKind.BETTER, -1: VerdictKind.WORSE, 0: VerdictKind.OPEN}[sign]
        if not sign and max(map(abs, interval or NO_BOUNDS)) < ROUNDING:
            kind = VerdictKind.SAME
        yield PolicyVerdict(
            kind=kind,
            candidate=label,
            estimate=gain,
            always=sign != 0 and _sign(at_every_n(gain)) == sign and label not in compared.since_change,
            rows_needed=_rows_needed(compared, label, gain),
        )


def _best(compared: Compared) -> list[PolicyVerdict]:
    """Name the best candidate, or those that may be as good as the one with the highest estimate."""
    evaluations, reference = compared.evaluations, compared.reference
    if len(evaluations) < 2:
        return []
    if reference not in evaluations:
        reason = f"Which candidate is best is open: there is no verdict on {reference}, the reference of differences."
        return [PolicyVerdict(kind=VerdictKind.WITHHELD, candidate="", reason=reason)]
    differences = {label: compared.differences[label] for label in evaluations if label != reference}
    apart = tuple(label for label, difference in differences.items() if difference is None)
    if apart:
        names = f"{join_words(apart)} and {reference}"
        reason = f"Which candidate is best is open: {names} were evaluated on other rows."
        return [PolicyVerdict(kind=VerdictKind.WITHHELD, candidate="", reason=reason)]
    estimates = {label: each for label, each in differences.items() if each is not None}
    best = max(evaluations, key=lambda label: _headline(evaluations[label]).value.value)
    others = tuple(label for label in evaluations if label != best)

    def rivals_by(interval: Callable[[DoublyRobustEstimate], Interval | None]) -> tuple[str, ...]:
        """The candidates that may be as good as the best one, by these intervals of the differences."""
        bounds = {label: interval(each) or NO_BOUNDS for label, each in estimates.items()}
        bounds[reference] = Interval(0.0, 0.0)
        return tuple(label for label in others if not bounds[best].low > bounds[label].high)

    rivals = rivals_by(interval_of)
    if not rivals:
        always = not rivals_by(at_every_n) and not compared.since_change
        return [PolicyVerdict(kind=VerdictKind.BEST, candidate=best, rivals=others, always=always)]
    if best != reference and rivals != (reference,):
        return [PolicyVerdict(kind=VerdictKind.HIGHEST, candidate=best, rivals=rivals)]
    difference = estimates[best if best != reference else rivals[0]]
    return [
        PolicyVerdict(
            kind=VerdictKind.HIGHEST,
            candidate=best,
            rivals=rivals,
            estimate=difference,
            rows_needed=_rows_needed(compared, best, difference),
        )
    ]


def interval_of(estimate: DoublyRobustEstimate) -> Interval | None:
    """Return the fixed-n interval, or the anytime-valid one if there is not enough evidence for it."""
    return estimate.interval if estimate.fixed_n is None else estimate.fixed_n


def at_every_n(estimate: DoublyRobustEstimate) -> Interval:
    """Return the anytime-valid interval; all numbers if there is none."""
    return NO_BOUNDS if estimate.anytime is None else estimate.anytime.interval


def _headline(evaluation: Evaluation) -> Headline:
    assert evaluation.headline is not None
    return evaluation.headline


def _sign(interval: Interval | None) -> int:
    """1 or -1 if the interval has only positive or only negative values, else 0."""
    low, high = interval or (0.0, 0.0)
    return int(low > 0.0) - int(high < 0.0)


def _rows_needed(compared: Compared, label: str, estimate: DoublyRobustEstimate) -> float:
    """About how many rows of the log would tell the sign of an estimate."""
    interval, used = interval_of(estimate), compared.evaluations[label].support.rows
    if interval is None:
        return math.nan
    return rows_to_exclude_zero(used, estimate.value, *interval) / used * compared.rows
