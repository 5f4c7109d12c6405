"""The prior of `Optimist` and its replacement, without compiled code."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from glbandits.common.arrays import Floats
from glbandits.maths.links import find_link
from glbandits.policies.shared.outlier_limits import LEAST_SQUARE, count_features
from glbandits.policies.shared.posterior_state import (
    PRIOR_SCALE,
    WEIGHT,
    blocks_at,
    coupling_of,
    dispersion,
    mean_of,
    presence_of,
    prior_of,
)
from glbandits.policies.shared.prior_replacement import EVIDENCE_FROM, SCALES
from glbandits.policies.shared.self_scaling_posterior import (
    FIRST_SCALE,
    LARGEST_SHARE,
    assumed_noise,
    init_feature_prior,
    intercept_variance,
)
from tests.maths.posteriors.block_parts import assembled
from tests.policies.shared.posterior_parts import (
    is_valid,
    learned,
    linear_problem,
    unit_prior,
)


@pytest.mark.parametrize("rounds", [1, 64, 100, 127])
def test_prior_follows_the_features_at_the_last_rescaling(rounds: int) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(rounds, 4)) * [0.1, 1.0, 1.5, 400.0]
    X[1:] *= rng.random((rounds - 1, 4)) < 0.6  # many features are 0, but each is seen at least once
    seen = X[: 2 ** int(math.log2(rounds))]
    state = learned("logistic", X, np.resize([0.0, 1.0], rounds))
    np.testing.assert_allclose(prior_of(state, 4), state[PRIOR_SCALE] * unit_prior(seen), rtol=1e-12)


@pytest.mark.parametrize("units", [[1, 1e4, 1, 1, 1], [1, 1, 1, 1, 1e-4], [1e-3, 1, 1e4, 1, 1], [1, 1.2, 1, 1, 0.8]])
def test_share_of_each_feature_in_the_prior_is_limited(units: list[float]) -> None:
    X = np.random.default_rng(4).normal(size=(64, 5)) * units
    state = learned("logistic", X, np.zeros(64))
    variances = (X**2).mean(axis=0) / prior_of(state, 5)  # the share of each feature in the prior variance of a score
    assert variances.sum() * state[PRIOR_SCALE] == pytest.approx(1.0, rel=1e-12)
    assert variances.max() <= LARGEST_SHARE**2 * variances.min() * (1 + 1e-12)


def log_density(X: Floats, y: Floats, prior: Floats, noise: float) -> float:
    """The log density of linear rewards with this variance of the noise, under a prior in units of the noise."""
    covariance = np.eye(len(y)) + X @ (X / prior).T + intercept_variance(find_link("identity"))
    return float(multivariate_normal(np.zeros(len(y)), noise * covariance).logpdf(y))


def test_scale_has_the_largest_evidence() -> None:
    rounds = 2 ** math.ceil(math.log2(EVIDENCE_FROM))  # the first replacement that uses the evidence
    chosen = set()
    for seed, strength in enumerate(np.repeat(np.geomspace(0.02, 30.0, 12), 2)):
        X, theta, _ = linear_problem(rounds, 5, seed)
        y = strength * (X @ theta) + 0.5 * np.random.default_rng([seed, 1]).normal(size=rounds) + 3.0
        before, state = learned("identity", X[:-1], y[:-1]), learned("identity", X, y)
        size = dispersion(before, assumed_noise(find_link("identity")))
        evidence = [log_density(X[:-1], y[:-1], scale * unit_prior(X), size) for scale in SCALES]
        assert state[PRIOR_SCALE] == SCALES[int(np.argmax(evidence))], (strength, evidence)
        chosen.add(float(state[PRIOR_SCALE]))
    assert len(chosen) >= min(3, len(SCALES))


@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_scale_is_not_changed_by_few_rewards(link: str) -> None:
    for strength in (0.0, 100.0):
        X = np.random.default_rng(31).normal(size=(EVIDENCE_FROM - 1, 3))
        y = strength * X[:, 0] if link == "identity" else (strength * X[:, 0] > 0.0).astype(float)
        assert learned(link, X, y)[PRIOR_SCALE] == FIRST_SCALE


def test_late_feature_gets_its_own_scale_at_once() -> None:
    rng = np.random.default_rng(10)
    X = np.hstack([rng.uniform(-1, 1, (10, 2)), np.zeros((10, 1))])
    state = learned("logistic", X, rng.integers(0, 2, 10).astype(float))
    x = np.array([0.3, 0.0, 30.0])
    values = np.empty(3)
    assert count_features(state, x, values)
    np.testing.assert_array_equal(values, x)
    init_feature_prior(state, x)
    mean_presences = presence_of(state, 3).sum() / state[WEIGHT]
    assert mean_presences == pytest.approx((10 * 2 + 2) / 11)
    assert prior_of(state, 3)[2] == pytest.approx(900.0 * mean_presences * state[PRIOR_SCALE], rel=1e-12)
    np.testing.assert_array_equal(assembled(state, 3, blocks_at(3))[2], [0.0, 0.0, 1.0 / prior_of(state, 3)[2]])
    assert coupling_of(state, 3)[2] == mean_of(state, 3)[2] == 0.0


def test_unseen_feature_has_a_typical_prior() -> None:
    X, _, y = linear_problem(40, 3, seed=15)
    X[:, 1] = 0.0
    state = learned("identity", X, y)
    assert presence_of(state, 3)[1] == 0.0
    assert mean_of(state, 3)[1] == 0.0
    prior = prior_of(state, 3)
    assert min(prior[0], prior[2]) <= prior[1] <= max(prior[0], prior[2])


def test_prior_does_not_vanish_after_rows_of_zeros() -> None:
    X = np.concatenate([np.ones((100, 1)), np.zeros((3000, 1)), np.ones((5, 1))])
    state = learned("identity", X, np.resize([0.0, 1.0], len(X)), half_life=10.0)
    assert is_valid(state, 1)
    assert prior_of(state, 1)[0] >= 0.3 * state[PRIOR_SCALE] > 0.0


def test_tiny_features_count_as_the_least_square() -> None:
    state = learned("identity", np.full((4, 1), 1e-120), np.array([0.0, 1.0, 0.0, 1.0]))
    assert is_valid(state, 1)
    assert prior_of(state, 1)[0] == pytest.approx(LEAST_SQUARE * state[PRIOR_SCALE])
