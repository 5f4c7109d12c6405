"""What an off-policy estimator is: the numbers of a row that it needs, and a function of their means.

A mean for IPS, a ratio of two means for the self-normalised estimators. That is all that intervals need (`moments`),
and a log of any length is read once, a block at a time.
"""

from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from glbandits.evaluation.estimators.grouped_moments import Moments
from glbandits.records import Floats


class Rows(NamedTuple):
    """What estimators see of a block of rows, each (m,)."""

    weights: Floats
    """w = pi / p of the chosen arm."""
    rewards: Floats
    matched: NDArray[np.bool_]
    """Whether an arm drawn from the target is the chosen one."""
    expected: Floats
    """v: what the reward model expects of the target; 0 without a model."""
    predicted: Floats
    """q of the chosen arm; 0 without a model."""
    marginal: Floats
    """w_e, by which `mips` replaces w; 0 without embeddings."""


@runtime_checkable
class Estimator(Protocol):
    """One way to estimate a value."""

    name: ClassVar[str]
    needs_model: ClassVar[bool]
    needs_embeddings: ClassVar[bool]
    biased: ClassVar[bool]
    """Whether it is off even with right propensities and any number of rows, which no interval shows."""
    spread_known: ClassVar[bool]
    """Whether the spread over rows tells how far it may be off: not if it is all a model's word."""

    def terms(self, rows: Rows) -> Floats:
        """The numbers of each row, (m, k)."""

    def used(self, moments: Moments) -> slice:
        """Which of these numbers the estimate is made of."""

    def combine(self, means: Floats) -> Floats:
        """The estimate, from the means of those."""

    def gradient(self, mean: Floats) -> Floats:
        """How the estimate changes with each of the means."""


class Usual:
    """What holds for an estimator unless it says otherwise."""

    needs_model: ClassVar[bool] = False
    needs_embeddings: ClassVar[bool] = False
    biased: ClassVar[bool] = False
    spread_known: ClassVar[bool] = True

    def used(self, moments: Moments) -> slice:  # noqa: ARG002
        """All of them."""
        return slice(None)


class Mean(Usual):
    """An estimate that is the mean of one number a row."""

    def combine(self, means: Floats) -> Floats:
        """The mean."""
        return means[..., 0]

    def gradient(self, mean: Floats) -> Floats:  # noqa: ARG002
        """One."""
        return np.ones(1)


class Ratio(Usual):
    """An estimate that is the ratio of two means."""

    def combine(self, means: Floats) -> Floats:
        """The ratio; NaN if nothing can be said."""
        return ratio(means[..., 0], means[..., 1])

    def gradient(self, mean: Floats) -> Floats:
        """1/b and -a/b^2 for a/b."""
        return np.array([ratio(np.ones(()), mean[1]), -ratio(mean[0], mean[1] ** 2)])


def ratio(top: Floats, bottom: Floats) -> Floats:
    """Divide; NaN where bottom is not above 0."""
    quotient: Floats = np.divide(top, bottom, out=np.full(np.shape(bottom), np.nan), where=np.asarray(bottom) > 0.0)
    return quotient
