"""Means of terms and their covariance, accumulated over blocks of rows.

Rows are summed in up to 10,000 groups: row i belongs to group i mod 10,000, or all rows of a cluster to the same group.
The groups are independent, so their sums are enough for variances. Memory grows only with the number of clusters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.maths.online_statistics.mergeable import ANY, Mergeable, added

GROUPS = 10_000
"""Number of groups: the relative standard error of a variance estimate is 1.4 %."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over groups of rows, with the mean and the covariance of the terms."""

    counts: Floats
    """Number of rows of each group, (G,)."""
    sums: Floats
    """Sums of the terms of each group, (G, k)."""
    grouped: bool
    """Whether rows have clusters. Rows within a group may then depend on each other."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.counts)

    @property
    def mean(self) -> Floats:
        """The mean of each term over all rows, (k,)."""
        mean: Floats = self.sums.sum(axis=0) / self.counts.sum()
        return mean

    @property
    def covariance(self) -> Floats:
        """Covariance of the terms of a row, (k, k), estimated from the variance between groups."""
        deviations = self.sums - self.counts[:, np.newaxis] * self.mean
        scale = self.groups / max(self.groups - 1, 1) / self.counts.sum()
        covariance: Floats = deviations.T @ deviations * scale
        return covariance

    def standard_error(self, gradient: Floats) -> float:
        """Return the standard error of a function of the means, given its gradient.

        It is NaN with fewer than two groups.
        """
        if self.groups < 2:
            return float("nan")
        variance = float(gradient @ self.covariance @ gradient) / self.rows
        return float(np.sqrt(max(variance, 0.0)))

    def only(self, terms: slice) -> "Moments":
        """Return the moments of some of the terms."""
        return Moments(self.counts, self.sums[:, terms], self.grouped)


class MomentSums(Mergeable):
    """Accumulator of the terms of blocks of rows."""

    rules: ClassVar = added("_counts", "_sums") | {"_grouped": ANY}

    def __init__(self, terms: int) -> None:
        self._counts = np.zeros(GROUPS)
        self._sums = np.zeros((GROUPS, terms))
        self._grouped = False

    def add(self, terms: Sequence[Floats], groups: Ints, *, clustered: bool = False) -> None:
        """Add the terms of the next rows, k arrays of shape (m,).

        Args:
            terms: the terms.
            groups: the group of each row, (m,), below `GROUPS`.
            clustered: whether the rows of a group may depend on each other.
        """
        self._grouped |= clustered
        self._counts += np.bincount(groups, minlength=GROUPS)
        for column, values in enumerate(terms):
            self._sums[:, column] += np.bincount(groups, weights=values, minlength=GROUPS)

    def add_rows(self, terms: Sequence[Floats], first_row: int) -> None:
        """Add the terms of the next rows, which are independent: the group of a row is its index modulo `GROUPS`."""
        before, count = first_row % GROUPS, len(terms[0])
        padded = np.zeros(-(-(before + count) // GROUPS) * GROUPS)
        used = padded[before : before + count]
        used[:] = 1.0
        self._counts += padded.reshape(-1, GROUPS).sum(axis=0)
        for column, values in enumerate(terms):
            used[:] = values
            self._sums[:, column] += padded.reshape(-1, GROUPS).sum(axis=0)

    def moments(self) -> Moments:
        """Return the moments of all rows so far."""
        used = self._counts > 0.0
        return Moments(self._counts[used], self._sums[used], self._grouped)


class ClusterNumbers:
    """Numbers clusters from 0: block after block, and within a block in the order of their ids.

    Memory: two integers for each cluster.
    """

    def __init__(self) -> None:
        self._ids, self._numbers = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)

    def add(self, clusters: Ints) -> None:
        """Number the clusters of the next block."""
        new = np.unique(clusters)
        at = np.searchsorted(self._ids, new)
        is_new = at == len(self._ids)
        is_new[~is_new] = self._ids[at[~is_new]] != new[~is_new]
        numbers = np.arange(len(self._ids), len(self._ids) + int(is_new.sum()))
        self._numbers = np.insert(self._numbers, at[is_new], numbers)
        self._ids = np.insert(self._ids, at[is_new], new[is_new])

    def find(self, clusters: Ints) -> Ints:
        """Return the number of the cluster of each row, (m,). All of them must have been added."""
        found: Ints = self._numbers[np.searchsorted(self._ids, clusters)]
        return found
