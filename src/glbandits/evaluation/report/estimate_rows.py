"""Estimates with their intervals as table rows, for the page and the command line."""

import math
from typing import NamedTuple

from scipy.special import ndtri

from glbandits.common.display.displayed import percent
from glbandits.evaluation import AnytimeInterval, Evaluation, Interval
from glbandits.evaluation.policy_comparison import PolicyComparison

UNKNOWN = "unknown"
INTERVAL_LEGEND = (
    'An interval "at every n" holds at every number of rows, so you may look repeatedly. One "at this n only" holds if '
    "you look once. The other estimators are checks of dr."
)
"""Explains the names of the rows, if the comparison has a headline."""
DIFFERENCE_COLUMNS = ("policy", "difference", "interval at every n", "interval at this n only")
"""The columns of `difference_rows`."""


class EstimateRow(NamedTuple):
    """A row of a table: an estimate with one of its intervals."""

    name: str
    value: float
    interval: Interval | str
    """A text says why there is no interval."""
    gain: str
    """Interval of the gain over the logging policy; "" if it was not estimated."""


def estimate_rows(evaluation: Evaluation) -> list[EstimateRow]:
    """Return the headline with both of its intervals, then the other estimates as checks."""
    rows = []
    if evaluation.headline is not None:
        value, gain = evaluation.headline.value, evaluation.headline.gain
        for name, value_interval, gain_interval in (
            ("dr, at every n", value.anytime, gain.anytime),
            ("dr, at this n only", value.fixed_n, gain.fixed_n),
        ):
            gain_text = format_interval(_plain_interval(gain_interval), sign=True)
            rows.append(EstimateRow(name, value.value, _plain_interval(value_interval), gain_text))
    return rows + [
        EstimateRow(f"{estimate.name}, a check", estimate.value, estimate.normal, "")
        for estimate in evaluation.estimates
        if evaluation.headline is None or estimate.name != "dr"
    ]


def difference_rows(comparison: PolicyComparison) -> list[tuple[str, ...]]:
    """Return the difference of each candidate from the reference: the texts of `DIFFERENCE_COLUMNS`."""
    return [
        (label, UNKNOWN, difference, difference)
        if isinstance(difference, str)
        else (
            label,
            format_value(difference.value, sign=True),
            *(
                format_interval(_plain_interval(interval), sign=True)
                for interval in (difference.anytime, difference.fixed_n)
            ),
        )
        for label, difference in comparison.differences.items()
    ]


def difference_legend(comparison: PolicyComparison) -> str:
    """Return what the intervals of the differences mean."""
    return (
        f"Both policies on the same rows. With probability {percent(comparison.settings.level)}, all intervals of a "
        "column hold at once, whichever policy is the reference: you may choose it after you have seen the results."
    )


def has_headline(comparison: PolicyComparison) -> bool:
    """Return whether any candidate has a headline, with its two kinds of intervals."""
    return any(policy.evaluation.headline is not None for policy in comparison.policies)


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


def format_interval(interval: Interval | str, *, sign: bool = False) -> str:
    """Return both ends of an interval.

    A text, which says why there is none, is returned unchanged.

    >>> format_interval(Interval(0.25, 0.5)), format_interval("rewards have no bounds")
    ('0.25000 to 0.50000', 'rewards have no bounds')
    """
    if isinstance(interval, str):
        return interval
    if not math.isfinite(interval.low):
        return UNKNOWN
    return f"{format_value(interval.low, sign=sign)} to {format_value(interval.high, sign=sign)}"


def _plain_interval(interval: AnytimeInterval | Interval | str) -> Interval | str:
    return interval.interval if isinstance(interval, AnytimeInterval) else interval
