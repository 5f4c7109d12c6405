import numpy as np
import pytest

from glbandits.maths.covariance import LANES, invert, levels_and_widths, renew, shrink, spread
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


@pytest.mark.parametrize("K", [1, LANES - 1, LANES, 2 * LANES + 3])
@pytest.mark.parametrize("dim", [1, 4, 6, 9])
def test_levels_and_widths_are_those_of_the_formula(K: int, dim: int) -> None:
    arms, theta, P = RNG.normal(size=(K, dim)), RNG.normal(size=dim), inverse(positive_definite(dim + 1))
    levels, widths = np.empty(K), np.empty(K)
    levels_and_widths(arms, theta, P, levels, widths)
    v = np.hstack([arms, np.ones((K, 1))])
    np.testing.assert_allclose(levels, arms @ theta, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(widths, np.sqrt(np.einsum("ai,ij,aj->a", v, P, v)), rtol=1e-8)


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
