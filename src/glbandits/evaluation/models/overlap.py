"""Overlap: whether a log tried its arms often enough to tell anything about them."""

from dataclasses import dataclass

import numpy as np

from glbandits.errors import InvalidInput
from glbandits.evaluation.logs.logged_data import Log

SMALL = 0.01
"""A propensity below this makes a row weigh more than a hundred others."""
SHARES = (0.01, 0.05, 0.25, 0.5)


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """The propensities of a log."""

    rows: int
    estimated: bool
    """Whether they were estimated from the log itself."""
    least: float
    quantiles: tuple[float, ...]
    """Below which 1, 5, 25 and 50 % of them are."""
    below: float
    """The share of rows below 0.01."""
    never_chosen: tuple[str, ...]
    """Arms of which the log tells nothing, where all rows have the same arms."""
    least_possible: float | None = None
    """The least probability above 0 of any arm of a row, chosen or not; None if the log has only propensities."""
    impossible: float | None = None
    """The share of the rows' arms that could not be chosen, because their probability was 0."""

    def warnings(self) -> list[str]:
        """What is wrong with it, in sentences."""
        said = []
        if self.below:
            said.append(
                f"{self.below:.1%} of rows chose an arm with a propensity below {SMALL}, {self.least:.2g} at the least"
                ": few rows will decide what is estimated"
            )
        if self.least_possible is not None and self.least_possible < min(SMALL, self.least / 2):
            said.append(
                f"some arms had a probability of {self.least_possible:.2g}, and none with less than {self.least:.2g} "
                "was chosen: the largest weights that a target can have were never seen"
            )
        if self.impossible:
            said.append(f"{self.impossible:.1%} of the arms of rows had probability 0: nothing is known of them there")
        if self.never_chosen:
            few = ", ".join(self.never_chosen[:10]) + (", ..." if len(self.never_chosen) > 10 else "")
            said.append(f"{len(self.never_chosen)} arms were never chosen, and nothing is known of them: {few}")
        return said


def overlap_of(log: Log) -> Overlap:
    """Look at all rows of a log that has propensities.

    >>> from glbandits.evaluation import Columns, read_table
    >>> log = read_table({"arm": ["a", "b"], "reward": [0, 1], "propensity": [0.995, 0.005]}, Columns())
    >>> overlap_of(log).warnings()
    ['50.0% of rows chose an arm with a propensity below 0.01, 0.005 at the least: few rows will decide what is ...']
    """
    parts, counts, estimated = [], np.zeros(0, dtype=np.int64), False
    least, impossible, offered = None, 0, 0
    for block in log.blocks():
        if block.propensities is None:
            raise InvalidInput("the log has no propensities; have them estimated by estimate_propensities first")
        parts.append(block.propensities)
        estimated = block.estimated
        if block.probabilities is not None:
            possible = block.probabilities > 0.0
            least = float(block.probabilities.min(where=possible, initial=1.0 if least is None else least))
            offered += int(block.arms.counts.sum())
            impossible += int(block.arms.counts.sum() - possible.sum())
        if block.arms.same_arms:
            chosen = np.bincount(block.chosen, minlength=block.arms.most)
            counts = chosen if not len(counts) else counts + chosen
    propensities = np.concatenate(parts)
    names = log.arm_names or tuple(map(str, range(len(counts))))
    return Overlap(
        rows=len(propensities),
        estimated=estimated,
        least=float(propensities.min()),
        quantiles=tuple(np.quantile(propensities, SHARES).tolist()),
        below=float(np.mean(propensities < SMALL)),
        least_possible=least,
        impossible=impossible / offered if offered else None,
        never_chosen=tuple(name for name, count in zip(names, counts.tolist(), strict=True) if not count),
    )
