"""The state of the guardrails of a loop as it is sent. The clients use it too, so this module does not import NumPy."""

from datetime import datetime
from typing import Literal

import msgspec

from glbandits.service.domain.groups.experiment import Control, GuardrailAction


class ReportStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts of a report: names in camelCase."""


class ComparisonPoint(ReportStruct, frozen=True, kw_only=True):
    """A comparison as it was after some units. All numbers are in the unit of the metric."""

    at: datetime
    """When the window of the last of these units had closed."""
    units: int
    treatment: float | None
    control: float | None
    """The means of the groups; null without units."""
    difference: float
    low: float
    high: float


class GroupReport(ReportStruct, frozen=True, kw_only=True):
    """The units of a group that are counted."""

    units: int
    """Those with a number, or with a default."""
    missing: float
    """The share of all units of the group for which no number came."""
    mean: float | None
    """null without units."""
    error: float | None
    """The standard error of the mean; null for less than two units."""


class MetricReport(ReportStruct, frozen=True, kw_only=True):
    """Treatment against control by one metric. All numbers are in the unit of the metric."""

    name: str
    good: Literal["higher", "lower"]
    treatment: GroupReport
    control: GroupReport
    difference: float | None
    """The estimate of treatment minus control; null before the second block of units, like its bounds."""
    low: float | None
    high: float | None
    """Each bound is wrong at some look in at most 5 % of loops, however often one looks."""
    margin: float
    action: GuardrailAction
    state: Literal["ok", "alarm", "early", "incomplete"]
    """incomplete: numbers are missing more often in one group, so the groups cannot be compared."""
    alarmed_at: datetime | None
    sentence: str
    waiting: int
    """Units among the next 20,000 decisions that are not counted: their window is open, or their block is not full."""
    points: tuple[ComparisonPoint, ...]


class SampleRatio(ReportStruct, frozen=True, kw_only=True):
    """Whether the groups have the sizes that the loop declares."""

    treatment: int
    control: int
    expected_share: float
    """The mean share of control with which these units were assigned; without units, that of the loop."""
    alarm: bool
    sentence: str


class Guardrails(ReportStruct, frozen=True, kw_only=True):
    """The comparison of treatment with control, and what the guardrails have done."""

    loop: str
    control: Control | None
    state: Literal["off", "running", "fallback"]
    """off: the loop has no control group. fallback: the loop shows the baseline until a person resumes it."""
    sentence: str
    fallback_since: datetime | None
    sample_ratio: SampleRatio | None
    """null without a control group."""
    metrics: list[MetricReport]
