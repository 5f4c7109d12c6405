import numpy as np

from glbandits.common.arrays import Floats
from glbandits.maths.cholesky import inverse_norm
from glbandits.maths.philox import generator
from glbandits.maths.posteriors.gaussian_posterior import draw_with_precision, score_and_norm, score_with_bonus
from glbandits.maths.vectors import dot

RNG = np.random.default_rng(6)
A = RNG.normal(size=(4, 4))
V: Floats = A @ A.T + np.eye(4)
R: Floats = np.array(np.linalg.cholesky(V).T, dtype=np.float64, order="C")


def test_score_and_norm_of_an_arm() -> None:
    arms, theta = RNG.normal(size=(2, 4)), RNG.normal(size=4)
    expected = dot(arms[1], theta), inverse_norm(R, arms[1], np.empty(4))
    assert score_and_norm(arms, 1, theta, R, np.empty(4)) == expected


def test_draws_have_the_inverse_precision_as_covariance() -> None:
    rng, theta = generator(5), np.arange(4.0)
    draws = np.array([draw_with_precision(theta, R, 0.5, rng) for _ in range(4000)])
    covariance = 0.25 * np.linalg.inv(V)
    spread = np.sqrt(np.diag(covariance))
    # Means to five standard errors; covariances, in units of the spreads, to five of sqrt(2/4000) = 2.2 %.
    assert (np.abs(draws.mean(axis=0) - theta) < 5 * spread / np.sqrt(4000)).all()
    np.testing.assert_allclose(
        np.cov(draws.T) / np.outer(spread, spread), covariance / np.outer(spread, spread), atol=0.11
    )


def test_bonus_is_the_norm_of_the_arm() -> None:
    arms, theta = RNG.normal(size=(9, 4)), RNG.normal(size=4)
    norms = np.sqrt(np.einsum("ai,ij,aj->a", arms, np.linalg.inv(V), arms))
    for scale in (-2.0, 0.0, 0.5, 30.0):
        scores = np.empty(9)
        score_with_bonus(arms, theta, R, scale, scores)
        np.testing.assert_allclose(scores, arms @ theta + scale * norms, rtol=1e-12)
