"""The service: loops, the writer of the log, and the learner, as the HTTP side uses them."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from glbandits.errors import InvalidInput
from glbandits.serving.domain.errors import StoreError, UnknownLoop
from glbandits.serving.domain.events import Activation, Decision, DecisionRequest, Fate, Receipt, Reward
from glbandits.serving.runtime.batch_writer import QUEUE_BYTES, BatchWriter
from glbandits.serving.runtime.deadlines import Patience
from glbandits.serving.runtime.learning_loop import Loop
from glbandits.serving.storage.event_store import EventStore, LoggedDecision

log = logging.getLogger(__name__)

DEFAULT_LOOP = "default"
PATIENCE = 0.25
"""Seconds that a decision waits to be safe. After that it is returned as one that is not, and still written."""
LAST_WAIT = 10.0
"""Seconds that a reward waits for its turn to be written. After that it is refused, and not written."""


def microseconds() -> int:
    """Since 1970."""
    return time.time_ns() // 1000


class Answer(NamedTuple):
    """A decision, and whether it is safe."""

    decision: Decision
    degraded: bool
    """The store did not say in time that it has the decision: a crash now might lose it."""


class Service:
    """All loops of a server.

    `decide`, `reward` and `activate` belong to one event loop. Learning goes on in a thread of its own.

    Args:
        store: of all loops. The service closes it.
        loops: their names.
        queue: events that may wait to be written; more are refused.
        queue_bytes: how large the decisions among them may be, together; more are refused.
        clock: microseconds since 1970.
        learns: whether this process is the one that learns, asked each time. One that does not follows the models
            that another keeps.
    """

    def __init__(
        self,
        store: EventStore,
        loops: Sequence[str] = (DEFAULT_LOOP,),
        *,
        queue: int = 10_000,
        queue_bytes: int = QUEUE_BYTES,
        clock: Callable[[], int] = microseconds,
        learns: Callable[[], bool] = lambda: True,
    ) -> None:
        self.store, self.clock, self._learns = store, clock, learns
        self.writer = BatchWriter(store, queue=queue, queue_bytes=queue_bytes)
        self.loops = {name: Loop(name, store, clock) for name in loops}
        self._patience, self._last_patience = Patience(), Patience(self.writer.withdraw)
        self.learning_failed: str | None = None
        self.learning_failures = self.degraded = 0
        self._stop = threading.Event()
        self._learner = threading.Thread(target=self._learn, name="learner", daemon=True)

    def start(self) -> None:
        """Begin to learn."""
        self._learner.start()

    @property
    def learning(self) -> bool:
        """Whether the learner runs."""
        return self._learner.is_alive()

    def loop(self, name: str) -> Loop:
        """The loop of this name."""
        if name not in self.loops:
            raise UnknownLoop(f"there is no loop {name!r}; there are {', '.join(sorted(self.loops))}")
        return self.loops[name]

    async def decide(self, loop: str, question: DecisionRequest) -> Answer:
        """Choose an action, and keep the decision.

        The same event asked again gets the same answer; the same event with another question is refused.
        """
        decision = self.loop(loop).decide(question)
        try:
            waiter = self.writer.submit(decision)
            self._patience.end_after(PATIENCE, waiter)
            receipt = await waiter
        except TimeoutError:
            # In a task: it has a time limit, and `decide` itself may run without one.
            return await asyncio.get_running_loop().create_task(self._unconfirmed(decision))
        if receipt.fate is Fate.DUPLICATE:
            return Answer(self._first(decision), degraded=False)
        return Answer(decision, degraded=False)

    async def _unconfirmed(self, decision: Decision) -> Answer:
        """What is known of an event while the store is slow: it may have been decided before."""
        # Before the look at the store, which has what is written in between.
        first = self.writer.unwritten(decision.loop, decision.event_id, decision.slot)
        try:
            kept = await asyncio.wait_for(asyncio.to_thread(self._logged, decision), PATIENCE)
        except (TimeoutError, StoreError):
            kept = None  # it cannot be read either
        if kept is not None:
            return Answer(_same(kept.decision, decision), degraded=False)
        answer = Answer(_same(first or decision, decision), degraded=True)
        self.degraded += 1
        return answer

    def _first(self, again: Decision) -> Decision:
        kept = self._logged(again)
        if kept is None:
            raise StoreError(f"event {again.event_id!r} was decided before, and deleted at this moment; send it again")
        return _same(kept.decision, again)

    def _logged(self, decision: Decision) -> LoggedDecision | None:
        return self.store.decision(decision.loop, decision.event_id, decision.slot)

    async def reward(self, loop: str, event_id: str, value: float, *, slot: str = "", key: str = "") -> Fate:
        """Keep a reward; it counts when the wait of its decision is over."""
        name = self.loop(loop).name
        reward = Reward(loop=name, event_id=event_id, slot=slot, at=self.clock(), value=value, key=key)
        return (await self._kept(reward)).fate

    async def activate(self, loop: str, event_id: str) -> Fate:
        """Let a deferred decision count."""
        return (await self._kept(Activation(loop=self.loop(loop).name, event_id=event_id, at=self.clock()))).fate

    async def _kept(self, event: Reward | Activation) -> Receipt:
        try:
            waiter = self.writer.submit(event)
            self._last_patience.end_after(LAST_WAIT, waiter)
            return await waiter
        except TimeoutError:
            raise StoreError(f"the store took longer than {LAST_WAIT:g} s; it was not kept, send it again") from None

    def _learn(self) -> None:
        due = dict.fromkeys(self.loops, 0.0)
        while not self._stop.wait(0.05):
            for name, loop in self.loops.items():
                if time.monotonic() < due[name]:
                    continue
                try:
                    if self._learns():
                        loop.learn()
                    else:
                        loop.refresh()
                    self.learning_failed = None
                except Exception as error:  # deciding goes on with the model that there is
                    log.exception("learning of loop %s failed; it is tried again", name)
                    self.learning_failed = f"{name}: {error}"
                    self.learning_failures += 1
                due[name] = time.monotonic() + loop.configuration.model_update

    def close(self) -> None:
        """Write what waits, keep the models, and let go of the store."""
        self._stop.set()
        if self._learner.is_alive():
            self._learner.join()
        self.writer.close()
        for loop in self.loops.values():
            loop.close()
        self.store.close()


def _same(first: Decision, again: Decision) -> Decision:
    """The first decision of an event, if it is asked again with the same question."""
    if _question(first) != _question(again):
        raise InvalidInput(f"event {again.event_id!r} was decided before, with other actions or features")
    if first.deferred != again.deferred:
        raise InvalidInput(
            f"event {again.event_id!r} was decided before, {'' if first.deferred else 'not '}deferred; ask as before, "
            "or under another event id"
        )
    return first


def _question(decision: Decision) -> tuple[object, ...]:
    return decision.request, decision.encoding, decision.actions, decision.excluded, decision.baseline
