"""Numbers as they are printed, in the page and on the command line."""

import math

from scipy.special import ndtri

from glbandits.evaluation import Estimate, Evaluation, Interval

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


def between(interval: Interval | str) -> str:
    """An interval; or why there is none, as it is.

    >>> between(Interval(0.25, 0.5)), between("rewards have no bounds")
    ('0.25000 to 0.50000', 'rewards have no bounds')
    """
    if isinstance(interval, str):
        return interval
    return f"{shown(interval.low)} to {shown(interval.high)}" if math.isfinite(interval.low) else UNKNOWN


def gain_on_log(evaluation: Evaluation) -> str:
    """How much more than the log's own policy the target earns, with the interval that holds at every n."""
    if evaluation.headline is None:
        return ""
    gain = evaluation.headline.gain
    share = f" ({gain.value / evaluation.logged:+.0%})" if evaluation.logged > 0.0 else ""
    return f"{shown(gain.value, sign=True)}{share}, {between(gain.interval)}"


def checks(evaluation: Evaluation) -> list[Estimate]:
    """The estimates that a headline is checked with: all but the same once more."""
    return [one for one in evaluation.estimates if evaluation.headline is None or one.name != "dr"]


def logged_interval(evaluation: Evaluation) -> Interval:
    """Of the mean reward of the log itself, as wide as the normal intervals of estimates."""
    reach = float(ndtri(0.5 + evaluation.level / 2)) * evaluation.logged_error
    return Interval(evaluation.logged - reach, evaluation.logged + reach)
