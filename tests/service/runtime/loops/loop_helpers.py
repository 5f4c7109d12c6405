"""Loops for tests: a clock that tests set, and decisions whose best action depends on the context."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from glbandits.service.domain.events import Decision, DecisionRequest, Reward
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.model_snapshots import Identity
from glbandits.service.domain.request_features import encode_json_request
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.loop_store import IDENTITY
from glbandits.service.storage.sqlite_store import SqliteStore

ACTIONS = ("news", "sports", "music")
CONTEXTS = ("morning", "noon", "night")


class Clock:
    """A clock that advances by a microsecond at each call, and by `wait`."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000

    def __call__(self) -> int:
        self.now += 1
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += round(seconds * 1_000_000)


def request_at(context: str) -> bytes:
    actions = [{"topic": name} for name in ACTIONS]
    return encode_json_request([{"time": context}], actions)


def ask(loop: Loop, event_id: str, context: str, **more: Any) -> Decision:
    return loop.decide(
        DecisionRequest(event_id=event_id, request=request_at(context), encoding="json", actions=tuple(ACTIONS), **more)
    )


def small_loop(folder: Path, clock: Clock, **settings: Any) -> tuple[Loop, SqliteStore]:
    store = SqliteStore(folder / "events.sqlite")
    return loop_in(store, clock, **settings), store


def loop_in(store: EventStore, clock: Clock, **settings: Any) -> Loop:
    """A loop in an empty store. Its draws are the same in every test."""
    store.save_document("default", IDENTITY, clock(), msgspec.json.encode(Identity("the same in every test")))
    loop = Loop("default", store, clock)
    loop.configure(LoopConfig(**({"width": 16, "reward_wait": 10.0} | settings)))
    return loop


def play_rounds(
    loop: Loop, store: EventStore, clock: Clock, rounds: int, *, seed: int = 0, first: int = 0
) -> list[Decision]:
    """Make decisions, reward each at once if it is the best action of its context, and learn. Returns the decisions."""
    rng, decisions = np.random.default_rng(seed), []
    for number in range(first, first + rounds):
        best = int(rng.integers(3))
        decision = ask(loop, f"event-{number}", CONTEXTS[best])
        store.append_blocking([decision])
        value = float(decision.shown == best)
        store.append_blocking([Reward(loop=loop.name, event_id=decision.event_id, timestamp=clock(), value=value)])
        decisions.append(decision)
        if number % 20 == 19:
            clock.wait(11)
            loop.learn()
    return decisions
