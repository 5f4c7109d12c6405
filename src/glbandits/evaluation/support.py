"""Support: how much a log can tell about a target. No estimate is printed without it."""

from dataclasses import dataclass

import numpy as np

from glbandits.evaluation.logged_data import LoggedData
from glbandits.records import Floats, Ints

FEW = 100
"""Effective rows below which an estimate is called unreliable."""
MISSING = 0.01
"""Share of the target's decisions outside the log's reach above which that is said."""
CLEARLY, SURELY = 3.0, 4.0
"""Standard errors that a mean weight must be below 1 to be called a lack of support, and off to be spoken of."""
WEIGHT_EDGES = 10.0 ** (np.arange(-24, 33) / 8)
"""Between which weights are counted: 0.001 to 10,000, eight steps to a power of ten."""


@dataclass(frozen=True, eq=False)
class ArmSupport:
    """For arms that are the same in every row: what the log did, and what the target would do."""

    logged: Ints
    """How often the log chose each arm, (K,)."""
    wanted: Floats
    """How often the target would, (K,)."""
    rewards: Floats
    """The mean reward of each arm in the log, (K,); NaN where it was never chosen."""


@dataclass(frozen=True, eq=False)
class Support:
    """What the weights w = pi / p of a log tell about how far it reaches."""

    rows: int
    effective_rows: float
    """(sum w)^2 / sum w^2: so many rows of the target's own would tell as much."""
    largest_weight: float
    mean_weight: float
    """1 on average if the log could have chosen all that the target would, and its propensities are right."""
    mean_weight_error: float
    """The standard error of that."""
    unused: float
    """The share of rows with weight 0: the target would never have done what was done."""
    unsupported: float
    """The share of the target's decisions that fall where the log never went, at least: on arms that it never chose,
    or as much as the mean weight is below 1 by more than three standard errors."""
    least_propensity: float
    weight_counts: Ints
    """Rows with a weight below the first of `WEIGHT_EDGES`, between each two of them, and from the last on, (58,).
    Weights of 0 are not among them."""
    arms: ArmSupport | None

    def warnings(self) -> list[str]:
        """What is wrong with it, in sentences."""
        said = []
        if self.rows < FEW:
            said.append(f"the log has {self.rows} rows, too few for its intervals to be trusted")
        elif self.effective_rows < FEW:
            said.append(
                f"only {self.effective_rows:.0f} effective rows of {self.rows}: the target decides too differently "
                "from the log for its intervals to be trusted"
            )
        if self.unsupported > MISSING:
            said.append(
                f"{self.unsupported:.1%} of the target's decisions fall where the log never went: the log cannot "
                "tell what they would have earned"
            )
        off = abs(self.mean_weight - 1.0)
        if off > MISSING and off > SURELY * self.mean_weight_error:
            said.append(
                f"the mean weight is {self.mean_weight:.3f}, not 1: either the log never does what the target does in "
                "some cases, or its propensities are wrong. ips is then biased, and the others may be"
            )
        return said


class SupportSums:
    """Where blocks are added up."""

    def __init__(self, fixed_arms: int | None) -> None:
        self._rows, self._unused, self._largest, self._least = 0, 0, 0.0, 1.0
        self._weights, self._squares = 0.0, 0.0
        self._weight_counts = np.zeros(len(WEIGHT_EDGES) + 1, dtype=np.int64)
        self._logged = None if fixed_arms is None else np.zeros(fixed_arms, dtype=np.int64)
        self._wanted, self._rewards = np.zeros(fixed_arms or 0), np.zeros(fixed_arms or 0)

    def add(self, block: LoggedData, probabilities: Floats, weights: Floats) -> None:
        """The next rows, with the target's probabilities (m, most) and the weights (m,)."""
        assert block.propensities is not None
        self._rows += len(block)
        self._unused += int((weights == 0.0).sum())
        self._largest = max(self._largest, float(weights.max()))
        self._least = min(self._least, float(block.propensities.min()))
        self._weights += float(weights.sum())
        self._squares += float(weights @ weights)
        places = np.searchsorted(WEIGHT_EDGES, weights[weights > 0.0], side="right")
        self._weight_counts += np.bincount(places, minlength=len(self._weight_counts))
        if self._logged is not None:
            self._logged += np.bincount(block.chosen, minlength=len(self._logged))
            self._wanted += probabilities.sum(axis=0)
            self._rewards += np.bincount(block.chosen, weights=block.rewards, minlength=len(self._logged))

    def support(self, error: float) -> Support:
        """What has come so far; `error` is the standard error of the mean weight."""
        mean = self._weights / self._rows
        arms, unsupported = None, max(0.0, 1.0 - mean - CLEARLY * error) if error == error else 0.0
        if self._logged is not None:
            seen = self._logged > 0
            rewards = np.divide(self._rewards, self._logged, out=np.full(len(seen), np.nan), where=seen)
            arms = ArmSupport(self._logged.copy(), self._wanted.copy(), rewards)
            unsupported = max(unsupported, float(self._wanted[~seen].sum()) / self._rows)
        return Support(
            rows=self._rows,
            effective_rows=self._weights**2 / self._squares if self._squares > 0.0 else 0.0,
            largest_weight=self._largest,
            mean_weight=mean,
            mean_weight_error=error,
            unused=self._unused / self._rows,
            unsupported=unsupported,
            least_propensity=self._least,
            weight_counts=self._weight_counts.copy(),
            arms=arms,
        )
