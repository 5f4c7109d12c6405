from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, InvalidInput, Optimist
from glbandits.common.errors import check_bool
from glbandits.evaluation import promotion
from glbandits.evaluation.comparison_result import ComparisonSettings
from glbandits.evaluation.estimators.frozen_target import FrozenTarget
from tests.evaluation.simulated_logs import small_log


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_booleans_of_python_and_numpy_are_accepted(value: Any) -> None:
    assert check_bool("explore", value) is bool(value)


@pytest.mark.parametrize("value", ["no", 0, 1, None, np.array(True)])
def test_explore_must_be_a_boolean(value: Any) -> None:
    bandit, arms = Bandit(Optimist(), dim=2, seed=0), np.eye(2)
    calls: list[Callable[[], Any]] = [
        lambda: bandit.choose(arms, explore=value),
        lambda: bandit.rank(arms, 1, explore=value),
        lambda: bandit.choose_batch(arms[np.newaxis], explore=value),
        lambda: FrozenTarget(bandit, explore=value),
        lambda: ComparisonSettings(explore=value),
        lambda: promotion(small_log(), {"a": "uniform"}, explore=value),
    ]
    before = bandit.state
    for call in calls:
        with pytest.raises(InvalidInput) as error:
            call()
        assert error.value.field == "explore"
    assert (bandit.state == before).all()
