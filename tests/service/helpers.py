"""Events for tests of stores, the statuses of submitted events, and waiting for results."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from glbandits.service.domain.events import (
    Activation,
    Aggregation,
    Decision,
    Event,
    EventStatus,
    Mode,
    Reward,
)
from glbandits.service.storage.event_store import EventStore

WAIT = 1_000
TIMEOUT = 90.0
"""Seconds after which a waiting test fails."""

Result = TypeVar("Result")


def decision(event_id: str, timestamp: int = 0, *, loop: str = "shop", **changed: Any) -> Decision:
    """A decision among three actions with a reward window of WAIT microseconds."""
    settings: dict[str, Any] = {
        "slot": "",
        "request": b'{"context": [], "actions": []}',
        "encoding": "json",
        "actions": ("a", "b", "c"),
        "chosen": 1,
        "shown": 1,
        "probability": 0.25,
        "probabilities": (0.5, 0.25, 0.25),
        "learned_through": 0,
        "mode": Mode.ONLINE,
        "reward_window": WAIT,
        "default_reward": 0.0,
        "aggregation": Aggregation.EARLIEST,
        "exploration": 0.2,
        "seed": 7,
    }
    return Decision(loop=loop, event_id=event_id, timestamp=timestamp, **settings | changed)


def decisions_of_slots(event_id: str, slots: str, **changed: Any) -> list[Decision]:
    """A decision for each slot of an event. Each character is the id of a slot."""
    return [decision(event_id, slot=slot, slots=tuple(slots), **changed) for slot in slots]


def reward(
    event_id: str, timestamp: int = 1, value: float = 1.0, *, loop: str = "shop", key: str = "", slot: str = ""
) -> Reward:
    """A reward, by default right after its decision."""
    return Reward(loop=loop, event_id=event_id, slot=slot, timestamp=timestamp, value=value, key=key)


def metric(event_id: str, name: str, value: float = 1.0, timestamp: int = 1, **changed: Any) -> Reward:
    """A number of a metric with a window of WAIT microseconds."""
    settings: dict[str, Any] = {"loop": "shop", "window": WAIT} | changed
    return Reward(event_id=event_id, metric=name, value=value, timestamp=timestamp, **settings)


def activation(event_id: str, timestamp: int = 1, *, loop: str = "shop") -> Activation:
    """An activation, by default right after its decision."""
    return Activation(loop=loop, event_id=event_id, timestamp=timestamp)


def statuses(store: EventStore, *events: Event) -> list[EventStatus]:
    """Append events to a store, and return their statuses."""
    return [receipt.status for receipt in store.append_blocking(events)]


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in an event loop of its own, with a timeout, and return its result."""
    return asyncio.run(asyncio.wait_for(coroutine, TIMEOUT))


def wait_until(condition: Callable[[], bool]) -> None:
    """Block until a condition holds. Fails after TIMEOUT seconds."""
    until = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < until, "the condition did not become true"
        time.sleep(0.002)
