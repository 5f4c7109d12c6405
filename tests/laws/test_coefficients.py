"""Coefficients of every policy: the point estimate with which it scores arms."""

from dataclasses import replace
from functools import cache
from typing import Any, Literal

import numpy as np
import pytest

from glbandits import Bandit, InvalidInput, Optimist, Policy
from glbandits.maths.links import find_link
from glbandits.policies import POLICIES
from glbandits.policies.contract import Coefficients, settings_of
from tests.laws.test_every_policy import VARIANTS, named

TRUTH = np.array([1.5, -1.0, 0.5])
WITHOUT = {"supcb-glm", "uniform"}
"""Policies without a single estimate: one has an estimate for each stage, one has none."""
EXPLORATIONS = {"exploration", "exploration_a1", "exploration_a2"}
"""Settings that are 0 for greedy choices."""


def greedy(policy: Any) -> Policy:
    without: Policy = replace(policy, **dict.fromkeys(EXPLORATIONS & settings_of(policy).keys(), 0.0))
    return without


WITH = {name: policy for name, policy in VARIANTS.items() if policy.name not in WITHOUT}
NO_EXPLORATION = {
    name: greedy(policy)
    for name, policy in WITH.items()
    if policy.name == "greedy" or (policy != greedy(policy) and getattr(policy, "floor", 0.0) == 0.0)
}


@cache
def learned(policy: Policy, rewards: int) -> Bandit:
    """Return a bandit that has learned rewards without noise. Tests must not change what it has learned."""
    bandit, rng, mean = Bandit(policy, dim=3, seed=1), np.random.default_rng(1), find_link(policy.link).mean
    X = rng.uniform(-1, 1, (rewards, 3))
    bandit.learn_batch(X, [mean(float(x @ TRUTH)) for x in X])
    return bandit


def coefficients_of(bandit: Bandit) -> Coefficients:
    coefficients = bandit.coefficients()
    assert coefficients is not None
    return coefficients


@pytest.mark.statistics
@pytest.mark.parametrize("policy", named(WITH))
def test_coefficients_rank_arms_like_theta_star(policy: Policy) -> None:
    coefficients = coefficients_of(learned(policy, 120))
    assert coefficients.theta.shape == (3,)
    assert np.isfinite([*coefficients.theta, coefficients.intercept]).all()
    best = TRUTH / np.linalg.norm(TRUTH)
    assert np.argmax(np.array([-best, 0 * best, best]) @ coefficients.theta) == 2


@pytest.mark.parametrize("policy", named(NO_EXPLORATION))
def test_greedy_choices_follow_the_coefficients(policy: Policy) -> None:
    bandit, rng = learned(policy, 120), np.random.default_rng(2)
    theta = coefficients_of(bandit).theta
    for _ in range(50):
        arms = rng.uniform(-1, 1, (5, 3))
        assert bandit.choose(arms) == np.argmax(arms @ theta)


@pytest.mark.parametrize("policy", named(WITH))
def test_coefficients_are_a_copy(policy: Policy) -> None:
    bandit = learned(policy, 20)
    before = bandit.state
    coefficients_of(bandit).theta[:] = 7.0
    np.testing.assert_array_equal(bandit.state, before)


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_policies_without_a_point_estimate_have_none(name: str) -> None:
    assert Bandit(POLICIES[name](), dim=3).coefficients() is None


@pytest.mark.parametrize("half_life", [None, "auto"])
def test_optimist_has_an_intercept(half_life: Literal["auto"] | None) -> None:
    bandit, X = Bandit(Optimist(link="identity", half_life=half_life), dim=3), np.eye(3)[np.arange(60) % 3]
    bandit.learn_batch(np.vstack([X, -X]), np.concatenate([5.0 + X @ TRUTH, 5.0 - X @ TRUTH]))
    coefficients = coefficients_of(bandit)
    assert coefficients.intercept == pytest.approx(5.0, abs=0.01)
    np.testing.assert_allclose(coefficients.theta, TRUTH, atol=0.1)


@pytest.mark.parametrize("indices", [None, np.array([0, 2])])
def test_negative_features_have_no_coefficient(indices: Any) -> None:
    with pytest.raises(InvalidInput, match="features must be at least 0; got -1"):
        Coefficients(np.array([0.5, -1.0]), indices=indices).at([0, -1])
