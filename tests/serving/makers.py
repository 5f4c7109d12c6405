"""Makers of events for the tests of stores, and ways to wait for what is done with them."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from glbandits.serving.domain.events import Activation, Aggregation, Decision, Mode, Reward

WAIT = 1_000
LONGEST = 90.0
"""Seconds after which a test has failed because nothing happens."""

Result = TypeVar("Result")


def decision(event_id: str, timestamp: int = 0, *, loop: str = "shop", **changed: Any) -> Decision:
    """A decision among three actions that waits for WAIT microseconds."""
    settings: dict[str, Any] = {
        "slot": "",
        "request": b'{"context": [], "actions": []}',
        "encoding": "json",
        "actions": ("a", "b", "c"),
        "chosen": 1,
        "shown": 1,
        "probability": 0.25,
        "probabilities": (0.5, 0.25, 0.25),
        "model": 0,
        "mode": Mode.ONLINE,
        "reward_window": WAIT,
        "default_reward": 0.0,
        "aggregation": Aggregation.EARLIEST,
        "exploration": 0.2,
        "seed": 7,
    }
    return Decision(loop=loop, event_id=event_id, timestamp=timestamp, **settings | changed)


def reward(
    event_id: str, timestamp: int = 1, value: float = 1.0, *, loop: str = "shop", key: str = "", slot: str = ""
) -> Reward:
    """A reward that comes at once unless it is said when."""
    return Reward(loop=loop, event_id=event_id, slot=slot, timestamp=timestamp, value=value, key=key)


def activation(event_id: str, timestamp: int = 1, *, loop: str = "shop") -> Activation:
    """An activation that comes at once unless it is said when."""
    return Activation(loop=loop, event_id=event_id, timestamp=timestamp)


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """What comes of a coroutine in an event loop of its own, if that does not take too long."""
    return asyncio.run(asyncio.wait_for(coroutine, LONGEST))


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    until = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < until, "what is waited for does not happen"
        time.sleep(0.002)
