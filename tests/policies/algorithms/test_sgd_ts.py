import math
from collections.abc import Callable

import numpy as np
import pytest
from benchmarks.numpy_sgd_ts import NumpySgdTs

from glbandits import Bandit, InvalidInput, SgdTs
from glbandits.common.arrays import Floats
from glbandits.lab import Synthetic, simulate
from glbandits.maths.fitting.likelihood import RIDGE_WITHOUT_MLE
from glbandits.maths.philox import add_normals, any_index, generator
from glbandits.policies import TheoryConstants
from glbandits.policies.algorithms import sgd_ts
from glbandits.policies.contract import unpacker
from glbandits.policies.shared.sgd_ts_theory import variance


def part(bandit: Bandit, part_of: Callable[[Floats, int], Floats]) -> Floats:
    return part_of(bandit.state, bandit.dim)


def theta_ts_of(state: Floats, dim: int) -> Floats:
    return sgd_ts.block_draw(state, dim, 0)


def test_three_blocks_match_a_manual_computation() -> None:
    # Identity link, d = 2, tau = 2, eta = 1/2, radius 2, no exploration. The numbers below were computed by hand.
    bandit = Bandit(
        SgdTs(link="identity", block_length=2, step=0.5, exploration_a1=0.0, exploration_a2=0.0), dim=2, seed=1
    )
    # Block 1, with random arms: theta_hat solves x'theta = y for x = (1, 0) and (1, 1), y = 1 and 3.
    bandit.learn([1.0, 0.0], 1.0)
    bandit.learn([1.0, 1.0], 3.0)
    for part_of in (sgd_ts.theta_hat_of, sgd_ts.theta_tilde_of, sgd_ts.theta_bar_of, theta_ts_of):
        np.testing.assert_allclose(part(bandit, part_of), [1.0, 2.0], atol=1e-12)
    # Block 2, at theta_tilde_1 = (1, 2): errors 1 - 2 = -1 at (1, 0), and 2 - 0 = 2 at (0, 1). Gradient (-1, 2);
    # step (1/2)/2: theta_tilde_2 = (1.25, 1.5), inside the ball; theta_bar_2 = (1.125, 1.75).
    bandit.learn([1.0, 0.0], 2.0)
    np.testing.assert_allclose(part(bandit, sgd_ts.gradient_of), [-1.0, 0.0], atol=1e-12)
    bandit.learn([0.0, 1.0], 0.0)
    np.testing.assert_allclose(part(bandit, sgd_ts.theta_tilde_of), [1.25, 1.5], atol=1e-12)
    np.testing.assert_allclose(part(bandit, sgd_ts.theta_bar_of), [1.125, 1.75], atol=1e-12)
    np.testing.assert_allclose(part(bandit, theta_ts_of), [1.125, 1.75], atol=1e-12)
    # Block 3, at theta_tilde_2: errors 1.25 - 13.25 = -12 at (1, 0), 3 - 3 = 0 at (0, 2). Gradient (-12, 0); step
    # (1/2)/3: (3.25, 1.5), at (2.25, -0.5) from theta_hat; the projection scales that to norm 2.
    bandit.learn([1.0, 0.0], 13.25)
    bandit.learn([0.0, 2.0], 3.0)
    shrink = 2.0 / math.hypot(2.25, 0.5)
    theta_tilde_3 = np.array([1.0 + 2.25 * shrink, 2.0 - 0.5 * shrink])
    np.testing.assert_allclose(part(bandit, sgd_ts.theta_tilde_of), theta_tilde_3, atol=1e-12)
    np.testing.assert_allclose(
        part(bandit, sgd_ts.theta_bar_of), (np.array([2.25, 3.5]) + theta_tilde_3) / 3, atol=1e-12
    )
    assert bandit.state[sgd_ts.BLOCK] == 3
    assert bandit.choose([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]) == 2


@pytest.mark.usefixtures("plain_python")
def test_numpy_implementation_makes_the_same_choices() -> None:
    policy, problem, horizon, seed = SgdTs(horizon=600, exploration_a1=0.3), Synthetic(dim=4, arms=12), 600, 3
    rng = generator(seed)

    def normals(size: int) -> Floats:
        drawn = np.zeros(size)
        add_normals(drawn, 1.0, rng)
        return drawn

    plain = NumpySgdTs(policy, 4, lambda size: any_index(rng, size), normals)
    choices = []
    for part in problem.rounds(horizon, seed):
        for arms, expected, noise in zip(part.arms, part.expected, part.noise, strict=True):
            arm = plain.choose(arms)
            plain.learn(arms[arm], float(noise < expected[arm]))
            choices.append(arm)
    result = simulate(policy, problem, horizon, [seed])
    assert result.choices is not None
    np.testing.assert_array_equal(result.choices[0], choices)


