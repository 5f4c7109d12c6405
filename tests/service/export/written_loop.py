"""A loop whose log was written by a policy that chooses at random."""

from typing import Any

import numpy as np

from glbandits.service.domain.events import DecisionRequest, Event, Reward
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.request_features import DENSE
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.storage.event_store import EventStore
from tests.service.runtime.loops.loop_helpers import Clock

ARMS = np.eye(4)
UNIFORM: dict[str, Any] = {"policy": "uniform", "settings": {"link": "identity"}, "width": 4, "reward_wait": 1.0}
BATCH = 1000


def uniform_loop(store: EventStore, clock: Clock, **settings: Any) -> Loop:
    return Loop("default", store, clock, first_configuration=LoopConfig(**UNIFORM | settings))


def play(loop: Loop, store: EventStore, clock: Clock, rounds: int, gain: float = 0.4, seed: int = 0) -> None:
    """Decisions that earn 1 with probability 0.3, and 0.3 + gain if arm 0 is shown, at any index; then learn them."""
    rng = np.random.default_rng(seed)
    for first in range(0, rounds, BATCH):
        events: list[Event] = []
        for number in range(first, min(first + BATCH, rounds)):
            order, event_id = rng.permutation(4), f"{clock.now}-{number}"
            actions = tuple(f"arm {arm}" for arm in order)
            made = loop.decide(
                DecisionRequest(event_id=event_id, request=ARMS[order].tobytes(), encoding=DENSE, actions=actions)
            )
            earned = float(rng.random() < 0.3 + gain * (order[made.shown] == 0))
            events += [made, Reward(loop=loop.name, event_id=event_id, timestamp=clock(), value=earned)]
        store.append_blocking(events)
    clock.wait(2)
    loop.learn()
