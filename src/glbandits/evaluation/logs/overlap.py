"""Overlap: whether the propensities of a log are large enough to evaluate other policies.

It does not depend on a target. `estimators.support` measures the support of one target, and `evaluate` prints that.
"""

from dataclasses import dataclass

from glbandits.common.arrays import Floats

SMALL_PROPENSITY = 0.01
"""Below this propensity a row may have a weight of more than 100."""


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Statistics of the propensities of a log."""

    rows: int
    estimated: bool
    """Whether the propensities were estimated from the log."""
    least: float
    """Smallest propensity of a chosen arm."""
    below: float
    """Share of rows with a propensity below 0.01."""
    certain: float
    """Share of rows with propensity 1, in which the logging policy could choose no other arm."""
    mean_inverse: float
    """Mean of 1 / propensity. Its expected value is the mean number of arms that the logging policy could choose."""
    mean_inverse_error: float
    """Standard error of `mean_inverse`, if rows are independent."""
    never_chosen: tuple[str, ...]
    """Arms without a row, if all rows have the same arms."""
    least_possible: float | None = None
    """Smallest positive probability of any arm, chosen or not; None if the log has only propensities."""
    impossible: float | None = None
    """Share of pairs of row and arm with probability 0; None if the log has only propensities."""
    least_estimate: float = 0.0
    """The bound to which smaller estimates of propensities were raised; 0 without one."""
    raised: int = 0
    """Number of rows with a propensity at that bound."""
    raised_others: int = 0
    """Number of rows in which another arm has a probability at that bound."""

    def warnings(self) -> list[str]:
        """Return the problems, one text each."""
        warnings = []
        if self.raised or self.raised_others:
            warnings.append(
                f"estimates below {self.least_estimate:.2g}, which is less than {self.rows:,} rows can support, were "
                f"raised to it: those of the chosen arm in {self.raised:,} rows, of another arm in "
                f"{self.raised_others:,} rows"
            )
        if self.below:
            warnings.append(
                f"{self.below:.1%} of rows have a propensity below {SMALL_PROPENSITY}, the smallest is "
                f"{self.least:.2g}: estimates will depend on few rows"
            )
        if self.least_possible is not None and self.least_possible < min(SMALL_PROPENSITY, self.least / 2):
            warnings.append(
                f"some arms had a probability of {self.least_possible:.2g}, but no arm with a probability below "
                f"{self.least:.2g} was chosen: the largest possible weights do not occur in the log"
            )
        if self.impossible:
            warnings.append(
                f"{self.impossible:.1%} of the pairs of row and arm have probability 0: the log has no evidence there"
            )
        if self.never_chosen:
            few = ", ".join(self.never_chosen[:10]) + (", ..." if len(self.never_chosen) > 10 else "")
            warnings.append(
                f"{len(self.never_chosen)} arms were never chosen, so the log has no evidence on them: {few}"
            )
        return warnings


class OverlapSums:
    """Accumulates the overlap over blocks.

    Args:
        least_estimate: the bound to which smaller estimates of propensities were raised; 0 without one.
    """

    def __init__(self, least_estimate: float = 0.0) -> None:
        self.rows, self.estimated = 0, False
        self._least_estimate, self._raised, self._raised_others = least_estimate, 0, 0
        self._below, self._certain, self._least = 0, 0, 1.0
        self._inverse, self._squares = 0.0, 0.0
        self._least_possible: float | None = None
        self._impossible, self._offered = 0, 0

    def add(self, propensities: Floats) -> None:
        """Add the propensities of the next rows."""
        inverse = 1.0 / propensities
        self.rows += len(propensities)
        self._below += int((propensities < SMALL_PROPENSITY).sum())
        self._certain += int((propensities >= 1.0).sum())
        self._raised += int((propensities <= self._least_estimate).sum())
        self._least = float(propensities.min(initial=self._least))
        self._inverse += float(inverse.sum())
        self._squares += float(inverse @ inverse)

    def add_probabilities(self, probabilities: Floats, propensities: Floats, arms: int) -> None:
        """Add the probabilities of all arms of the same rows, padded with 0. `arms` is the number of these arms."""
        possible = probabilities > 0.0
        at_bound = possible & (probabilities <= self._least_estimate)
        self._raised_others += int((at_bound.sum(axis=1) > (propensities <= self._least_estimate)).sum())
        least = 1.0 if self._least_possible is None else self._least_possible
        self._least_possible = float(probabilities.min(where=possible, initial=least))
        self._offered += arms
        self._impossible += int(arms - possible.sum())

    def overlap(self, never_chosen: tuple[str, ...]) -> Overlap:
        """Return the statistics of all rows so far. There must be one."""
        mean = self._inverse / self.rows
        return Overlap(
            rows=self.rows,
            estimated=self.estimated,
            least=self._least,
            below=self._below / self.rows,
            certain=self._certain / self.rows,
            mean_inverse=mean,
            mean_inverse_error=max(0.0, self._squares / self.rows - mean * mean) ** 0.5 / self.rows**0.5,
            least_possible=self._least_possible,
            impossible=self._impossible / self._offered if self._offered else None,
            never_chosen=never_chosen,
            least_estimate=self._least_estimate,
            raised=self._raised,
            raised_others=self._raised_others,
        )
