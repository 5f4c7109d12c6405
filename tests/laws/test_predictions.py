"""Predictions of every policy."""

import numpy as np
import pytest

from glbandits import Bandit, InvalidInput, Policy
from glbandits.maths.links import find_link
from glbandits.policies import POLICIES
from tests.laws.test_coefficients import coefficients_of, learned
from tests.laws.test_every_policy import VARIANTS, named

WITHOUT = {"supcb-glm", "uniform", "pg-ts", "lmc-ts", "glm-fpl"}
"""Policies without an estimate: the last three store a random draw only."""
WITH_POSTERIOR = {"optimist", "online-laplace", "laplace-ts", "glm-tsl", "lin-ts", "lin-ucb"}
ARMS = np.random.default_rng(3).uniform(-1, 1, (6, 3))


@pytest.mark.parametrize("policy", named({k: p for k, p in VARIANTS.items() if p.name not in WITHOUT}))
def test_predictions_follow_the_estimate_and_change_nothing(policy: Policy) -> None:
    bandit, untouched = learned(policy, 120).copy(), learned(policy, 120).copy()
    mean, found = find_link(policy.link).mean, coefficients_of(bandit)
    expected = [mean(float(score)) for score in ARMS @ found.theta + found.intercept]
    np.testing.assert_allclose(bandit.predict(ARMS), expected, rtol=1e-9, atol=1e-12)
    if policy.name in WITH_POSTERIOR:
        means, low, high = bandit.predict(ARMS, interval=0.9)
        np.testing.assert_array_equal(means, bandit.predict(ARMS))
        assert ((low < means) & (means < high)).all()
        wider = bandit.predict(ARMS, interval=0.99)
        assert ((wider.low < low) & (high < wider.high)).all()
    else:
        with pytest.raises(InvalidInput, match="has no posterior"):
            bandit.predict(ARMS, interval=0.9)
    np.testing.assert_array_equal(bandit.state, untouched.state)
    assert [bandit.choose(ARMS) for _ in range(5)] == [untouched.choose(ARMS) for _ in range(5)]


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_policies_without_an_estimate_refuse_to_predict(name: str) -> None:
    with pytest.raises(InvalidInput, match="has no estimate"):
        Bandit(POLICIES[name](), dim=3).predict(ARMS)


@pytest.mark.parametrize("name", sorted(WITH_POSTERIOR))
def test_intervals_narrow_with_more_rewards(name: str) -> None:
    bandit, rng, widths = Bandit(name, dim=3, seed=1), np.random.default_rng(1), []
    for rewards in (30, 300):
        bandit.learn_batch(rng.uniform(-1, 1, (rewards, 3)), rng.integers(0, 2, rewards))
        _, low, high = bandit.predict(ARMS, interval=0.9)
        widths.append(np.mean(high - low))
    assert widths[1] < widths[0]
