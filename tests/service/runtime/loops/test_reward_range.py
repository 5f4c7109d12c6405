"""Rewards outside the range of their decision are refused, counted and not written."""

from typing import Any

import msgspec
import numpy as np
import pytest

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.events import DecisionRequest, EventStatus
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.runtime.service import Service
from tests.service.helpers import run

Range = tuple[float, float] | None


async def decide(service: Service, event_id: str, reward_range: Range = None) -> None:
    request = DecisionRequest(
        event_id=event_id, request=np.eye(2).tobytes(), encoding="dense", actions=("a", "b"), reward_range=reward_range
    )
    await service.decide("default", request)


@pytest.mark.parametrize(
    ("of_loop", "of_event", "limits"),
    [
        (None, None, None),
        (None, (-1.0, 1.0), (-1.0, 1.0)),
        ((0.0, 1 / 3), None, (0.0, 1 / 3)),
        ((0.0, 5.0), (-1.0, 1.0), (0.0, 5.0)),
    ],
)
def test_the_loop_s_reward_range_comes_first(service: Service, of_loop: Range, of_event: Range, limits: Range) -> None:
    async def main() -> None:
        service.loop("default").configure(LoopConfig(width=2, reward_range=of_loop))
        await decide(service, "e", of_event)
        for value in limits or (-1e9, 1e9):
            assert await service.reward("default", "e", value) is EventStatus.ACCEPTED
        if limits is not None:
            for value in (np.nextafter(limits[0], -9.0), np.nextafter(limits[1], 9.0)):
                with pytest.raises(InvalidInput, match="reward must be between"):
                    await service.reward("default", "e", float(value))

    run(main())
    logged = service.store.decision("default", "e")
    assert logged is not None
    assert len(logged.rewards) == 2
    assert service.store.summary("default").rewards[EventStatus.OUT_OF_RANGE] == (0 if limits is None else 2)


def test_the_message_names_the_range_and_the_value(service: Service) -> None:
    async def main() -> None:
        service.loop("default").configure(LoopConfig(width=2))
        await decide(service, "e", (-1.0, 1.0))
        with pytest.raises(InvalidInput, match=r"^reward must be between -1 and 1 for this event, got 1000000000\.0$"):
            await service.reward("default", "e", 1e9)

    run(main())


def test_a_changed_range_applies_to_new_decisions(service: Service) -> None:
    async def main() -> None:
        loop = service.loop("default")
        loop.configure(LoopConfig(width=2))
        await decide(service, "old")
        loop.reconfigure(lambda config: msgspec.structs.replace(config, reward_range=(0.0, 1.0)))
        await decide(service, "new")
        assert await service.reward("default", "old", 5.0) is EventStatus.ACCEPTED
        with pytest.raises(InvalidInput, match="between 0 and 1"):
            await service.reward("default", "new", 5.0)

    run(main())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reward_range": (1.0, 0.0)}, "from a smaller to a larger number"),
        ({"reward_range": (0.0, float("inf"))}, "rewardRange must be"),
        ({"reward_range": (float("nan"), 1.0)}, "rewardRange must be"),
        ({"reward_range": (0.5, 1.0)}, "defaultReward must be in rewardRange"),
    ],
)
def test_an_invalid_range_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        LoopConfig(**settings)
