import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from glbandits import InvalidInput, UnknownName
from glbandits.lab import Synthetic
from glbandits.lab.environments import synthetic
from tests.lab.environments.rounds import all_rounds


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"features": "heavy-tailed"},
        {"features": "correlated"},
        {"intercept": -1.0},
        {"feature_scale": 1000.0, "intercept": 0.5},
    ],
)
def test_theta_star_gives_the_scores(variant: dict[str, Any]) -> None:
    problem = Synthetic(dim=5, arms=20, theta_norm=2.0, **variant)
    rounds = all_rounds(problem, 60, seed=2)
    np.testing.assert_allclose(rounds.expected, expit(rounds.arms @ problem.theta_star(2)), rtol=1e-10)


def test_feature_scale_changes_only_the_features() -> None:
    plain, scaled = Synthetic(dim=4, intercept=1.0), Synthetic(dim=4, intercept=1.0, feature_scale=1000.0)
    first, second = all_rounds(plain, 20, 1), all_rounds(scaled, 20, 1)
    np.testing.assert_array_equal(1000.0 * first.arms, second.arms)
    np.testing.assert_array_equal(first.expected, second.expected)


def test_heavy_tailed_features_are_scaled_student_t() -> None:
    arms = all_rounds(Synthetic(dim=10, arms=50, features="heavy-tailed"), 200, 1).arms.reshape(-1, 10)
    norms = np.linalg.norm(arms, axis=1)
    assert np.median(norms) == pytest.approx(0.6, rel=0.05)
    assert norms.max() > 10 * np.median(norms)
    scale = 0.6 / synthetic.median_norm(10)
    assert stats.kstest(arms.ravel()[:5000] / scale, "t", args=(2.5,)).pvalue > 1e-3


def test_correlated_features_differ_by_seed() -> None:
    problem = Synthetic(dim=6, arms=50, features="correlated")
    directions = []
    for seed in (1, 2):
        arms = all_rounds(problem, 400, seed).arms.reshape(-1, 6)
        second_moments = arms.T @ arms / len(arms)
        assert math.sqrt(np.trace(second_moments)) == pytest.approx(0.6, rel=0.03)
        values, vectors = np.linalg.eigh(second_moments)
        assert math.sqrt(values[-1] / values[0]) == pytest.approx(30.0, rel=0.05)
        directions.append(vectors[:, -1])
    assert abs(directions[0] @ directions[1]) < 0.99


def test_constant_is_last_and_not_part_of_theta_norm() -> None:
    problem = Synthetic(dim=10, arms=5, intercept=-4.6, theta_norm=3.0)
    rounds = all_rounds(problem, 40, 1)
    assert (rounds.arms[:, :, -1] == 1.0).all()
    assert problem.theta_star(1)[-1] == -4.6
    assert np.linalg.norm(problem.theta_star(1)[:-1]) == pytest.approx(3.0)
    assert rounds.expected.mean() < 0.05


def test_step_has_two_means_and_few_good_arms() -> None:
    problem = Synthetic(dim=11, arms=20, intercept=0.7, theta_norm=2.0, misspecified="step")
    rounds = all_rounds(problem, 300, 1)
    assert set(rounds.expected.ravel()) == {0.2, 0.8}
    assert 0.1 < (rounds.expected == 0.8).mean() < 0.22
    scores = rounds.arms[:, :, :-1] @ problem.theta_star(1)[:-1]
    assert scores[rounds.expected == 0.8].min() > scores[rounds.expected == 0.2].max()


def test_interaction_depends_on_a_product_of_features() -> None:
    problem = Synthetic(dim=4, arms=20, theta_norm=2.0, misspecified="interaction")
    rounds = all_rounds(problem, 50, 1)
    scores = rounds.arms @ problem.theta_star(1) + 3 * 4 * rounds.arms[:, :, 0] * rounds.arms[:, :, 1] - 0.5
    np.testing.assert_allclose(rounds.expected, expit(scores), rtol=1e-10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 1, "intercept": 0.0}, "dim must be a whole number of at least 2"),
        ({"theta_norm": 0.0}, "theta_norm must be a finite number above 0"),
        ({"link": "identity", "rewards": "bernoulli"}, "identity link they are from -1 to 1"),
        (
            {"link": "log", "features": "heavy-tailed"},
            "have no largest score, so with the log link there is no largest",
        ),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Synthetic(**settings)


def test_unknown_names_are_rejected() -> None:
    for settings in ({"features": "heavy"}, {"misspecified": "steps"}, {"rewards": "normal"}):
        with pytest.raises(UnknownName):
            Synthetic(**settings)  # type: ignore[arg-type]
