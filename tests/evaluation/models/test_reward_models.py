"""The rows that reward models learn."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput
from glbandits.evaluation import FixedArms, GlmReward, LoggedData, SklearnReward, evaluate
from glbandits.evaluation.logs.logged_data import Log, StreamedLog
from glbandits.evaluation.models.reward_models import RewardModel

ROWS = 1000


class Listener:
    """A reward model that stores the rewards that it learned, and predicts 0 for every arm."""

    folds = 2

    def __init__(self, max_rows: int) -> None:
        self.max_rows = max_rows
        self.rewards: list[float] = []
        self.dealt: list[int] = []

    def begin(self, log: Log) -> "Listener":
        assert log.dim == 2
        return self

    def learn(self, block: LoggedData, folds: Ints) -> None:
        self.rewards += block.rewards.tolist()
        self.dealt += folds.tolist()

    def finish(self) -> None:
        return

    def predict(self, block: LoggedData, folds: Ints) -> Floats:
        assert len(block) == len(folds)
        return np.zeros((len(block), 2))


class SmallBlocks(StreamedLog):
    """A log that is read seven rows at a time."""

    def __init__(self, log: LoggedData) -> None:
        self._log, self.schema = log, log.schema

    def blocks(self, size: int = 7, **rows: Any) -> Iterator[LoggedData]:
        yield from self._log.blocks(min(size, 7), **rows)


def numbered_log() -> SmallBlocks:
    """The reward of each row is its index."""
    chosen, half = np.arange(ROWS) % 2, np.full(ROWS, 0.5)
    rewards = np.arange(ROWS, dtype=np.float64)
    return SmallBlocks(LoggedData(chosen=chosen, rewards=rewards, propensities=half, arms=FixedArms(np.eye(2), ROWS)))


@pytest.mark.parametrize(("most", "every"), [(ROWS, 1), (ROWS - 1, 2), (300, 4), (2, 500)])
def test_rows_of_a_long_log_are_evenly_spaced(most: int, every: int) -> None:
    all_rows, model = Listener(ROWS), Listener(most)
    evaluate(numbered_log(), "uniform", "dm", model=all_rows)
    evaluate(numbered_log(), "uniform", "dm", model=model)
    assert model.rewards == list(range(0, ROWS, every))
    assert model.dealt == all_rows.dealt[::every], "a row keeps its fold"


def test_models_have_a_maximum_number_of_rows() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    models: list[RewardModel] = [GlmReward(max_rows=100), SklearnReward(linear_model.Ridge(), max_rows=100)]
    for model in models:
        value = evaluate(numbered_log(), "uniform", "dm", model=model)["dm"].value
        assert value == pytest.approx(500.0, abs=60.0), "about two standard errors of the mean of 100 rows; no draws"
    with pytest.raises(InvalidInput, match="max_rows must be a whole number"):
        GlmReward(max_rows=1)


def test_classifier_with_one_class_outside_a_fold_is_an_error() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rewards = np.zeros(20)
    rewards[0] = 1.0
    log = LoggedData(
        chosen=np.zeros(20, dtype=np.int64),
        rewards=rewards,
        propensities=np.full(20, 0.5),
        arms=FixedArms(np.eye(2), rows=20),
    )
    with pytest.raises(InvalidInput, match="regressor could not be fitted to the rows"):
        evaluate(log, "uniform", "dm", model=SklearnReward(linear_model.LogisticRegression()))
