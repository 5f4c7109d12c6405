"""Widths that theory proves: theta* stays inside, as often as they promise and in every round."""

import math
from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, Ecolog, GlbOmd, GlmUcb, Gloc, LinUcb, OfuglbE, UcbGlm
from glbandits.environments import Synthetic
from glbandits.estimators import gloc_estimator, linear_estimator, mle_estimator
from glbandits.maths.belief import factor_of as belief_factor
from glbandits.policies import ecolog, glb_omd, ofuglb_e
from glbandits.records import Floats

RUNS, ROUNDS, FAILURE = 40, 150, 0.05


def gloc_ellipsoid(policy: Any, state: Floats) -> tuple[Floats, Floats, float]:
    radius = gloc_estimator.width(state, gloc_estimator.read(policy.numbers(3)), 3)
    return gloc_estimator.vector(state, 3, gloc_estimator.THETA_HAT), gloc_estimator.factor_of(state, 3), radius


def linear_ellipsoid(policy: Any, state: Floats) -> tuple[Floats, Floats, float]:
    return state[:3], belief_factor(state, 3), linear_estimator.width(state, policy.numbers(3), 3)


def glb_omd_ellipsoid(policy: Any, state: Floats) -> tuple[Floats, Floats, float]:
    return state[1:4], belief_factor(state[1:], 3), glb_omd.width(state, policy.numbers(3), 3)


def ecolog_ellipsoid(policy: Any, state: Floats) -> tuple[Floats, Floats, float]:
    return (
        ecolog.vector(state, 3, ecolog.THETA),
        ecolog.matrix(state, 3, ecolog.W),
        ecolog.width(state, policy.numbers(3)),
    )


def ofuglb_ellipsoid(policy: Any, state: Floats) -> tuple[Floats, Floats, float]:
    return state[1:4], mle_estimator.factor_of(state, 3), ofuglb_e.width(state, policy.numbers(3), 3)


@pytest.mark.parametrize(
    ("policy", "ellipsoid"),
    [
        (LinUcb(exploration=None), linear_ellipsoid),
        (Gloc(exploration=None, step=None), gloc_ellipsoid),
        (GlbOmd(exploration=None, prior_precision=None, step=None, bound=1.0), glb_omd_ellipsoid),
        (Ecolog(exploration=None, step=None, bound=1.0), ecolog_ellipsoid),
        (OfuglbE(exploration=None, bound=1.0), ofuglb_ellipsoid),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_theta_star_stays_in_the_set(policy: Any, ellipsoid: Any) -> None:
    problem, left = (
        Synthetic(dim=3, arms=5, theta_norm=1.0, link=policy.link if policy.link == "identity" else "logistic"),
        0,
    )
    for seed in range(RUNS):
        bandit, outside = Bandit(policy, dim=3, seed=seed), False
        theta_star = problem.theta_star(seed)
        for piece in problem.rounds(ROUNDS, seed):
            for t in range(len(piece)):
                arm = bandit.choose(piece.arms[t])
                bandit.learn(piece.arms[t, arm], problem.noise.reward(piece.expected[t, arm], piece.noise[t]))
                centre, R, radius = ellipsoid(policy, bandit.state)
                outside |= bool(np.linalg.norm(R @ (theta_star - centre)) > radius)
        left += outside
    # Of 40 runs a set with failure 0.05 may lose theta* in two on average; more than 7 comes once in 150 times.
    assert left <= 7


def test_where_a_set_is_not_an_ellipsoid_the_width_is_as_written() -> None:
    rng, dim = np.random.default_rng(0), 3
    X, y = rng.uniform(-0.5, 0.5, (40, dim)), rng.integers(0, 2, 40).astype(float)
    kappa = math.exp(-2) / (1 + math.exp(-2)) ** 2
    alpha = UcbGlm(exploration=None, horizon=500).numbers(dim)[0]
    assert alpha == pytest.approx(0.5 / kappa * math.sqrt(1.5 * math.log(1 + 1000 / 3) + math.log(20)))
    policy = GlmUcb(exploration=None, bound=1.0, warm_up=5)
    bandit = Bandit(policy, dim=dim, seed=1)
    bandit.learn_batch(X, y)
    M, theta = np.eye(dim) + X.T @ X, bandit.state[1:4]
    least = math.exp(-1) / (1 + math.exp(-1)) ** 2
    rho = 2 * 0.25 / least * (0.5 * math.sqrt(np.linalg.slogdet(M)[1] + 2 * math.log(20)) + least)
    arms = rng.uniform(-0.5, 0.5, (30, dim))
    index = 1 / (1 + np.exp(-arms @ theta)) + rho * np.sqrt(np.einsum("ai,ij,aj->a", arms, np.linalg.inv(M), arms))
    assert bandit.choose(arms) == int(np.argmax(index))
