"""SGD-TS in plain NumPy: a reference for speed and correctness.

It uses only the settings of the package, including the block length. The caller provides the random numbers.
"""

import math
from collections.abc import Callable

import numpy as np

from glbandits import SgdTs
from glbandits.common.arrays import Floats


class NumpySgdTs:
    """The paper's Algorithm 1 with a logistic link, one round at a time."""

    def __init__(
        self, policy: SgdTs, dim: int, any_index: Callable[[int], int], normals: Callable[[int], Floats]
    ) -> None:
        self.tau, self.step, self.radius = policy.tau(dim), policy.step, policy.radius
        self.scale = math.sqrt(2 * policy.exploration_a1**2 + 2 * policy.exploration_a2**2)
        self.any_index, self.normals = any_index, normals
        self.features, self.rewards = np.zeros((self.tau, dim)), np.zeros(self.tau)
        self.theta_hat, self.theta_tilde, self.theta_bar = np.zeros(dim), np.zeros(dim), np.zeros(dim)
        self.theta_ts, self.gradient = np.zeros(dim), np.zeros(dim)
        self.j, self.position = 0, 0

    def choose(self, arms: Floats) -> int:
        """Choose a random arm in the first block, then the best arm under the draw."""
        if self.j == 0:
            return self.any_index(len(arms))
        return int(np.argmax(arms @ self.theta_ts))

    def learn(self, x: Floats, reward: float) -> None:
        """Add a reward to the block; take a gradient step when the block is full."""
        if self.j == 0:
            self.features[self.position], self.rewards[self.position] = x, reward
        else:
            mean = 1 / (1 + math.exp(-(x @ self.theta_tilde)))
            self.gradient += (mean - reward) * x
        self.position += 1
        if self.position == self.tau:
            self._close_block()

    def _close_block(self) -> None:
        if self.j == 0:
            self.theta_hat = logistic_mle(self.features, self.rewards)
            self.theta_tilde = self.theta_hat.copy()
        self.j += 1
        self.theta_tilde = self.theta_tilde - self.step / self.j * self.gradient
        away = self.theta_tilde - self.theta_hat
        distance = float(np.linalg.norm(away))
        if distance > self.radius:
            self.theta_tilde = self.theta_hat + away * (self.radius / distance)
        self.theta_bar = self.theta_bar + (self.theta_tilde - self.theta_bar) / self.j
        self.theta_ts = self.theta_bar + self.scale / math.sqrt(self.j) * self.normals(len(self.theta_bar))
        self.gradient = np.zeros_like(self.gradient)
        self.position = 0


def logistic_mle(features: Floats, rewards: Floats) -> Floats:
    """Newton's method without safeguards, for data that are not separable."""
    theta = np.zeros(features.shape[1])
    for _ in range(30):
        means = 1 / (1 + np.exp(-(features @ theta)))
        hessian = (features * (means * (1 - means))[:, np.newaxis]).T @ features
        step = np.linalg.solve(hessian, features.T @ (means - rewards))
        theta -= step
        if np.abs(step).max() < 1e-10:
            break
    return theta
