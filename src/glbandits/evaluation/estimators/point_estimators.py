"""The off-policy estimators of the value of a target: ips, snips, dr and others.

Notation: r is the reward, p the propensity, pi the target's probability of the chosen arm, w = pi / p the weight, q the
expected reward of an arm by the reward model, and v the sum of pi(a) q(a) over the arms of the row.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from glbandits.common.arrays import Floats, set_validated
from glbandits.common.errors import check_float
from glbandits.evaluation.estimators.estimator import (
    Estimator,
    EstimatorDefaults,
    EstimatorInputs,
    MeanEstimator,
    RatioEstimator,
    ratio,
)
from glbandits.evaluation.estimators.grouped_moments import Moments

GRID = (*(float(10.0 ** (power / 4)) for power in range(-4, 17)), math.inf)
"""Thresholds of `switch-dr` to select from, and square roots of the strengths of `dros`: 0.1 to 10,000 and infinity."""


@dataclass(frozen=True)
class Matched(RatioEstimator):
    """The mean reward of rows where an arm drawn from the target is the chosen one.

    The replay of Li et al. (2011). The logging policy must have given all arms of a row the same probability.
    """

    name: ClassVar[str] = "matched"

    def terms(self, rows: EstimatorInputs) -> Floats:
        return np.stack([rows.matched * rows.rewards, rows.matched.astype(np.float64)]).T


@dataclass(frozen=True)
class Ips(MeanEstimator):
    """Inverse propensity scoring: the mean of w r.

    It is unbiased. Its variance grows with the weights.
    """

    name: ClassVar[str] = "ips"

    def terms(self, rows: EstimatorInputs) -> Floats:
        return (rows.weights * rows.rewards)[:, np.newaxis]


@dataclass(frozen=True)
class ClippedIps(MeanEstimator):
    """The mean of min(w, limit) r: less variance, but biased downwards for positive rewards.

    Args:
        limit: the largest weight.
    """

    name: ClassVar[str] = "clipped-ips"
    biased: ClassVar[bool] = True

    limit: float = 10.0

    def __post_init__(self) -> None:
        set_validated(self, limit=check_float("limit", self.limit, above=0))

    def terms(self, rows: EstimatorInputs) -> Floats:
        return (np.minimum(rows.weights, self.limit) * rows.rewards)[:, np.newaxis]


@dataclass(frozen=True)
class Snips(RatioEstimator):
    """Self-normalised IPS: the sum of w r over the sum of w. A small bias, much less variance."""

    name: ClassVar[str] = "snips"

    def terms(self, rows: EstimatorInputs) -> Floats:
        return np.stack([rows.weights * rows.rewards, rows.weights]).T


@dataclass(frozen=True)
class DirectMethod(MeanEstimator):
    """The direct method: the mean of v.

    It has little variance, but the full bias of the reward model. It has no interval, because the variance of
    predictions does not measure the error of the model.
    """

    name: ClassVar[str] = "dm"
    needs_model: ClassVar[bool] = True
    biased: ClassVar[bool] = True
    has_standard_error: ClassVar[bool] = False

    def terms(self, rows: EstimatorInputs) -> Floats:
        return rows.expected[:, np.newaxis]


@dataclass(frozen=True)
class DoublyRobust(MeanEstimator):
    """The mean of v + w (r - q): the model, corrected by observed rewards.

    It is unbiased if propensities are correct.
    """

    name: ClassVar[str] = "dr"
    needs_model: ClassVar[bool] = True

    def terms(self, rows: EstimatorInputs) -> Floats:
        return (rows.expected + rows.weights * (rows.rewards - rows.predicted))[:, np.newaxis]


@dataclass(frozen=True)
class SelfNormalisedDr(EstimatorDefaults):
    """Self-normalised DR: the mean of v, plus the sum of w (r - q) over the sum of w."""

    name: ClassVar[str] = "sndr"
    needs_model: ClassVar[bool] = True

    def terms(self, rows: EstimatorInputs) -> Floats:
        return np.stack([rows.expected, rows.weights * (rows.rewards - rows.predicted), rows.weights]).T

    def combine(self, means: Floats) -> Floats:
        return means[..., 0] + ratio(means[..., 1], means[..., 2])

    def gradient(self, mean: Floats) -> Floats:
        return np.array([1.0, ratio(np.ones(()), mean[2]), -ratio(mean[1], mean[2] ** 2)])


class ShrinkageEstimator(MeanEstimator, ABC):
    """Doubly robust with reduced weights. The setting is given, or selected from a grid.

    For each setting, a row has two terms: the reduced doubly robust term, and the omitted part of w (r - q). The
    selected setting has the smallest sum of both variances and the square of the mean omitted part. The omitted part
    thus counts fully as bias, so that weights are reduced only where that clearly helps.
    """

    needs_model: ClassVar[bool] = True
    biased: ClassVar[bool] = True

    @abstractmethod
    def settings(self) -> Floats:
        """Return the settings to try."""

    @abstractmethod
    def reduce(self, weights: Floats, setting: float) -> Floats:
        """Return the reduced weights."""

    def terms(self, rows: EstimatorInputs) -> Floats:
        residuals = rows.rewards - rows.predicted
        reduced = [self.reduce(rows.weights, setting) for setting in self.settings()]
        terms = [rows.expected + weights * residuals for weights in reduced]
        omitted = [(rows.weights - weights) * residuals for weights in reduced]
        return np.stack(terms + omitted, axis=1)

    def select_terms(self, moments: Moments) -> slice:
        """Select the term of the setting with the smallest estimated error."""
        count = len(self.settings())
        variances = np.diagonal(moments.covariance) / moments.rows
        best = int(np.argmin(variances[:count] + variances[count:] + moments.mean[count:] ** 2))
        return slice(best, best + 1)


@dataclass(frozen=True)
class SwitchDr(ShrinkageEstimator):
    """Doubly robust if w is at most a threshold, else the model alone (Wang et al. 2017).

    Args:
        threshold: None selects the value with the smallest estimated error, of 0.1 to 10,000 and infinity.
    """

    name: ClassVar[str] = "switch-dr"

    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None:
            set_validated(self, threshold=check_float("threshold", self.threshold, at_least=0))

    def settings(self) -> Floats:
        return np.array(GRID if self.threshold is None else [self.threshold])

    def reduce(self, weights: Floats, setting: float) -> Floats:
        reduced: Floats = np.where(weights <= setting, weights, 0.0)
        return reduced


@dataclass(frozen=True)
class DrOptimisticShrinkage(ShrinkageEstimator):
    """Doubly robust with w replaced by the smaller s w / (w^2 + s) (Su et al. 2020).

    Args:
        strength: s, the square of the weight that is halved. None selects the value with the smallest estimated error,
            of the squares of 0.1 to 10,000 and infinity.
    """

    name: ClassVar[str] = "dros"

    strength: float | None = None

    def __post_init__(self) -> None:
        if self.strength is not None:
            set_validated(self, strength=check_float("strength", self.strength, at_least=0))

    def settings(self) -> Floats:
        return np.square(GRID) if self.strength is None else np.array([self.strength])

    def reduce(self, weights: Floats, setting: float) -> Floats:
        if setting == math.inf:
            return weights
        denominator = weights * weights + setting
        reduced: Floats = np.divide(setting * weights, denominator, out=np.zeros_like(weights), where=denominator > 0.0)
        return reduced


ESTIMATORS: Mapping[str, type[Estimator]] = MappingProxyType(
    {
        estimator.name: estimator
        for estimator in (
            Matched,
            Ips,
            ClippedIps,
            Snips,
            DirectMethod,
            DoublyRobust,
            SelfNormalisedDr,
            SwitchDr,
            DrOptimisticShrinkage,
        )
    }
)
"""The estimators by their names."""
