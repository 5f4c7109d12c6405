"""The verdict of a policy comparison in sentences: what is better than the logging policy, what is best, how sure.

A sentence that calls a policy better or worse is wrong with a probability of at most 1 - level, if it is read once:

- Gains over the logging policy share 1 - level equally among all candidates (`Headline.joint_gain`).
- The best candidate needs a positive lower bound of its difference from each other candidate. The differences from the
  reference hold at once for all pairs, so that d(a) - d(b) is at least the lower bound of d(a) minus the upper bound of
  d(b).

The intervals are those at this n. Where those at every n say the same, the sentence holds however often it is read.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from glbandits.common.display.displayed import percent
from glbandits.common.display.text_format import join_words, significant
from glbandits.evaluation.estimators.estimator import Interval
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate, Headline
from glbandits.evaluation.estimators.results import Evaluation
from glbandits.maths.online_statistics.confidence_sequence import rows_to_exclude_zero

MAX_MORE_ROWS = 1000
"""Times the rows of the log. A larger number of missing rows is not given."""
NO_BOUNDS = Interval(-math.inf, math.inf)
TODAY = "what runs today (the logging policy)"
ROUNDING = 1e-6
"""A smaller gain counts as 0."""


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

    @property
    def gain(self) -> str:
        """The word for a gain."""
        return "gain" if self.unit == "reward" else f"gain in {self.unit}"


def verdict_sentences(compared: Compared) -> tuple[str, ...]:
    """Return which candidates are better than the logging policy, which is best, and what the log cannot tell."""
    evaluations = compared.evaluations
    if any(each.headline is None for each in evaluations.values()):
        return ("There is no verdict without the doubly robust estimate: add the estimator dr.",)
    doubts = {label: doubt for label, each in evaluations.items() if (doubt := _doubt(each))}
    known = compared._replace(evaluations={label: evaluations[label] for label in evaluations if label not in doubts})
    sentences = [f"No verdict on {label}: {doubt}." for label, doubt in doubts.items()]
    if known.evaluations:
        sentences = [*([] if compared.gate else _against_today(known)), *_best(known), *sentences]
    sentences = [compared.gate, *sentences] if compared.gate else sentences
    if any(each.support.estimated for each in known.evaluations.values()):
        sentences.append(
            "All this holds only if the logging policy used nothing but the context, because its propensities were "
            "estimated."
        )
    return tuple(sentences)


def _doubt(evaluation: Evaluation) -> str:
    """Why a candidate has no part in the verdict; "" if it has."""
    return evaluation.no_evidence or ("its estimate is in doubt (see the notes)" if evaluation.doubts else "")


def _against_today(compared: Compared) -> list[str]:
    """Compare the candidates with the logging policy."""
    gains = {label: _headline(each).joint_gain for label, each in compared.evaluations.items()}
    sentences = []
    for sign, word in ((1, "Better"), (-1, "Worse")):
        found = {label: gain for label, gain in gains.items() if _sign(gain) == sign}
        if found:
            always = all(not low <= 0.0 <= high for low, high in map(_at_every_n, found.values()))
            texts = [
                f"{label} ({compared.gain} {_text(gain.value, _at_every_n(gain) if always else _interval(gain))})"
                for label, gain in found.items()
            ]
            sentences.append(f"{word} than {TODAY}: {join_words(texts)}; {_sure(compared, always=always)}.")
        elif sign > 0:
            sentences.append(f"No candidate is shown to be better than {TODAY}.")
    for label, gain in gains.items():
        if not _sign(gain):
            if max(map(abs, _interval(gain) or NO_BOUNDS)) < ROUNDING:
                sentences.append(f"{label} decides as {TODAY} does.")
                continue
            more = _missing_rows(compared, label, gain)
            text = _text(gain.value, _interval(gain))
            sentences.append(f"Whether {label} is better or worse is open ({compared.gain} {text}): {more}.")
    return sentences


def _best(compared: Compared) -> list[str]:
    """Name the best candidate, or those that may be as good as the one with the highest estimate."""
    evaluations, reference = compared.evaluations, compared.reference
    if len(evaluations) < 2:
        return []
    if reference not in evaluations:
        return [f"Which candidate is best is open: there is no verdict on {reference}, the reference of differences."]
    differences = {label: compared.differences[label] for label in evaluations if label != reference}
    apart = [label for label, difference in differences.items() if difference is None]
    if apart:
        return [f"Which candidate is best is open: {join_words(apart)} and {reference} were evaluated on other rows."]
    estimates = {label: each for label, each in differences.items() if each is not None}
    best = max(evaluations, key=lambda label: _headline(evaluations[label]).value.value)
    others = [label for label in evaluations if label != best]

    def rivals_by(interval_of: Callable[[DoublyRobustEstimate], Interval | None]) -> list[str]:
        """The candidates that may be as good as the best one, by these intervals of the differences."""
        bounds = {label: interval_of(each) or NO_BOUNDS for label, each in estimates.items()}
        bounds[reference] = Interval(0.0, 0.0)
        return [label for label in others if not bounds[best].low > bounds[label].high]

    rivals = rivals_by(_interval)
    if not rivals:
        sure = _sure(compared, always=not rivals_by(_at_every_n))
        return [f"The best candidate is {best}, better than {join_words(others)}; {sure}."]
    value = significant(_headline(evaluations[best]).value.value)
    of = "" if compared.unit == "reward" else f" of mean {compared.unit}"
    sentence = f"The highest estimate{of} is that of {best}, {value}, but {join_words(rivals)} may be as good"
    if best != reference and rivals != [reference]:
        return [f"{sentence}: take {best} as the reference to compare directly."]
    difference = estimates[best if best != reference else rivals[0]]
    more = "" if len(rivals) > 1 else f"; {_missing_rows(compared, best, difference)}"
    return [f"{sentence}{more}."]


def _headline(evaluation: Evaluation) -> Headline:
    assert evaluation.headline is not None
    return evaluation.headline


def _interval(estimate: DoublyRobustEstimate) -> Interval | None:
    """The fixed-n interval, or the anytime-valid one if there is not enough evidence for it."""
    return estimate.interval if estimate.fixed_n is None else estimate.fixed_n


def _at_every_n(estimate: DoublyRobustEstimate) -> Interval:
    """The anytime-valid interval; all numbers if there is none."""
    return NO_BOUNDS if estimate.anytime is None else estimate.anytime.interval


def _sign(estimate: DoublyRobustEstimate) -> int:
    """1 or -1 if the interval has only positive or only negative values, else 0."""
    low, high = _interval(estimate) or (0.0, 0.0)
    return int(low > 0.0) - int(high < 0.0)


def _text(value: float, interval: Interval | None) -> str:
    if interval is None:
        return f"{_signed(value)}, without an interval"
    return f"{_signed(value)}, {_signed(interval.low)} to {_signed(interval.high)}"


def _signed(value: float) -> str:
    """The value with its sign; 0 for rounding errors."""
    return "0" if abs(value) < ROUNDING else f"{'+' if value > 0.0 else ''}{significant(value)}"


def _sure(compared: Compared, *, always: bool) -> str:
    """The level, and whether the sentence may be read repeatedly."""
    return f"{percent(compared.level)} sure, {'however often you look' if always else 'if you look once'}"


def _missing_rows(compared: Compared, label: str, estimate: DoublyRobustEstimate) -> str:
    """About how many more rows of the log would tell the sign of an estimate."""
    interval, used = _interval(estimate), compared.evaluations[label].support.rows
    if interval is None:
        return "more rows are needed"
    needed = rows_to_exclude_zero(used, estimate.value, *interval) / used
    if not needed <= MAX_MORE_ROWS:
        return f"if this estimate is right, {MAX_MORE_ROWS:,} times as many rows would not tell"
    more = max((needed - 1.0) * compared.rows, 1.0)
    about = f"{round(more, 1 - math.floor(math.log10(more))):,.0f}"
    return f"if this estimate is right, about {about} more rows like these would tell"
