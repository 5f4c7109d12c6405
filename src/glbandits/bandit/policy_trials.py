"""Trials of policies for `policy_laws`: hard problems, and numbers of all sizes that a Bandit accepts.

Careless clients send ids, timestamps, sums of money and physical units in the same row.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from glbandits.bandit.bandit import Bandit
from glbandits.common.arrays import Floats
from glbandits.common.errors import MAX_ABS
from glbandits.maths.links import Link, find_link
from glbandits.policies.contract import Policy
from glbandits.policies.sparse_forms import sparse_form

ROUNDS = 60
"""Rounds of a trial after the random start of a policy."""
LONGEST_START = 400
"""The longest random start that trials wait for."""
ARMS = 4
"""Arms of a round with numbers of any size."""
FAILURE_EXPONENT = 20.0
"""For an arm of right probabilities, the test fails with probability at most 2 exp(-20), one in 10^8."""


class Subject(NamedTuple):
    """A policy, and the number and form of the features with which it is tested."""

    policy: Policy
    dim: int
    sparse: bool = False

    @property
    def form(self) -> Policy:
        """The policy, or its sparse form."""
        return sparse_form(self.policy, self.dim) if self.sparse else self.policy

    @property
    def rounds(self) -> int:
        """Rounds of a trial that goes beyond the random start."""
        return ROUNDS + min(self.policy.random_start(self.dim), LONGEST_START)

    @property
    def rewards(self) -> tuple[float, float]:
        """Two rewards that the link accepts: 0 and 1 if possible."""
        link = find_link(self.policy.link)
        low, high = (min(max(reward, link.lowest_reward), link.highest_reward) for reward in (0.0, 1.0))
        return low, high

    def bandit(self, seed: int = 1) -> Bandit:
        """A new Bandit that does not warn of outliers."""
        bandit = Bandit(self.policy, self.dim, seed=seed, sparse=self.sparse)
        bandit.warns_of_outliers = False
        return bandit

    def trial(self) -> Iterator[tuple[Floats, float]]:
        """Yield the arms of a round, from 1 to 9, and the reward of the chosen one."""
        return ordinary_rounds(self.dim, self.rewards, self.rounds)

    def learned(self, rounds: int | None = None) -> Bandit:
        """A Bandit that has played the first rounds of a trial; all if `rounds` is None."""
        bandit = self.bandit()
        for t, (arms, reward) in enumerate(self.trial()):
            if t == rounds:
                break
            bandit.learn(arms, reward, arm=bandit.choose(arms))
        return bandit


def ordinary_rounds(dim: int, rewards: tuple[float, float], count: int) -> Iterator[tuple[Floats, float]]:
    """Yield the arms of a round, from 1 to 9, and the reward of the chosen one."""
    rng = np.random.default_rng(1)
    for _ in range(count):
        yield rng.uniform(-0.6, 0.6, (rng.integers(1, 10), dim)), rewards[int(rng.random() < 0.5)]


def hard_problems(
    dim: int, rewards: tuple[float, float], sizes: tuple[float, ...] = (1e-6, 1.0, 1e3, 1e6)
) -> Iterator[tuple[str, Iterator[tuple[Floats, float]]]]:
    """Yield names of problems, and rounds of arms and rewards. Features have each of the sizes."""
    (low, high), rng = rewards, np.random.default_rng(3)
    fixed = {
        "a problem with one arm": np.ones((1, dim)),
        "a problem with features that are all 0": np.zeros((4, dim)),
        "a problem with equal arms": np.tile(np.linspace(0.3, -0.2, dim), (6, 1)),
        "a problem with fixed arms": np.vstack([np.eye(dim), np.zeros(dim)]),
    }
    for name, arms in fixed.items():
        for repeated in ([low], [high], [low, high]):
            yield name, ((arms, repeated[t % len(repeated)]) for t in range(36))
    yield "a problem with 200 arms", ((rng.uniform(-0.6, 0.6, (200, dim)), high) for _ in range(4))
    for size in sizes:
        held = size * rng.uniform(-1, 1, (4, dim))
        sized = (held if t % 2 else size * rng.uniform(-1, 1, (4, dim)) for t in range(40))
        yield f"a problem with features up to {size:g}", ((arms, (low, high)[rng.integers(2)]) for arms in sized)
    rows = (rng.uniform(-1, 1, (1, dim)) for _ in range(60))
    yield "a problem whose rewards one feature separates", ((x, high if x[0, 0] > 0 else low) for x in rows)


def _of_any_magnitude(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(-300.0, math.log10(MAX_ABS), shape)


def _with_an_id(rng: np.random.Generator, dim: int) -> Floats:
    arms = rng.integers(0, 2, (ARMS, dim)).astype(float)
    arms[:, rng.integers(dim)] = float(rng.integers(10**17, 4 * 10**18))
    return arms


ANY_NUMBERS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "ordinary": lambda rng, dim: rng.normal(size=(ARMS, dim)),
    "any magnitude": lambda rng, dim: _of_any_magnitude(rng, (ARMS, dim)),
    "one magnitude in a row": lambda rng, dim: _of_any_magnitude(rng, (ARMS, 1)) * rng.uniform(0.1, 1.0, (ARMS, dim)),
    "constant rows": lambda rng, dim: np.repeat(_of_any_magnitude(rng, (ARMS, 1)), dim, axis=1),
    "units": lambda rng, dim: rng.choice([0.0, 1.0, -1.0, 1e6, 1e12, 1e20], (ARMS, dim)),
    "an id": _with_an_id,
    "largest": lambda rng, dim: rng.choice([-MAX_ABS, MAX_ABS], (ARMS, dim)),
    "large and ordinary": lambda rng, dim: rng.normal(size=(ARMS, dim)) * rng.choice([1.0, 1e49], (ARMS, dim)),
    "smallest": lambda rng, dim: rng.choice([-1e-300, 1e-300], (ARMS, dim)),
    "small": lambda rng, dim: 1e-150 * rng.normal(size=(ARMS, dim)),
    "zeros": lambda rng, dim: 0.0 * rng.normal(size=(ARMS, dim)),
}
"""Functions of a generator and dim that return the features of ARMS arms, by a name of their sizes."""


def _rewards(link: Link, rng: np.random.Generator) -> Iterator[float]:
    """Yield rewards that the link accepts: both ends, numbers of any size, and alternating extremes."""
    lowest, highest = max(link.lowest_reward, -MAX_ABS), min(link.highest_reward, MAX_ABS)
    while True:
        kind = rng.integers(4)
        for t in range(rng.integers(1, 6)):
            reward = float(rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-300.0, math.log10(MAX_ABS)))
            ends = highest if t % 2 else lowest
            yield min(max((reward, ends, rng.normal(), ends if kind == 3 else highest)[kind], lowest), highest)


def any_rounds(link: Link, dim: int, count: int, seed: int, sizes: str | None = None) -> Iterator[tuple[Floats, float]]:
    """Yield arms and a reward. The features have the sizes of this name, and others in one round of four.

    If no name is given, each round has other sizes. Arms are at times duplicated, and rounds repeated.
    """
    rng, known, names = np.random.default_rng(seed), [np.zeros((ARMS, dim))], list(ANY_NUMBERS)
    rewards = _rewards(link, rng)
    for _ in range(count):
        if sizes is None or rng.random() < 0.25:
            arms = ANY_NUMBERS[names[rng.integers(len(names))]](rng, dim)
        else:
            arms = ANY_NUMBERS[sizes](rng, dim)
        if rng.random() < 0.2:
            arms[1:] = arms[0]
        if rng.random() < 0.2:
            arms = known[rng.integers(len(known))]
        known.append(arms)
        yield arms, next(rewards)


def counts_agree(counts: Floats, expected: Floats, variances: Floats) -> bool:
    """Return whether counts of choices agree with the sums of their probabilities and of p (1 - p).

    The bound is Freedman's, which holds for small probabilities too. An arm of probability 0 must not be chosen.
    """
    bound = FAILURE_EXPONENT / 3.0 + np.sqrt((FAILURE_EXPONENT / 3.0) ** 2 + 2.0 * FAILURE_EXPONENT * variances)
    return bool((np.abs(counts - expected) <= bound).all()) and not counts[expected == 0.0].any()


class TrialStep(NamedTuple):
    """A reward that a policy has learned, for messages."""

    number: int
    x: Floats
    reward: float
    problem: str = ""

    def __str__(self) -> str:
        return f"after reward {self.number}{self.problem} (x = {numbers_text(self.x)}, reward = {self.reward:g})"


def numbers_text(values: Any) -> str:
    """Return numbers for a message, in one line."""
    return " ".join(np.array2string(np.asarray(values), precision=6, threshold=12).split())
