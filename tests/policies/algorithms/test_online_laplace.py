import numpy as np
from scipy.optimize import minimize

from glbandits import Bandit
from glbandits.common.arrays import Floats
from glbandits.policies import OnlineLaplace


def sigmoid(z: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-z))


class PublishedEcolog:
    """The rule and the step of Faury et al. (2022) as in their code, with step 1 and a bound that is never reached."""

    def __init__(self, dim: int, scale: float) -> None:
        self.theta, self.W, self.scale = np.zeros(dim), np.eye(dim), scale

    def choose(self, arms: Floats) -> int:
        lengths = np.sqrt(np.einsum("ai,ij,aj->a", arms, np.linalg.inv(self.W), arms))
        return int(np.argmax(arms @ self.theta + self.scale * lengths))

    def learn(self, x: Floats, reward: float) -> None:
        before = self.theta

        def loss(theta: Floats) -> float:
            moved = theta - before
            return float(0.5 * moved @ self.W @ moved + np.logaddexp(0.0, x @ theta) - reward * (x @ theta))

        def gradient(theta: Floats) -> Floats:
            return np.asarray(self.W @ (theta - before) + (sigmoid(x @ theta) - reward) * x)

        self.theta = minimize(loss, before, jac=gradient, method="BFGS", options={"gtol": 1e-10}).x
        mean = sigmoid(x @ self.theta)
        self.W = self.W + mean * (1.0 - mean) * np.outer(x, x)


def test_ucb_rule_makes_the_choices_of_ecolog() -> None:
    bandit, peer = Bandit(OnlineLaplace(rule="ucb", exploration=3.0), 3, seed=1), PublishedEcolog(3, 3.0)
    rng = np.random.default_rng(0)
    for t in range(60):
        arms = rng.uniform(-0.6, 0.6, (6, 3))
        arm = bandit.choose(arms)
        assert arm == peer.choose(arms), t
        reward = float(rng.random() < 0.5)
        bandit.learn(arms[arm], reward)
        peer.learn(arms[arm], reward)
    np.testing.assert_allclose(bandit.state[:3], peer.theta, atol=1e-6)
