import math
import warnings

import numpy as np
import pytest
import scipy.sparse

from glbandits import Bandit, Optimist, OutlierWarning
from glbandits.common.arrays import Floats
from glbandits.policies.contract import Outliers
from glbandits.policies.shared.outlier_limits import FIRST_LIMITED, limit_of
from glbandits.policies.shared.posterior_state import blocks_at, limits_of, squares_of

pytestmark = pytest.mark.filterwarnings("ignore::glbandits.OutlierWarning")

FORMS = {
    "blocks": Optimist(link="identity"),
    "diagonal": Optimist(link="identity", covariance="diagonal"),
    "forgetting": Optimist(link="identity", half_life=200),
    "auto": Optimist(link="identity", half_life="auto"),
    "logistic": Optimist(),
}


def trained(policy: Optimist, rounds: int = 60, dim: int = 3, seed: int = 1) -> Bandit:
    """A bandit that has learned ordinary rewards, a linear function of normal features plus noise."""
    bandit, rng = Bandit(policy, dim, seed=seed), np.random.default_rng(seed)
    for _ in range(rounds):
        x = rng.normal(size=dim)
        reward = x.sum() + 0.1 * rng.normal() if policy.link == "identity" else float(rng.random() < 0.5)
        bandit.learn(x, reward)
    return bandit


