"""What a policy tells about its model: the coefficients with which it scores arms, and the outliers that it limited."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput
from glbandits.maths.sparse_rows import SparseRows


@dataclass(frozen=True, eq=False)
class Coefficients:
    """A point estimate of theta. The score of an arm with features x is x'theta + intercept.

    The link turns a score into an expected reward. Bonuses and posterior draws are not included, except that
    `pg-ts`, `lmc-ts` and `glm-fpl` have no other theta than their last draw.

    >>> Coefficients(np.array([0.5, -1.0]), indices=np.array([3, 8])).at([8, 9])
    array([-1.,  0.])
    """

    theta: Floats
    """One coefficient for each feature, (dim,). For a sparse Bandit: one for each of `indices`."""
    intercept: float = 0.0
    """0 for a policy without an intercept."""
    indices: Ints | None = None
    """For a sparse Bandit: the features learned so far, sorted. All other coefficients are 0."""

    def at(self, features: Ints | list[int]) -> Floats:
        """Return the coefficients of these features. Raises InvalidInput if an index is negative."""
        wanted = np.asarray(features, dtype=np.int64)
        if (wanted < 0).any():
            raise InvalidInput(f"features must be at least 0; got {wanted.min()}")
        if self.indices is None:
            return np.array(self.theta[wanted])
        coefficients = np.zeros(wanted.shape)
        if self.indices.size:
            nearest = np.minimum(np.searchsorted(self.indices, wanted), self.indices.size - 1)
            coefficients = np.where(self.indices[nearest] == wanted, self.theta[nearest], 0.0)
        return coefficients

    def scores(self, arms: Floats | SparseRows) -> Floats:
        """Return the score of each arm."""
        if not isinstance(arms, SparseRows):
            return row_products(arms, self.theta) + self.intercept
        return arms.row_sums(arms.values * self.at(arms.indices)) + self.intercept


def row_products(arms: Floats, theta: Floats) -> Floats:
    """Return x'theta for each row x of a matrix.

    A product of BLAS may round a row differently in a matrix of another height, so that equal arms are no ties.
    """
    return np.asarray(np.einsum("ad,d->a", arms, theta))


class OutlierWarning(UserWarning):
    """A feature or a reward was far outside everything seen before, and was limited."""


@dataclass(frozen=True)
class Outliers:
    """How many outliers a model has learned. It has learned a limited value in place of each."""

    rewards: int = 0
    values: int = 0
    """The number of outlying values of all features."""
    features: Mapping[int, int] = field(default_factory=dict)
    """The number of outlying values by the index of the feature, discounted if the policy has a half-life."""
