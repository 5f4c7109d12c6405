"""The verdict of a policy comparison in sentences (`policy_verdicts`)."""

import math
from collections.abc import Sequence

from glbandits.common.display.displayed import percent
from glbandits.common.display.text_format import join_words, significant
from glbandits.evaluation.estimators.estimator import Interval
from glbandits.evaluation.policy_verdicts import (
    ROUNDING,
    Compared,
    PolicyVerdict,
    VerdictKind,
    at_every_n,
    interval_of,
    policy_verdicts,
)

MAX_MORE_ROWS = 1000
"""Times the rows of the log. A larger number of missing rows is not given."""
LOGGING = "the logging policy on these rows"


def verdict_sentences(compared: Compared) -> tuple[str, ...]:
    """Return which candidates are better than the logging policy, which is best, and what the log cannot tell."""
    verdicts = policy_verdicts(compared)
    best = [each for each in verdicts if each.kind in (VerdictKind.BEST, VerdictKind.HIGHEST) or _is_about_all(each)]
    against_log = [each for each in verdicts if each not in best and each.kind is not VerdictKind.WITHHELD]
    sentences = [compared.gate] if compared.gate else _against_today(compared, against_log)
    sentences += [_best_sentence(compared, each) for each in best]
    sentences += [each.reason for each in verdicts if each.kind is VerdictKind.WITHHELD and each.candidate]
    if any(compared.evaluations[each.candidate].support.estimated for each in against_log):
        sentences.append(
            "All this holds only if the logging policy used nothing but the context, because its propensities were "
            "estimated."
        )
    return tuple(sentences)


def _is_about_all(verdict: PolicyVerdict) -> bool:
    return verdict.kind is VerdictKind.WITHHELD and not verdict.candidate


def _against_today(compared: Compared, verdicts: Sequence[PolicyVerdict]) -> list[str]:
    """Compare the candidates with the logging policy."""
    sentences = []
    for kind, word in ((VerdictKind.BETTER, "Better"), (VerdictKind.WORSE, "Worse")):
        found = [each for each in verdicts if each.kind is kind]
        if found:
            always = all(each.always for each in found)
            texts = [f"{each.candidate} ({compared.gain} {_gain_text(each, always=always)})" for each in found]
            sentences.append(
                f"{word} than {_logging(compared, found)}: {join_words(texts)}; {_sure(compared, always=always)}."
            )
        elif verdicts and kind is VerdictKind.BETTER:
            sentences.append(f"No candidate is shown to be better than {_logging(compared, verdicts)}.")
    for each in verdicts:
        if each.kind is VerdictKind.SAME:
            sentences.append(f"{each.candidate} decides as {LOGGING} does.")
        elif each.kind is VerdictKind.OPEN:
            text = f"({compared.gain} {_gain_text(each)})"
            sentences.append(f"Whether {each.candidate} is better or worse is open {text}: {_missing(compared, each)}.")
    return sentences


def _logging(compared: Compared, verdicts: Sequence[PolicyVerdict]) -> str:
    """The logging policy, with the rows on which these candidates are compared with it."""
    rows = {compared.evaluated_rows.get(each.candidate, "") for each in verdicts} - {""}
    return f"{LOGGING} ({join_words(sorted(rows))})" if rows else LOGGING


def _best_sentence(compared: Compared, verdict: PolicyVerdict) -> str:
    """Name the best candidate, or those that may be as good as the one with the highest estimate."""
    if verdict.kind is VerdictKind.WITHHELD:
        return verdict.reason
    best, rivals = verdict.candidate, join_words(verdict.rivals)
    if verdict.kind is VerdictKind.BEST:
        return f"The best candidate is {best}, better than {rivals}; {_sure(compared, always=verdict.always)}."
    headline = compared.evaluations[best].headline
    assert headline is not None
    of = "" if compared.unit == "reward" else f" of mean {compared.unit}"
    sentence = f"The highest estimate{of} is that of {best}, {significant(headline.value.value)}, but {rivals} may be"
    if verdict.estimate is None:
        return f"{sentence} as good: take {best} as the reference to compare directly."
    more = "" if len(verdict.rivals) > 1 else f"; {_missing(compared, verdict)}"
    return f"{sentence} as good{more}."


def _gain_text(verdict: PolicyVerdict, *, always: bool = False) -> str:
    """The gain with its interval: that at every n if `always`."""
    assert verdict.estimate is not None
    return _text(verdict.estimate.value, at_every_n(verdict.estimate) if always else interval_of(verdict.estimate))


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


def _missing(compared: Compared, verdict: PolicyVerdict) -> str:
    """About how many more rows of the log would tell the sign of an estimate."""
    if math.isnan(verdict.rows_needed):
        return "more rows are needed"
    if not verdict.rows_needed <= MAX_MORE_ROWS * compared.rows:
        return f"if this estimate is right, {MAX_MORE_ROWS:,} times as many rows would not tell"
    more = max(verdict.rows_needed - compared.rows, 1.0)
    about = f"{round(more, 1 - math.floor(math.log10(more))):,.0f}"
    return f"if this estimate is right, about {about} more rows like these would tell"
