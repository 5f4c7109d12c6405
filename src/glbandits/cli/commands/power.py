"""`glb power`: how many units a guardrail needs to find a change."""

import math
from typing import Annotated, NamedTuple

import numpy as np
import typer
from rich.console import Console
from scipy.special import ndtr, ndtri

from glbandits.cli.printed_table import print_table
from glbandits.common.display.data_table import DataTable
from glbandits.common.errors import InvalidInput, check_float
from glbandits.maths.online_statistics.alarm_times import LOOPS, alarm_times

SHARES = {0.05, 0.1, 0.2, 0.5}
"""Shares of control in the table, in addition to that of the user."""
ABOVE_CAP = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5)
"""Shares of amounts above the caps in the table of an amount."""


def power_command(
    *,
    share: Annotated[float, typer.Option(help="The share of units in the control group.")] = 0.1,
    change: Annotated[
        str, typer.Option(help="The change to find, in the unit of the metric (-0.01) or as a percentage (-20%).")
    ],
    rate: Annotated[
        float | None,
        typer.Option(help="The rate in control, for a metric of 0 and 1; with --mean, of units that have an amount."),
    ] = None,
    mean: Annotated[
        float | None,
        typer.Option(help="The mean in control, for any other metric; with --rate, of units that have an amount."),
    ] = None,
    deviation: Annotated[float | None, typer.Option(help="Its standard deviation; with --mean.")] = None,
    range_: Annotated[
        tuple[float, float] | None,
        typer.Option("--range", help="The range that the loop declares for it, 0 1 by default; with --mean."),
    ] = None,
    guardrail_margin: Annotated[str, typer.Option(help="The margin of the guardrail, written like --change.")] = "0",
    units_per_day: Annotated[float | None, typer.Option(help="New units of a day, both groups together.")] = None,
) -> None:
    """Print how many units a guardrail needs to find a change, with a probability of 50 % and of 90 %.

    The guardrail is simulated 1,000 times without covariates; the results are right within about 10 %. A negative
    change is bad for a metric whose higher numbers are good, a positive one if lower numbers are good.

    For an amount that only some units have, such as revenue, give --rate, --mean and --deviation: the table has caps.
    """
    check_float("share", share, at_least=0.01, at_most=0.5)
    if units_per_day is not None:
        check_float("units_per_day", units_per_day, above=0.0)
    if rate is None and mean is None:
        raise InvalidInput("give --rate, for a metric of 0 and 1, or --mean and --deviation, or all for an amount")
    if mean is None and (deviation, range_) != (None, None):
        raise InvalidInput("--deviation and --range are for --mean; a metric with a --rate has the values 0 and 1")
    if mean is not None and deviation is None:
        raise InvalidInput("give --deviation, the standard deviation of the metric, with --mean", field="deviation")
    if rate is not None and mean is not None:
        if range_ is not None or units_per_day is not None:
            raise InvalidInput(
                "--range and --units-per-day are not for an amount, whose table has caps; leave them out"
            )
        above, of_all = check_float("mean", mean, above=0.0), check_float("rate", rate, above=0.0, at_most=1.0)
        amount = Amount(of_all, above, check_float("deviation", deviation, above=0.0))
        _print_caps(amount, _share_of("change", change), _share_of("guardrail-margin", guardrail_margin), share)
        return
    low, high = (check_float("range", bound) for bound in range_ or (0.0, 1.0))
    if not low < high:
        raise InvalidInput(f"--range must go from a smaller to a larger number; got {low:g} {high:g}", field="range")
    level = check_float("rate" if mean is None else "mean", rate if mean is None else mean)
    difference, allowed = _amount("change", change, level), _amount("guardrail-margin", guardrail_margin, level)
    if not difference:
        raise InvalidInput(f"--change must not be 0, because nothing would have to be found; got {change}")
    if not 0.0 <= allowed < abs(difference):
        raise InvalidInput(
            f"--guardrail-margin must be at least 0 and smaller than the change of {change}; got {guardrail_margin}"
        )
    for name, value in (("the rate or mean", level), ("the rate or mean after the change", level + difference)):
        if not low <= value <= high or (mean is not None and value in {low, high}):
            raise InvalidInput(f"{name} must be between {low:g} and {high:g}; got {value:g}")
    means = ((level + difference - low) / (high - low), (level - low) / (high - low))
    concentration = 0.0
    if mean is not None:
        spread = check_float("deviation", deviation, above=0.0)
        concentration = (mean - low) * (high - mean) / spread**2 - 1.0
        if concentration <= 0.0:
            most = math.sqrt((mean - low) * (high - mean))
            raise InvalidInput(f"a metric with this mean and range has a deviation below {most:.4g}; got {spread:g}")
    rows = []
    for each in sorted({share} | SHARES):
        times = alarm_times(means, concentration, each, allowed / (high - low), np.random.default_rng(0))
        counts = times[[LOOPS // 2, LOOPS * 9 // 10]]
        days = [] if units_per_day is None else [_rounded(count / units_per_day) for count in counts]
        rows.append([f"{each:g}{' *' if each == share else ''}", *map(_rounded, counts), *days])
    columns = ["control share", "units for 50 %", "units for 90 %"]
    columns += [] if units_per_day is None else ["days for 50 %", "days for 90 %"]
    notes = [f"* The share that you gave. Units of both groups until the alarm, in {LOOPS:,} simulated loops."]
    print_table(Console(emoji=False), DataTable(columns, rows, notes=notes))


class Amount(NamedTuple):
    """An amount that a share of the units has, whose logarithm is normal."""

    rate: float
    mean: float
    deviation: float

    def cap(self, above: float) -> float:
        """The cap that a share of the amounts exceeds, with two digits."""
        variance = math.log1p((self.deviation / self.mean) ** 2)
        log_cap = math.log(self.mean) - variance / 2.0 - math.sqrt(variance) * float(ndtri(above))
        return float(f"{math.exp(log_cap):.2g}")

    def capped(self, cap: float) -> tuple[float, float]:
        """Mean and standard deviation over all units, as shares of a cap, if larger amounts count as the cap."""
        variance = math.log1p((self.deviation / self.mean) ** 2)
        spread, centre = math.sqrt(variance), math.log(self.mean / cap) - variance / 2.0

        def moment(power: int) -> float:
            below = float(ndtr(-centre / spread - power * spread))
            return math.exp(power * centre + power**2 * variance / 2.0) * below + float(ndtr(centre / spread))

        mean = self.rate * moment(1)
        return mean, math.sqrt(self.rate * moment(2) - mean**2)


def _print_caps(amount: Amount, change: float, margin: float, share: float) -> None:
    """Print how many units find a change of the share of units that have an amount, for several caps."""
    if not -1.0 < change < 1.0 / amount.rate - 1.0 or not 0.0 <= margin < abs(change):
        raise InvalidInput("--change must leave a rate between 0 and 1, and --guardrail-margin must be smaller")
    rows = []
    for above in (*ABOVE_CAP, 1.0):
        cap = amount.cap(above) if above < 1.0 else 0.0
        mean, deviation = amount.capped(cap) if cap else (amount.rate, 0.0)
        concentration = max(mean * (1.0 - mean) / deviation**2 - 1.0, 0.0) if cap else 0.0
        means = (mean * (1.0 + change), mean)
        times = alarm_times(means, concentration, share, margin * mean, np.random.default_rng(0))
        name = f"0 to {cap:,g}" if cap else "has one: 0 or 1"
        rows.append([name, f"{above:.1%}", *map(_rounded, times[[LOOPS // 2, LOOPS * 9 // 10]])])
    notes = [
        "The change is one of the rate. Amounts above the range count as its upper bound. Declare such a range, and",
        "whether a unit has an amount as a metric of its own.",
    ]
    columns = ["range", "amounts above", "units for 50 %", "units for 90 %"]
    print_table(Console(emoji=False), DataTable(columns, rows, notes=notes))


def _share_of(name: str, text: str) -> float:
    """Return a percentage as a share."""
    if text != "0" and not text.endswith("%"):
        raise InvalidInput(f"--{name} of an amount must be a percentage such as -20%; got {text!r}")
    return _amount(name, text, 1.0)


def _amount(name: str, text: str, level: float) -> float:
    """Return a number of the metric's unit, or a percentage of `level`."""
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(f"--{name} must be a number such as -0.01, or a percentage such as -20%; got {text!r}")
    return abs(level) * number / 100.0 if text.endswith("%") else number


def _rounded(count: float) -> str:
    """Return a count with the two digits that a simulation has.

    >>> _rounded(26910.0), _rounded(3.14159), _rounded(math.inf)
    ('27,000', '3.1', 'too many')
    """
    return "too many" if math.isinf(count) else f"{float(f'{count:.2g}'):,.15g}"
