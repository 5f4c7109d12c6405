import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from glbandits import SgdTs
from glbandits.lab import Synthetic
from glbandits.lab.paper import theory
from glbandits.lab.paper.theory import BallShare, TheoryCheck, ball_share, check_theory, growth_of

pytestmark = pytest.mark.statistics

PROBLEM = Synthetic(dim=6, arms=100)


@pytest.fixture(scope="module")
def check() -> TheoryCheck:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theory, "QUICK_SAMPLE", 400)
        patch.setattr(theory, "QUICK_BALL_RUNS", 30)
        patch.setattr(theory, "QUICK_GROWTH_SEEDS", 6)
        patch.setattr(theory, "QUICK_GROWTH_HORIZONS", (200, 400, 800))
        calls: list[tuple[float, float]] = []
        result = check_theory(quick=True, jobs=2, progress=lambda _, done, total: calls.append((done, total)))
    assert calls[0][0] == 0.0
    assert calls[-1][0] == calls[-1][1]
    return result


def test_theory_warm_up_exceeds_the_paper_horizon(check: TheoryCheck) -> None:
    assert check.sigma_0_squared == pytest.approx(1 / 18, rel=0.05)
    assert check.lambda_f == pytest.approx(0.0022, rel=0.25)
    assert check.tau > 1e8
    assert check.bound == 1000.0  # T, because tau exceeds T
    assert check.largest_regret == pytest.approx(1000 * math.tanh(0.5))
    assert check.covered_horizon == 10**9
    assert check.tau < check.covered_horizon
    assert check.covered_bound > check.covered_horizon * check.largest_regret_per_round
    assert check.informative_horizon is None


def test_ball_misses_theta_star_without_ridge(check: TheoryCheck) -> None:
    balls = {(ball.block_factor, ball.ridge): ball for ball in check.balls}
    assert [ball.block_length for ball in check.balls] == [6, 6, 20, 20, 69, 69]
    assert balls[3.0, 0.0].share < 0.3
    assert balls[10.0, 0.0].share < 0.6
    assert balls[10.0, 1.0].share > 0.9
    assert balls[1.0, 0.0].without_estimate == 30  # six rows are separable
    assert all(balls[factor, 1.0].without_estimate == 0 for factor in (1.0, 3.0, 10.0))


def test_wide_ball_contains_theta_star_and_narrow_one_does_not() -> None:
    policy, seeds = SgdTs(horizon=1000, block_factor=10), [5, 6, 7]
    wide = ball_share(replace(policy, radius=1e6), PROBLEM, seeds)
    assert wide == BallShare(10.0, 0.0, 69, runs=3, inside=3, without_estimate=0)
    assert wide.share == 1.0
    assert ball_share(replace(policy, radius=1e-6), PROBLEM, seeds).inside == 0


def test_growth_is_fitted_with_an_interval_over_seeds() -> None:
    horizons = (100, 1000, 10_000)
    scale = np.random.default_rng(1).uniform(0.5, 1.5, (40, 1))
    exact = growth_of("sgd-ts", horizons, scale * np.sqrt(np.array(horizons, dtype=float)))
    assert exact.slope == pytest.approx(0.5)
    assert [exact.slope_low, exact.slope_high] == pytest.approx([0.5, 0.5])
    noisy = np.array(horizons) * np.random.default_rng(2).uniform(0.2, 1.8, (40, 3))
    growth = growth_of("uniform", horizons, noisy)
    assert growth.slope_low < growth.slope < growth.slope_high
    assert growth.slope_low < 1.0 < growth.slope_high
    assert growth.seeds == 40


def test_uniform_play_has_linear_regret(check: TheoryCheck) -> None:
    sgd_ts, uniform = check.growth
    assert (sgd_ts.policy, uniform.policy) == ("sgd-ts", "uniform")
    assert uniform.slope == pytest.approx(1.0, abs=0.05)
    assert sgd_ts.slope < uniform.slope
    assert sgd_ts.mean[-1] < uniform.mean[-1]


def test_theory_check_round_trips_through_json(check: TheoryCheck) -> None:
    assert msgspec.json.decode(msgspec.json.encode(check), type=TheoryCheck) == check
    ball = BallShare(3.0, 0.0, 20, 200, 5, 5)
    assert msgspec.json.decode(msgspec.json.encode(ball), type=BallShare) == ball
