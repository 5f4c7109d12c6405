from typing import Any

import pytest
from tools.write_loop_settings import PAGE, with_table

from glbandits.common.errors import InvalidInput
from glbandits.policies import POLICIES, Optimist
from glbandits.service.domain.loop_config import LARGEST_MODEL, LoopConfig, model_size


def test_guide_has_the_declared_settings() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page), "run tools/write_loop_settings.py"


@pytest.mark.parametrize(
    ("policy", "settings", "width"),
    [("lin-ucb", {}, 1_000_000), ("lin-ucb", {}, 6_400), ("sgd-ts", {"link": "identity"}, 3_000)],
)
def test_a_model_that_memory_cannot_hold_is_refused(policy: str, settings: dict[str, Any], width: int) -> None:
    with pytest.raises(
        InvalidInput, match=f"a model of {policy} may have 40,000,000 numbers.*width of {width:,}. Use a smaller width"
    ):
        LoopConfig(policy=policy, settings=settings, width=width, sparse=False)


def test_the_default_policy_allows_the_largest_width() -> None:
    assert LoopConfig(width=1_000_000, sparse=False).width == 1_000_000
    assert LoopConfig(policy="lin-ucb", settings={}, width=5_000, sparse=False).width == 5_000


@pytest.mark.parametrize("width", [1, 2, 3, 31, 32, 33])
def test_model_size_is_the_size_of_the_state(width: int) -> None:
    assert model_size("lin-ucb", "{}", width) == POLICIES["lin-ucb"]().init(width).size
    assert model_size("optimist", '{"link":"identity"}', width) == Optimist(link="identity").init(width).size


def test_a_far_too_large_model_is_never_made() -> None:
    assert LARGEST_MODEL < model_size("lin-ucb", "{}", 1_000_000) < 4 * LARGEST_MODEL


def test_loop_is_sparse_above_4096_by_default() -> None:
    assert not LoopConfig(width=4096).is_sparse
    assert LoopConfig(width=4097).is_sparse
    assert LoopConfig(width=2**24).is_sparse
    assert LoopConfig(width=2, sparse=True).is_sparse
    assert not LoopConfig(width=1_000_000, sparse=False).is_sparse


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"width": 2**24 + 1}, "width must be a whole number of at least 1 and at most 16777216; got 16777217"),
    ({"width": 1_000_001, "sparse": False}, "width must be at most 1,000,000 with sparse=false; got 1,000,001. Omit"),
    (
        {"policy": "lin-ts", "settings": {}, "width": 4097},
        "a loop is sparse above a width of 4,096. Set a width of at most 4,096, or change the policy: "
        "lin-ts has no sparse form; policies with one are optimist, ",
    ),
    (
        {"policy": "lin-ts", "settings": {}, "width": 8, "sparse": True},
        "a loop is sparse with sparse=true. Set sparse=false, or change the policy: lin-ts has no sparse form",
    ),
    ({"settings": {"half_life": "auto"}, "width": 5000}, 'half_life="auto" has no sparse form; set it to a number'),
]


@pytest.mark.parametrize(("settings", "message"), WRONG)
def test_impossible_sparse_loop_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        LoopConfig(**settings)
