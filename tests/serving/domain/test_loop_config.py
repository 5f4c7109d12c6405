from typing import Any

import pytest

from glbandits.errors import InvalidInput
from glbandits.policies import POLICIES, Optimist
from glbandits.serving.domain.loop_config import LARGEST_MODEL, LoopConfig, model_size


@pytest.mark.parametrize(
    ("policy", "settings", "width"),
    [("lin-ucb", {}, 1_000_000), ("lin-ucb", {}, 6_400), ("sgd-ts", {"link": "identity"}, 3_000)],
)
def test_a_model_that_memory_cannot_hold_is_refused(policy: str, settings: dict[str, Any], width: int) -> None:
    with pytest.raises(
        InvalidInput, match=f"a model of {policy} may have 40,000,000 numbers.*width of {width:,}. Take a smaller width"
    ):
        LoopConfig(policy=policy, settings=settings, width=width)


def test_the_default_policy_may_be_as_wide_as_a_loop_may_be() -> None:
    assert LoopConfig(width=1_000_000).width == 1_000_000
    assert LoopConfig(policy="lin-ucb", settings={}, width=5_000).width == 5_000


@pytest.mark.parametrize("width", [1, 2, 3, 31, 32, 33])
def test_the_size_of_a_model_is_that_of_its_state(width: int) -> None:
    assert model_size("lin-ucb", "{}", width) == POLICIES["lin-ucb"]().init(width).size
    assert model_size("optimist", '{"link":"identity"}', width) == Optimist(link="identity").init(width).size


def test_the_size_of_one_that_is_too_large_is_told_without_making_it() -> None:
    assert LARGEST_MODEL < model_size("lin-ucb", "{}", 1_000_000) < 4 * LARGEST_MODEL