@pytest.mark.statistics
def test_regret_on_the_papers_simulation() -> None:
    # Settings from the paper's grid: C = 10, eta = 1, a1 = a2 = 0.01. Over 3000 other seeds the mean regret was 55.95
    # with a standard deviation of 28 per run. The mean of 400 runs has a standard error of 1.4, so a correct program
    # exceeds +-6 in about one of 50,000 seed sets.
    policy = SgdTs(block_factor=10, step=1.0, exploration_a1=0.01, exploration_a2=0.01, horizon=1000)
    result = simulate(policy, Synthetic(dim=6, arms=100), 1000, range(10_000, 10_400))
    assert result.final_regret.mean() == pytest.approx(56, abs=6)


@pytest.mark.parametrize(
    ("policy", "tau"),
    [
        (SgdTs(horizon=1000, block_factor=10), 69),  # log 1000 = 6.9 > d
        (SgdTs(horizon=100, block_factor=1), 6),
        (SgdTs(block_factor=2.5), 15),  # no horizon: d alone
        (SgdTs(block_factor=0.01), 1),
        (SgdTs(block_length=7, horizon=1000), 7),
    ],
)
def test_block_length(policy: SgdTs, tau: int) -> None:
    assert policy.tau(6) == tau


def test_blocks_count_rewards() -> None:
    bandit = Bandit(SgdTs(block_length=10), dim=2, seed=1)
    arms = np.eye(2)
    for _ in range(50):
        bandit.choose(arms)  # decisions whose rewards are delayed
    for n in range(1, 36):
        bandit.learn(arms[n % 2], float(n % 3 == 0))
        assert bandit.state[sgd_ts.BLOCK] == n // 10
        assert bandit.state[sgd_ts.POSITION] == n % 10


@pytest.mark.usefixtures("plain_python")
def test_draw_is_constant_in_a_block_with_the_right_variance() -> None:
    # theta_TS - theta_bar over many first blocks: variance (2 a1^2 + 2 a2^2) / j.
    policy, x = SgdTs(block_length=3, exploration_a1=0.3, exploration_a2=0.4, step=1e-9), np.array([1.0, -0.5])
    gaps: list[list[Floats]] = [[], [], []]
    for seed in range(800):
        bandit = Bandit(policy, dim=2, seed=seed)
        for j in range(3):
            for i in range(3):
                bandit.learn(x if i else -x, float(i % 2))
            gaps[j].append(part(bandit, theta_ts_of) - part(bandit, sgd_ts.theta_bar_of))
            before = part(bandit, theta_ts_of)
            bandit.learn(x, 1.0)
            np.testing.assert_array_equal(part(bandit, theta_ts_of), before)
            bandit.learn_batch([x, x], [1.0, 0.0])
    for j, gap in enumerate(gaps):
        block = 2 * j + 1  # each iteration of the loop above completes two blocks
        # 1600 squares: the estimate has a relative standard error of sqrt(2/1600) = 3.5 %; 5 of these is 18 %.
        assert np.mean(np.square(gap)) == pytest.approx(0.5 / block, rel=0.18)


def test_only_the_sum_of_squares_of_a1_and_a2_matters() -> None:
    problem = Synthetic(dim=3, arms=8)
    first, second = (
        simulate(SgdTs(block_length=9, exploration_a1=a1, exploration_a2=a2), problem, 300, 2).choices
        for a1, a2 in ((0.2, 0.7), (0.7, 0.2))
    )
    np.testing.assert_array_equal(first, second)


def test_theta_tilde_never_leaves_the_ball() -> None:
    bandit = Bandit(SgdTs(link="logistic", block_length=5, step=10.0, radius=0.5), dim=3, seed=2)
    rng = np.random.default_rng(2)
    for _ in range(300):
        bandit.learn(rng.normal(size=3), float(rng.random() < 0.5))
        away = np.linalg.norm(part(bandit, sgd_ts.theta_tilde_of) - part(bandit, sgd_ts.theta_hat_of))
        assert away <= 0.5 + 1e-12


def test_separable_first_block_is_fitted_with_a_ridge() -> None:
    bandit = Bandit(SgdTs(block_length=4), dim=2, seed=1)
    for x in ([1.0, 0.2], [0.7, -0.2], [0.4, 0.9], [0.1, -0.9]):
        bandit.learn(x, 0.0)
    assert bandit.state[sgd_ts.FITTED_RIDGE] == RIDGE_WITHOUT_MLE
    assert np.isfinite(bandit.state).all()


def test_theory_settings_reach_the_compiled_code() -> None:
    constants = TheoryConstants(noise=0.5, c1=0.2, c3=0.1, sigma_0=0.5, lambda_f=0.2, horizon=10**6)
    policy = SgdTs(theory=constants)
    n = unpacker(SgdTs)(policy.packed_settings(3))
    assert n.tau == constants.block_length(3)
    assert n.eta == pytest.approx(1 / constants.alpha(3), rel=1e-15)
    for j in (1, 2, 50):
        assert variance(n, float(j), 3) == pytest.approx(constants.variance(j, 3), rel=1e-12)


