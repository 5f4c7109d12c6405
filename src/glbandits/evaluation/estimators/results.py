"""Evaluation: the result of `evaluate`. Its text shows the support beside the estimates."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.special import ndtri

from glbandits.common.arrays import Floats, Ints
from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import percent
from glbandits.common.display.spelling import in_python
from glbandits.common.display.text_format import NO_VALUE, format_interval, format_value
from glbandits.evaluation.estimators.estimator import UNKNOWN_INTERVAL, Estimator, Interval
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate, Headline
from glbandits.evaluation.estimators.support import NO_EVIDENCE, Support
from glbandits.evaluation.logs.doubts import Doubt


@dataclass(frozen=True, eq=False)
class Estimate:
    """The result of one estimator."""

    estimator: Estimator
    value: float
    """Mean reward per decision of the target."""
    standard_error: float
    """NaN if the variance over rows does not measure the error."""
    normal: Interval
    """Normal interval: valid for a fixed, large number of rows without very large weights."""
    running: Floats
    """Estimates from the first `Evaluation.at_rows` rows, (points,)."""
    support: Support
    no_evidence: str = ""
    """Why `value`, `standard_error`, `normal` and `running` are NaN; "" if they are not."""

    def without_evidence(self, reason: str) -> "Estimate":
        """Return the estimate without its numbers, because of this reason."""
        return replace(
            self,
            value=math.nan,
            standard_error=math.nan,
            normal=UNKNOWN_INTERVAL,
            running=np.full_like(self.running, np.nan),
            no_evidence=reason,
        )

    def __repr__(self) -> str:
        evidence = f"{self.support.in_words()}, largest weight {self.support.largest_weight:.3g}"
        value = self.no_evidence or f"{format_value(self.value)}, {format_interval(self.normal)}"
        return f"<{self.name} {value}; {evidence}>"

    @property
    def name(self) -> str:
        """Name of the estimator."""
        return self.estimator.name


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The evaluation of a target on a log. `str()` is a table of all results."""

    headline: Headline | None
    """Doubly robust estimates of the value and of the gain; None if no estimator needs a reward model."""
    estimates: tuple[Estimate, ...]
    """The results of all requested estimators."""
    logged: float
    """Mean reward of the log."""
    logged_error: float
    """Standard error of the mean reward of the log."""
    support: Support
    level: float
    """Confidence level of the intervals."""
    notes: tuple[str, ...]
    """Warnings and remarks for the reader."""
    at_rows: Ints
    """Numbers of rows at which `Estimate.running` was recorded, (points,)."""
    logged_running: Floats
    """Mean reward of the log up to these rows, (points,)."""
    arm_names: tuple[str, ...] | None
    no_evidence: str = ""
    """Why the headline has no numbers, or without a headline the estimates; "" if they may be shown."""
    doubts: tuple[Doubt, ...] = ()
    """Why a verdict may be wrong. Their texts are among the notes."""
    unit: str = "reward"
    """What all values are means of: "reward", or "payoff" if the log has values."""

    def __getitem__(self, name: str) -> Estimate:
        """Return the estimate of an estimator by its name."""
        for estimate in self.estimates:
            if estimate.name == name:
                return estimate
        raise KeyError(f"{name!r} was not requested; got {', '.join(estimate.name for estimate in self.estimates)}")

    @property
    def logged_interval(self) -> Interval:
        """Normal interval of the mean reward of the log."""
        half_width = float(ndtri(0.5 + self.level / 2)) * self.logged_error
        return Interval(self.logged - half_width, self.logged + half_width)

    def rows(self) -> list["EstimateRow"]:
        """Return the rows of tables and charts: the headline with both intervals, then the other estimates."""
        checks = [each for each in self.estimates if self.headline is None or each.name != "dr"]
        check = "" if self.headline is None else ", a check"
        rows = [
            EstimateRow(f"{one.name}{check}", one.value, one.standard_error, one.normal, one.no_evidence)
            for one in checks
        ]
        if self.headline is None:
            return rows
        if self.no_evidence:
            return [EstimateRow("dr", math.nan, math.nan, None, self.no_evidence), *rows]
        return [*rows_of_both_intervals("dr", self.headline.value), *rows]

    def __str__(self) -> str:
        return "\n".join([self._table().to_text(), *self._notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return replace(self._table(), notes=self._notes()).to_html()

    def _table(self) -> DataTable:
        """Every estimate with its intervals, and the mean of the log."""
        rows, headline = self.rows(), self.headline
        if headline is not None and not self.no_evidence:
            rows += rows_of_both_intervals("gain", headline.gain, signed=True)
            if headline.difference is not None:
                rows += rows_of_both_intervals("difference", headline.difference, signed=True)
        rows.append(EstimateRow("the log itself", self.logged, self.logged_error, self.logged_interval))
        columns = ("estimate", f"mean {self.unit}", "error", f"{percent(self.level)} interval")
        return DataTable(
            columns, [(row.name, row.value_text, row.error_text, in_python(row.interval_text)) for row in rows]
        )

    def _notes(self) -> list[str]:
        return [
            f"{self.support.rows} rows, {self.support.in_full()}",
            *(f"Note: {in_python(note)}" for note in self.notes),
        ]

    def to_frame(self) -> pl.DataFrame:
        """All estimates as a data frame: estimate, value, standard_error, low and high. Unknown numbers are null.

        With a reward model the gain over the logging policy follows, and the difference from the reference.
        """
        rows, headline = self.rows(), self.headline
        if headline is not None and not self.no_evidence:
            rows += rows_of_both_intervals("gain", headline.gain)
            rows += [] if headline.difference is None else rows_of_both_intervals("difference", headline.difference)
        records = [(row.name, row.value, row.standard_error, *(row.interval or UNKNOWN_INTERVAL)) for row in rows]
        names = {"estimate": pl.String} | dict.fromkeys(("value", "standard_error", "low", "high"), pl.Float64)
        return pl.DataFrame(records, names, orient="row").fill_nan(None)

    def plot(self) -> Any:
        """Return an Altair chart of all estimates with their intervals; the dotted line is the mean of the log."""
        from glbandits.common.display.charts import IntervalRow, finish, intervals_chart

        rows = [IntervalRow("", row.name, row.value, *(row.interval or UNKNOWN_INTERVAL)) for row in self.rows()]
        title = f"mean {self.unit} of a decision, with {percent(self.level)} intervals"
        return finish(intervals_chart(rows, title, references=[self.logged]))


class EstimateRow(NamedTuple):
    """An estimate with one of its intervals, as numbers and as text."""

    name: str
    value: float
    standard_error: float
    interval: Interval | None
    reason: str = ""
    """Why there is no interval."""
    signed: bool = False
    """Whether positive numbers have a sign: in gains and differences."""

    @property
    def value_text(self) -> str:
        """The value, or the words that there is not enough evidence."""
        return NO_EVIDENCE if math.isnan(self.value) else format_value(self.value, sign=self.signed)

    @property
    def error_text(self) -> str:
        """The standard error, if it is known."""
        return NO_VALUE if math.isnan(self.standard_error) else format_value(self.standard_error)

    @property
    def interval_text(self) -> str:
        """The interval, or the reason why there is none."""
        if not self.reason:
            return format_interval(self.interval, sign=self.signed)
        return self.reason.removeprefix(f"{NO_EVIDENCE}: ") if math.isnan(self.value) else self.reason


def rows_of_both_intervals(name: str, estimate: DoublyRobustEstimate, *, signed: bool = False) -> list[EstimateRow]:
    """Return a row for the anytime-valid interval, and one for the fixed-n interval."""
    return [
        EstimateRow(f"{name}, {kind}", estimate.value, estimate.standard_error, interval, reason, signed)
        for kind, (interval, reason) in estimate.intervals.items()
    ]
