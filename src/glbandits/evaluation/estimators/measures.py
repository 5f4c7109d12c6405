"""Measures: what a doubly robust estimate is about.

A measure is a number m(a) for each arm a of a row. Its estimate is the mean over rows of sum_a m(a) E[r | a]. With the
probabilities pi(a) of the target, p(a) of the logging policy and rho(a) of a reference, m(a) is pi(a) for the value,
pi(a) - p(a) for the gain, and pi(a) - rho(a) for the difference. If the log has only the propensities of the chosen
arms, the gain is the value minus the mean payoff of the rows.

Fixed-n intervals (`fixed_n`) and anytime-valid intervals (`anytime`) are both computed from `MeasureRows`.
"""

from enum import Enum
from typing import NamedTuple

from glbandits.common.arrays import Floats
from glbandits.evaluation.estimators.log_rows import LogRows


class MeasureRows(NamedTuple):
    """A measure in some rows of a log."""

    arms: Floats
    """m(a), (rows, arms)."""
    weights: Floats
    """m / p of the chosen arms, (rows,)."""
    minus_payoffs: bool = False
    """Whether the payoffs of the rows are subtracted: in the gain, if p(a) is unknown."""

    @classmethod
    def of(cls, rows: LogRows, arms: Floats, *, minus_payoffs: bool = False) -> "MeasureRows":
        """Return a measure from its m(a), (rows, arms)."""
        return cls(arms, rows.of_chosen(arms) / rows.propensities, minus_payoffs)


class Measure(Enum):
    """The measures of a target."""

    VALUE = "value"
    """Mean reward, or payoff, per decision."""
    GAIN = "gain"
    """Value minus that of the logging policy."""
    DIFFERENCE = "difference"
    """Value minus that of the reference."""

    def of_rows(self, rows: LogRows, target: Floats, reference: Floats | None = None) -> MeasureRows:
        """Return the measure in these rows.

        Args:
            rows: the rows.
            target: the target's probabilities of the arms, (rows, arms).
            reference: those of the reference, which the difference needs.
        """
        subtracted = {Measure.GAIN: rows.block.probabilities, Measure.DIFFERENCE: reference}.get(self)
        if subtracted is not None:
            return MeasureRows.of(rows, target - subtracted)
        return MeasureRows.of(rows, target, minus_payoffs=self is Measure.GAIN)
