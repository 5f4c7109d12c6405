"""The comparison of treatment with control by one metric: its state, its alarm, and its verdict in a sentence."""

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from glbandits.common.display.text_format import significant
from glbandits.maths.online_statistics.group_difference import BLOCK, GroupDifference, GroupMean, UnitRows
from glbandits.service.domain.events import UnitStart, as_datetime
from glbandits.service.domain.groups.experiment import GuardrailAction, MetricSettings
from glbandits.service.domain.groups.guardrail_report import ComparisonPoint, GroupReport, MetricReport
from glbandits.service.domain.groups.unit_outcomes import UnitOutcome, closes_at

ALPHA, RATIO_ALPHA = 0.05, 0.01
"""The probability that a guardrail, or the check of the sample ratio, ever acts although nothing is wrong."""
MAX_POINTS = 200
"""Points of history. When there are more, every second one is dropped."""
UNCERTAIN = "so no difference is certain"
WIDEST = 0.5
"""While the interval is wider than this share of the range, it is too early for a verdict."""


Units: TypeAlias = Iterable[tuple[UnitStart, UnitOutcome | None]]
"""Units with their outcomes for a metric; None for a unit that does not count."""


class Alarm(msgspec.Struct, frozen=True):
    """When a guardrail acted, and why."""

    at: int
    units: int
    sentence: str


class MetricComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The units that are counted by one metric. A state of it depends on these units only, not on when one looked."""

    settings: MetricSettings
    after: int
    """Sequence number of the first decision of the last unit. Later units are not counted."""
    open_block: tuple[UnitOutcome, ...] = ()
    """Units that do not fill a block."""
    numbers: tuple[float, ...] = ()
    """The state of a `GroupDifference`; empty before the first block."""
    points: tuple[ComparisonPoint, ...] = ()
    spacing: int = 1
    """Blocks from one point to the next."""
    alarm: Alarm | None = None
    wrong_ratio: bool = False
    """Whether, after some block, the groups did not have the shares with which their units were assigned."""
    unequal_missing: bool = False
    """Whether, after some block, numbers were missing more often in one group."""

    @property
    def is_incomplete(self) -> bool:
        """Whether units were left out more often in one group, so that the others cannot simply be compared."""
        return self.unequal_missing and self.settings.value_if_missing is None

    def counts_like(self, settings: MetricSettings) -> bool:
        """Whether units have the same numbers under other settings, so that the comparison can continue."""

        def rules(each: MetricSettings) -> tuple[Any, ...]:
            return each.range, each.combine, each.seconds, each.value_if_missing

        return rules(self.settings) == rules(settings)

    def difference(self) -> GroupDifference:
        """Return the statistic. Raises ValueError if the state comes from another version."""
        return GroupDifference.from_state(self.numbers) if self.numbers else GroupDifference()

    def with_units(self, name: str, units: Units, now: int) -> "MetricComparison":
        """Return the comparison with the next units, in the order of their first decisions.

        `name` is that of the metric, and `now` the timestamp of an alarm.
        """
        comparison = self
        for start, outcome in units:
            block = comparison.open_block if outcome is None else (*comparison.open_block, outcome)
            comparison = replace(comparison, after=start.first, open_block=block)
            if len(block) == BLOCK:
                comparison = comparison._with_block(closes_at(start, self.settings)).checked(name, now)
        return comparison

    def _with_block(self, closed_at: int) -> "MetricComparison":
        """Count the units of a full block. `closed_at` is when the window of the last one had closed."""
        difference = self.difference()
        rows = UnitRows(*(np.array(column) for column in zip(*self.open_block, strict=True)))
        if self.settings.value_if_missing is None:
            rows = rows._replace(values=np.where(rows.missing, math.nan, rows.values))
        difference.add(rows)
        most = math.log(1.0 / RATIO_ALPHA)
        points, spacing = self.points, self.spacing
        if difference.units // BLOCK % spacing == 0 and not math.isnan(difference.mean):
            points = (*points, self._point(difference, closed_at))
        if len(points) > MAX_POINTS:
            spacing *= 2
            points = tuple(point for point in points if point.units // BLOCK % spacing == 0)
        return replace(
            self,
            open_block=(),
            numbers=difference.state(),
            points=points,
            spacing=spacing,
            wrong_ratio=self.wrong_ratio or difference.log_evidence_of_ratio() > most,
            unequal_missing=self.unequal_missing or difference.log_evidence_of_missing() > most,
        )

    def _point(self, difference: GroupDifference, closed_at: int) -> ComparisonPoint:
        low, high = difference.interval()
        return ComparisonPoint(
            at=as_datetime(closed_at),
            units=difference.units,
            treatment=self._in_unit(difference.treatment.mean),
            control=self._in_unit(difference.control.mean),
            difference=difference.mean * self._scale,
            low=low * self._scale,
            high=high * self._scale,
        )

    @property
    def _scale(self) -> float:
        return self.settings.range[1] - self.settings.range[0]

    def _in_unit(self, mean: float) -> float | None:
        """Return the mean of a group in the unit of the metric; None without units."""
        return None if math.isnan(mean) else self.settings.range[0] + mean * self._scale

    def checked(self, name: str, now: int) -> "MetricComparison":
        """Return the comparison with an alarm if its guardrail acts now. An alarm stays.

        If units were left out more often in one group, it acts only if no numbers of theirs could explain the harm.
        """
        settings, difference = self.settings, self.difference()
        if self.alarm is not None or settings.action is GuardrailAction.NONE or not difference.units:
            return self
        margin = settings.margin / self._scale + (sum(difference.missing_shares) if self.is_incomplete else 0.0)
        if difference.log_evidence(margin, higher_is_good=settings.good == "higher") <= math.log(1.0 / ALPHA):
            return self
        return replace(self, alarm=Alarm(now, difference.units, self._sentence(name, difference, at_alarm=True)))

    def report(self, name: str, *, waiting: int) -> MetricReport:
        """Return the comparison as it is sent."""
        difference, settings, alarm = self.difference(), self.settings, self.alarm
        estimate = low = high = None
        is_early = True
        if not math.isnan(difference.mean):
            low, high = (bound * self._scale for bound in difference.interval())
            estimate, is_early = difference.mean * self._scale, high - low > WIDEST * self._scale
        if alarm is not None:
            sentence = f"{self._sentence(name, difference)} The guardrail acted at {time_text(alarm.at)}."
        elif self.is_incomplete:
            sentence = f"{name} cannot be compared: {self._missing(difference)}."
        elif is_early and difference.units and min(difference.missing_shares) == 1.0:
            sentence = f"{name}: no number came for {difference.units:,} units. If that means 0, set default to 0."
        elif is_early:
            sentence = f"{name}: too early to say. {difference.units:,} units are counted."
        else:
            sentence = self._sentence(name, difference)
        return MetricReport(
            name=name,
            good=settings.good,
            treatment=self._group_report(difference.treatment, difference.missing_shares[0]),
            control=self._group_report(difference.control, difference.missing_shares[1]),
            difference=estimate,
            low=low,
            high=high,
            margin=settings.margin,
            action=settings.action,
            state="alarm" if alarm else "incomplete" if self.is_incomplete else "early" if is_early else "ok",
            alarmed_at=None if alarm is None else as_datetime(alarm.at),
            sentence=sentence,
            waiting=waiting,
            points=self.points,
        )

    def _group_report(self, group: GroupMean, missing: float) -> GroupReport:
        error = None if math.isnan(group.error) else group.error * self._scale
        return GroupReport(units=group.units, missing=missing, mean=self._in_unit(group.mean), error=error)

    def _missing(self, difference: GroupDifference) -> str:
        """Return which shares of the groups have no number, as a clause."""
        treatment, control = difference.missing_shares
        return f"no number came for {treatment:.1%} of treatment and {control:.1%} of control"

    def _sentence(self, name: str, difference: GroupDifference, *, at_alarm: bool = False) -> str:
        """Return the verdict. `at_alarm`: it is read later, and the evidence says worse, to the last digit."""
        means = [self._in_unit(group.mean) for group in (difference.treatment, difference.control)]
        treatment, control = ("no number" if mean is None else significant(mean) for mean in means)
        low, high = (bound * self._scale for bound in difference.interval())
        if low >= 0.0:
            span = f"{significant(low)} to {significant(high)} higher"
        elif high <= 0.0:
            span = f"{significant(abs(high))} to {significant(-low)} lower"
        else:
            span = f"between {significant(-low)} lower and {significant(high)} higher"
        harm = (low, high) if self.settings.good == "lower" else (-high, -low)
        verdict = self._verdict(harm, is_worse=at_alarm)
        verb = "was" if at_alarm else "is"
        missing = f" ({self._missing(difference)})" if self.unequal_missing else ""
        return f"{name} {verb} {treatment} in treatment and {control} in control{missing}: {span}, {verdict}."

    def _verdict(self, harm: tuple[float, float], *, is_worse: bool) -> str:
        """Return what an interval of the harm means. Harm below 0 is good."""
        if self.settings.action is GuardrailAction.NONE:  # the margin is that of a guardrail
            return "which is worse" if harm[0] > 0.0 else "which is better" if harm[1] < 0.0 else UNCERTAIN
        margin = self.settings.margin
        if is_worse or harm[0] > margin:
            return f"worse than the margin of {margin:g}"
        if harm[1] < 0.0:
            return "which is better"
        if harm[1] <= margin:
            return f"not worse than the margin of {margin:g}"
        return UNCERTAIN if harm[0] <= 0.0 else f"worse, but perhaps by less than {margin:g}"


def time_text(timestamp: int) -> str:
    """Return a timestamp as a date and a time in UTC, to the minute."""
    return f"{as_datetime(timestamp):%Y-%m-%d %H:%M} UTC"
