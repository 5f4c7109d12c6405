"""Running sums over rows that come a block at a time, looked at in so few places that memory does not grow."""

import numpy as np

from glbandits.records import Floats


class RunningSums:
    """Sums of columns so far, at evenly spaced rows. When they are twice too many, every second one is dropped.

    >>> import numpy as np
    >>> sums = RunningSums(columns=2, points=3)
    >>> sums.add(np.array([[1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 0, 0, 0, 1, 0]]))
    >>> sums.table()
    array([[4., 8.],
           [4., 8.],
           [1., 2.]])
    """

    def __init__(self, columns: int, points: int) -> None:
        self._points, self._every = points, 1
        self._kept: Floats = np.empty((1 + columns, 0))
        self._last: Floats = np.zeros((1 + columns, 1))

    def add(self, columns: Floats) -> None:
        """The next rows, (columns, n)."""
        before, rows = int(self._last[0, 0]), columns.shape[1]
        if not rows:
            return
        ends = np.arange(self._every - before % self._every, rows + 1, self._every)
        starts = np.concatenate([[0], ends[ends < rows]])
        parts = np.add.reduceat(columns, starts, axis=1, dtype=np.float64)
        sums = self._last + np.vstack([np.append(starts[1:], rows), np.cumsum(parts, axis=1)])
        self._last = sums[:, -1:]
        self._kept = np.hstack([self._kept, sums[:, : len(ends)]])
        while self._kept.shape[1] > self._points:
            self._every *= 2
            self._kept = self._kept[:, self._kept[0] % self._every == 0]

    def table(self) -> Floats:
        """Rows so far and the sum of each column, (1 + columns, points), the last of them at the end."""
        earlier = self._kept[:, self._kept[0] < self._last[0]][:, : self._points - 1]
        return np.hstack([earlier, self._last])
