"""Absurd numbers: whether saved models of `optimist` load, and how the choices recover."""

import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from glbandits import Bandit, ModelFileError, Optimist, OutlierWarning
from glbandits.common.arrays import Floats

LOOKS = range(20, 421, 20)
"""The numbers of rewards after which a model is saved and loaded again."""
WIDTH, SEEDS = 8, 6
REWARDS = (1e3, -1e3, 1e6, -1e6, 1e50, -1e50)
SIZES = (1e3, 1e4, 1e6, 1e18)
BEFORE, OUTLYING, AFTER = 300, 600, 400
"""Rounds before, among and after outlying features. A tenth of the middle ones has such a feature."""


class Shares(NamedTuple):
    """Shares of right choices."""

    before: float
    back: float
    """200 to 300 rounds after the last outlier."""
    later: float
    """In the last 100 rounds."""


def report() -> None:
    """Print how many models cannot be loaded, and shares of right choices."""
    warnings.simplefilter("ignore", OutlierWarning)
    print(f"Models that cannot be loaded, of {SEEDS * len(LOOKS)} ({WIDTH} features, {SEEDS} seeds)")
    for link in ("identity", "logistic", "log"):
        for name, rows in {"ids": ids, "mixed sizes": mixed_sizes}.items():
            print(f"  {link:9s} {name:12s} {unloadable(link, rows)}")
    print("Share of right choices after one reward at round 500 of 2,600 (four arms, d = 3, identity, 20 seeds)")
    for noise in (0.1, 0.3, 1.0):
        print(f"  noise {noise:3.1f}, none    ", *_texts(after_reward(None, noise)))
        for reward in REWARDS:
            print(f"  noise {noise:3.1f}, {reward:8.0e}", *_texts(after_reward(reward, noise)))
    print(f"Share of right choices after {OUTLYING // 10} absurd values among {OUTLYING} rounds (d = 8, 20 seeds)")
    for link in ("identity", "logistic"):
        for size in (None, *SIZES):
            name = "none" if size is None else f"{size:.0e}"
            print(f"  {link:9s} {name:8s}", *_texts(after_features(size, link)))


def _texts(shares: Shares) -> Iterator[str]:
    for name, share in shares._asdict().items():
        yield f"{name} {share:.3f}"


def ids(rng: np.random.Generator, t: int) -> Floats:
    """One-hot features; after 200 rewards one of them is at times the id of a user."""
    x = np.zeros(WIDTH)
    x[0] = x[rng.integers(1, WIDTH, size=2)] = 1.0
    if t > 200 and rng.random() < 0.5:
        x[rng.integers(WIDTH)] = rng.choice([4e18, 1e18, 1e17]) * rng.random()
    return x


def mixed_sizes(rng: np.random.Generator, t: int) -> Floats:  # noqa: ARG001
    """Features of sizes from 1 to 1e20."""
    return np.asarray(rng.choice([1.0, 1e6, 1e12, 1e20], size=WIDTH) * rng.normal(size=WIDTH))


def unloadable(link: str, rows: Callable[[np.random.Generator, int], Floats]) -> int:
    """Count the models that cannot be loaded."""
    refused = 0
    for seed in range(SEEDS):
        rng, bandit = np.random.default_rng(seed), Bandit(Optimist(link=link), WIDTH, seed=seed)
        for t in range(LOOKS[-1]):
            bandit.learn(rows(rng, t), float(rng.integers(2)))
            if t + 1 in LOOKS:
                try:
                    Bandit.from_bytes(bandit.to_bytes())
                except ModelFileError:
                    refused += 1
    return refused


def after_reward(reward: float | None, noise: float, at: int = 500, rounds: int = 2600, seeds: int = 20) -> Shares:
    """Play with one absurd reward."""
    right = np.zeros(rounds)
    for seed in range(seeds):
        rng, bandit = np.random.default_rng(seed), Bandit(Optimist(link="identity"), 3, seed=seed)
        theta = rng.normal(size=3)
        for t in range(rounds):
            arms = rng.normal(size=(4, 3))
            expected = arms @ theta
            arm = bandit.choose(arms)
            right[t] += arm == expected.argmax()
            usual = expected[arm] + noise * rng.normal()
            bandit.learn(arms[arm], usual if reward is None or t != at else reward)
    share = right / seeds
    return Shares(share[at - 200 : at].mean(), share[at + 200 : at + 300].mean(), share[-600:].mean())


def after_features(size: float | None, link: str, seeds: int = 20) -> Shares:
    """Play with features that are absurd at times: a random number up to the size in place of a usual one."""
    right = np.zeros(BEFORE + OUTLYING + AFTER)
    for seed in range(seeds):
        rng, bandit = np.random.default_rng(seed), Bandit(Optimist(link=link), WIDTH, seed=seed)
        theta, absurd = rng.normal(size=WIDTH), BEFORE + rng.permutation(OUTLYING)[: OUTLYING // 10]
        for t in range(len(right)):
            arms = rng.normal(size=(4, WIDTH))
            expected, shown = arms @ theta, arms.copy()
            if size is not None and t in absurd:
                shown[np.arange(4), rng.integers(WIDTH, size=4)] = size * rng.random(4)
            arm = bandit.choose(shown)
            right[t] += arm == expected.argmax()
            probability = 1.0 / (1.0 + np.exp(-expected[arm]))
            usual = expected[arm] + 0.3 * rng.normal() if link == "identity" else float(rng.random() < probability)
            bandit.learn(shown[arm], usual)
    share, end = right / seeds, BEFORE + OUTLYING
    return Shares(share[BEFORE - 100 : BEFORE].mean(), share[end + 200 : end + 300].mean(), share[-100:].mean())
