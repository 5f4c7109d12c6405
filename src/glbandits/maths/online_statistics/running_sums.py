"""Running sums of rows that arrive in blocks, stored at a bounded number of points."""

import numpy as np

from glbandits.common.arrays import Floats


class RunningSums:
    """Cumulative sums of columns at evenly spaced rows.

    If there are too many points, every second one is dropped.

    >>> import numpy as np
    >>> sums = RunningSums(columns=2, points=3)
    >>> sums.add(np.array([[1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 0, 0, 0, 1, 0]]))
    >>> sums.table()
    array([[4., 8.],
           [4., 8.],
           [1., 2.]])
    """

    def __init__(self, columns: int, points: int) -> None:
        self._points, self._spacing = points, 1
        self._stored: Floats = np.empty((1 + columns, 0))
        self._last: Floats = np.zeros((1 + columns, 1))

    def add(self, columns: Floats) -> None:
        """Add rows, (columns, n)."""
        before, rows = int(self._last[0, 0]), columns.shape[1]
        if not rows:
            return
        ends = np.arange(self._spacing - before % self._spacing, rows + 1, self._spacing)
        starts = np.concatenate([[0], ends[ends < rows]])
        parts = np.add.reduceat(columns, starts, axis=1, dtype=np.float64)
        sums = self._last + np.vstack([np.append(starts[1:], rows), np.cumsum(parts, axis=1)])
        self._last = sums[:, -1:]
        self._stored = np.hstack([self._stored, sums[:, : len(ends)]])
        while self._stored.shape[1] > self._points:
            self._spacing *= 2
            self._stored = self._stored[:, self._stored[0] % self._spacing == 0]

    def table(self) -> Floats:
        """The number of rows and the sum of each column at each point, (1 + columns, points).

        The last point is the last row added.
        """
        earlier = self._stored[:, self._stored[0] < self._last[0]][:, : self._points - 1]
        return np.hstack([earlier, self._last])