def test_theory_plays_a_horizon_that_is_shorter_than_its_first_block() -> None:
    constants = TheoryConstants(noise=0.5, c1=0.2, c3=0.02, sigma_0=0.234, lambda_f=0.0024, horizon=1000)
    policy, problem = SgdTs(theory=constants), Synthetic(dim=6, arms=100)
    assert policy.tau(6) > 100_000_000
    assert simulate(policy, problem, 1000, seeds=[1], compiled=False).final_regret[0] > 0.0
    bandit = Bandit(policy, 6, seed=1)
    bandit.learn_batch(np.eye(6).repeat(10, axis=0), np.resize([0.0, 1.0], 60))
    assert Bandit.from_bytes(bandit.to_bytes()).state.tolist() == bandit.state.tolist()
    np.testing.assert_array_equal(bandit.probabilities(np.eye(6)), np.full(6, 1 / 6))


def test_growing_room_for_the_first_block_changes_no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    constants = TheoryConstants(noise=0.5, c1=1.0, c3=1.0, sigma_0=2.0, lambda_f=2.0, horizon=10)
    tau = SgdTs(theory=constants).tau(3)
    assert 10 < tau < 30
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(tau + 5, 3)), rng.integers(0, 2, tau + 5).astype(float)
    estimates, sizes = [], set()
    for room in (tau, 4, 1):
        monkeypatch.setattr(sgd_ts, "ROOM_FOR_THEORY", room)
        policy = SgdTs(theory=constants)
        bandit = Bandit(policy, 3, seed=1)
        for x, reward in zip(X, y, strict=True):
            bandit.learn(x, reward)
            sizes.add(bandit.state.size)
            assert policy.is_valid_state(bandit.state, 3)
        estimates.append(bandit.state)
    assert len(sizes) > 4
    np.testing.assert_array_equal(estimates[1], estimates[0])
    np.testing.assert_array_equal(estimates[2], estimates[0])


def test_block_of_one_reward_makes_a_step_for_each_reward() -> None:
    bandit = Bandit(SgdTs(link="identity", block_length=1, step=0.5, exploration_a1=0.0, exploration_a2=0.0), 1, seed=1)
    bandit.learn([1.0], 3.0)
    assert bandit.state[sgd_ts.BLOCK] == 1
    assert part(bandit, sgd_ts.theta_bar_of)[0] == pytest.approx(3.0)
    bandit.learn([1.0], 5.0)  # theta_tilde_2 = 3 - (0.5/2)(3 - 5) = 3.5
    assert part(bandit, sgd_ts.theta_tilde_of)[0] == pytest.approx(3.5)
    assert part(bandit, sgd_ts.theta_bar_of)[0] == pytest.approx(3.25)
    assert bandit.state[sgd_ts.BLOCK] == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": 0.0}, "step must be a finite number above 0; got 0.0"),
        ({"block_length": 2.5}, "block_length must be a whole number"),
        ({"step": "fast"}, "step must be a finite number"),
        ({"step": np.array([0.1])}, "step must be a finite number"),
        ({"theory": {}}, r"theory must be TheoryConstants\(...\); got {}"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        SgdTs(**settings)  # type: ignore[arg-type]


def test_theory_and_practical_settings_do_not_mix() -> None:
    constants = TheoryConstants(noise=0.5, c1=0.2, c3=0.1, sigma_0=0.5, lambda_f=0.2, horizon=10**6)
    with pytest.raises(InvalidInput, match="got step=0.5 as well"):
        SgdTs(theory=constants, step=0.5)


@pytest.mark.parametrize(("word", "value"), [("BLOCK", -1.0), ("BLOCK", 1.5), ("POSITION", -1.0), ("POSITION", 20.0)])
def test_state_with_impossible_counts_is_invalid(word: str, value: float) -> None:
    policy = SgdTs(block_length=20)
    bandit = Bandit(policy, dim=3, seed=1)
    bandit.learn_batch(np.eye(3).repeat(10, axis=0), np.resize([0.0, 1.0], 30))
    state = bandit.state
    state[getattr(sgd_ts, word)] = value
    assert not policy.is_valid_state(state, 3)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("link", ["logistic", "identity"])
def test_collinear_features_of_any_size_are_fitted(scale: float, link: str) -> None:
    policies = SgdTs(link=link, block_length=40), SgdTs(link=link, block_length=40, ridge=RIDGE_WITHOUT_MLE)
    bandits = [Bandit(policy, dim=dim, seed=1) for policy, dim in zip(policies, (2, 1), strict=True)]
    signs, rewards = np.resize([1.0, -1.0], 40), np.resize([1.0, 0.0, 1.0], 40)
    bandits[0].learn_batch(scale * np.outer(signs, [0.6, 0.8]), rewards)
    bandits[1].learn_batch(scale * np.outer(signs, [1.0]), rewards)  # the same problem in one dimension
    assert bandits[0].state[sgd_ts.CONVERGED] == 1
    assert bandits[0].state[sgd_ts.FITTED_RIDGE] == RIDGE_WITHOUT_MLE
    plane, line = (part(bandit, sgd_ts.theta_hat_of) for bandit in bandits)
    assert scale * plane @ [0.6, 0.8] == pytest.approx(scale * line[0], rel=1e-6)
