import numpy as np
import pytest

from glbandits.maths.covariance import (
    invert,
    largest_stretch,
    levels_and_widths,
    most_hopeful,
    renew,
    shrink,
    spread,
)
from glbandits.records import Floats

RNG = np.random.default_rng(3)


def positive_definite(size: int) -> Floats:
    A = RNG.normal(size=(size, size))
    H: Floats = A @ A.T + 0.1 * np.eye(size)
    return H


def inverse(H: Floats) -> Floats:
    P: Floats = np.asarray(np.linalg.inv(H), dtype=np.float64)
    return P


@pytest.mark.parametrize("dim", [1, 2, 4, 7])
def test_an_observation_is_a_rank_one_step_of_the_inverse(dim: int) -> None:
    H, x, weight = positive_definite(dim + 1), RNG.normal(size=dim), 0.7
    v = np.append(x, 1.0)
    P, direction = inverse(H), np.empty(dim + 1)
    spread(P, x, direction)
    np.testing.assert_allclose(direction, P @ v, rtol=1e-10)
    shrink(P, weight / (1.0 + weight * float(v @ direction)), direction)
    np.testing.assert_allclose(P, np.linalg.inv(H + weight * np.outer(v, v)), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("K", [1, 7, 130])
@pytest.mark.parametrize("dim", [1, 4, 6, 9])
def test_levels_and_widths_are_those_of_the_formula(K: int, dim: int) -> None:
    arms, theta, P = RNG.normal(size=(K, dim)), RNG.normal(size=dim), inverse(positive_definite(dim + 1))
    levels, widths = np.empty(K), np.empty(K)
    levels_and_widths(arms, theta, P, levels, widths)
    v = np.hstack([arms, np.ones((K, 1))])
    np.testing.assert_allclose(levels, arms @ theta, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(widths, np.sqrt(np.einsum("ai,ij,aj->a", v, P, v)), rtol=1e-8)


@pytest.mark.parametrize("dim", [1, 4, 6, 20])
def test_no_vector_is_stretched_more_than_the_bound(dim: int) -> None:
    P = inverse(positive_definite(dim + 1))
    sums, variances = np.empty(dim + 1), np.empty(dim + 1)
    bound = largest_stretch(P, sums, variances)
    np.testing.assert_array_equal(variances, np.diagonal(P))
    scaled = P / np.sqrt(np.outer(variances, variances))
    assert np.linalg.eigvalsh(scaled)[-1] <= bound * (1 + 1e-12)
    assert bound <= np.abs(scaled).sum(axis=1).max() * (1 + 1e-12)


@pytest.mark.parametrize("hope", [0.0, 1e-9, 0.3, 1.0, 100.0])
@pytest.mark.parametrize(("K", "dim"), [(1, 3), (5, 1), (30, 4), (103, 6), (32, 20)])
def test_leaving_out_arms_that_cannot_win_changes_no_choice(K: int, dim: int, hope: float) -> None:
    P = inverse(positive_definite(dim + 1))
    for _ in range(20):
        arms, theta = RNG.normal(size=(K, dim)), RNG.normal(size=dim)
        levels, widths = np.empty(K), np.empty(K)
        levels_and_widths(arms, theta, P, levels, widths)
        assert most_hopeful(arms, theta, P, 1.5, hope) == np.argmax(levels + hope * 1.5 * widths)


def test_the_first_of_equal_arms_is_the_most_hopeful() -> None:
    P, theta = inverse(positive_definite(4)), RNG.normal(size=3)
    arms = np.repeat(RNG.normal(size=(3, 3)), 4, axis=0)
    best = most_hopeful(arms, theta, P, 1.5, 1.0)
    assert best % 4 == 0
    assert most_hopeful(arms[best:], theta, P, 1.5, 1.0) == 0


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_the_inverse(size: int) -> None:
    H = positive_definite(size)
    P = H.copy()
    invert(P)
    np.testing.assert_allclose(P @ H, np.eye(size), atol=1e-10)
    np.testing.assert_array_equal(P, P.T)


def test_another_prior_is_put_under_the_same_observations() -> None:
    observed, asked = positive_definite(5), RNG.normal(size=5)
    old, new, fade = RNG.uniform(0.5, 2.0, 5), RNG.uniform(0.5, 2.0, 5), 0.7
    P = inverse(np.diag(old) + observed)
    theta: Floats = P @ asked
    prior = old.copy()
    renew(P, theta, prior, new, fade)
    H = np.diag(new) + fade * observed
    np.testing.assert_allclose(P @ H, np.eye(5), atol=1e-10)
    np.testing.assert_allclose(H @ theta, fade * asked, atol=1e-10)
    np.testing.assert_array_equal(prior, new)
