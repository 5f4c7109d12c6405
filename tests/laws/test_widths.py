"""Confidence sets of the theories: they must contain theta* in all rounds, with their probability."""

import math
from typing import Any, TypeAlias

import numpy as np
import pytest

from glbandits import Bandit, DomdGlb, GlbOmd, GlmUcb, Gloc, InvalidInput, LinUcb, OfuglbE, UcbGlm
from glbandits.common.arrays import Floats
from glbandits.lab import Synthetic
from glbandits.policies.algorithms import ofuglb_e
from glbandits.policies.contract import Policy, unpacker
from glbandits.policies.shared import glb_omd_policy, gloc_policy, linear_policy, mle_policy, posterior_policy

Ellipsoid: TypeAlias = tuple[Floats, Floats, float]
"""Centre, Cholesky factor and radius."""


def unpacked(policy: Policy, dim: int) -> Any:
    """Return the settings as compiled code reads them."""
    return unpacker(type(policy))(policy.packed_settings(dim))


def gloc_ellipsoid(policy: Policy, state: Floats) -> Ellipsoid:
    width = gloc_policy.width(state, unpacked(policy, 3), 3)
    return gloc_policy.theta_hat_of(state, 3), gloc_policy.factor_of(state, 3), width


def linear_ellipsoid(policy: Policy, state: Floats) -> Ellipsoid:
    width = linear_policy.width(state, unpacked(policy, 3), 3)
    return posterior_policy.mean_of(state, 3), posterior_policy.factor_of(state, 3), width


def glb_omd_ellipsoid(policy: Policy, state: Floats) -> Ellipsoid:
    width = glb_omd_policy.width(state, unpacked(policy, 3), 3)
    return glb_omd_policy.theta_of(state, 3), glb_omd_policy.factor_of(state, 3), width


def ofuglb_ellipsoid(policy: Policy, state: Floats) -> Ellipsoid:
    width = ofuglb_e.width(state, unpacked(policy, 3), 3)
    return mle_policy.theta_of(state, 3), mle_policy.factor_of(state, 3), width


@pytest.mark.statistics
@pytest.mark.parametrize(
    ("policy", "ellipsoid"),
    [
        (LinUcb(exploration=None), linear_ellipsoid),
        (Gloc(exploration=None, step=None), gloc_ellipsoid),
        (GlbOmd(exploration=None, prior_precision=None, step=None, bound=1.0), glb_omd_ellipsoid),
        (DomdGlb(exploration=None, prior_precision=None, step=None, bound=1.0, half_life=20.0), glb_omd_ellipsoid),
        (OfuglbE(exploration=None, bound=1.0), ofuglb_ellipsoid),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
@pytest.mark.parametrize(("runs", "rounds"), [(5, 80), pytest.param(40, 150, marks=pytest.mark.slow)])
def test_theta_star_is_in_the_confidence_set(policy: Any, ellipsoid: Any, runs: int, rounds: int) -> None:
    problem, left = (
        Synthetic(dim=3, arms=5, theta_norm=1.0, link=policy.link if policy.link == "identity" else "logistic"),
        0,
    )
    for seed in range(runs):
        bandit, outside = Bandit(policy, dim=3, seed=seed), False
        theta_star = problem.theta_star(seed)
        for block in problem.rounds(rounds, seed):
            for t in range(len(block)):
                arm = bandit.choose(block.arms[t])
                bandit.learn(block.arms[t, arm], problem.noise.reward(block.expected[t, arm], block.noise[t]))
                centre, R, radius = ellipsoid(policy, bandit.state)
                outside |= bool(np.linalg.norm(R @ (theta_star - centre)) > radius)
        left += outside
    # A set with failure probability 0.05 may miss theta* in two of 40 runs. All of these sets are much wider than
    # necessary: the largest distance in 40 runs is 0.7 of the radius (lin-ucb), 0.5 (glb-omd) or less. The formulas are
    # tested below.
    assert left == 0


def test_widths_match_the_formulas_of_their_pages() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (40, 3)), rng.integers(0, 2, 40).astype(float)
    S, delta, d, t = 2.0, 0.05, 3, 40
    R = math.tanh(S / 2)
    eta = 1 + R * S
    lam = max(14 * d * eta * R**2, 6 * eta * R * S / 4)
    omd = GlbOmd(exploration=None, bound=S)
    bandit = Bandit(omd, dim=d, seed=1)
    bandit.learn_batch(X, y)
    beta = 4 * lam * S**2 + 2 * eta * math.log(1 / delta) + d * eta * (1 + 6 * eta) * math.log(1 + t / 4 / (lam * d))
    assert glb_omd_policy.width(bandit.state, unpacked(omd, d), d) == pytest.approx(math.sqrt(beta), rel=1e-6)
    ofu = OfuglbE(exploration=None, bound=S)
    bandit = Bandit(ofu, dim=d, seed=1)
    bandit.learn_batch(X, y)
    steepest = (1 + S / 2) * t  # the paper's for Bernoulli rewards
    beta = math.log(1 / delta) + d * math.log(2 * math.e * S * steepest / d)
    assert ofuglb_e.width(bandit.state, unpacked(ofu, d), d) == pytest.approx(
        math.sqrt(2 * (1 + R * S) * (1 + beta)), rel=1e-6
    )
    with pytest.raises(InvalidInput, match="needs noise of at most 1; got noise=3"):
        OfuglbE(exploration=None, link="identity", noise=3.0)


@pytest.mark.parametrize("build", [OfuglbE, GlbOmd, GlmUcb, Gloc, UcbGlm])
def test_bound_with_vanishing_slopes_is_rejected(build: Any) -> None:
    with pytest.raises(InvalidInput, match="Choose a smaller bound"):
        Bandit(build(link="probit", bound=60.0, exploration=None, **({"horizon": 9} if build is UcbGlm else {})), dim=2)


def test_other_widths_match_the_formulas_of_their_pages() -> None:
    rng, dim = np.random.default_rng(0), 3
    X, y = rng.uniform(-0.5, 0.5, (40, dim)), rng.integers(0, 2, 40).astype(float)
    kappa = math.exp(-2) / (1 + math.exp(-2)) ** 2
    alpha = UcbGlm(exploration=None, horizon=500).scale(dim)
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
