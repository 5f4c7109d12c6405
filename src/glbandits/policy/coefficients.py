"""The coefficients of a model: the point estimate by which a policy scores arms."""

from dataclasses import dataclass

import numpy as np

from glbandits.records import Floats, Ints


@dataclass(frozen=True, eq=False)
class Coefficients:
    """A point estimate of theta. The score of an arm with features x is x'theta + intercept.

    The link turns a score into an expected reward. The bonus or the draw by which a policy explores is not included.

    >>> Coefficients(np.array([0.5, -1.0]), indices=np.array([3, 8])).at([8, 9])
    array([-1.,  0.])
    """

    theta: Floats
    """One number for each feature, (dim,); of a sparse Bandit one for each of `indices`."""
    intercept: float = 0.0
    """0 for a policy that learns none."""
    indices: Ints | None = None
    """Of a sparse Bandit the features that were learned, sorted. The coefficients of all others are 0."""

    def at(self, features: Ints | list[int]) -> Floats:
        """The coefficients of these features."""
        wanted = np.asarray(features, dtype=np.int64)
        if self.indices is None:
            return np.array(self.theta[wanted])
        found = np.zeros(wanted.shape)
        if self.indices.size:
            nearest = np.minimum(np.searchsorted(self.indices, wanted), self.indices.size - 1)
            found = np.where(self.indices[nearest] == wanted, self.theta[nearest], 0.0)
        return found
