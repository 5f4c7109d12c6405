from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, norm, uniform

from glbandits.common.arrays import Floats
from glbandits.maths.line_order import highest_line
from glbandits.maths.philox import generator, normal
from glbandits.maths.posteriors.gaussian_posterior import score_lines
from glbandits.maths.upper_envelope import (
    normal_probabilities,
    sorted_lines,
    uniform_probabilities,
)


def pair_by_pair(levels: Floats, slopes: Floats, least: float, largest: float, cdf: Callable[[float], float]) -> Floats:
    """The probability of the interval of Z in which each line is above every other, in exact arithmetic, not sorted."""
    probabilities = np.zeros(len(levels))
    exact = [(Fraction(level), Fraction(slope)) for level, slope in zip(levels, slopes, strict=True)]
    for a, (level, slope) in enumerate(exact):
        low, high = least, largest
        for b, (other_level, other_slope) in enumerate(exact):
            if slope == other_slope:
                if other_level > level or (other_level == level and b < a):
                    high = -np.inf
            elif slope > other_slope:
                low = max(low, float((other_level - level) / (slope - other_slope)))
            else:
                high = min(high, float((level - other_level) / (other_slope - slope)))
        if high > low:
            probabilities[a] = cdf(high) - cdf(low)
    return probabilities


few = st.integers(0, 3).map(float)
many = st.floats(-5, 5).map(lambda number: round(number, 3))
lines = st.one_of(
    st.lists(st.tuples(few, few), min_size=1, max_size=9),  # many ties
    st.lists(st.tuples(many, many.map(abs)), min_size=1, max_size=30),
)


@given(lines, st.sampled_from([(0.1, 0.2), (0.6, 1.1), (0.0, 7.0)]))
def test_uniform_probabilities_agree_with_all_pairs(
    pairs: list[tuple[float, float]], ends: tuple[float, float]
) -> None:
    levels, slopes = np.array([level for level, _ in pairs]), np.array([slope for _, slope in pairs])
    probabilities = np.full(len(pairs), np.nan)
    uniform_probabilities(levels, slopes, *ends, probabilities)
    expected = pair_by_pair(levels, slopes, *ends, uniform(ends[0], ends[1] - ends[0]).cdf)
    np.testing.assert_allclose(probabilities, expected, atol=1e-12)
    np.testing.assert_array_equal(probabilities[expected == 0.0], 0.0)  # the first of equal lines has all
    assert abs(probabilities.sum() - 1.0) <= 1e-12
    assert (probabilities >= 0.0).all()


def normal_of(levels: Floats, slopes: Floats) -> Floats:
    probabilities = np.full(len(levels), np.nan)
    normal_probabilities(levels, slopes, probabilities)
    return probabilities


any_lines = st.one_of(
    st.lists(st.tuples(few, few), min_size=1, max_size=9),  # many ties
    st.lists(st.tuples(many, many), min_size=1, max_size=30),
)


@given(any_lines)
def test_normal_probabilities_agree_with_all_pairs(pairs: list[tuple[float, float]]) -> None:
    levels, slopes = np.array([level for level, _ in pairs]), np.array([slope for _, slope in pairs])
    probabilities = normal_of(levels, slopes)
    np.testing.assert_allclose(probabilities, pair_by_pair(levels, slopes, -np.inf, np.inf, norm.cdf), atol=1e-12)
    assert abs(probabilities.sum() - 1.0) <= 1e-12


def test_normal_tails_keep_their_precision() -> None:
    probabilities = normal_of(np.array([0.0, -20.0, -25.0]), np.array([0.0, 1.0, -1.0]))
    np.testing.assert_allclose(probabilities, [1.0, norm.sf(20.0), norm.sf(25.0)], rtol=1e-12)


def test_close_lines_are_distinguished_despite_rounding() -> None:
    levels, slopes = np.array([1e15, 1e15 + 0.125]), np.array([1e-3, 0.0])  # they cross at Z = 125
    assert [highest_line(levels, slopes, z) for z in (124.0, 126.0)] == [1, 0]
    assert highest_line(np.array([0.0, 0.0]), np.array([1e-30, 2e-30]), 1e-9) == 1


@given(st.lists(many, max_size=40))
def test_sorted_lines_agree_with_a_stable_sort(values: list[float]) -> None:
    array = np.round(np.array(values))
    np.testing.assert_array_equal(sorted_lines(array, array, 0.0), np.argsort(array, kind="stable"))


@pytest.mark.statistics
def test_perturbed_choices_have_the_computed_probabilities() -> None:
    # A chi-square test of 1e5 choices at a fixed seed. Under another seed it would fail once in a million times.
    rng, draws, n = np.random.default_rng(7), generator(11), 100_000
    arms, theta = rng.normal(size=(12, 4)), 0.3 * rng.normal(size=4)
    R = np.array(np.linalg.cholesky(np.eye(4) + np.ones((4, 4))).T, order="C")
    probabilities, levels, slopes = np.empty(12), np.empty(12), np.empty(12)
    score_lines(arms, theta, R, 0.7, levels, slopes)
    normal_probabilities(levels, slopes, probabilities)
    counts = np.bincount([highest_line(levels, slopes, normal(draws)) for _ in range(n)], minlength=12)
    usual = probabilities * n >= 5.0
    assert usual.sum() >= 4
    assert counts[~usual].sum() <= 20
    expected = probabilities[usual] * n
    statistic = ((counts[usual] - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(1e-6, usual.sum() - 1)
