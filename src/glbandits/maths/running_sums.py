"""Running sums over rows that come a block at a time, looked at in so few places that memory does not grow."""

import numpy as np

from glbandits.records import Floats


class RunningSums:
    """Sums of columns so far, at evenly spaced rows. When they are twice too many, every second one is dropped.

    >>> import numpy as np
    >>> sums = RunningSums(columns=1, points=3)
    >>> sums.add(np.ones((8, 1)))
    >>> sums.table().tolist()
    [[4.0, 4.0], [8.0, 8.0]]
    """

    def __init__(self, columns: int, points: int) -> None:
        self._points, self._every = points, 1
        self._rows: Floats = np.empty((0, 1 + columns))
        self._last: Floats = np.zeros(1 + columns)

    def add(self, values: Floats) -> None:
        """The next rows, (n, columns)."""
        if not len(values):
            return
        sums = np.cumsum(np.column_stack([np.ones(len(values)), values]), axis=0) + self._last
        self._last = sums[-1].copy()
        self._rows = np.concatenate([self._rows, sums[sums[:, 0] % self._every == 0]])
        while len(self._rows) > self._points:
            self._every *= 2
            self._rows = self._rows[self._rows[:, 0] % self._every == 0]

    def table(self) -> Floats:
        """Rows so far and the sum of each column, (points, 1 + columns), the last of them at the end."""
        kept = self._rows[self._rows[:, 0] < self._last[0]][: self._points - 1]
        return np.concatenate([kept, self._last[np.newaxis]])
