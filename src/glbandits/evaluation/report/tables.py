"""The tables of an evaluation, for the page and the command line."""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from scipy.special import ndtri

from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import percent
from glbandits.common.display.text_format import NO_VALUE, significant
from glbandits.evaluation import ArmSupport, DoublyRobustEstimate, Evaluation, Interval, Promotion
from glbandits.evaluation.comparison_result import OTHER_ROWS, PolicyComparison
from glbandits.evaluation.estimators.support import NO_EVIDENCE

MAX_ROWS = 200
"""Arms that a table shows. The JSON file has all arms."""
UNKNOWN = "unknown"
INTERVAL_LEGEND = (
    'An interval "at every n" holds at every number of rows, so you may look repeatedly. One "at this n only" holds if '
    "you look once. The other estimators are checks of dr."
)
"""Explains the names of the rows, if the comparison has a headline."""


class EstimateRow(NamedTuple):
    """A row of a table: an estimate with one of its intervals."""

    name: str
    value: float
    interval: Interval | None
    interval_text: str
    """The interval, or the reason why there is none."""
    gain: str
    """Interval of the gain over the logging policy; "" if it was not estimated."""


def estimate_rows(evaluation: Evaluation) -> list[EstimateRow]:
    """Return the headline with both of its intervals, then the other estimates as checks."""
    rows, reason = [], evaluation.no_evidence
    if evaluation.headline is not None and reason:
        rows = [EstimateRow("dr", math.nan, None, _reason(reason), "")]
    elif evaluation.headline is not None:
        value, gain = evaluation.headline.value, evaluation.headline.gain
        every_n = None if value.anytime is None else value.anytime.interval
        rows = [
            EstimateRow("dr, at every n", value.value, every_n, _every_n(value), _every_n(gain, sign=True)),
            EstimateRow("dr, at this n only", value.value, value.fixed_n, _this_n(value), _this_n(gain, sign=True)),
        ]
    return rows + [
        EstimateRow(
            f"{estimate.name}, a check",
            estimate.value,
            estimate.normal,
            _reason(estimate.no_evidence) if estimate.no_evidence else format_interval(estimate.normal),
            "",
        )
        for estimate in evaluation.estimates
        if evaluation.headline is None or estimate.name != "dr"
    ]


def estimates_table(comparison: PolicyComparison) -> DataTable:
    """Return every estimate with its intervals, and the mean reward of the log itself."""
    level = percent(comparison.settings.level)
    columns = ("policy", "estimator", f"mean {comparison.unit}", f"{level} interval", "gain over the log")
    rows = [
        (policy.label, row.name, _value_or_none(row.value), row.interval_text, row.gain)
        for policy in comparison.policies
        for row in estimate_rows(policy.evaluation)
    ]
    parts = comparison.evaluation_by_left_out_rows
    for left_out, part in parts.items():
        where = "" if len(parts) == 1 else f", {comparison.describe_rows(left_out)}"
        logged = format_value(part.logged), format_interval(logged_interval(part))
        rows.append((f"the log itself{where}", "", *logged, ""))
    has_headline = any(policy.evaluation.headline is not None for policy in comparison.policies)
    return DataTable(
        columns,
        rows,
        ("estimator",),
        title=f"Mean {comparison.unit} per decision: {comparison.source}",
        notes=(INTERVAL_LEGEND,) if has_headline else (),
    )


def differences_table(comparison: PolicyComparison) -> DataTable:
    """Return the difference of each candidate from the reference, with its intervals."""
    rows = [
        (label, UNKNOWN, OTHER_ROWS, OTHER_ROWS)
        if difference is None
        else (
            label,
            _value_or_none(difference.value, sign=True),
            _reason(_every_n(difference, sign=True)),
            _this_n(difference, sign=True) if math.isfinite(difference.value) else "",
        )
        for label, difference in comparison.differences.items()
    ]
    legend = (
        f"Both policies on the same rows. With probability {percent(comparison.settings.level)}, all intervals of a "
        "column hold at once, whichever policy is the reference: you may choose it after you have seen the results."
    )
    return DataTable(
        ("policy", "difference", "interval at every n", "interval at this n only"),
        rows,
        title=f"Difference in mean {comparison.unit}: policy minus {comparison.reference}",
        notes=(legend,),
    )


def learning_table(comparison: PolicyComparison) -> DataTable:
    """Return the mean reward of each policy while it learned. It has no rows if no policy learns."""
    rows = [
        (
            policy.label,
            format_value(curve.value),
            format_value(curve.standard_error),
            f"{curve.kept:,} of {curve.events:,}",
        )
        for policy in comparison.policies
        if (curve := policy.learning_curve) is not None
    ]
    columns = ("policy", f"mean {comparison.unit}", "standard error", "rows used")
    return DataTable(columns, rows, title=f"Mean {comparison.unit} while learning, from the first row on")


