"""The result of the promotion gate: verdict, gains and their text."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import percent
from glbandits.common.display.text_format import format_interval, format_value
from glbandits.evaluation.estimators.anytime import AnytimeInterval
from glbandits.evaluation.estimators.support import NO_EVIDENCE
from glbandits.evaluation.logs.doubts import Doubt, Withheld, reason_to_withhold

Gains: TypeAlias = Mapping[str, AnytimeInterval]
"""Gain of each candidate over the running policy."""


class Verdict(StrEnum):
    """Decision of the gate."""

    PROMOTE = "promote"
    """A candidate is better than the running policy."""
    KEEP = "keep"
    """No candidate is better than the running policy by more than `Promotion.margin`."""
    WAIT = "wait"
    """The log does not have enough evidence yet."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Promotion:
    """The result of the gate. `str()` is a text with all gains."""

    verdict: Verdict
    candidate: str | None
    """The candidate to promote: the one with the largest lower bound; None unless the verdict is PROMOTE."""
    gains: Mapping[str, AnytimeInterval]
    """Gain of each candidate over the running policy. Each interval holds at its share of alpha."""
    no_evidence: Mapping[str, str]
    """Why a candidate has no gain, by its name (`Support.no_evidence`). It cannot be promoted, and prevents "keep"."""
    first_row: int
    """Index of the first compared row."""
    alpha: float
    margin: float
    rows_needed: float
    """Approximate number of rows for a verdict; NaN if there is one, inf if it cannot be estimated."""
    unit: str = "reward"
    """What gains are differences of: "reward", or "payoff" if the log has values."""

    doubts: tuple[Doubt, ...] = ()
    """Doubts about the log. Unless all are about changes before the recent rows, the verdict is "wait"."""

    @property
    def headline(self) -> str:
        """The verdict as a sentence."""
        until = _until(self.rows_needed)
        return {
            Verdict.PROMOTE: f"Promote {self.candidate}: it is better than the running policy.",
            Verdict.KEEP: f"Keep the running policy: no candidate is better by more than {self.margin:g}.",
            Verdict.WAIT: f"Wait: {_why(self.doubts) or f'the log does not have enough evidence yet{until}'}.",
        }[self.verdict]

    @property
    def guarantee(self) -> str:
        """The meaning of alpha as a sentence."""
        worse = "a candidate that is worse than the running policy was on the compared rows"
        return f"At most {percent(self.alpha)} of such gates ever promote {worse}."

    def table(self) -> DataTable:
        """Return the gain of each candidate; it has no rows if none was compared yet."""
        rows = [
            (name, format_value(gain.value, sign=True), format_interval(gain.interval, sign=True))
            for name, gain in self.gains.items()
        ]
        rows += [
            (name, NO_EVIDENCE, reason.removeprefix(f"{NO_EVIDENCE}: ")) for name, reason in self.no_evidence.items()
        ]
        of = "" if self.unit == "reward" else f" in {self.unit}"
        title = f"Gain{of} over the running policy, from row {self.first_row + 1:,} on"
        return DataTable(("policy", "gain", "interval at every n"), rows, title=title)

    def __str__(self) -> str:
        table = self.table()
        return "\n".join([self.headline, table.to_text(), self.guarantee]) if table.rows else self.headline

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return replace(self.table(), notes=(self.headline, self.guarantee)).to_html()


def _why(doubts: Sequence[Doubt]) -> str:
    return reason_to_withhold(doubts, Withheld.ALL, Withheld.GAIN)


def _until(rows: float) -> str:
    return f"; about {rows:,.0f} rows would be enough" if math.isfinite(rows) else ""
