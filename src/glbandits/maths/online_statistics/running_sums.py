"""Running sums of rows that arrive in blocks, stored at a bounded number of points."""

from collections.abc import Sequence

import numpy as np

from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.maths.online_statistics.mergeable import Mergeable


class RunningSums(Mergeable):
    """Cumulative sums of columns at evenly spaced rows.

    If there are too many points, every second one is dropped.

    >>> import numpy as np
    >>> sums = RunningSums(columns=2, points=3)
    >>> sums.add(np.array([[1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 0, 0, 0, 1, 0]]))
    >>> sums.table()
    array([[4., 8.],
           [4., 8.],
           [1., 2.]])

    Args:
        columns: number of columns.
        points: maximum number of points.
        first_row: index of the first row that is added. Points are at multiples of the spacing from row 0 on.
    """

    def __init__(self, columns: int, points: int, first_row: int = 0) -> None:
        self._points, self._spacing, self._first_row = points, 1, first_row
        self._stored: Floats = np.empty((1 + columns, 0))
        self._last: Floats = np.zeros((1 + columns, 1))

    def add(self, columns: Floats | Sequence[Floats | Bools]) -> None:
        """Add rows, (columns, n)."""
        before, rows = self._first_row + int(self._last[0, 0]), len(columns[0])
        if not rows:
            return
        ends = self._ends(before, rows)
        while self._stored.shape[1] + len(ends) > self._points:
            self._double_spacing()
            ends = self._ends(before, rows)
        starts = np.concatenate([[0], ends[ends < rows]])
        parts = np.array([np.add.reduceat(column, starts, dtype=np.float64) for column in columns])
        sums = self._last + np.vstack([np.append(starts[1:], rows), np.cumsum(parts, axis=1)])
        self._last = sums[:, -1:]
        self._stored = np.hstack([self._stored, sums[:, : len(ends)]])

    def _ends(self, before: int, rows: int) -> Ints:
        """The points among the next rows, after each of which there is a sum."""
        return np.arange(self._spacing - before % self._spacing, rows + 1, self._spacing)

    def merge(self, later: "RunningSums") -> None:
        """Add the rows of the next part."""
        own, others = self._stored, later._stored + self._last
        self._spacing = max(self._spacing, later._spacing)
        self._stored, self._last = np.hstack([own, others]), self._last + later._last
        self._keep_points()
        while self._stored.shape[1] > self._points:
            self._double_spacing()

    def _double_spacing(self) -> None:
        self._spacing *= 2
        self._keep_points()

    def _keep_points(self) -> None:
        self._stored = self._stored[:, (self._first_row + self._stored[0]) % self._spacing == 0]

    def table(self) -> Floats:
        """The number of rows and the sum of each column at each point, (1 + columns, points).

        The last point is the last row added.
        """
        earlier = self._stored[:, self._stored[0] < self._last[0]][:, : self._points - 1]
        return np.hstack([earlier, self._last])
