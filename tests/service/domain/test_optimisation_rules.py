from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from glbandits.common.errors import GlbanditsError
from glbandits.policies import Optimist
from glbandits.policies.contract import settings_of
from glbandits.service.domain.loop_config import DAY, SECOND, LoopConfig
from glbandits.service.domain.optimisation_rules import candidates_of, check_optimisable, default_candidates, next_look

START = datetime(2026, 1, 1, tzinfo=UTC)
AT = round(START.timestamp() * SECOND)
WEEK = 7 * DAY * SECOND


@pytest.mark.parametrize(
    ("start", "last", "due"),
    [
        (None, None, 0),
        (None, AT, AT + WEEK),
        (START, None, AT),
        (START, AT - 1, AT),
        (START, AT, AT + WEEK),
        (START, AT + WEEK - 1, AT + WEEK),
        (START, AT + WEEK, AT + 2 * WEEK),
        (START.replace(tzinfo=None), AT, AT + WEEK),
    ],
)
def test_looks_are_due_at_the_start_and_every_week(start: datetime | None, last: int | None, due: int) -> None:
    assert next_look(LoopConfig(auto_optimisation=True, optimisation_start=start), last) == due


def test_no_look_is_due_without_auto_optimisation() -> None:
    assert next_look(LoopConfig(optimisation_start=START), None) is None


def test_configurations_of_older_versions_have_it_off() -> None:
    old = msgspec.json.decode(b'{"reward_wait": 5.0, "policy": "uniform", "settings": {}}', type=LoopConfig)
    assert (old.auto_optimisation, old.optimisation_frequency, old.candidates) == (False, 604_800.0, ())


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({"optimisation_frequency": 60.0}, "optimisation_frequency must be a finite number at least 3600"),
        ({"reward_range": None}, "auto_optimisation needs limits of the rewards, and this loop has none. Set reward_r"),
        ({"candidates": ("optimste",)}, "unknown policy 'optimste'; did you mean 'optimist'"),
        ({"candidates": ("laplace-ts",)}, "laplace-ts with these settings has no exact probabilities"),
        ({"candidates": ("glm-tsl",)}, "glm-tsl stores all past rewards"),
        ({"candidates": ("optimist:link=logistic",)}, "candidate 'optimist:link=logistic' learns rewards within"),
        ({"candidates": tuple(map(str, range(11)))}, "candidates must be at most 10, got 11"),
    ],
)
def test_invalid_auto_optimisation_is_refused(changed: dict[str, Any], wanted: str) -> None:
    settings: dict[str, Any] = {"auto_optimisation": True, "reward_range": (-1.0, 1.0)}
    with pytest.raises(GlbanditsError, match=wanted):
        check_optimisable(LoopConfig(**settings | changed))


def test_a_link_with_limits_needs_no_reward_range() -> None:
    settings = settings_of(Optimist(link="logistic"))
    configuration = LoopConfig(auto_optimisation=True, settings=settings)
    check_optimisable(configuration)
    assert configuration.reward_limits() == (0.0, 1.0)
    assert {candidate.settings["link"] for candidate in candidates_of(configuration).values()} == {"logistic"}


def test_default_candidates_are_variants_and_two_rivals() -> None:
    running = LoopConfig(policy="lin-ucb", settings={"exploration": 1.0}, reward_range=(0.0, 1.0))
    assert list(candidates_of(running)) == [
        "lin-ucb:exploration=0.3",
        "lin-ucb:exploration=3.0",
        "optimist",
        "sgd-ts",
    ]


def test_wide_loops_have_no_quadratic_rivals() -> None:
    assert list(default_candidates(LoopConfig(width=5_000, sparse=False))) == [
        "optimist:half_life=10000",
        "optimist:half_life=100000",
    ]


def test_sparse_loops_have_rivals_with_a_sparse_form() -> None:
    configuration = LoopConfig(width=2**24, auto_optimisation=True, reward_range=(0.0, 1.0))
    assert list(default_candidates(configuration)) == [
        "optimist:half_life=10000",
        "optimist:half_life=100000",
        "sgd-ts:block_length=100",
        "epsilon-greedy:fit=online",
    ]
    check_optimisable(configuration)
    with pytest.raises(GlbanditsError, match="lin-ts has no sparse form"):
        check_optimisable(msgspec.structs.replace(configuration, candidates=("lin-ts",)))
