import numpy as np
import pytest

from glbandits.maths.online_statistics.running_sums import RunningSums


@pytest.mark.parametrize(("rows", "points"), [(1, 1), (7, 3), (1000, 1000), (1001, 1000), (5000, 64), (3, 1)])
@pytest.mark.parametrize("parts", [1, 4, 300])
def test_points_are_evenly_spaced_and_end_at_the_last_row(rows: int, points: int, parts: int) -> None:
    columns = np.random.default_rng(rows).integers(5, size=(2, rows)).astype(np.float64)
    sums = RunningSums(columns=2, points=points)
    for part in np.array_split(columns, parts, axis=1):
        sums.add(part)
    at_rows = sums.table()[0].astype(np.int64)
    assert at_rows[-1] == rows
    assert points / 4 <= len(at_rows) <= points
    assert len(set(np.diff(at_rows[:-1], prepend=0).tolist())) <= 1
    np.testing.assert_array_equal(sums.table()[1:], np.cumsum(columns, axis=1)[:, at_rows - 1])


def test_table_without_rows_is_one_point_of_zeros() -> None:
    assert RunningSums(columns=2, points=10).table().tolist() == [[0.0], [0.0], [0.0]]
