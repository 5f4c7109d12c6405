"""Support: the evidence that a log has on a target.

Evaluations print it beside every estimate.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import MAX_ABS, InvalidInput
from glbandits.evaluation.logs.logged_data import LoggedData
from glbandits.maths.online_statistics.mergeable import ANY, LARGEST, SMALLEST, Mergeable, added, known, merged

NO_EVIDENCE = "not enough evidence"
MIN_SAMPLE_SIZE = 100
"""Effective sample size, or number of rows, below which there is a warning."""
MIN_DEVIATION = 0.01
"""Share of decisions without support, or deviation of the mean weight from 1, above which there is a warning."""
LACK_OF_SUPPORT_ERRORS, WRONG_MEAN_ERRORS = 3.0, 4.0
"""Standard errors: by which the mean weight must be below 1 to prove a lack of support, and must deviate to warn."""
MAX_DEVIATION = 0.2
"""Deviation of the mean weight from 1 above which there are no estimates, if random error does not explain it."""
MIN_INTERVAL_SAMPLE_SIZE = 10.0
"""Effective sample size below which there is no fixed-n interval."""
WEIGHT_EDGES = 10.0 ** (np.arange(-24, 33) / 8)
"""Edges of the histogram of weights: 0.001 to 10,000, eight bins per power of ten."""
BINS_PER_DOUBLING = 64
"""Bins of the histogram per doubling of the weight: thresholds are exact within 1.6 %."""
EXPONENTS = 1100
"""Powers of two above and below 1: more than the range of float64."""
MIN_LARGE_WEIGHTS = 10
"""Number of rows below which weights near the largest possible one count as rarely observed."""
MIN_LARGE_SHARE = 0.1
"""Share of the mean squared weight below which rare large weights do not matter."""


@dataclass(frozen=True)
class LargeWeights:
    """Statistics of the weights that are at least half of the largest possible weight."""

    largest: float
    """The largest possible weight: over all rows and arms; or, if the log has only propensities, the target's largest
    probability divided by the least propensity."""
    rows: float
    """Number of rows with at least half of that weight: expected; or observed, if the log has only propensities."""
    share: float
    """Their share of the expected mean squared weight; NaN if the log has only propensities."""

    @property
    def rarely_observed(self) -> bool:
        """Whether estimates depend on weights that are rarely observed."""
        return self.rows < MIN_LARGE_WEIGHTS and not self.share <= MIN_LARGE_SHARE


@dataclass(frozen=True, eq=False)
class ArmSupport:
    """Choices of the log and of the target by arm, for logs with the same arms in every row."""

    logged: Ints
    """Number of rows of the log that chose each arm, (K,)."""
    wanted: Floats
    """Expected number of rows in which the target chooses each arm, (K,)."""
    rewards: Floats
    """Mean reward, or payoff, of each arm in the log, (K,); NaN for arms that were never chosen."""


@dataclass(frozen=True, eq=False)
class Support:
    """Statistics of the weights w = pi / p of a log."""

    rows: int
    effective_sample_size: float
    """Number of decisions of the target itself that would give as much information. If the log has the probabilities
    p(a) of all arms, the expected value, n (1 - u)^2 / mean(sum_a pi(a)^2 / p(a)), with u the unsupported share.
    Otherwise the realised value, (sum w)^2 / sum w^2, which is too large if large weights are possible but were not
    drawn."""
    expected: bool
    """Whether the effective sample size is the expected value."""
    large_weights: LargeWeights | None
    """The largest possible weights and their frequency; None if neither the probabilities of all arms nor a least
    propensity is known."""
    largest_weight: float
    """Largest weight of a row of the log."""
    mean_weight: float
    """Expected to be 1 if the log supports all decisions of the target and its propensities are correct."""
    mean_weight_error: float
    """Standard error of the mean weight."""
    unused: float
    """Share of rows with weight 0: the target never chooses the logged arm there."""
    unsupported: float
    """Lower bound on the share of the target's decisions without support: arms that the log never chose, arms with
    probability 0 in their row, or, if the log has only propensities, the amount by which the mean weight is below 1
    minus three standard errors."""
    least_propensity: float
    weight_counts: Ints
    """Number of rows with a weight in each bin of `WEIGHT_EDGES`, and below and above all edges, (58,). Weights of 0
    are not counted."""
    arms: ArmSupport | None
    estimated: bool = False
    """Whether the propensities were estimated from the log."""

    def no_evidence(self) -> str:
        """Return why no estimate of the target may be shown; "" if they may.

        The mean weight is near 1 if the log supports the decisions of the target and its propensities are correct.
        Estimated propensities fit the log, so that their mean weight has no random error worth mentioning.
        """
        off, error = abs(self.mean_weight - 1.0), self.mean_weight_error
        if self.expected and self.effective_sample_size > 0.0:
            # The realised error is too small if the largest weights were not drawn.
            error = max(error, math.sqrt(max(1.0 / self.effective_sample_size - 1.0 / self.rows, 0.0)))
        if off > MAX_DEVIATION and (self.estimated or off > WRONG_MEAN_ERRORS * error):
            cause = "the log lacks its decisions, or has" if self.mean_weight < 1.0 else "the log has"
            return f"{NO_EVIDENCE}: the mean weight is {self.mean_weight:.2g}, not 1: {cause} wrong propensities"
        if self.estimated and self.effective_sample_size < MIN_INTERVAL_SAMPLE_SIZE:
            return small_sample(self.effective_sample_size, self.rows)
        return ""

    def no_evidence_for(self, value: float, error: float, possible: tuple[float, float]) -> str:
        """Return why this estimate may not be shown: as `no_evidence`, or because it is not in the possible range.

        With logged propensities, an estimate may leave the range by a few of its standard errors, `error`.
        """
        slack = 0.0 if self.estimated or math.isnan(error) else WRONG_MEAN_ERRORS * error
        reason, within = self.no_evidence(), possible[0] - slack <= value <= possible[1] + slack
        if reason or within or math.isnan(value) or possible[0] == possible[1]:
            return reason
        return f"{NO_EVIDENCE}: it would be {value:.3g}, and possible values are {possible[0]:.4g} to {possible[1]:.4g}"

    def warnings(self) -> list[str]:
        """Return the problems, one text each."""
        warnings = []
        if self.rows < MIN_SAMPLE_SIZE:
            warnings.append(f"the log has only {self.rows} rows: intervals are unreliable")
        elif self.effective_sample_size < MIN_SAMPLE_SIZE:
            warnings.append(
                f"the effective sample size is only {self.effective_sample_size:.0f} of {self.rows} rows: intervals "
                "are unreliable, because the target differs too much from the logging policy"
            )
        warnings += self._rare_weight_warnings()
        if self.unsupported > MIN_DEVIATION:
            warnings.append(
                f"{self.unsupported:.1%} of the target's decisions have no support: the log has no evidence on their "
                "rewards"
            )
        if self.has_wrong_mean_weight:
            unsupported = "some decisions of the target have no support"
            why = "the largest weights were not drawn" if self.expected else unsupported
            warnings.append(
                f"the mean weight is {self.mean_weight:.3f}, not {self._expected_mean_weight:.3g}: either {why}, or "
                "the propensities are wrong, or an arm has several names. Then ips is biased, and other estimators may "
                "be"
            )
        return warnings

    @property
    def _expected_mean_weight(self) -> float:
        return 1.0 - self.unsupported if self.expected else 1.0

    @property
    def has_wrong_mean_weight(self) -> bool:
        """Whether the mean weight differs from the expected one by more than random error."""
        off = abs(self.mean_weight - self._expected_mean_weight)
        return off > MIN_DEVIATION and off > WRONG_MEAN_ERRORS * self.mean_weight_error

    def _rare_weight_warnings(self) -> list[str]:
        """Warnings about large weights that are rarely observed."""
        large = self.large_weights
        if large is None or self.rows < MIN_SAMPLE_SIZE or not large.rarely_observed:
            return []
        if self.expected:
            wanted = self.rows * MIN_LARGE_WEIGHTS / large.rows if large.rows > 0.0 else math.inf
            return [
                f"weights of up to {large.largest:.3g} are possible, but only {large.rows:.2g} rows are expected to "
                "have at least half of that: intervals are too short if such rows were not drawn. Use a log of about "
                f"{wanted:.2g} rows, which would have {MIN_LARGE_WEIGHTS} of them, or a target closer to the log"
            ]
        return [
            f"weights of up to {large.largest:.3g} are possible by least_propensity, but only {large.rows:.0f} rows "
            "have at least half of that: intervals may be too short. The probabilities of all arms would show that"
        ]

    def in_words(self) -> str:
        """Return the effective sample size as text, and whether it is expected or realised."""
        kind = "expected" if self.expected else "realised; too large if large weights are rare"
        return f"effective sample size {self.effective_sample_size:,.0f} ({kind})"

    def in_full(self) -> str:
        """Return the effective sample size, the weights, and the shares of rows and decisions without evidence."""
        return (
            f"{self.in_words()}; weights: mean {self.mean_weight:.3f}, largest {self.largest_weight:.3g}; "
            f"{self.unused:.1%} of rows unused; {self.unsupported:.1%} of decisions without support"
        )


class SupportSums(Mergeable):
    """Accumulates the support over blocks."""

    rules: ClassVar = {
        **added("_rows", "_unused", "_weights", "_squares", "_unsupported", "_expected_squares", "_weight_counts"),
        **added("_wanted", "_rewards"),
        "_logged": lambda own, later: None if own is None else own + later,
        "_largest": LARGEST,
        "_largest_probability": LARGEST,
        "_least": SMALLEST,
        "_complete": known,
        "_estimated": ANY,
        "_large": merged,
    }

    def __init__(self, fixed_arms: int | None) -> None:
        self._rows, self._unused, self._largest, self._least = 0, 0, 0.0, 1.0
        self._weights, self._squares = 0.0, 0.0
        self._complete: bool | None = None
        self._estimated = False
        self._large, self._largest_probability = LargeWeightSums(), 0.0
        self._unsupported, self._expected_squares = 0.0, 0.0
        self._weight_counts = np.zeros(len(WEIGHT_EDGES) + 1, dtype=np.int64)
        self._logged = None if fixed_arms is None else np.zeros(fixed_arms, dtype=np.int64)
        self._wanted, self._rewards = np.zeros(fixed_arms or 0), np.zeros(fixed_arms or 0)

    def add(self, block: LoggedData, probabilities: Floats, weights: Floats) -> None:
        """Add the next rows, with the target's probabilities (m, max_arms) and the weights (m,)."""
        assert block.propensities is not None
        complete = block.probabilities is not None
        if self._complete not in (None, complete):
            raise InvalidInput("all rows of a log must have the probabilities of all arms, or none; got both")
        self._complete, self._estimated = complete, block.estimated
        positive = weights[weights > 0.0]
        self._add_large(block.probabilities, probabilities, positive)
        self._rows += len(block)
        self._unused += len(block) - len(positive)
        self._largest = max(self._largest, float(weights.max()))
        self._least = min(self._least, float(block.propensities.min()))
        self._weights += float(weights.sum())
        self._squares += float(np.einsum("r,r->", weights, weights))
        indices = np.searchsorted(WEIGHT_EDGES, positive, side="right")
        self._weight_counts += np.bincount(indices, minlength=len(self._weight_counts))
        if self._logged is not None:
            self._logged += np.bincount(block.chosen, minlength=len(self._logged))
            self._wanted += probabilities.sum(axis=0)
            self._rewards += np.bincount(block.chosen, weights=block.payoffs, minlength=len(self._logged))

    def _add_large(self, logged: Floats | None, target: Floats, positive: Floats) -> None:
        """Add the weights of all arms, or those of the chosen arms above 0 if the log has only propensities."""
        self._largest_probability = max(self._largest_probability, float(target.max()))
        if logged is None:
            self._large.add(positive, np.ones(len(positive)))
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

    def support(self, error: float | None = None, least_propensity: float | None = None) -> Support:
        """Return the support of all rows so far.

        Args:
            error: standard error of the mean weight; None computes that of independent rows.
            least_propensity: lower bound on the probabilities of the logging policy, if known.
        """
        mean = self._weights / self._rows
        if error is None:
            error = math.sqrt(max(self._squares / self._rows - mean * mean, 0.0) / self._rows)
        squared_sum, sum_of_squares = self._weights**2, self._squares
        arms, unsupported = None, 0.0
        if not math.isnan(error):
            unsupported = max(0.0, 1.0 - mean - LACK_OF_SUPPORT_ERRORS * error)
        if self._complete:
            unsupported = self._unsupported / self._rows
            squared_sum, sum_of_squares = (self._rows * (1.0 - unsupported)) ** 2, self._expected_squares
        if self._logged is not None:
            seen = self._logged > 0
            rewards = np.divide(self._rewards, self._logged, out=np.full(len(seen), np.nan), where=seen)
            arms = ArmSupport(self._logged.copy(), self._wanted.copy(), rewards)
            unsupported = max(unsupported, float(self._wanted[~seen].sum()) / self._rows)
        return Support(
            rows=self._rows,
            effective_sample_size=squared_sum / sum_of_squares if sum_of_squares > 0.0 else 0.0,
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
            estimated=self._estimated,
        )


