import math

import numpy as np
import pytest
from scipy.optimize import minimize

from glbandits import Bandit
from glbandits.common.arrays import Floats
from glbandits.lab import Synthetic
from glbandits.maths.fitting.observation_history import history
from glbandits.policies import SupCbGlm
from glbandits.policies.algorithms.supcb_glm import history_at

TAU, T, ALPHA, RIDGE = 10, 64, 1.0, 0.5
POLICY = SupCbGlm(warm_up=TAU, horizon=T, exploration=ALPHA, ridge=RIDGE, prior_precision=0.01)


def estimate(X: Floats, y: Floats) -> Floats:
    def loss(theta: Floats) -> float:
        z = X @ theta
        return float((np.logaddexp(0, z) - y * z).sum() + 0.5 * RIDGE * theta @ theta)

    def gradient(theta: Floats) -> Floats:
        slope: Floats = X.T @ (1 / (1 + np.exp(-X @ theta)) - y) + RIDGE * theta
        return slope

    fitted: Floats = minimize(loss, np.zeros(X.shape[1]), jac=gradient, tol=1e-12).x
    return fitted


class Box:
    """A literal implementation of the paper's algorithm, with explicit sets of rounds."""

    def __init__(self, dim: int) -> None:
        self.X, self.y = np.empty((0, dim)), np.empty(0)
        self.psi: dict[int, list[int]] = {s: [] for s in range(int(math.log2(T)) + 1)}

    def model(self, s: int) -> tuple[Floats, Floats]:
        rounds = list(range(TAU)) + self.psi[s]
        X, y = self.X[rounds], self.y[rounds]
        V_inverse: Floats = np.linalg.inv(0.01 * np.eye(X.shape[1]) + X.T @ X).astype(np.float64)
        return estimate(X, y), V_inverse

    def widths(self, s: int, arms: Floats) -> Floats:
        _, V_inverse = self.model(s)
        widths: Floats = ALPHA * np.sqrt(np.einsum("ai,ij,aj->a", arms, V_inverse, arms))
        return widths

    def choose(self, arms: Floats) -> int:
        left = np.arange(len(arms))
        for s in range(1, len(self.psi)):
            theta, _ = self.model(s)
            m, w = arms[left] @ theta, self.widths(s, arms[left])
            if (w > 2.0**-s).any():
                return int(left[np.argmax(w)])
            if (w <= T**-0.5).all():
                return int(left[np.argmax(m)])
            is_kept = m >= m.max() - 2 * 2.0**-s
            assert is_kept[np.argmax(m)]
            left = left[is_kept]
        raise AssertionError("the last stage is finer than 1/sqrt T, so it decides")

    def learn(self, x: Floats, reward: float) -> None:
        t = len(self.y)
        if t >= TAU:
            wide = [s for s in range(1, len(self.psi)) if self.widths(s, x[np.newaxis])[0] > 2.0**-s]
            self.psi[wide[0] if wide else 0].append(t)
        self.X, self.y = np.vstack([self.X, x]), np.append(self.y, reward)


@pytest.mark.usefixtures("plain_python")
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_choices_match_a_second_implementation(seed: int) -> None:
    problem = Synthetic(dim=3, arms=6)
    bandit, box, stages = Bandit(POLICY, dim=3, seed=seed), Box(3), set()
    for block in problem.rounds(160, seed):
        for t in range(len(block)):
            arms, arm = block.arms[t], bandit.choose(block.arms[t])
            if t >= TAU:
                assert arm == box.choose(arms), t
            reward = problem.noise.reward(block.expected[t, arm], block.noise[t])
            bandit.learn(arms[arm], reward)
            box.learn(arms[arm], reward)
    rows = history(bandit.state, history_at(3, POLICY.stages(3)), 4)
    for s in range(1, POLICY.stages(3) + 1):  # the sets must be the same
        assert rows.counts[rows.features[:, 3] == s].sum() == len(box.psi[s])
        stages |= {s} if box.psi[s] else set()
    assert sum(len(rounds) for rounds in box.psi.values()) + TAU == 160
    assert len(stages) >= 3  # otherwise the test would cover too little
