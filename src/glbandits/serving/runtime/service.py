"""The service: loops, the writer of the log, and the learner, as the HTTP side uses them."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from glbandits.errors import InvalidInput
from glbandits.serving.domain.catalogue_arms import CatalogueRequest
from glbandits.serving.domain.errors import StoreError, UnknownLoop
from glbandits.serving.domain.events import (
    Activation,
    Decision,
    DecisionRequest,
    EventStatus,
    LoggedDecision,
    Receipt,
    Reward,
)
from glbandits.serving.domain.loop_config import LoopConfig
from glbandits.serving.domain.model_snapshots import FirstModel
from glbandits.serving.runtime.batch_writer import QUEUE_BYTES, BatchWriter, WriterState
from glbandits.serving.runtime.failure_log import FailureLog
from glbandits.serving.runtime.learning_loop import Loop
from glbandits.serving.storage.event_store import EventStore

log = logging.getLogger(__name__)

DEFAULT_LOOP = "default"
DECISION_TIMEOUT = 0.25
"""Seconds that a decision waits for its commit. After that it is returned as degraded, and still written."""
REWARD_TIMEOUT = 10.0
"""Seconds that a reward waits for its commit. After that it is refused, and not written."""


LEARNER_TICK = 0.05
"""Seconds between two looks of the learner at what is due."""
QUESTION = ("request", "encoding", "actions", "excluded", "baseline")
"""Fields of a decision that must be the same when its event is sent again."""


def microseconds() -> int:
    """Since 1970."""
    return time.time_ns() // 1000


class DecisionResult(NamedTuple):
    """A decision, and whether it is durable."""

    decision: Decision
    degraded: bool
    """The store has not confirmed the decision in time: a crash now might lose it."""


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
        first_configuration: of loops that are new in the store.
        first_model: with which such loops begin; None for one that knows nothing.
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
        first_configuration: LoopConfig | None = None,
        first_model: FirstModel | None = None,
    ) -> None:
        self.store, self.clock, self.learns = store, clock, learns
        self.writer = BatchWriter(store, queue=queue, queue_bytes=queue_bytes)
        self.loops = {
            name: Loop(name, store, clock, first_configuration=first_configuration, first_model=first_model)
            for name in loops
        }
        self._turns = {name: asyncio.Semaphore(1) for name in loops}
        """Held while an arm of a catalogue is chosen: more threads would only wait for each other."""
        self.learning_failures = self.degraded = 0
        self._failures = FailureLog(log)
        self._stop = threading.Event()
        self._learner = threading.Thread(target=self._learn, name="learner", daemon=True)

    def start(self) -> None:
        """Begin to learn."""
        self._learner.start()

    @property
    def learning_failed(self) -> str | None:
        """Why learning fails at the moment: the latest error of each loop that fails. None if all loops learn."""
        return "; ".join(f"{name}: {error}" for name, error in self._failures.failing.copy().items()) or None

    @property
    def learning(self) -> bool:
        """Whether the learner runs."""
        return self._learner.is_alive()

    def loop(self, name: str) -> Loop:
        """The loop of this name."""
        if name not in self.loops:
            raise UnknownLoop(f"there is no loop {name!r}; there are {', '.join(sorted(self.loops))}")
        return self.loops[name]

    async def decide(self, loop: str, request: DecisionRequest) -> DecisionResult:
        """Choose an action, and keep the decision.

        The same event asked again gets the same answer; the same event with another question is refused.
        """
        return await self._keep(self.loop(loop).decide(request))

    async def decide_from_catalogue(self, loop: str, request: CatalogueRequest) -> DecisionResult:
        """Choose an arm of the loop's catalogue in a thread, and keep the decision, as `decide` does."""
        decide = self.loop(loop).decide_from_catalogue
        async with self._turns[loop]:
            decision = await asyncio.to_thread(decide, request)
        return await self._keep(decision)

    async def _keep(self, decision: Decision) -> DecisionResult:
        try:
            receipt = await self.writer.submit(decision, DECISION_TIMEOUT)
        except TimeoutError:
            return await self._unconfirmed(decision)
        if receipt.status is EventStatus.DUPLICATE:
            logged = await asyncio.to_thread(self._logged, decision)
            if logged is None:
                raise StoreError(
                    f"event {decision.event_id!r} was decided before, and deleted at this moment; send it again"
                )
            decision = _same(logged.decision, decision)
        return DecisionResult(decision, degraded=False)

    async def _unconfirmed(self, decision: Decision) -> DecisionResult:
        """Answer while the store is slow. If the event was decided before, return the first decision."""
        # Before the store is read, because an event may be written in between.
        first = self.writer.pending_decision(decision.loop, decision.event_id, decision.slot)
        logged = None
        if self.writer.state is not WriterState.RETRYING:  # a store that fails would only cost time
            with suppress(TimeoutError, StoreError):
                logged = await asyncio.wait_for(asyncio.to_thread(self._logged, decision), DECISION_TIMEOUT)
        if logged is not None:
            return DecisionResult(_same(logged.decision, decision), degraded=False)
        result = DecisionResult(_same(first or decision, decision), degraded=True)
        self.degraded += 1
        return result

    def _logged(self, decision: Decision) -> LoggedDecision | None:
        return self.store.decision(decision.loop, decision.event_id, decision.slot)

    async def reward(self, loop: str, event_id: str, value: float, *, slot: str = "", key: str = "") -> EventStatus:
        """Write a reward. It is learned when the reward window of its decision is over.

        Raises InvalidInput, and writes nothing, if the reward is outside the range of its decision.
        """
        name = self.loop(loop).name
        reward = Reward(loop=name, event_id=event_id, slot=slot, timestamp=self.clock(), value=value, key=key)
        receipt = await self._write(reward)
        if receipt.status is EventStatus.OUT_OF_RANGE:
            raise InvalidInput(receipt.message)
        return receipt.status

    async def activate(self, loop: str, event_id: str) -> EventStatus:
        """Let a deferred decision count."""
        activation = Activation(loop=self.loop(loop).name, event_id=event_id, timestamp=self.clock())
        return (await self._write(activation)).status

    async def _write(self, event: Reward | Activation) -> Receipt:
        try:
            return await self.writer.submit(event, REWARD_TIMEOUT)
        except TimeoutError:
            raise StoreError(f"The store took longer than {REWARD_TIMEOUT:g} s. Nothing was written; retry.") from None

    def _learn(self) -> None:
        due = dict.fromkeys(self.loops, 0.0)
        while not self._stop.is_set():
            changed = self.store.wait_for_change(LEARNER_TICK)
            for name, loop in self.loops.items():
                if changed or time.monotonic() >= due[name]:
                    self._learn_loop(f"learning of loop {name}", loop)
                    due[name] = time.monotonic() + loop.configuration.model_update

    def _learn_loop(self, activity: str, loop: Loop) -> None:
        """Learn or follow one loop. If that fails, decisions go on with the current model."""
        try:
            if self.learns():
                loop.learn()
            else:
                loop.refresh()
            self._failures.succeeded(activity)
        except Exception as error:
            self._failures.failed(activity, error)
            self.learning_failures += 1

    async def close(self) -> None:
        """Write the queue, save the models and close the store."""
        self._stop.set()
        await self.writer.close()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        if self._learner.is_alive():
            self._learner.join()
        for loop in self.loops.values():
            loop.close()
        self.store.close()


def _question(decision: Decision) -> object:
    """What must be the same when an event is sent again. A catalogue may have changed meanwhile."""
    if decision.catalogue is not None:
        return decision.catalogue.question
    return [getattr(decision, name) for name in QUESTION]


def _same(first: Decision, again: Decision) -> Decision:
    """Return the first decision of an event. Raises InvalidInput if the request is not the same again."""
    if _question(first) != _question(again):
        raise InvalidInput(f"event {again.event_id!r} was decided before, with other actions or features")
    if first.deferred != again.deferred:
        raise InvalidInput(
            f"event {again.event_id!r} was decided before, {'' if first.deferred else 'not '}deferred; ask as before, "
            "or under another event id"
        )
    return first
