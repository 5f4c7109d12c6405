"""Off-policy estimators: what the target would have earned, from rows that another policy decided.

Letters: r the reward, p the propensity, pi the target's probability of the chosen arm, w = pi / p, q the reward that a
model expects of an arm, v the sum of pi(a) q(a) over the arms of the row, w_e the ratio of the two policies'
probabilities of the embedding of the chosen arm.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from glbandits.errors import check_float
from glbandits.evaluation.estimators.estimator import Estimator, Mean, Ratio, Rows, Usual, ratio
from glbandits.evaluation.estimators.grouped_moments import Moments
from glbandits.records import Floats, set_validated

GRID = (*(float(10.0 ** (power / 4)) for power in range(-4, 17)), math.inf)
"""Weights from which on less is believed, tried when none is given: 0.1 to 10,000, and none at all."""


@dataclass(frozen=True)
class Replay(Ratio):
    """The mean reward of rows where an arm drawn from the target is the chosen one (Li et al. 2011).

    It needs a log whose policy gave all arms of a row the same probability.
    """

    name: ClassVar[str] = "replay"

    def terms(self, rows: Rows) -> Floats:  # noqa: D102
        return np.stack([rows.matched * rows.rewards, rows.matched.astype(np.float64)], axis=1)


@dataclass(frozen=True)
class Ips(Mean):
    """Inverse propensity scoring: the mean of w r. No bias, and a variance that grows with the weights."""

    name: ClassVar[str] = "ips"

    def terms(self, rows: Rows) -> Floats:  # noqa: D102
        return (rows.weights * rows.rewards)[:, np.newaxis]


@dataclass(frozen=True)
class ClippedIps(Mean):
    """The mean of min(w, limit) r: less variance, and too low where weights are clipped and rewards positive.

    Args:
        limit: the largest weight that counts.
    """

    name: ClassVar[str] = "clipped-ips"
    biased: ClassVar[bool] = True

    limit: float = 10.0

    def __post_init__(self) -> None:
        set_validated(self, limit=check_float("limit", self.limit, above=0))

    def terms(self, rows: Rows) -> Floats:  # noqa: D102
        return (np.minimum(rows.weights, self.limit) * rows.rewards)[:, np.newaxis]


@dataclass(frozen=True)
class Snips(Ratio):
    """Self-normalised IPS: the sum of w r over the sum of w. A little bias, much less variance."""

    name: ClassVar[str] = "snips"

    def terms(self, rows: Rows) -> Floats:  # noqa: D102
        return np.stack([rows.weights * rows.rewards, rows.weights], axis=1)


@dataclass(frozen=True)
class DirectMethod(Mean):
    """The mean of v: what the reward model says. Little variance, and all the bias of the model.

    It has no interval: how far the model is off, the spread of its answers does not tell.
    """

    name: ClassVar[str] = "dm"
    needs_model: ClassVar[bool] = True
    biased: ClassVar[bool] = True
    spread_known: ClassVar[bool] = False

    def terms(self, rows: Rows) -> Floats:  # noqa: D102
        return rows.expected[:, np.newaxis]


@dataclass(frozen=True)
class DoublyRobust(Mean):
    """The mean of v + w (r - q): the model, put right by what was seen. No bias if propensities are right."""

    name: ClassVar[str] = "dr"
    needs_model: ClassVar[bool] = True

    def terms(self, rows: Rows) -> Floats:  # noqa: D102
        return (rows.expected + rows.weights * (rows.rewards - rows.predicted))[:, np.newaxis]


@dataclass(frozen=True)
class SelfNormalisedDr(Usual):
    """The mean of v, and the sum of w (r - q) over the sum of w."""

    name: ClassVar[str] = "sndr"
    needs_model: ClassVar[bool] = True

    def terms(self, rows: Rows) -> Floats:  # noqa: D102
        return np.stack([rows.expected, rows.weights * (rows.rewards - rows.predicted), rows.weights], axis=1)

    def combine(self, means: Floats) -> Floats:  # noqa: D102
        return means[..., 0] + ratio(means[..., 1], means[..., 2])

    def gradient(self, mean: Floats) -> Floats:  # noqa: D102
        return np.array([1.0, ratio(np.ones(()), mean[2]), -ratio(mean[1], mean[2] ** 2)])


class Shrunk(Mean, ABC):
    """Doubly robust with weights that are made smaller, by a setting that is given or found.

    For every setting tried, a row has two numbers: the term, and how much of w (r - q) it leaves out. The setting is
    taken that has the least sum of the variances of both means and the square of the second: what is left out counts as
    a bias as large as it may well be, so that a weight is made smaller only where that plainly helps.
    """

    needs_model: ClassVar[bool] = True
    biased: ClassVar[bool] = True

    @abstractmethod
    def settings(self) -> Floats:
        """The settings that are tried."""

    @abstractmethod
    def shrunk(self, weights: Floats, setting: float) -> Floats:
        """What is left of the weights."""

    def terms(self, rows: Rows) -> Floats:  # noqa: D102
        surprise = rows.rewards - rows.predicted
        kept = [self.shrunk(rows.weights, setting) for setting in self.settings()]
        terms = [rows.expected + weights * surprise for weights in kept]
        left_out = [(rows.weights - weights) * surprise for weights in kept]
        return np.stack(terms + left_out, axis=1)

    def used(self, moments: Moments) -> slice:
        """That of the setting with the least estimated error."""
        count = len(self.settings())
        variances = np.diagonal(moments.covariance) / moments.rows
        best = int(np.argmin(variances[:count] + variances[count:] + moments.mean[count:] ** 2))
        return slice(best, best + 1)


@dataclass(frozen=True)
class SwitchDr(Shrunk):
    """Doubly robust where w is at most a threshold, the model alone where it is larger (Wang et al. 2017).

    Args:
        threshold: None takes, of 0.1 to 10,000 and none at all, the one with the least estimated error.
    """

    name: ClassVar[str] = "switch-dr"

    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None:
            set_validated(self, threshold=check_float("threshold", self.threshold, at_least=0))

    def settings(self) -> Floats:  # noqa: D102
        return np.array(GRID if self.threshold is None else [self.threshold])

    def shrunk(self, weights: Floats, setting: float) -> Floats:  # noqa: D102
        kept: Floats = np.where(weights <= setting, weights, 0.0)
        return kept


@dataclass(frozen=True)
class DrOptimisticShrinkage(Shrunk):
    """Doubly robust with w replaced by s w / (w^2 + s) (Su et al. 2020): all of a small weight, little of a large one.

    Args:
        strength: s, the square of a weight that is halved; None takes, of the squares of 0.1 to 10,000 and none at all,
            the one with the least estimated error.
    """

    name: ClassVar[str] = "dros"

    strength: float | None = None

    def __post_init__(self) -> None:
        if self.strength is not None:
            set_validated(self, strength=check_float("strength", self.strength, at_least=0))

    def settings(self) -> Floats:  # noqa: D102
        return np.square(GRID) if self.strength is None else np.array([self.strength])

    def shrunk(self, weights: Floats, setting: float) -> Floats:  # noqa: D102
        if setting == math.inf:
            return weights
        below = weights * weights + setting
        kept: Floats = np.divide(setting * weights, below, out=np.zeros_like(weights), where=below > 0.0)
        return kept


@dataclass(frozen=True)
class Mips(Mean):
    """Marginalised IPS (Saito and Joachims 2022): the mean of w_e r, for many arms with categories (`embeddings`).

    It has no bias if the reward of an arm depends on its embedding alone, and else a bias that no interval shows.
    """

    name: ClassVar[str] = "mips"
    needs_embeddings: ClassVar[bool] = True
    biased: ClassVar[bool] = True

    def terms(self, rows: Rows) -> Floats:  # noqa: D102
        return (rows.marginal * rows.rewards)[:, np.newaxis]


@dataclass(frozen=True)
class OffCem(Mean):
    """The doubly robust form of `mips` (OffCEM; Saito, Ren and Joachims 2023): the mean of v + w_e (r - q).

    It has no bias if the model is right about the differences between arms of the same embedding.
    """

    name: ClassVar[str] = "offcem"
    needs_model: ClassVar[bool] = True
    needs_embeddings: ClassVar[bool] = True
    biased: ClassVar[bool] = True

    def terms(self, rows: Rows) -> Floats:  # noqa: D102
        return (rows.expected + rows.marginal * (rows.rewards - rows.predicted))[:, np.newaxis]


ESTIMATORS: Mapping[str, type[Estimator]] = MappingProxyType(
    {
        estimator.name: estimator
        for estimator in (
            Replay,
            Ips,
            ClippedIps,
            Snips,
            DirectMethod,
            DoublyRobust,
            SelfNormalisedDr,
            SwitchDr,
            DrOptimisticShrinkage,
            Mips,
            OffCem,
        )
    }
)
"""Every estimator by its name."""
