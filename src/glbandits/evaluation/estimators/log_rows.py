"""LogRows: what a block of a log and the reward models say, computed once for all targets."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.estimators.grouped_moments import GROUPS, ClusterNumbers, MomentSums
from glbandits.evaluation.logs.checks.log_doubts import LogDoubtSums
from glbandits.evaluation.logs.log_slice import fold_of
from glbandits.evaluation.logs.logged_data import LoggedData
from glbandits.evaluation.logs.schema import LogSchema
from glbandits.evaluation.models.reward_models import CrossFitted, RewardModel
from glbandits.maths.online_statistics.mergeable import ALL, LARGEST, SMALLEST, Mergeable, merged
from glbandits.maths.online_statistics.running_sums import RunningSums

RUNNING_POINTS = 500
"""Number of points of running estimates."""
UNIFORM_TOLERANCE = 1e-6
"""Maximum deviation of p K from 1 in a log that chose uniformly."""


@dataclass(frozen=True, eq=False)
class LogRows:
    """Rows of a log with the predictions of the reward models."""

    block: LoggedData
    reward_range: tuple[float, float]
    """Lowest and highest possible reward, which may be infinite."""
    predicted: Floats | None
    """Expected payoffs by a model that has not learned the row, (rows, max_arms), 0 beyond the arms of the row."""
    sequential: Floats | None
    """Expected payoffs by a model that has learned only earlier rows, (rows, max_arms); None if not needed."""
    first_row: int = 0
    """Index of the first row in the log."""
    clusters: Ints | None = None
    """Cluster number of each row; None if rows are independent."""
    payoff_range: tuple[float, float] | None = None
    """Lowest and highest possible payoff; None if payoffs are the rewards."""

    def __len__(self) -> int:
        return len(self.block)

    def of_chosen(self, values: Floats) -> Floats:
        """Return the entries of the chosen arms, (rows,), from an array (rows, max_arms)."""
        return values.reshape(-1)[self._chosen]

    @cached_property
    def _chosen(self) -> Ints:
        """The index of the chosen arm of each row in an array (rows, max_arms) that is flattened."""
        return np.arange(len(self)) * self.block.arms.max_arms + self.block.chosen

    @property
    def propensities(self) -> Floats:
        """The probability of the chosen arm, (rows,)."""
        assert self.block.propensities is not None
        return self.block.propensities

    @cached_property
    def _groups(self) -> Ints:
        """The group of the cluster of each row for `MomentSums`, (rows,)."""
        assert self.clusters is not None
        groups: Ints = self.clusters % GROUPS
        return groups

    def add_to(self, sums: MomentSums, *terms: Floats) -> None:
        """Add terms, (rows,) each, to sums over groups."""
        if self.clusters is None:
            sums.add_rows(terms, self.first_row)
        else:
            sums.add(terms, self._groups, clustered=True)

    @cached_property
    def arm_mask(self) -> Bools:
        """Mask of the arms that each row has, (rows, max_arms)."""
        return self.block.arm_mask

    @cached_property
    def of_reward_model(self) -> "RewardRows":
        """The payoffs beside the predictions of the cross-fitted model."""
        assert self.predicted is not None
        lowest, highest = self.reward_range
        expected, scale = self.block.expected_payoffs, 1.0 if self.block.values is None else self.block.values
        variances = np.ones_like(self.predicted)
        variances *= self.predicted - expected(lowest) if math.isfinite(lowest) else scale
        variances *= expected(highest) - self.predicted if math.isfinite(highest) else scale
        variances = np.maximum(variances, 0.0)
        residuals = self.block.payoffs - self.of_chosen(self.predicted)
        return RewardRows(self.predicted, residuals, residuals * residuals, variances, self.of_chosen(variances))

    @cached_property
    def payoffs_of_rewards(self) -> tuple[Floats, ...]:
        """Payoffs minus those of the lowest reward, 0 if it has no bound; with bounds also minus those of the highest.

        Each (rows,).
        """
        lowest, highest = self.reward_range
        bounds = (lowest, highest) if math.isfinite(highest - lowest) else (lowest if math.isfinite(lowest) else 0.0,)
        expected, chosen = self.block.expected_payoffs, np.zeros_like(self.block.arm_mask, dtype=np.float64)
        return tuple(self.block.payoffs - self.of_chosen(expected(chosen + bound)) for bound in bounds)

    @cached_property
    def positive_probabilities(self) -> Floats | None:
        """The log's probabilities of all arms, with inf in place of 0: a quotient by it is then 0. None if unknown."""
        logged = self.block.probabilities
        return None if logged is None else np.where(logged > 0.0, logged, np.inf)

    @cached_property
    def scaled(self) -> "ScaledRows":
        """Payoffs and sequential predictions on the scale from 0, the lowest possible payoff, to 1, the highest."""
        assert self.sequential is not None
        lowest, highest = self.payoff_range or self.reward_range
        scale = highest - lowest
        predicted = np.clip((self.sequential - lowest) / scale, 0.0, 1.0)
        predicted[~self.arm_mask] = 0.0
        return ScaledRows((self.block.payoffs - lowest) / scale, predicted)


class ScaledRows(NamedTuple):
    """Payoffs, (rows,), and predicted payoffs, (rows, max_arms), between 0 and 1."""

    rewards: Floats
    predicted: Floats


