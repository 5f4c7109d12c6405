import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from glbandits.maths.upper_envelope import ascending_order, half_normal_probabilities
from glbandits.records import Floats


def pair_by_pair(levels: Floats, slopes: Floats) -> Floats:
    """The interval of |Z| in which each line beats every other, found without sorting."""
    probabilities = np.zeros(len(levels))
    for a in range(len(levels)):
        low, high = 0.0, np.inf
        for b in range(len(levels)):
            if slopes[a] == slopes[b]:
                if levels[b] > levels[a] or (levels[b] == levels[a] and b < a):
                    high = -1.0
            elif slopes[a] > slopes[b]:
                low = max(low, (levels[b] - levels[a]) / (slopes[a] - slopes[b]))
            else:
                high = min(high, (levels[a] - levels[b]) / (slopes[b] - slopes[a]))
        if high > low:
            probabilities[a] = 2 * (norm.sf(low) - norm.sf(high))
    return probabilities


few = st.integers(0, 3).map(float)
many = st.floats(-5, 5).map(lambda value: round(value, 3))
lines = st.one_of(
    st.lists(st.tuples(few, few), min_size=1, max_size=9),  # many ties
    st.lists(st.tuples(many, many.map(abs)), min_size=1, max_size=30),
)


@given(lines)
def test_probabilities_match_a_comparison_of_all_pairs(pairs: list[tuple[float, float]]) -> None:
    levels, slopes = np.array([level for level, _ in pairs]), np.array([slope for _, slope in pairs])
    probabilities = np.empty(len(pairs))
    half_normal_probabilities(levels, slopes, probabilities)
    np.testing.assert_allclose(probabilities, pair_by_pair(levels, slopes), atol=1e-12)
    assert abs(probabilities.sum() - 1.0) <= 1e-12


def test_tiny_probability_keeps_its_digits() -> None:
    probabilities = np.empty(2)
    half_normal_probabilities(np.array([20.0, 0.0]), np.array([0.0, 1.0]), probabilities)
    np.testing.assert_allclose(probabilities[1], 2 * norm.sf(20.0), rtol=1e-12)


@given(st.lists(st.one_of(few, many), max_size=40))
def test_ascending_order_is_a_stable_sort(values: list[float]) -> None:
    np.testing.assert_array_equal(ascending_order(np.array(values)), np.argsort(values, kind="stable"))
