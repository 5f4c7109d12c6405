from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, EpsilonGreedy, InvalidInput
from glbandits.maths.sparse_rows import as_sparse_rows
from glbandits.service.domain.action_selection import LARGEST_FEATURE, allowed_indices, decide
from glbandits.service.domain.loop_config import LIMITS_OUTLIERS, LoopConfig
from glbandits.service.domain.model_snapshots import check_exact

IDS = np.array([[1.0, 0.0], [1.0, -5e17]])
"""An arm without an id, and one with an id."""


def choose(model: Bandit, arms: Any) -> int:
    return decide(model, arms, allowed_indices(2, ()), 0.0, 1).chosen


@pytest.mark.parametrize("policy", ["lin-ucb", "online-laplace", "sgd-ts"])
def test_large_feature_is_refused_by_most_policies(policy: str) -> None:
    model = Bandit(policy, 2, seed=1)
    with pytest.raises(InvalidInput, match=f"at most 1000 for {policy}, which does not limit outliers; got 5e\\+17"):
        choose(model, IDS)
    assert choose(model, np.clip(IDS, -LARGEST_FEATURE, LARGEST_FEATURE)) in (0, 1)


@pytest.mark.parametrize("policy", sorted(LIMITS_OUTLIERS))
def test_large_feature_is_accepted_by_policies_that_limit_outliers(policy: str) -> None:
    assert choose(Bandit(policy, 2, seed=1), IDS) in (0, 1)


def test_large_feature_of_a_sparse_row_is_refused() -> None:
    model = Bandit(EpsilonGreedy(fit="online"), 2, seed=1, sparse=True)
    with pytest.raises(InvalidInput, match="send an id as text"):
        choose(model, as_sparse_rows(IDS, 2))
    assert choose(model, as_sparse_rows(np.zeros((2, 2)), 2)) in (0, 1)


def test_most_policies_need_limits_of_rewards() -> None:
    with pytest.raises(InvalidInput, match="lin-ucb does not limit outliers.* Set rewardRange"):
        check_exact(LoopConfig(policy="lin-ucb", settings={}))
    check_exact(LoopConfig(policy="lin-ucb", settings={}, reward_range=(-1e3, 1e3)))
    check_exact(LoopConfig(policy="glb-omd", settings={"link": "logistic"}))
    check_exact(LoopConfig())
