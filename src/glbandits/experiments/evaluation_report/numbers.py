"""Numbers as they are printed, in the page and on the command line."""

import math
from typing import NamedTuple

from scipy.special import ndtri

from glbandits.evaluation import AnytimeInterval, Evaluation, Interval

UNKNOWN = "unknown"


def shown(value: float, *, sign: bool = False) -> str:
    """Five decimals, which tell clicks of a thousandth apart; four digits where numbers are large.

    >>> shown(0.0042), shown(12345.678), shown(0.25, sign=True), shown(float("nan"))
    ('0.00420', '12345.7', '+0.25000', 'unknown')
    """
    if not math.isfinite(value):
        return UNKNOWN
    decimals = 5 if abs(value) < 100 else 1
    return f"{value:{'+' if sign else ''}.{decimals}f}"


def between(interval: Interval | str, *, sign: bool = False) -> str:
    """An interval; or why there is none, as it is.

    >>> between(Interval(0.25, 0.5)), between("rewards have no bounds")
    ('0.25000 to 0.50000', 'rewards have no bounds')
    """
    if isinstance(interval, str):
        return interval
    if not math.isfinite(interval.low):
        return UNKNOWN
    return f"{shown(interval.low, sign=sign)} to {shown(interval.high, sign=sign)}"


class Answer(NamedTuple):
    """A row of a table: an estimate with one of its intervals."""

    name: str
    value: float
    interval: Interval | str
    """Or why there is none."""
    gain: str
    """How much more than the log's own policy the target earns, an interval; "" if it was not estimated."""


def answers(evaluation: Evaluation) -> list[Answer]:
    """The headline with both of its intervals, then the estimates that it can be checked with."""
    rows = []
    if evaluation.headline is not None:
        value, gain = evaluation.headline.value, evaluation.headline.gain
        for name, interval, more in (
            ("dr, at every n", value.anytime, gain.anytime),
            ("dr, at this n only", value.fixed_n, gain.fixed_n),
        ):
            interval, more = (one.interval if isinstance(one, AnytimeInterval) else one for one in (interval, more))
            rows.append(Answer(name, value.value, interval, between(more, sign=True)))
    return rows + [
        Answer(f"{one.name}, a check", one.value, one.normal, "")
        for one in evaluation.estimates
        if evaluation.headline is None or one.name != "dr"
    ]


def logged_interval(evaluation: Evaluation) -> Interval:
    """Of the mean reward of the log itself, as wide as the normal intervals of estimates."""
    reach = float(ndtri(0.5 + evaluation.level / 2)) * evaluation.logged_error
    return Interval(evaluation.logged - reach, evaluation.logged + reach)
