"""Vowpal Wabbit's contextual bandit explorers on the classification tables.

An action shows the non-zero features of its arm, named by their index. The cost is minus the reward: -1 or 0. The
action is drawn from the probabilities that Vowpal Wabbit predicts.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.regret.keel import INSTALL
from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.lab.environments import ClassificationTable

EXPLORERS = {
    "vw-greedy": "--epsilon 0",
    "vw-epsilon": "",
    "vw-squarecb": "--squarecb",
    "vw-regcbopt": "--regcbopt --cb_min_cost -1 --cb_max_cost 0",
    "vw-cover": "--cover 16",
}
"""The options after --cb_explore_adf. RegCB must know the range of the costs; cover has no default size."""


def vowpal_module() -> Any:
    """The package vowpalwabbit; InvalidInput if it is not installed."""
    try:
        import vowpalwabbit
    except ModuleNotFoundError:
        raise InvalidInput(f"the explorers of Vowpal Wabbit need the package vowpalwabbit. {INSTALL}.") from None
    return vowpalwabbit


def play(
    explorers: Sequence[str], environment: ClassificationTable, horizon: int, seed: int
) -> list[tuple[float, float]]:
    """Run each explorer on the rounds of this seed.

    Return the final regret and the CPU seconds of each.
    """
    runs = [_Run(explorer, seed) for explorer in explorers]
    for block in environment.rounds(horizon, seed):
        for features, rewards in zip(block.arms, block.expected, strict=True):
            actions = [_action(arm) for arm in features]
            for run in runs:
                run.step(actions, rewards)
    return [(run.regret, run.seconds) for run in runs]


class _Run:
    """One explorer and its results so far."""

    def __init__(self, explorer: str, seed: int) -> None:
        options = f"--cb_explore_adf {EXPLORERS[explorer]} --random_seed {seed} --quiet"
        self._workspace, self._rng = vowpal_module().Workspace(options), np.random.default_rng(seed)
        self.regret, self.seconds = 0.0, 0.0

    def step(self, actions: Sequence[str], rewards: Floats) -> None:
        """Choose an action and learn from its reward."""
        began = time.thread_time()
        probabilities = np.asarray(self._workspace.predict(list(actions)), dtype=np.float64)
        arm = int(self._rng.choice(len(actions), p=probabilities / probabilities.sum()))
        label = f"0:{-rewards[arm]:g}:{probabilities[arm]:.8g} "
        self._workspace.learn([label + text if i == arm else text for i, text in enumerate(actions)])
        self.seconds += time.thread_time() - began
        self.regret += float(rewards.max() - rewards[arm])


def _action(features: Floats) -> str:
    indices = np.flatnonzero(features)
    values = features[indices].tolist()
    return "| " + " ".join([f"{i}:{value:.7g}" for i, value in zip(indices.tolist(), values, strict=True)])
