"""The difference between treatment and control: intervals and evidence that hold at all looks.

Unit i is in control with probability h_i, and its value is y_i. The term of `ConfidenceSequence` is

    X_i = (y_i - f_i) / (1 - h_i)  in treatment,    X_i = -(y_i - f_i) / h_i  in control.

Its conditional mean is the expected difference of unit i between the groups, for any f_i that does not depend on the
group of the unit, its value or later units. So the interval holds for any f. The variance of X_i is smallest if f_i
predicts (1 - h_i) times the value in control plus h_i times that in treatment. f is a ridge regression of the values of
earlier blocks on the covariates, in which a unit of treatment has the weight (h / (1 - h))^2. The first block has no
predictions, so it has no terms: without them, it would have the variance of thousands of units of a rare metric.

A unit without a value has no term. If values are missing for reasons that have nothing to do with the group, a unit
without one is in control with probability h_i like any other, which is tested like the sizes of the groups.

The best constant bet is mean / variance of X. The variance is about v / (h (1 - h)), v the variance of the values, so
the bets are multiples of h (1 - h) of the first unit.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from glbandits.common.arrays import Floats
from glbandits.maths.online_statistics.confidence_sequence import BetGrid, ConfidenceSequence

BLOCK = 32
"""The number of units that are added at once. Predictions and looks change after whole blocks only."""
STATE_VERSION, BEFORE_MISSING = 4.0, 3.0
"""The first number of a state, now and before missing values were counted. Increase it with every change of the
constants below or of the order of a state."""
BETS: Floats = np.ldexp(2.0, -np.arange(12))
"""The bets, as multiples of h (1 - h) of the first unit."""
_SHARES = np.exp(-np.square(np.arange(12) - 3.3) / 2.0) + 0.01
LOG_SHARES: Floats = np.log(_SHARES / _SHARES.sum())
LARGEST_LOSS = 0.9
"""With 0.5, the predictions of large bets are clipped so much that metrics of a small variance need more units."""
LARGEST_BET = LARGEST_LOSS / 2.0
"""With a larger bet, a mean of -1 where 1 was expected would lose more than `LARGEST_LOSS`."""
ODDS_RATIOS: Floats = np.array([0.5, 0.67, 0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0])
"""Alternatives to the declared odds of control against treatment, in the test of the sizes of the groups."""
MISSING_ODDS_RATIOS: Floats = np.array([0.05, 0.2, 0.5, 0.67, 0.8, 0.9, 1.1, 1.25, 1.5, 2.0, 5.0, 20.0])
"""The same for units without a number, which may all be in one group."""
PRIOR_UNITS = 10.0
"""The weight of the prior of the regression, in units of control."""
LARGEST_COVARIATE = 1e100
SMALLEST_SPREAD = 1e-9
"""Covariates whose standard deviation is smaller, as a multiple of their mean, count as constant."""


class UnitRows(NamedTuple):
    """Units in the order of their first decisions."""

    treated: npt.NDArray[np.bool_]
    """(n,)"""
    share: Floats
    """The probability of control, (n,)."""
    values: Floats
    """Between 0 and 1; NaN for a unit without a value, (n,)."""
    covariates: Floats
    """Two numbers that do not depend on the group of the unit, (n, 2)."""
    missing: npt.NDArray[np.bool_]
    """Whether no number came for the unit. It may have a value all the same, such as 0, (n,)."""

    def at(self, index: slice | npt.NDArray[np.bool_]) -> "UnitRows":
        """Return some of the units."""
        treated, share, values, covariates, missing = self
        return UnitRows(treated[index], share[index], values[index], covariates[index], missing[index])


class GroupMean(NamedTuple):
    """The mean of the values of a group; NaN without units. `error` is its standard error, NaN for less than two."""

    units: int
    mean: float
    error: float


class GroupDifference:
    """The difference between the means of treatment and control, for values between 0 and 1."""

    def __init__(self) -> None:
        self._first_share, self._expected_control = 0.5, 0.0  # until there is a unit
        self._assigned: Floats = np.zeros((2, 2))  # control, treatment: units, and those for which no number came
        self._log_missing: Floats = np.zeros(len(MISSING_ODDS_RATIOS))
        self._groups: Floats = np.zeros((2, 3))  # control, treatment: values, their sum, the sum of their squares
        self._regression = _Regression()
        self._log_ratios: Floats = np.zeros(len(ODDS_RATIOS))
        self._sequence = ConfidenceSequence(-1.0, bet_grid(self._first_share))

    @classmethod
    def from_state(cls, state: Sequence[float]) -> "GroupDifference":
        """Restore the result of `state`. Raises ValueError if it has another version or length."""
        new = cls()
        if state[:1] == (BEFORE_MISSING,):  # all units had values
            counted = [*(number for units in (state[3], state[6]) for number in (units, 0.0)), *new._log_missing]
            state = (STATE_VERSION, *state[1:3], *counted, *state[3:])
        if len(state) != len(new.state()) or state[0] != STATE_VERSION:
            raise ValueError("this state of a comparison is of another version")
        lengths = [1, 2, 4, len(MISSING_ODDS_RATIOS), 6, REGRESSION_NUMBERS, len(ODDS_RATIOS)]
        parts = np.split(np.array(state, dtype=np.float64), np.cumsum(lengths))
        new._first_share, new._expected_control = state[1:3]
        new._assigned, new._log_missing = parts[2].reshape(2, 2), parts[3]
        new._groups = parts[4].reshape(2, 3)
        new._regression = _Regression(parts[5])
        new._log_ratios = parts[6]
        new._sequence = ConfidenceSequence.from_state(-1.0, parts[7].tolist(), bet_grid(new._first_share))
        return new

    def state(self) -> tuple[float, ...]:
        """The numbers from which `from_state` restores the comparison, always equally many."""
        counts = (self._assigned.ravel(), self._log_missing)
        arrays = (*counts, self._groups.ravel(), self._regression.numbers, self._log_ratios)
        shares = self._first_share, self._expected_control
        return (STATE_VERSION, *shares, *np.concatenate(arrays).tolist(), *self._sequence.state())

    @property
    def units(self) -> int:
        """The number of units in both groups, also of those without a value."""
        return int(self._assigned[:, 0].sum())

    @property
    def assigned(self) -> tuple[int, int]:
        """The numbers of units of treatment and of control, also of those without a value."""
        control, treatment = self._assigned[:, 0].tolist()
        return int(treatment), int(control)

    @property
    def missing_shares(self) -> tuple[float, float]:
        """The shares of units of treatment and of control for which no number came; 0 without units."""
        control, treatment = (missing / max(units, 1.0) for units, missing in self._assigned.tolist())
        return treatment, control

    @property
    def expected_share(self) -> float:
        """The mean probability of control with which the units were assigned; NaN without units."""
        return self._expected_control / self.units if self.units else math.nan

    @property
    def treatment(self) -> GroupMean:
        """The values of treatment."""
        return _group_mean(*self._groups[1].tolist())

    @property
    def control(self) -> GroupMean:
        """The values of control."""
        return _group_mean(*self._groups[0].tolist())

    @property
    def mean(self) -> float:
        """The estimate of the difference, treatment minus control; NaN before the second block.

        It differs from the difference of the two means by the control variate.
        """
        mean = self._sequence.mean
        return mean if math.isnan(mean) else min(max(mean, -1.0), 1.0)

    def interval(self, level: float = 0.9) -> tuple[float, float]:
        """Lower and upper bound of the difference.

        With probability `level`, all intervals cover the mean difference of the units after the first block.
        """
        low, high = sorted(self._sequence.interval(level))
        return low, high

    def log_evidence(self, margin: float, *, higher_is_good: bool) -> float:
        """The logarithm of the evidence against "treatment is worse than control by at most `margin`".

        If treatment is not worse, it stays below log(1 / alpha) at all looks with probability 1 - alpha.
        """
        sequence = self._sequence.below if higher_is_good else self._sequence.above
        return sequence.log_evidence(margin)

    def log_evidence_of_ratio(self) -> float:
        """The logarithm of the evidence against the declared shares of the groups.

        If the shares are right, it stays below log(1 / alpha) at all looks with probability 1 - alpha.
        """
        return float(np.logaddexp.reduce(self._log_ratios)) - math.log(len(ODDS_RATIOS))

    def log_evidence_of_missing(self) -> float:
        """The logarithm of the evidence against "numbers are missing for reasons that do not depend on the group".

        Holds like `log_evidence_of_ratio`.
        """
        return float(np.logaddexp.reduce(self._log_missing)) - math.log(len(MISSING_ODDS_RATIOS))

    def add(self, rows: UnitRows) -> None:
        """Add units. Raises ValueError if their number is not a multiple of `BLOCK`."""
        if len(rows.treated) % BLOCK:
            raise ValueError(f"the number of units must be a multiple of {BLOCK}; got {len(rows.treated)}")
        covariates = np.clip(np.nan_to_num(rows.covariates), -LARGEST_COVARIATE, LARGEST_COVARIATE)
        for start in range(0, len(rows.treated), BLOCK):
            part = slice(start, start + BLOCK)
            block = rows._replace(covariates=covariates).at(part)
            self._count(block)
            given = ~np.isnan(block.values)
            if given.any():
                self._add_values(block.at(given))

    def _count(self, rows: UnitRows) -> None:
        """Count the units of a block, and those for which no number came."""
        self._expected_control += float(rows.share.sum())
        for group, members in enumerate((~rows.treated, rows.treated)):
            self._assigned[group] += (members.sum(), (members & rows.missing).sum())
        self._log_ratios += _log_odds(rows.treated, rows.share, ODDS_RATIOS)
        lost = rows.missing
        self._log_missing += _log_odds(rows.treated[lost], rows.share[lost], MISSING_ODDS_RATIOS)

    def _add_values(self, rows: UnitRows) -> None:
        """Add the units of a block that have a value."""
        treated, share, values, covariates, _ = rows
        units, total, _ = self._groups.sum(axis=0)
        if not units:
            self._first_share = float(share[0])
            self._sequence = ConfidenceSequence(-1.0, bet_grid(self._first_share))
        else:
            predicted = self._regression.predict(covariates, total / units)
            self._sequence.add(
                measure=np.tile([1.0, -1.0], (len(values), 1)),
                reach=np.column_stack((1.0 / (1.0 - share), 1.0 / share)),
                chosen=np.where(treated, 0, 1),
                weights=np.where(treated, 1.0 / (1.0 - share), -1.0 / share),
                rewards=values,
                predicted=np.column_stack((predicted, predicted)),
            )
        for group, members in enumerate((values[~treated], values[treated])):
            self._groups[group] += (len(members), members.sum(), np.square(members).sum())
        self._regression.add(np.where(treated, np.square(share / (1.0 - share)), 1.0), covariates, values)


REGRESSION_NUMBERS = 9


class _Regression:
    """A weighted ridge regression of values on two covariates, of any scale.

    Its numbers are the sum of weights, the weighted means of covariates and value, and the weighted sums of products of
    their deviations from these means.
    """

    def __init__(self, numbers: Floats | None = None) -> None:
        self.numbers: Floats = np.zeros(REGRESSION_NUMBERS) if numbers is None else numbers

    def add(self, weights: Floats, covariates: Floats, values: Floats) -> None:
        """Add a block."""
        columns = np.column_stack((covariates, values))
        total, means = self.numbers[0], self.numbers[1:4]
        block_total = float(weights.sum())
        block_means = (weights[:, None] * columns).sum(axis=0) / block_total
        deviations = columns - block_means
        shift = block_means - means
        for number, (first, second) in enumerate(_PRODUCTS, start=4):
            self.numbers[number] += float((weights * deviations[:, first] * deviations[:, second]).sum())
            self.numbers[number] += shift[first] * shift[second] * (total * block_total / (total + block_total))
        self.numbers[1:4] += shift * (block_total / (total + block_total))
        self.numbers[0] += block_total

    def predict(self, covariates: Floats, mean: float) -> Floats:
        """Predict values between 0 and 1. `mean`, that of all units, is the prior of the intercept."""
        total, means = float(self.numbers[0]), self.numbers[1:4]
        level = (total * means[2] + PRIOR_UNITS * mean) / (total + PRIOR_UNITS)
        spread = np.sqrt(self.numbers[[4, 6]] / max(total, 1.0))
        varies = spread > SMALLEST_SPREAD * np.abs(means[:2])
        scale = np.where(varies, spread, 1.0)
        scaled = np.where(varies, (covariates - means[:2]) / scale, 0.0)
        both = float(varies.all()) * self.numbers[5] / (scale[0] * scale[1])
        with_values = np.where(varies, self.numbers[7:9] / scale, 0.0)
        diagonal = total + PRIOR_UNITS
        slopes = (diagonal * with_values - both * with_values[::-1]) / (diagonal**2 - both**2)
        predicted: Floats = level + scaled[:, 0] * slopes[0] + scaled[:, 1] * slopes[1]
        return np.clip(predicted, 0.0, 1.0)


_PRODUCTS = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2))


def _log_odds(treated: npt.NDArray[np.bool_], share: Floats, ratios: Floats) -> Floats:
    """Return the log likelihood ratios of these groups for other odds of control than the declared ones."""
    declared = 1.0 + share[:, None] * (ratios - 1.0)
    odds: Floats = (np.where(treated[:, None], 0.0, np.log(ratios)) - np.log(declared)).sum(axis=0)
    return odds


def bet_grid(share: float) -> BetGrid:
    """Return the bets of a comparison whose first unit is in control with probability `share`."""
    return BetGrid(np.minimum(BETS * (share * (1.0 - share)), LARGEST_BET), LOG_SHARES, LARGEST_LOSS)


def _group_mean(units: float, total: float, squares: float) -> GroupMean:
    if not units:
        return GroupMean(0, math.nan, math.nan)
    mean = total / units
    variance = max(squares / units - mean * mean, 0.0)
    return GroupMean(int(units), mean, math.sqrt(variance / (units - 1.0)) if units > 1.0 else math.nan)
