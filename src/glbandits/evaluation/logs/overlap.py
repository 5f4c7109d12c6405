"""Overlap: whether the propensities of a log are large enough to evaluate other policies.

It does not depend on a target. `estimators.support` measures the support of one target, and `evaluate` prints that.
"""

from dataclasses import dataclass

import numpy as np

from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.logged_data import Log

SMALL_PROPENSITY = 0.01
"""Below this propensity a row may have a weight of more than 100."""
QUANTILE_LEVELS = (0.01, 0.05, 0.25, 0.5)


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Statistics of the propensities of a log."""

    rows: int
    estimated: bool
    """Whether the propensities were estimated from the log."""
    least: float
    """Smallest propensity of a chosen arm."""
    quantiles: tuple[float, ...]
    """The 1, 5, 25 and 50 % quantiles of the propensities."""
    below: float
    """Share of rows with a propensity below 0.01."""
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


def overlap_of(log: Log, least_estimate: float = 0.0) -> Overlap:
    """Return the overlap statistics of a log. Raises InvalidInput if it has no rows or no propensities.

    Args:
        log: with propensities.
        least_estimate: the bound to which smaller estimates of propensities were raised; 0 without one.

    >>> from glbandits.evaluation import Columns, read_table
    >>> log = read_table({"arm": ["a", "b"], "reward": [0, 1], "propensity": [0.995, 0.005]}, Columns())
    >>> overlap_of(log).warnings()
    ['50.0% of rows have a propensity below 0.01, the smallest is 0.005: estimates will depend on few rows']
    """
    parts, counts, estimated = [], np.zeros(0, dtype=np.int64), False
    least, impossible, offered, raised_others = None, 0, 0, 0
    for block in log.blocks():
        if block.propensities is None:
            raise InvalidInput("the log has no propensities. Call estimate_propensities(log) first")
        parts.append(block.propensities)
        estimated = block.estimated
        if block.probabilities is not None:
            possible = block.probabilities > 0.0
            at_bound = possible & (block.probabilities <= least_estimate)
            raised_others += int((at_bound.sum(axis=1) > (block.propensities <= least_estimate)).sum())
            least = float(block.probabilities.min(where=possible, initial=1.0 if least is None else least))
            offered += int(block.arms.counts.sum())
            impossible += int(block.arms.counts.sum() - possible.sum())
        if block.arms.same_arms:
            chosen = np.bincount(block.chosen, minlength=block.arms.max_arms)
            counts = chosen if not len(counts) else counts + chosen
    if not parts:
        raise InvalidInput("the log has no rows")
    propensities = np.concatenate(parts)
    names = log.arm_names or tuple(map(str, range(len(counts))))
    return Overlap(
        rows=len(propensities),
        estimated=estimated,
        least=float(propensities.min()),
        quantiles=tuple(np.quantile(propensities, QUANTILE_LEVELS).tolist()),
        below=float(np.mean(propensities < SMALL_PROPENSITY)),
        least_possible=least,
        impossible=impossible / offered if offered else None,
        least_estimate=least_estimate,
        raised=int((propensities <= least_estimate).sum()),
        raised_others=raised_others,
        never_chosen=tuple(name for name, count in zip(names, counts.tolist(), strict=True) if not count),
    )
