"""Agents that tests play: one with each of NumPy, SciPy, scikit-learn and PyTorch."""

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import SGDClassifier


class RidgeAgent:
    def __init__(self, dim: int, noise: float = 0.1) -> None:
        self.gram, self.sums, self.noise = np.eye(dim), np.zeros(dim), noise

    def choose(self, arms: Any, rng: np.random.Generator) -> int:
        theta = np.linalg.solve(self.gram, self.sums)
        return int(np.argmax(arms @ theta)) if rng.random() > self.noise else int(rng.integers(len(arms)))

    def learn(self, x: Any, reward: float) -> None:
        self.gram += np.outer(x, x)
        self.sums += reward * x


class SklearnAgent:
    def __init__(self, dim: int) -> None:
        self.model = SGDClassifier(loss="log_loss", random_state=0)
        self.model.partial_fit(np.zeros((2, dim)), [0, 1], classes=[0, 1])

    def choose(self, arms: Any, rng: np.random.Generator) -> int:
        return int(np.argmax(self.model.decision_function(arms) + rng.gumbel(size=len(arms))))

    def learn(self, x: Any, reward: float) -> None:
        self.model.partial_fit([x], [int(reward > 0.5)])

    def probabilities(self, arms: Any) -> Any:
        scores = self.model.decision_function(arms)
        weights = np.exp(scores - scores.max())
        return weights / weights.sum()


class ScipyAgent:
    name = "map-scipy"

    def __init__(self, dim: int, every: int = 20) -> None:
        self.theta, self.every, self.seen = np.zeros(dim), every, list[tuple[Any, float]]()

    def choose(self, arms: Any, rng: np.random.Generator) -> int:
        return int(np.argmax(arms @ (self.theta + rng.normal(0.0, 0.3, len(self.theta)))))

    def learn(self, x: Any, reward: float) -> None:
        self.seen.append((x, reward))
        if len(self.seen) % self.every == 0:
            rows, rewards = (np.array(part) for part in zip(*self.seen, strict=True))
            gradient = lambda theta: rows.T @ (expit(rows @ theta) - rewards) + theta  # noqa: E731
            loss = lambda theta: np.logaddexp(0, rows @ theta).sum() - rewards @ rows @ theta + theta @ theta / 2  # noqa: E731
            self.theta = minimize(loss, self.theta, jac=gradient, method="L-BFGS-B").x


class TorchAgent:
    def __init__(self, dim: int) -> None:
        import torch

        self.torch, self.model = torch, torch.nn.Linear(dim, 1, bias=False)
        torch.nn.init.zeros_(self.model.weight)
        self.steps = torch.optim.SGD(self.model.parameters(), lr=0.5)

    def choose(self, arms: Any, rng: np.random.Generator) -> int:
        with self.torch.no_grad():
            scores = self.model(self.torch.tensor(arms, dtype=self.torch.float32)).numpy()[:, 0]
        return int(np.argmax(scores + rng.gumbel(0.0, 0.3, len(arms))))

    def learn(self, x: Any, reward: float) -> None:
        score = self.model(self.torch.tensor(x, dtype=self.torch.float32))[0]
        self.steps.zero_grad()
        self.torch.nn.functional.binary_cross_entropy_with_logits(score, self.torch.tensor(reward)).backward()
        self.steps.step()