def gains_table(promotion: Promotion) -> DataTable:
    """Return the gain of each candidate over the policy that wrote the log."""
    rows = [
        (label, format_value(gain.value, sign=True), format_interval(gain.interval))
        for label, gain in promotion.gains.items()
    ]
    rows += [(label, NO_EVIDENCE, reason) for label, reason in promotion.no_evidence.items()]
    return DataTable(("policy", "gain over the running policy", "interval at every n"), rows)


def support_table(comparison: PolicyComparison) -> DataTable:
    """Return how much data support the estimates of each policy."""
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
    for policy in comparison.policies:
        support = policy.evaluation.support
        row = (
            policy.label,
            NO_VALUE if policy.learned_rows is None else f"{policy.learned_rows:,} rows",
            comparison.describe_rows(policy.left_out_rows),
            f"{support.effective_sample_size:,.0f} ({'expected' if support.expected else 'realised'})",
            significant(support.largest_weight),
            f"{support.mean_weight:.3f}",
            f"{support.unused:.1%}",
            f"{support.unsupported:.1%}",
        )
        rows.append(row)
    return DataTable(columns, rows)


def support_lines(comparison: PolicyComparison) -> Iterator[str]:
    """Yield the support of each policy as a sentence for the command line, and all notes."""
    for policy in comparison.policies:
        learned = "" if policy.learned_rows is None else f"learned {policy.learned_rows:,} rows; "
        evaluated = f"evaluated on {comparison.describe_rows(policy.left_out_rows)}"
        yield f"{policy.label}: {learned}{evaluated}, {policy.evaluation.support.in_full()}"
        yield from (f"  Note: {note}" for note in policy.evaluation.notes)
        if policy.learning_curve_note() is not None:
            yield f"  Note: {policy.learning_curve_note()}"
    yield from (f"Note: {note}" for note in comparison.notes)


def arms_table(comparison: PolicyComparison, supports: Mapping[str, ArmSupport]) -> DataTable:
    """Return the share and mean reward of each arm in the log, and its share per policy."""
    log_support, names = next(iter(supports.values())), comparison.arm_names or ()
    total = log_support.logged.sum()
    wanted = (f"share under {label}" for label in supports)
    columns = ("arm", "chosen in the log", "share", f"mean {comparison.unit}", *wanted)
    rows = [
        (
            name,
            f"{log_support.logged[index]:,}",
            f"{log_support.logged[index] / total:.2%}",
            format_value(float(log_support.rewards[index])),
            *(f"{support.wanted[index] / support.wanted.sum():.2%}" for support in supports.values()),
        )
        for index, name in enumerate(names[:MAX_ROWS])
    ]
    notes = (f"The first {MAX_ROWS} arms; the JSON file has all.",) if len(names) > MAX_ROWS else ()
    return DataTable(columns, rows, notes=notes)


def logged_interval(evaluation: Evaluation) -> Interval:
    """Return the normal interval of the logged mean reward, at the level of the evaluation."""
    half_width = float(ndtri(0.5 + evaluation.level / 2)) * evaluation.logged_error
    return Interval(evaluation.logged - half_width, evaluation.logged + half_width)


def format_value(value: float, *, sign: bool = False) -> str:
    """Return five decimals, or one decimal from 100 on.

    >>> format_value(0.0042), format_value(12345.678), format_value(0.25, sign=True), format_value(float("nan"))
    ('0.00420', '12345.7', '+0.25000', 'unknown')
    """
    if not math.isfinite(value):
        return UNKNOWN
    decimals = 5 if abs(value) < 100 else 1
    return f"{value:{'+' if sign else ''}.{decimals}f}"


def format_interval(interval: Interval, *, sign: bool = False) -> str:
    """Return both ends of an interval.

    >>> format_interval(Interval(0.25, 0.5))
    '0.25000 to 0.50000'
    """
    if not math.isfinite(interval.low):
        return UNKNOWN
    return f"{format_value(interval.low, sign=sign)} to {format_value(interval.high, sign=sign)}"


def _value_or_none(value: float, *, sign: bool = False) -> str:
    """The estimate; without one, the words that say so."""
    return NO_EVIDENCE if math.isnan(value) else format_value(value, sign=sign)


def _reason(no_evidence: str) -> str:
    """Why there is no estimate, beside a cell that says that there is not enough evidence."""
    return no_evidence.removeprefix(f"{NO_EVIDENCE}: ")


def _every_n(estimate: DoublyRobustEstimate, *, sign: bool = False) -> str:
    """The anytime-valid interval, or the reason why there is none."""
    anytime = estimate.anytime
    return estimate.no_anytime if anytime is None else format_interval(anytime.interval, sign=sign)


def _this_n(estimate: DoublyRobustEstimate, *, sign: bool = False) -> str:
    """The fixed-n interval, or the reason why there is none."""
    fixed_n = estimate.fixed_n
    return estimate.no_fixed_n if fixed_n is None else format_interval(fixed_n, sign=sign)
