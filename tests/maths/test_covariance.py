import numpy as np
import pytest

from glbandits.maths.covariance import (
    argmax_with_bonus,
    arm_variance,
    bound_variances,
    invert,
    levels_and_lengths,
    replace_prior,
    score_lines,
    subtract_outer,
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


def with_bonus(arms: Floats, theta: Floats, P: Floats, unit: float, bonus: float) -> int:
    """The decision with a bonus, as `Optimist` makes it."""
    bounds, levels, slopes = np.empty(len(P)), np.empty(len(arms)), np.empty(len(arms))
    bound_variances(P, unit, bounds)
    levels_and_lengths(arms, theta, bounds, levels, slopes)
    return argmax_with_bonus(arms, P, unit, bonus, levels, slopes)


@pytest.mark.parametrize("dim", [1, 2, 4, 7])
def test_observation_is_a_rank_one_update_of_the_inverse(dim: int) -> None:
    H, x, weight = positive_definite(dim + 1), RNG.normal(size=dim), 0.7
    v = np.append(x, 1.0)
    P, direction = inverse(H), np.empty(dim + 1)
    variance = arm_variance(P, x, 0, direction)
    np.testing.assert_allclose(direction, P @ v, rtol=1e-10)
    assert variance == pytest.approx(v @ P @ v, rel=1e-10)
    subtract_outer(P, weight / (1.0 + weight * variance), direction)
    np.testing.assert_allclose(P, np.linalg.inv(H + weight * np.outer(v, v)), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("K", [1, 7, 130])
@pytest.mark.parametrize("dim", [1, 4, 6, 9])
def test_score_lines_match_the_formula(K: int, dim: int) -> None:
    arms, theta, P = RNG.normal(size=(K, dim)), RNG.normal(size=dim), inverse(positive_definite(dim + 1))
    levels, slopes = np.empty(K), np.empty(K)
    score_lines(arms, theta, P, 1.5, levels, slopes)
    v = np.hstack([arms, np.ones((K, 1))])
    np.testing.assert_allclose(levels, arms @ theta, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(slopes, 1.5 * np.sqrt(np.einsum("ai,ij,aj->a", v, P, v)), rtol=1e-8)


@pytest.mark.parametrize("dim", [1, 4, 6, 20])
def test_no_variance_exceeds_its_bound(dim: int) -> None:
    P, bounds = inverse(positive_definite(dim + 1)), np.empty(dim + 1)
    bound_variances(P, 1.0, bounds)
    variances = np.diagonal(P)
    scaled = P / np.sqrt(np.outer(variances, variances))
    ratio = bounds / variances
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)
    assert np.linalg.eigvalsh(scaled)[-1] <= ratio[0]
    assert ratio[0] <= np.abs(scaled).sum(axis=1).max() * (1 + 1e-8)


@pytest.mark.parametrize("bonus", [0.0, 1e-9, 0.3, 1.0, 100.0])
@pytest.mark.parametrize(("K", "dim"), [(1, 3), (5, 1), (30, 4), (103, 6), (32, 20)])
def test_skipping_arms_that_cannot_win_changes_no_choice(K: int, dim: int, bonus: float) -> None:
    P = inverse(positive_definite(dim + 1))
    for _ in range(20):
        arms, theta = RNG.normal(size=(K, dim)), RNG.normal(size=dim)
        levels, slopes = np.empty(K), np.empty(K)
        score_lines(arms, theta, P, 1.5, levels, slopes)
        assert with_bonus(arms, theta, P, 1.5, bonus) == np.argmax(levels + bonus * slopes)


def test_first_of_equal_arms_wins() -> None:
    P, theta = inverse(positive_definite(4)), RNG.normal(size=3)
    arms = np.repeat(RNG.normal(size=(3, 3)), 4, axis=0)
    best = with_bonus(arms, theta, P, 1.5, 1.0)
    assert best % 4 == 0
    assert with_bonus(arms[best:], theta, P, 1.5, 1.0) == 0


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_invert_gives_a_symmetric_inverse(size: int) -> None:
    H = positive_definite(size)
    P = H.copy()
    invert(P)
    np.testing.assert_allclose(P @ H, np.eye(size), atol=1e-10)
    np.testing.assert_array_equal(P, P.T)


def test_replacing_the_prior_keeps_the_observations() -> None:
    observed, right_side = positive_definite(5), RNG.normal(size=5)
    old, new, fade = RNG.uniform(0.5, 2.0, 5), RNG.uniform(0.5, 2.0, 5), 0.7
    P = inverse(np.diag(old) + observed)
    theta: Floats = P @ right_side
    prior = old.copy()
    replace_prior(P, theta, prior, new, fade)
    H = np.diag(new) + fade * observed
    np.testing.assert_allclose(P @ H, np.eye(5), atol=1e-10)
    np.testing.assert_allclose(H @ theta, fade * right_side, atol=1e-10)
    np.testing.assert_array_equal(prior, new)
