"""What holds for every environment. `News` needs files, so test_news.py tests it."""

from typing import Any

import numpy as np
import pytest

from glbandits.lab import ClassificationTable, ForestCover, Prices, Synthetic, WithPayoffs
from glbandits.lab.environments import Environment
from glbandits.lab.environments import rounds as rounds_module
from tests.lab.environments.rounds import all_rounds

ENVIRONMENTS: dict[str, Any] = {
    "uniform": Synthetic(dim=2, arms=3, fewest_arms=2),
    "heavy-tailed": Synthetic(dim=5, arms=3, features="heavy-tailed"),
    "correlated": Synthetic(dim=5, arms=3, features="correlated"),
    "fixed and correlated": Synthetic(dim=5, arms=3, features="correlated", fixed_arms=True),
    "intercept": Synthetic(dim=5, arms=3, intercept=-1.0),
    "step": Synthetic(dim=5, arms=3, misspecified="step"),
    "interaction": Synthetic(dim=5, arms=3, misspecified="interaction"),
    "other units": Synthetic(dim=5, arms=3, feature_scale=1000.0, intercept=0.5),
    "table": ClassificationTable(features=[[1.0, 5.0], [2.0, 5.5], [3.0, 4.0]], labels=["cat", "dog", "cat"]),
    "forest cover 1": ForestCover(scenario=1),
    "forest cover 2": ForestCover(scenario=2),
    "forest cover 2, as published": ForestCover(scenario=2, version="as-published"),
    "prices": Prices(),
    "payoffs": WithPayoffs(Synthetic(arms=3), values=[1.0, 2.0, 5.0], costs=[0.0, 0.1, 2.0]),
}
NAMES = ("arms", "counts", "expected", "noise", "payoffs")


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_neither_chunks_nor_the_horizon_change_the_rounds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = ENVIRONMENTS[name]
    assert isinstance(problem, Environment)
    monkeypatch.setattr(rounds_module, "CHUNK_SIZE", 10**9)
    uncut = all_rounds(problem, 100, seed=4)
    for chunk_size in (1, 300, 40_000):
        monkeypatch.setattr(rounds_module, "CHUNK_SIZE", chunk_size)
        cut = all_rounds(problem, 130, seed=4)
        for array in NAMES:
            np.testing.assert_array_equal(getattr(uncut, array), getattr(cut, array)[:100])
    assert len(list(problem.rounds(130, seed=4))) < 130
    assert not (uncut.noise == all_rounds(problem, 100, seed=5).noise).any()


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_chunks_have_bounded_size(name: str) -> None:
    chunk = next(iter(ENVIRONMENTS[name].rounds(10**7, 0)))
    assert chunk.arms.nbytes <= 8 * rounds_module.CHUNK_SIZE
