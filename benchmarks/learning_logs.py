"""Logs of a policy that learns, and targets whose value is known."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from glbandits import Bandit, Optimist
from glbandits.common.arrays import Floats, Ints
from glbandits.evaluation import LoggedData, RowArms
from glbandits.evaluation.estimators.frozen_target import FrozenTarget

ARMS, DIM = 5, 5


class LearningLog(NamedTuple):
    """A log with its logging probabilities and the true values of targets."""

    log: LoggedData
    targets: dict[str, Floats]
    """Probabilities of the arms, (rows, arms)."""
    values: dict[str, float]
    """The mean reward per decision of each target, over all contexts."""


def learning_log(
    seed: int, rows: int, *, floor: float = 0.05, varying: bool = True, concentration: float = 0.0
) -> LearningLog:
    """Simulate `Optimist` with logistic rewards.

    Rewards are 0 and 1, or have beta distributions whose two parameters sum to `concentration`.

    Arms have new features in every row, or the same in all.

    The targets: uniform; good and bad, the best and the worst arm by a theta that is slightly wrong; final, the policy
    of the log as it is after the last row.
    """
    rng = np.random.default_rng(seed)
    theta, intercept = rng.normal(size=DIM), -0.5 + 0.3 * rng.normal()
    theta *= 1.5 / np.linalg.norm(theta)
    shift = 0.3 * rng.normal(size=DIM)  # the good and the bad target know theta with this error
    fixed = rng.normal(size=(ARMS, DIM))
    features = rng.normal(size=(rows, ARMS, DIM)) if varying else np.broadcast_to(fixed, (rows, ARMS, DIM)).copy()
    means = expit(features @ theta + intercept)
    bandit = Bandit(Optimist(link="logistic", floor=floor), DIM, seed=seed)
    probabilities, chosen, rewards = np.empty((rows, ARMS)), np.empty(rows, dtype=np.int64), np.empty(rows)
    for row, uniform in enumerate(rng.random(rows)):
        probabilities[row] = bandit.probabilities(features[row])
        arm = chosen[row] = bandit.choose(features[row])
        mean = means[row, arm]
        beta = concentration * mean, concentration * (1.0 - mean)
        rewards[row] = rng.beta(*beta) if concentration else uniform < mean
        bandit.learn(features[row, arm], rewards[row])
    contexts = rng.normal(size=(20_000, ARMS, DIM)) if varying else fixed[np.newaxis]
    log, unseen = _log(features, chosen, rewards, probabilities), _log(contexts)
    final, means = FrozenTarget(bandit), expit(contexts @ theta + intercept)
    targets = {"final": final.probabilities(log, 0)}
    values = {"final": float((final.probabilities(unseen, 0) * means).sum(axis=1).mean())}
    for name, sign in (("uniform", 0.0), ("good", 1.0), ("bad", -1.0)):
        targets[name] = _probabilities(sign * features @ (theta + shift))
        values[name] = float((_probabilities(sign * contexts @ (theta + shift)) * means).sum(axis=1).mean())
    return LearningLog(log, targets, values)


def _log(
    features: Floats, chosen: Ints | None = None, rewards: Floats | None = None, probabilities: Floats | None = None
) -> LoggedData:
    rows = len(features)
    return LoggedData(
        chosen=np.zeros(rows, dtype=np.int64) if chosen is None else chosen,
        rewards=np.zeros(rows) if rewards is None else rewards,
        probabilities=probabilities,
        arms=RowArms(features, np.full(rows, ARMS)),
        link="logistic",
    )


def _probabilities(scores: Floats) -> Floats:
    """Put all probability on the largest score, shared equally among ties."""
    best = scores >= scores.max(axis=1, keepdims=True)
    probabilities: Floats = best / best.sum(axis=1, keepdims=True)
    return probabilities
