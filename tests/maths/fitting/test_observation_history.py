import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glbandits.maths.fitting.observation_history import empty_history, history, is_valid_history, remember


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(-5, 5)), max_size=120), st.integers(1, 3))
def test_history_has_counts_and_means_of_distinct_rows(seen: list[tuple[int, float]], dim: int) -> None:
    table = np.random.default_rng(0).normal(size=(41, dim))
    state = np.concatenate([[7.0, 8.0], empty_history(dim)])  # two other numbers before the history
    for row, reward in seen:
        state = remember(state, 2, table[row], reward)
        assert is_valid_history(state, 2, dim)
    rows = history(state, 2, dim)
    order = list(dict.fromkeys(row for row, _ in seen))
    np.testing.assert_array_equal(state[:2], [7.0, 8.0])
    np.testing.assert_array_equal(rows.features, table[order].reshape(len(order), dim))
    rewards = [[reward for other, reward in seen if other == row] for row in order]
    np.testing.assert_array_equal(rows.counts, [len(listed) for listed in rewards])
    np.testing.assert_allclose(rows.rewards, [np.mean(listed) for listed in rewards], atol=1e-12)
