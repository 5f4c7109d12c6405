"""`glb power`: how many units a guardrail needs to find a change."""

import math
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from glbandits.cli.printed_table import print_table
from glbandits.common.display.data_table import DataTable
from glbandits.common.errors import InvalidInput, check_float
from glbandits.maths.online_statistics.alarm_times import LOOPS, alarm_times

SHARES = {0.05, 0.1, 0.2, 0.5}
"""Shares of control in the table, in addition to that of the user."""


def power_command(
    *,
    share: Annotated[float, typer.Option(help="The share of units in the control group.")] = 0.1,
    change: Annotated[
        str, typer.Option(help="The change to find, in the unit of the metric (-0.01) or as a percentage (-20%).")
    ],
    rate: Annotated[float | None, typer.Option(help="The rate in control, for a metric of 0 and 1.")] = None,
    mean: Annotated[float | None, typer.Option(help="The mean in control, for any other metric.")] = None,
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
    """
    check_float("share", share, at_least=0.01, at_most=0.5)
    if units_per_day is not None:
        check_float("units_per_day", units_per_day, above=0.0)
    if (rate is None) == (mean is None):
        raise InvalidInput("give either --rate, for a metric of 0 and 1, or --mean and --deviation")
    if mean is None and (deviation, range_) != (None, None):
        raise InvalidInput("--deviation and --range are for --mean; a metric with a --rate has the values 0 and 1")
    if mean is not None and deviation is None:
        raise InvalidInput("give --deviation, the standard deviation of the metric, with --mean", field="deviation")
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
