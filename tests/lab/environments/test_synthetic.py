import math

import numpy as np
import pytest
from scipy import stats

from glbandits import InvalidInput, UnknownName
from glbandits.common.arrays import Floats
from glbandits.lab import NOISES, Synthetic, gaussian
from glbandits.lab.environments import rounds as rounds_module
from glbandits.lab.environments.rounds import Rounds
from tests.lab.environments.rounds import all_rounds


def test_features_and_theta_are_uniform() -> None:
    problem = Synthetic(dim=4, arms=50)
    rounds = all_rounds(problem, 200, seed=1)
    edge = 1 / math.sqrt(4)
    thetas = np.concatenate([problem.theta_star(seed) for seed in range(500)])
    for values in (rounds.arms.ravel(), thetas):
        assert stats.kstest(values, "uniform", args=(-edge, 2 * edge)).pvalue > 1e-3
    means = 1 / (1 + np.exp(-(rounds.arms @ problem.theta_star(1))))
    np.testing.assert_allclose(rounds.expected, means, rtol=1e-12)


def test_fixed_arms_repeat_and_theta_has_the_given_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_module, "CHUNK_SIZE", 500)
    problem = Synthetic(dim=3, arms=4, fixed_arms=True, theta_norm=3.0)
    rounds = all_rounds(problem, 60, seed=2)
    assert (rounds.arms == rounds.arms[0]).all()
    assert not (rounds.arms[0] == all_rounds(problem, 1, seed=3).arms[0]).any()
    assert np.linalg.norm(problem.theta_star(2)) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("bernoulli", 0.3), ("gaussian", -0.7), ("poisson", 0.4), ("poisson", 2.5), ("poisson", 60.0)],
)
def test_rewards_have_the_expected_mean_and_spread(name: str, expected: float) -> None:
    noise = NOISES[name]
    rewards = np.array([noise.reward(expected, u) for u in noise.draw(np.random.default_rng(2), 20_000)])
    variance = {"bernoulli": 0.3 * 0.7, "gaussian": 0.25, "poisson": expected}[name]
    # Five standard errors of the mean of 20,000 rewards; the variance has a tolerance of 10 %.
    assert rewards.mean() == pytest.approx(expected, abs=5 * math.sqrt(variance / 20_000))
    assert rewards.var() == pytest.approx(variance, rel=0.1)


def test_poisson_rewards_are_the_quantiles_of_the_noise() -> None:
    for u in np.linspace(0.001, 0.999, 97):
        assert NOISES["poisson"].reward(3.3, u) == stats.poisson.ppf(u, 3.3)


def test_better_arm_never_pays_less_with_the_same_noise() -> None:
    for name, means in (("bernoulli", (0.2, 0.7)), ("poisson", (0.5, 2.0)), ("gaussian", (-1.0, 1.0))):
        noise = NOISES[name]
        for u in noise.draw(np.random.default_rng(3), 200):
            assert noise.reward(means[0], u) <= noise.reward(means[1], u)


@pytest.mark.parametrize(
    ("link", "name"), [("identity", "gaussian"), ("logistic", "bernoulli"), ("probit", "bernoulli"), ("log", "poisson")]
)
def test_natural_noise_of_a_link(link: str, name: str) -> None:
    assert Synthetic(link=link).noise.name == name


def test_invalid_problems_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="bernoulli rewards need means from 0 to 1"):
        Synthetic(link="identity", rewards="bernoulli")
    with pytest.raises(UnknownName, match="unknown rewards 'bernouli'"):
        Synthetic(rewards="bernouli")
    with pytest.raises(InvalidInput, match="fewest_arms must be at most arms = 3; got 5"):
        Synthetic(arms=3, fewest_arms=5)
    with pytest.raises(InvalidInput, match="deviation must be a finite number at least 0"):
        gaussian(-1)


def rounds_with(**changes: object) -> Rounds:
    parts: dict[str, object] = {
        "arms": np.zeros((4, 3, 2)),
        "counts": np.full(4, 3),
        "expected": np.zeros((4, 3)),
        "noise": np.zeros(4),
        "payoffs": np.zeros((4, 3)),
    }
    return Rounds(**(parts | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": np.full(3, 3)}, "counts must be finite numbers of shape"),
        ({"expected": np.zeros((4, 2))}, r"expected must be finite numbers of shape \(4, 3\)"),
        ({"payoffs": np.zeros((3, 3))}, "payoffs must be finite"),
        ({"counts": np.array([3, 3, 0, 3])}, "each round needs 1 to 3 arms; got counts 0 to 3"),
        ({"counts": np.array([3, 4, 1, 3])}, "each round needs 1 to 3 arms; got counts 1 to 4"),
    ],
)
def test_rounds_validate_their_arrays(changes: dict[str, Floats], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        rounds_with(**changes)


def test_best_payoff_ignores_padding() -> None:
    values = np.array([[0.1, 0.9, 0.5], [0.2, 0.1, 0.9], [0.3, 0.3, 0.3], [0.0, 0.4, 0.8]])
    rounds = rounds_with(payoffs=values, counts=np.array([3, 2, 1, 3]))
    np.testing.assert_array_equal(rounds.best(), [0.9, 0.2, 0.3, 0.8])