@dataclass(frozen=True, eq=False)
class RewardRows:
    """Payoffs beside the predictions of a model that has not learned the rows."""

    predicted: Floats
    """q(a), (rows, max_arms)."""
    residuals: Floats
    """r - q of the chosen arms, (rows,)."""
    squared_residuals: Floats
    variances: Floats
    """Variances of payoffs by the model, up to a factor, (rows, max_arms).

    For bounded rewards they are largest in the middle of the range."""
    chosen_variances: Floats
    """Those of the chosen arms, (rows,)."""

    @cached_property
    def sums(self) -> tuple[float, float]:
        """The sums of squared residuals and of the variances of the chosen arms."""
        return float(self.squared_residuals.sum()), float(self.chosen_variances.sum())


class LogSums(Mergeable):
    """What an evaluation keeps of the rows of a log, apart from targets."""

    rules: ClassVar = {
        "payoffs": merged,
        "doubts": merged,
        "running": merged,
        "least": SMALLEST,
        "largest": LARGEST,
        "chose_uniformly": ALL,
    }

    def __init__(self, payoff_range: tuple[float, float], schema: LogSchema, first_row: int) -> None:
        self.doubts, self.running = LogDoubtSums(schema, first_row), RunningSums(1, RUNNING_POINTS, first_row)
        self.payoff_range = payoff_range
        """Lowest and highest possible payoff."""
        self.payoffs = MomentSums(1)
        """Moments of the payoffs of the log."""
        self.least, self.largest = math.inf, -math.inf
        self.chose_uniformly = True
        """Whether the log chose all arms of each row with the same probability."""

    @property
    def possible_values(self) -> tuple[float, float]:
        """Lowest and highest possible payoff; where there is no bound, those of the rows so far."""
        low, high = self.payoff_range
        return low if math.isfinite(low) else self.least, high if math.isfinite(high) else self.largest

    def add(self, rows: LogRows) -> None:
        """Add the next rows."""
        block, payoffs = rows.block, rows.block.payoffs
        self.least, self.largest = min(self.least, float(payoffs.min())), max(self.largest, float(payoffs.max()))
        rows.add_to(self.payoffs, payoffs)
        self.doubts.add(block, payoffs)
        self.running.add(payoffs[np.newaxis])
        deviations = np.abs(rows.propensities * block.arms.counts - 1.0)
        self.chose_uniformly &= bool((deviations <= UNIFORM_TOLERANCE).all())


class SequentialModel(Protocol):
    """Predicts rewards of the next rows from earlier rows only."""

    def predict_next(self, block: LoggedData) -> Floats:
        """Return the expected reward of each arm of the next rows, (rows, max_arms)."""


class RowReader:
    """Checks the blocks of a log and predicts their payoffs, which are the rewards if the log has no values.

    Args:
        reward_range: lowest and highest possible reward, which may be infinite.
        fitted: the cross-fitted reward model; None if no estimator needs it.
        sequential: the model of anytime-valid intervals; None if there are none.
        first_row: index of the first row that is read.
        payoff_range: lowest and highest possible payoff; by default `reward_range`.
        numbers: of the clusters of the log; None if rows are independent.
    """

    def __init__(
        self,
        reward_range: tuple[float, float],
        fitted: tuple[RewardModel, CrossFitted] | None,
        sequential: SequentialModel | None,
        first_row: int = 0,
        payoff_range: tuple[float, float] | None = None,
        numbers: ClusterNumbers | None = None,
    ) -> None:
        self._reward_range, self._fitted, self._sequential = reward_range, fitted, sequential
        self._payoff_range, self._next_row, self._numbers = payoff_range or reward_range, first_row, numbers

    def read(self, block: LoggedData) -> LogRows:
        """Return the next rows. Raises InvalidInput if they have no propensities, or rewards outside of the range."""
        if block.propensities is None:
            raise InvalidInput("all rows of a log must have propensities, or none; got both")
        first_row = self._next_row
        lowest, highest = self._reward_range
        outside = (block.rewards < lowest) | (block.rewards > highest)
        if outside.any():
            row = int(np.argmax(outside))
            raise InvalidInput(
                f"rewards must be within reward_range, {self._reward_range}; got {block.rewards[row]} in row "
                f"{first_row + row}. Set a wider reward_range",
                field="reward_range",
            )
        clusters, fold_keys = row_units(block, self._numbers, first_row)
        self._next_row += len(block)
        predicted = None
        if self._fitted is not None:
            model, fitted = self._fitted
            expected = np.clip(fitted.predict(block, fold_of(fold_keys, model.folds)), lowest, highest)
            predicted = np.where(block.arm_mask, block.expected_payoffs(expected), 0.0)
        sequential = None
        if self._sequential is not None:
            sequential = block.expected_payoffs(np.clip(self._sequential.predict_next(block), lowest, highest))
        return LogRows(block, self._reward_range, predicted, sequential, first_row, clusters, self._payoff_range)


def row_units(block: LoggedData, numbers: ClusterNumbers | None, first_row: int) -> tuple[Ints | None, Ints]:
    """Return the cluster number of each row (None without clusters), and the number that determines its fold."""
    if block.clusters is None or numbers is None:
        return None, np.arange(first_row, first_row + len(block))
    clusters = numbers.find(block.clusters)
    return clusters, clusters
