"""The tables of the page."""

from collections.abc import Mapping

from glbandits.evaluation import ArmSupport, Promotion
from glbandits.experiments.evaluation_report.numbers import between, checks, gain_on_log, logged_interval, shown
from glbandits.experiments.log_study import LogStudy
from glbandits.experiments.report.html_elements import NONE, significant, table

MOST_ROWS = 200
"""Arms that a table shows; the JSON file has all."""


def estimates_table(study: LogStudy) -> str:
    """Every estimate with all of its intervals, and the log's own mean."""
    level = f"{study.questions.level:.0%}"
    columns = (
        "policy",
        "estimator",
        "mean reward",
        f"{level} at every n",
        f"{level} at this n only",
        "more than the log",
    )
    rows = []
    for one in study.judged:
        if one.evaluation.headline is not None:
            value, gain = one.evaluation.headline.value, gain_on_log(one.evaluation)
            anytime = value.anytime if isinstance(value.anytime, str) else between(value.anytime.interval)
            rows.append([one.label, "dr", shown(value.value), anytime, between(value.fixed_n), gain])
        rows += [
            [one.label, f"{check.name}, a check", shown(check.value), NONE, between(check.normal), NONE]
            for check in checks(one.evaluation)
        ]
    for first, part in study.parts.items():
        interval = between(logged_interval(part))
        rows.append(["the log itself", study.rows_in_words(first), shown(part.logged), NONE, interval, NONE])
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
