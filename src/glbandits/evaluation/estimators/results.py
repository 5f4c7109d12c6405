"""Evaluation: the result of `evaluate`. Its text shows the support beside the estimates."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import percent
from glbandits.evaluation.estimators.estimator import UNKNOWN_INTERVAL, Estimator, Interval
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate, Headline
from glbandits.evaluation.estimators.support import Support


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
        value = self.no_evidence or f"{self.value:.5f}, {_format_interval(self.normal)}"
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
    arm_names: tuple[str, ...] | None
    no_evidence: str = ""
    """Why the headline has no numbers, or without a headline the estimates; "" if they may be shown."""
    doubts: tuple[str, ...] = ()
    """Those of the notes that say why the headline is probably wrong."""
    unit: str = "reward"
    """What all values are means of: "reward", or "payoff" if the log has values."""

    def __getitem__(self, name: str) -> Estimate:
        """Return the estimate of an estimator by its name."""
        for estimate in self.estimates:
            if estimate.name == name:
                return estimate
        raise KeyError(f"{name!r} was not requested; got {', '.join(estimate.name for estimate in self.estimates)}")

    def __str__(self) -> str:
        return "\n".join([self._table().to_text(), *self._notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return replace(self._table(), notes=self._notes()).to_html()

    def _table(self) -> DataTable:
        """Every estimate with its intervals, and the mean of the log."""
        rows = [
            (row.name, _number(row.value), _number(row.standard_error), row.reason or _format_interval(row.interval))
            for row in (*self._value_rows(), *self._gain_rows())
        ]
        rows.append(("the log", _number(self.logged), _number(self.logged_error), ""))
        columns = ("estimate", "value", "error", f"{percent(self.level)} interval")
        return DataTable(columns, rows, columns[-1:])

    def _notes(self) -> list[str]:
        return [f"{self.support.rows} rows, {self.support.in_full()}", *(f"Note: {note}" for note in self.notes)]

    def plot(self) -> Any:
        """Return an Altair chart of all estimates with their intervals; the dotted line is the mean of the log."""
        from glbandits.common.display.charts import IntervalRow, finish, intervals_chart

        rows = [
            IntervalRow("", row.name, row.value, *(UNKNOWN_INTERVAL if row.interval is None else row.interval))
            for row in self._value_rows()
        ]
        title = f"mean {self.unit} of a decision, with {percent(self.level)} intervals"
        return finish(intervals_chart(rows, title, references=[self.logged]))

    def _value_rows(self) -> list["_EstimateRow"]:
        rows = [] if self.headline is None else _doubly_robust_rows("dr", self.headline.value)
        if self.headline is not None and self.no_evidence:
            rows = [_EstimateRow("dr", math.nan, math.nan, None, self.no_evidence)]
        named = [estimate for estimate in self.estimates if self.headline is None or estimate.name != "dr"]
        return rows + [
            _EstimateRow(one.name, one.value, one.standard_error, one.normal, one.no_evidence) for one in named
        ]

    def _gain_rows(self) -> list["_EstimateRow"]:
        if self.headline is None or self.no_evidence:
            return []
        difference = self.headline.difference
        rows = [] if difference is None else _doubly_robust_rows("difference", difference)
        return _doubly_robust_rows("gain", self.headline.gain) + rows


class _EstimateRow(NamedTuple):
    """An estimate with one of its intervals."""

    name: str
    value: float
    standard_error: float
    interval: Interval | None
    reason: str = ""
    """Why there is no interval."""


def _doubly_robust_rows(name: str, estimate: DoublyRobustEstimate) -> list[_EstimateRow]:
    value, error = estimate.value, estimate.standard_error
    every_n = None if estimate.anytime is None else estimate.anytime.interval
    return [
        _EstimateRow(f"{name}, at every n", value, error, every_n, estimate.no_anytime),
        _EstimateRow(f"{name}, at this n only", value, error, estimate.fixed_n, estimate.no_fixed_n),
    ]


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.5f}"


def _format_interval(interval: Interval | None) -> str:
    if interval is None or math.isnan(interval.low):
        return "unknown"
    return f"[{interval.low:.5f}, {interval.high:.5f}]"
