"""A small problem with known expected rewards, and logs of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from glbandits import Bandit, Policy
from glbandits.common.arrays import Floats
from glbandits.evaluation import LoggedData, RowArms
from glbandits.evaluation.logs.logged_data import StreamedLog
from glbandits.evaluation.logs.schema import LogSchema

DIM = 4
REWARD_PROBABILITIES = np.array([0.1, 0.35, 0.6, 0.9])
"""Probability of a reward of 1, for each arm of the problem."""


def draw_arms(rng: np.random.Generator) -> Floats:
    """Two, three or four of the four arms, in random order; the rest are 0. Rows with fewer arms have better ones."""
    count = int(rng.integers(2, 5))
    worst_left_out = np.arange(4)[4 - count :]
    arms = np.zeros((4, DIM))
    arms[:count] = np.eye(DIM)[rng.permutation(worst_left_out)]
    return arms


def reward_of(x: Floats, rng: np.random.Generator) -> float:
    """A draw of the reward of an arm."""
    return float(rng.random() < x @ REWARD_PROBABILITIES)


def logging_probabilities(arms: Floats, uneven: bool) -> Floats:
    """Probabilities of the logging policy for the arms of a row: uniform, or larger for bad arms."""
    count = int(arms.sum())
    if not uneven:
        return np.full(count, 1 / count)
    wishes = 1.2 - arms[:count] @ REWARD_PROBABILITIES
    probabilities: Floats = wishes / wishes.sum()
    return probabilities


def write_log(rows: int, seed: int, *, uneven: bool = False) -> LoggedData:
    """A log of the problem."""
    rng = np.random.default_rng(seed)
    arms, chosen = np.empty((rows, 4, DIM)), np.empty(rows, dtype=np.int64)
    rewards, propensities = np.empty(rows), np.empty(rows)
    for row in range(rows):
        arms[row] = draw_arms(rng)
        probabilities = logging_probabilities(arms[row], uneven)
        chosen[row] = rng.choice(len(probabilities), p=probabilities)
        rewards[row], propensities[row] = reward_of(arms[row, chosen[row]], rng), probabilities[chosen[row]]
    counts = arms.sum(axis=(1, 2)).astype(np.int64)
    return LoggedData(
        chosen=chosen, rewards=rewards, propensities=propensities, arms=RowArms(arms, counts), link="logistic"
    )


def live_reward(policy: Policy, rounds: int, seed: int) -> float:
    """Mean reward of the policy online, over `rounds` rounds."""
    rng, bandit, total = np.random.default_rng([seed, 1]), Bandit(policy, DIM, seed), 0.0
    for _ in range(rounds):
        arms = draw_arms(rng)
        offered = arms[: int(arms.sum())]
        arm = bandit.choose(offered)
        reward = reward_of(offered[arm], rng)
        bandit.learn(offered[arm], reward)
        total += reward
    return total


@dataclass(frozen=True, eq=False, repr=False)
class Stream(StreamedLog):
    """A log that is read in blocks of its own size, and counts the rows that were read."""

    data: LoggedData
    size: int
    given: list[int]

    @property
    def schema(self) -> LogSchema:  # type: ignore[override]
        return self.data.schema

    def blocks(self, size: int = 100, **rows: Any) -> Iterator[LoggedData]:
        for block in self.data.blocks(min(size, self.size), **rows):
            self.given.append(len(block))
            yield block
