"""Units and offsets of features and rewards do not change the choices of `Optimist`."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from glbandits.common.arrays import Floats
from glbandits.maths.links import find_link
from glbandits.maths.philox import generator
from glbandits.policies.algorithms.optimist import Optimist
from glbandits.policies.contract import unpacker
from glbandits.policies.shared.posterior_state import INTERCEPT, PRIOR_SCALE, mean_of
from tests.policies.shared.posterior_parts import (
    functions,
    learned,
    linear_problem,
)


class Played(NamedTuple):
    """The choices of a run, and its final state."""

    choices: list[int]
    state: Floats


def play(link: str, arms: Floats, scores: Floats, noise: Floats, reward_unit: float = 1.0) -> Played:
    """Run Optimist. Rewards are 0 and 1 under the logistic link, otherwise in this unit."""
    policy, known, rng, dim = Optimist(link=link), functions(find_link(link)), generator(7), arms.shape[2]
    kind = policy.implementation(dim)
    settings = unpacker(kind)(policy.packed_settings(dim))
    state, choices = policy.init(dim), []
    for now, score, error in zip(arms, scores, noise, strict=True):
        arm = kind.choose(state, settings, now, rng, known)
        reward = float(norm.cdf(error) < expit(score[arm])) if link == "logistic" else float(score[arm] + error)
        state = kind.learn(state, settings, now[arm], reward_unit * reward, rng, known)
        choices.append(arm)
    return Played(choices, state)


def moving_arms(rounds: int = 300, offset: float = 0.0) -> tuple[Floats, Floats, Floats]:
    """Arms, their scores, and noise."""
    rng = np.random.default_rng(5)
    arms = rng.uniform(-1, 1, (rounds, 5, 3))
    return arms, arms @ np.array([1.0, -0.5, 0.8]) + offset, rng.normal(size=rounds)


@pytest.mark.parametrize("unit", [2.0**-10, 2.0**10])
@pytest.mark.parametrize(
    ("link", "offset"), [("logistic", 0.0), ("logistic", -2.0), ("identity", 0.0), ("identity", 9.0)]
)
def test_unit_of_the_features_changes_no_choice(link: str, offset: float, unit: float) -> None:
    arms, scores, noise = moving_arms(offset=offset)
    first, second = play(link, arms, scores, noise), play(link, unit * arms, scores, noise)
    assert first.choices == second.choices
    np.testing.assert_allclose(unit * mean_of(second.state, 3), mean_of(first.state, 3), rtol=1e-8)


@pytest.mark.parametrize("units", [[2.0**-10, 1.0, 2.0**15], [2.0**-30, 2.0**-31, 2.0**30]])
def test_units_of_single_features_hardly_matter(units: list[float]) -> None:
    # The prior treats ratios below LARGEST_SHARE as sizes, not units, so choices may differ. Learned scores may not.
    arms, scores, noise = moving_arms(600)
    theta = mean_of(play("identity", arms * units, scores, noise).state, 3) * units
    # Standard errors are about 0.07.
    np.testing.assert_allclose(theta, [1.0, -0.5, 0.8], atol=0.35)


@pytest.mark.parametrize("offset", [0.0, 9.0, 1000.0])
@pytest.mark.parametrize("unit", [2.0**-20, 2.0**7])
def test_unit_of_linear_rewards_changes_no_choice(unit: float, offset: float) -> None:
    arms, scores, noise = moving_arms(offset=offset)
    first, second = play("identity", arms, scores, noise), play("identity", arms, scores, noise, unit)
    assert first.choices == second.choices
    assert second.state[PRIOR_SCALE] == first.state[PRIOR_SCALE]


def test_offset_of_linear_rewards_is_learned() -> None:
    X, theta, y = linear_problem(500, 3, seed=6)
    state = learned("identity", X, y + 100.0)
    # Standard errors: 0.5 / sqrt(500) = 0.022, and 0.039 for theta.
    assert state[INTERCEPT] == pytest.approx(100.0, abs=0.15)
    np.testing.assert_allclose(mean_of(state, 3), theta, atol=0.25)


def test_offset_of_logistic_rewards_is_learned() -> None:
    rng = np.random.default_rng(16)
    X = rng.uniform(-1, 1, (3000, 3))
    y = rng.random(3000) < expit(X @ [1.0, -0.5, 0.8] - 3.0)
    state = learned("logistic", X, y)
    # A reward has the mean 0.055 and so the slope 0.05: standard errors are about 0.09, and 0.15 for theta.
    assert state[INTERCEPT] == pytest.approx(-3.0, abs=0.5)
    np.testing.assert_allclose(mean_of(state, 3), [1.0, -0.5, 0.8], atol=0.8)
