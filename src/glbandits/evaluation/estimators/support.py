"""Support: how much a log can tell about a target. No estimate is printed without it."""

import math
from dataclasses import dataclass

import numpy as np

from glbandits.errors import MAX_ABS, InvalidInput
from glbandits.evaluation.estimators.large_weights import ENOUGH, LargeWeights, LargeWeightSums
from glbandits.evaluation.logs.logged_data import LoggedData
from glbandits.records import Floats, Ints

FEW = 100
"""Effective sample size below which an estimate is called unreliable."""
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
    effective_sample_size: float
    """So many rows of the target's own would tell as much. If the log has the probabilities p(a) of all arms, this is
    the expected one, n (1 - u)^2 / mean(sum_a pi(a)^2 / p(a)), with u the unsupported share. Otherwise it is the
    realised one, (sum w)^2 / sum w^2, which is too large if large weights are possible and were not drawn."""
    expected: bool
    """Whether the effective sample size is the expected one."""
    large_weights: LargeWeights | None
    """The largest weights that are possible, and how many rows have them; None if neither the probabilities of all
    arms nor a least propensity is known."""
    largest_weight: float
    """Of the rows of the log."""
    mean_weight: float
    """1 on average if the log could have chosen all that the target would, and its propensities are right."""
    mean_weight_error: float
    """The standard error of that."""
    unused: float
    """The share of rows with weight 0: the target would never have done what was done."""
    unsupported: float
    """The share of the target's decisions that fall where the log never went, at least: on arms that it never chose,
    on arms with probability 0 in their row, or, if only the propensities of chosen arms are known, as much as the mean
    weight is below 1 by more than three standard errors."""
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
        elif self.effective_sample_size < FEW:
            said.append(
                f"the effective sample size is only {self.effective_sample_size:.0f} of {self.rows} rows: the target "
                "decides too differently from the log for its intervals to be trusted"
            )
        said += self._rarely_seen()
        if self.unsupported > MISSING:
            said.append(
                f"{self.unsupported:.1%} of the target's decisions fall where the log never went: the log cannot "
                "tell what they would have earned"
            )
        due = 1.0 - self.unsupported if self.expected else 1.0
        off = abs(self.mean_weight - due)
        if off > MISSING and off > SURELY * self.mean_weight_error:
            never = "the log never does what the target does in some cases"
            why = "the largest weights were not drawn" if self.expected else never
            said.append(
                f"the mean weight is {self.mean_weight:.3f}, not {due:.3g}: either {why}, or the propensities are "
                "wrong. ips is then biased, and the others may be"
            )
        return said

    def _rarely_seen(self) -> list[str]:
        """Whether the largest possible weights have hardly been seen."""
        large = self.large_weights
        if large is None or self.rows < FEW or not large.hardly_seen:
            return []
        if self.expected:
            wanted = self.rows * ENOUGH / large.rows if large.rows > 0.0 else math.inf
            return [
                f"weights of up to {large.largest:.3g} are possible, and only {large.rows:.2g} rows are expected to "
                "have at least half of that: intervals are too short if they were not drawn. A log of about "
                f"{wanted:.2g} rows would have {ENOUGH}; or evaluate a target that is closer to the log"
            ]
        return [
            f"weights of up to {large.largest:.3g} are possible by least_propensity, and {large.rows:.0f} rows have at "
            "least half of that: if the log gave such arms a probability, intervals are too short. The probabilities "
            "of all arms would tell"
        ]

    def in_words(self) -> str:
        """The effective sample size, and which it is."""
        kind = "expected" if self.expected else "realised; too large if large weights are rare"
        return f"effective sample size {self.effective_sample_size:,.0f} ({kind})"


class SupportSums:
    """Where blocks are added up."""

    def __init__(self, fixed_arms: int | None) -> None:
        self._rows, self._unused, self._largest, self._least = 0, 0, 0.0, 1.0
        self._weights, self._squares = 0.0, 0.0
        self._complete: bool | None = None
        self._large, self._largest_probability = LargeWeightSums(), 0.0
        self._unsupported, self._expected_squares = 0.0, 0.0
        self._weight_counts = np.zeros(len(WEIGHT_EDGES) + 1, dtype=np.int64)
        self._logged = None if fixed_arms is None else np.zeros(fixed_arms, dtype=np.int64)
        self._wanted, self._rewards = np.zeros(fixed_arms or 0), np.zeros(fixed_arms or 0)

    def add(self, block: LoggedData, probabilities: Floats, weights: Floats) -> None:
        """The next rows, with the target's probabilities (m, most) and the weights (m,)."""
        assert block.propensities is not None
        complete = block.probabilities is not None
        if self._complete not in (None, complete):
            raise InvalidInput("some rows of the log have the probabilities of all arms and others have not")
        self._complete = complete
        self._add_large(block.probabilities, probabilities, weights)
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

    def _add_large(self, logged: Floats | None, target: Floats, weights: Floats) -> None:
        """The weights of all arms, with the probabilities in the log, or else those of the chosen arms."""
        self._largest_probability = max(self._largest_probability, float(target.max()))
        if logged is None:
            self._large.add(weights[weights > 0.0], np.ones(int((weights > 0.0).sum())))
            return
        possible = logged > 1.0 / MAX_ABS
        each = np.divide(target, logged, out=np.zeros_like(target), where=possible)
        self._large.add(each, logged)
        self._expected_squares += float(np.einsum("ak,ak->", target, each))
        self._unsupported += float(target.sum(where=~possible))

    def _large_weights(self, least_propensity: float | None) -> LargeWeights | None:
        largest, share = self._large.largest, math.nan
        if not self._complete:
            if least_propensity is None:
                return None
            largest = max(largest, self._largest_probability / least_propensity)
        if largest <= 0.0:
            return None
        rows, squares = self._large.from_weight(largest / 2.0)
        if self._complete:
            share = squares / self._expected_squares
        return LargeWeights(largest, rows, share)

    def support(self, error: float, least_propensity: float | None = None) -> Support:
        """What has come so far.

        Args:
            error: the standard error of the mean weight.
            least_propensity: the least probability that the log gave to any arm, if it is known.
        """
        mean = self._weights / self._rows
        squared, squares = self._weights**2, self._squares
        arms, unsupported = None, max(0.0, 1.0 - mean - CLEARLY * error) if error == error else 0.0
        if self._complete:
            unsupported = self._unsupported / self._rows
            squared, squares = (self._rows * (1.0 - unsupported)) ** 2, self._expected_squares
        if self._logged is not None:
            seen = self._logged > 0
            rewards = np.divide(self._rewards, self._logged, out=np.full(len(seen), np.nan), where=seen)
            arms = ArmSupport(self._logged.copy(), self._wanted.copy(), rewards)
            unsupported = max(unsupported, float(self._wanted[~seen].sum()) / self._rows)
        return Support(
            rows=self._rows,
            effective_sample_size=squared / squares if squares > 0.0 else 0.0,
            expected=bool(self._complete),
            large_weights=self._large_weights(least_propensity),
            largest_weight=self._largest,
            mean_weight=mean,
            mean_weight_error=error,
            unused=self._unused / self._rows,
            unsupported=unsupported,
            least_propensity=self._least,
            weight_counts=self._weight_counts.copy(),
            arms=arms,
        )