def small_sample(sample_size: float, rows: int) -> str:
    """Return that the effective sample size is too small, and how many rows would be enough."""
    enough = (
        f"; about {rows * MIN_INTERVAL_SAMPLE_SIZE / sample_size:.2g} rows like these would be enough"
        if sample_size
        else ""
    )
    return f"{NO_EVIDENCE}: the effective sample size is {sample_size:.2g} of {rows} rows{enough}"


class LargeWeightSums(Mergeable):
    """Histogram of rows and squared weights by weight, accumulated over blocks."""

    rules: ClassVar = added("_sums") | {"largest": LARGEST}

    def __init__(self) -> None:
        self.largest = 0.0
        self._sums = np.zeros((2, 2 * EXPONENTS * BINS_PER_DOUBLING))

    def __getstate__(self) -> Any:
        used = np.flatnonzero(self._sums.any(axis=0))
        return self.largest, used, self._sums[:, used]

    def __setstate__(self, state: Any) -> None:
        LargeWeightSums.__init__(self)
        self.largest, used, values = state
        self._sums[:, used] = values

    def add(self, weights: Floats, rows: Floats) -> None:
        """Add positive weights, and the expected number of rows of each; arrays of any shape."""
        self.largest = max(self.largest, float(weights.max(initial=0.0)))
        near = weights >= self.largest / 2.0
        weights, rows = weights[near], rows[near]
        if not len(weights):
            return
        bins = _bins(weights)
        lowest = int(bins.min())
        for sums, terms in zip(self._sums, (rows, rows * weights**2), strict=True):
            counts = np.bincount(bins - lowest, weights=terms)
            sums[lowest : lowest + len(counts)] += counts

    def from_weight(self, weight: float) -> tuple[float, float]:
        """Return the number of rows of at least this weight, and the sum of w^2 over them.

        Both are exact only if `weight` is at least half of the largest weight.
        """
        rows, squares = self._sums[:, int(_bins(np.array([weight]))[0]) :].sum(axis=1).tolist()
        return rows, squares


def _bins(weights: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bin of each weight. Half of a weight is exactly `BINS_PER_DOUBLING` bins below it."""
    mantissa, exponent = np.frexp(weights)
    bins: np.ndarray[tuple[int], np.dtype[np.int64]] = (exponent.astype(np.int64) + EXPONENTS) * BINS_PER_DOUBLING
    bins += (2 * BINS_PER_DOUBLING * mantissa).astype(np.int64) - BINS_PER_DOUBLING
    return bins