@pytest.mark.parametrize("policy", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("size", [1e5, 1e18, 1e50])
def test_outlying_value_counts_as_one_unit(policy: Optimist, size: float) -> None:
    outlying, usual = trained(policy), trained(policy)
    unit = 1.0
    if policy.half_life != "auto":
        unit = math.sqrt(squares_of(usual.state, 3)[1] / 60)
    arms = np.array([[0.5, size, 0.0], [0.5, -size, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.2, 0.1, 0.0]])
    limited = np.clip(arms, -unit, unit) if policy.half_life not in (200, "auto") else None
    if limited is not None:
        limited[2:] = arms[2:]
        np.testing.assert_allclose(outlying.probabilities(arms), usual.probabilities(limited), atol=1e-9)
    outlying.learn(arms[0], 1.0)
    assert outlying.outliers == Outliers(rewards=0, values=1, features={1: 1})
    if limited is not None:
        usual.learn(limited[0], 1.0)
        expected = usual.coefficients()
        actual = outlying.coefficients()
        assert expected is not None
        assert actual is not None
        np.testing.assert_allclose(actual.theta, expected.theta, rtol=1e-9)


@pytest.mark.parametrize("sizes", [(1e-9, 1.0), (1.0, 1e9), (1e9, 1.0), (1e40, 1e-40)], ids=str)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_feature_takes_another_unit_if_most_values_have_it(sizes: tuple[float, float], sparse: bool) -> None:
    bandit, rng = Bandit(Optimist(link="identity"), 2, seed=1, sparse=sparse), np.random.default_rng(2)
    for t in range(200):
        value = rng.normal()
        x = np.array([value * sizes[0 if t < 3 else 1], 1.0])
        bandit.learn(scipy.sparse.csr_array(x[np.newaxis]) if sparse else x, value + 0.1 * rng.normal())
    fitted = bandit.coefficients()
    assert fitted is not None
    assert fitted.at([0])[0] * sizes[1] == pytest.approx(1.0, abs=0.05)


def test_sparse_form_limits_as_the_dense_one() -> None:
    dense, sparse = Bandit(FORMS["diagonal"], 4, seed=3), Bandit(Optimist(link="identity"), 4, seed=3, sparse=True)
    rng = np.random.default_rng(3)
    for t in range(128):
        x = rng.normal(size=4) * (rng.random(4) < 0.6)
        reward = x.sum() + 0.1 * rng.normal()
        if t % 16 == 12:
            x[rng.integers(4)] = 1e30
        if t == 100:
            reward = -1e20
        dense.learn(x, reward)
        sparse.learn(scipy.sparse.csr_array(x[np.newaxis]), reward)
    assert dense.outliers.rewards == sparse.outliers.rewards == 1
    assert dense.outliers.values == sparse.outliers.values == 8
    expected, actual = dense.coefficients(), sparse.coefficients()
    assert expected is not None
    assert actual is not None
    np.testing.assert_allclose(actual.at(list(range(4))), expected.theta, rtol=0.02)


@pytest.mark.parametrize("link", ["identity", "log"])
@pytest.mark.parametrize("reward", [1e4, 1e6, 1e50])
def test_outlying_reward_hardly_moves_the_estimate(link: str, reward: float) -> None:
    bandit, rng = Bandit(Optimist(link=link), 2, seed=1), np.random.default_rng(4)
    for _ in range(100):
        x = rng.uniform(0, 1, 2)
        bandit.learn(x, float(rng.poisson(math.exp(x.sum()))))
    before = bandit.coefficients()
    bandit.learn([1.0, 1.0], reward)
    after = bandit.coefficients()
    assert bandit.outliers.rewards == 1
    assert before is not None
    assert after is not None
    np.testing.assert_allclose(after.theta, before.theta, atol=0.2)


def test_rewards_that_are_often_large_are_learned() -> None:
    # One in twenty rewards is 1000, and the others are 0 with little noise: a shop with rare, large orders.
    bandit, rng = Bandit(Optimist(link="identity"), 1, seed=1), np.random.default_rng(5)
    for t in range(2000):
        bandit.learn([1.0], 1000.0 if t % 20 == 19 else 0.01 * rng.normal())
    fitted = bandit.coefficients()
    assert fitted is not None
    assert fitted.theta[0] + fitted.intercept == pytest.approx(50.0, rel=0.25)
    assert bandit.outliers.rewards < 40


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_ordinary_rewards_are_never_limited(scale: float) -> None:
    rng = np.random.default_rng(6)
    for noise in (rng.normal(size=500), rng.standard_t(5, size=500), rng.exponential(size=500)):
        bandit = Bandit(Optimist(link="identity"), 2, seed=1)
        bandit.learn_batch(rng.normal(size=(500, 2)), scale * (5.0 + noise))
        assert bandit.outliers == Outliers()


@pytest.mark.parametrize(
    "rewards",
    {
        "ratings": np.append(np.full(40, 5.0), [4.0, 1.0, 5.0, 1.0]),
        "rare successes": (np.arange(3000) % 1000 == 999).astype(float),
        "rare orders": 80.0 * (np.arange(1000) % 300 == 299),
        "offset": 1000.0 + np.tile([0.0, 1.0, -1.0, 0.5], 50),
        "counts": np.tile([0.0, 0.0, 1.0, 0.0, 7.0, 0.0], 50),
        "constant": np.full(300, 2.5),
    }.values(),
)
def test_rewards_of_common_kinds_are_never_limited(rewards: Floats) -> None:
    for rows in (np.ones((len(rewards), 1)), np.eye(2)[np.arange(len(rewards)) % 2]):
        bandit = Bandit(Optimist(link="identity"), rows.shape[1], seed=1)
        bandit.learn_batch(rows, rewards)
        assert bandit.outliers == Outliers()


def test_first_rewards_are_learned_as_they_are() -> None:
    bandit = Bandit(Optimist(link="identity"), 1, seed=1)
    for _ in range(int(FIRST_LIMITED)):
        bandit.learn([1.0], 1e6)
    assert bandit.outliers == Outliers()


def test_bounded_rewards_are_never_limited() -> None:
    bandit = Bandit(Optimist(), 1, seed=1)
    bandit.learn_batch(np.ones((400, 1)), np.append(np.zeros(399), 1.0))
    assert bandit.outliers == Outliers()


def test_limits_follow_the_units() -> None:
    bandit = trained(Optimist(link="identity"), rounds=64)
    state = bandit.state
    np.testing.assert_allclose(limits_of(state, 3), [limit_of(s, 64.0) for s in squares_of(state, 3)], rtol=0.3)
    assert limits_of(Bandit(Optimist(), 2).state, 2).min() > 1e100
    assert state.size == blocks_at(3) + 1 + 3 + 9


@pytest.mark.parametrize("policy", [*FORMS.values(), Optimist(link="identity", floor=0.1)])
def test_saved_bandit_continues_bit_for_bit_among_outliers(policy: Optimist) -> None:
    bandit, rng = trained(policy), np.random.default_rng(7)
    copy = Bandit.from_bytes(bandit.to_bytes())
    for t in range(40):
        arms = rng.normal(size=(5, 3))
        arms[rng.integers(5), rng.integers(3)] *= 10.0 ** rng.integers(0, 40)
        reward = float(rng.integers(2)) if policy.link == "logistic" or t % 7 else 1e30
        choices = [each.choose(arms) for each in (bandit, copy)]
        assert choices[0] == choices[1]
        for each in (bandit, copy):
            each.learn(arms[choices[0]], reward)
    np.testing.assert_array_equal(bandit.state, copy.state)


class TestWarnings:
    """Warnings of `Bandit.learn` and `learn_batch`."""

    def warnings_of(self, bandit: Bandit, rows: Floats, rewards: Floats, *, batch: bool = False) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if batch:
                bandit.learn_batch(rows, rewards)
            else:
                for x, reward in zip(rows, rewards, strict=True):
                    bandit.learn(x, reward)
        assert all(issubclass(warning.category, OutlierWarning) for warning in caught)
        assert all(warning.filename == __file__ for warning in caught)
        return [str(warning.message) for warning in caught]

    @pytest.mark.parametrize("batch", [False, True])
    def test_each_feature_is_named_once(self, batch: bool) -> None:
        rows = np.array([[1e9, 0.0, 0.0], [1e9, 0.0, 0.0], [1.0, 1.0, 1e9]])
        messages = self.warnings_of(trained(Optimist(link="identity")), rows, np.zeros(3), batch=batch)
        assert [message.split()[1] for message in messages] == ["0", "2"]

    def test_rewards_are_named_once(self) -> None:
        messages = self.warnings_of(trained(FORMS["auto"]), np.ones((2, 3)), np.array([1e9, -1e9]))
        assert len(messages) == 1
        assert "a reward" in messages[0]

    def test_loaded_bandit_does_not_repeat_them(self) -> None:
        bandit = trained(Optimist(link="identity"))
        self.warnings_of(bandit, np.array([[1e9, 0.0, 0.0]]), np.zeros(1))
        again = Bandit.from_bytes(bandit.to_bytes())
        assert not self.warnings_of(again, np.array([[1e9, 0.0, 0.0]]), np.zeros(1))

    def test_warnings_can_be_switched_off(self) -> None:
        bandit = trained(Optimist(link="identity"))
        bandit.warns_of_outliers = False
        assert not self.warnings_of(bandit.copy(), np.array([[1e9, 0.0, 0.0]]), np.zeros(1))
