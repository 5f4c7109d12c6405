"""The tables of the page."""

from collections.abc import Mapping

from glbandits.evaluation import ArmSupport, Promotion
from glbandits.experiments.evaluation_report.numbers import answers, between, logged_interval, shown
from glbandits.experiments.log_study import LogStudy
from glbandits.experiments.report.html_elements import NONE, significant, table

MOST_ROWS = 200
"""Arms that a table shows; the JSON file has all."""


def estimates_table(study: LogStudy) -> str:
    """Every estimate with all of its intervals, and the log's own mean."""
    columns = ("policy", "estimator", "mean reward", f"{study.questions.level:.0%} interval", "more than the log")
    rows = [
        [one.label, answer.name, shown(answer.value), between(answer.interval), answer.gain or NONE]
        for one in study.judged
        for answer in answers(one.evaluation)
    ]
    for first, part in study.parts.items():
        interval = between(logged_interval(part))
        rows.append(["the log itself", study.rows_in_words(first), shown(part.logged), interval, NONE])
    return table(columns, rows)


def gains_table(promotion: Promotion) -> str:
    """The gain of each candidate over the policy that wrote the log."""
    rows = [[name, shown(gain.value, sign=True), between(gain.interval)] for name, gain in promotion.gains.items()]
    return table(("policy", "gain over the running policy", "interval at every n"), rows)


def support_table(study: LogStudy) -> str:
    """What each policy's estimates rest on."""
    columns = (
        "policy",
        "learned from",
        "evaluated on",
        "effective sample size",
        "largest weight",
        "mean weight",
        "rows unused",
        "decisions without support",
    )
    rows = []
    for one in study.judged:
        support = one.evaluation.support
        rows.append(
            [
                one.label,
                NONE if one.learned is None else f"{one.learned:,} rows",
                study.rows_in_words(one.first_row),
                f"{support.effective_sample_size:,.0f} ({'expected' if support.expected else 'realised'})",
                significant(support.largest_weight),
                f"{support.mean_weight:.3f}",
                f"{support.unused:.1%}",
                f"{support.unsupported:.1%}",
            ]
        )
    return table(columns, rows)


def learning_table(study: LogStudy) -> str:
    """What the policies that learn would have earned on the way."""
    columns = ("policy", "mean reward while learning", "standard error", "rows that count", "of", "largest weight")
    rows = [
        [
            one.label,
            shown(curve.value),
            shown(curve.standard_error),
            f"{curve.kept:,}",
            f"{curve.events:,}",
            significant(curve.largest_weight),
        ]
        for one in study.judged
        for curve in ([] if one.curve is None else [one.curve])
    ]
    return table(columns, rows)


def arms_table(study: LogStudy, supports: Mapping[str, ArmSupport]) -> str:
    """Every arm: how often it was chosen, what it earned, and how often it would be chosen."""
    base = next(iter(supports.values()))
    total = base.logged.sum()
    columns = ("arm", "chosen in the log", "share", "mean reward", *(f"{label} wants" for label in supports))
    rows = [
        [
            name,
            f"{base.logged[place]:,}",
            f"{base.logged[place] / total:.2%}",
            shown(float(base.rewards[place])),
            *(f"{one.wanted[place] / one.wanted.sum():.2%}" for one in supports.values()),
        ]
        for place, name in enumerate(study.arm_names or ())
    ]
    return table(columns, rows[:MOST_ROWS])
