"""The service: all loops of a server, the writer of the log, and the learner thread."""

import asyncio
import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from weakref import WeakValueDictionary

from msgspec.structs import replace

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.action_selection import allowed_indices, decide
from glbandits.service.domain.errors import LoopExists, QueueFull, StoreError, UnknownLoop
from glbandits.service.domain.events import Activation, Decision, DecisionRequest, EventStatus, Receipt, Reward
from glbandits.service.domain.groups.experiment import check_numbers
from glbandits.service.domain.loop_config import SECOND, LoopConfig
from glbandits.service.domain.model_snapshots import FirstModel, arms_of_zeros, check_exact
from glbandits.service.domain.request_features import row_of
from glbandits.service.runtime.batch_writer import QUEUE_BYTES, BatchWriter
from glbandits.service.runtime.decision_writer import DecisionResult, DecisionWriter
from glbandits.service.runtime.failure_log import FailureLog
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.loops.loop_documents import first_documents
from glbandits.service.runtime.steady_clock import SteadyClock
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.loop_store import IDENTITY

log = logging.getLogger(__name__)

DEFAULT_LOOP = "default"
REWARD_TIMEOUT = 10.0
"""Seconds that a reward waits for its commit. After that it is refused, and not written."""
LEARNER_TICK = 0.05
"""Seconds between two checks of the learner which loops are due."""
LOOPS_EVERY = 0.25
"""Seconds between two looks of a process for loops that another process has created or deleted."""
LEARN_SECONDS = 0.2
"""Seconds after which the update of a loop ends, so that other loops do not wait. The next tick continues."""
LOOK_SECONDS = 5.0
"""Seconds between two looks for a configuration of another process: not every store has notifications."""


def microseconds() -> int:
    """Return the microseconds since 1970."""
    return time.time_ns() // 1000


class Service:
    """All loops of a server.

    `decide`, `reward` and `activate` belong to one event loop. A thread learns.

    Args:
        store: the store of all loops. The service closes it.
        loop_names: loops to create if the store does not have them. All other loops of the store are served too.
        queue: the largest number of events that wait to be written; more are refused.
        queue_bytes: the largest total size of the decisions that wait; more are refused.
        clock: microseconds since 1970; None for a `SteadyClock`.
        learns: returns whether this process is the one that learns. Called each time. Other processes read the models
            that it saves.
        first_configuration: the configuration of loops that are new in the store.
        first_model: the model of such loops; None for one that has learned nothing.
    """

    def __init__(
        self,
        store: EventStore,
        loop_names: Sequence[str] = (DEFAULT_LOOP,),
        *,
        queue: int = 10_000,
        queue_bytes: int = QUEUE_BYTES,
        clock: Callable[[], int] | None = None,
        learns: Callable[[], bool] = lambda: True,
        first_configuration: LoopConfig | None = None,
        first_model: FirstModel | None = None,
    ) -> None:
        self.store, self.clock, self.learns = store, clock or SteadyClock(microseconds), learns
        self.writer = BatchWriter(store, queue=queue, queue_bytes=queue_bytes)
        self._stop = threading.Event()
        self._named, self._first_model = tuple(loop_names), first_model
        self.first_configuration = first_configuration or LoopConfig()
        """The configuration of new loops."""
        if first_model is not None:
            self.first_configuration = first_model.configure(self.first_configuration)
        self._changing_loops = threading.Lock()
        names = dict.fromkeys([*self._named, *store.names_with(IDENTITY)])
        self.loops = {name: self._open_loop(name, self.first_configuration) for name in names}
        """By name. Replaced, not changed, when loops are created and deleted."""
        self._decisions = DecisionWriter(store, self.writer)
        self._rankings: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        """A lock by loop and unit, or event, for the rankings that are drawn at this moment."""
        self.learning_failures = 0
        self._failures = FailureLog(log)
        self._learner = threading.Thread(target=self._learn, name="learner", daemon=True)

    def start(self) -> None:
        """Start the learner thread."""
        self._learner.start()

    @property
    def degraded(self) -> int:
        """Decisions that were returned before they were durable."""
        return self._decisions.degraded

    @property
    def learning_failed(self) -> str | None:
        """The latest errors of the loops for which learning fails; None if there are none."""
        return "; ".join(f"{name}: {error}" for name, error in self._failures.failing.copy().items()) or None

    @property
    def learning(self) -> bool:
        """Whether the learner thread is alive."""
        return self._learner.is_alive()

    def loop(self, name: str) -> Loop:
        """Return the loop of this name. Raises UnknownLoop."""
        if name not in self.loops:
            raise UnknownLoop(f"there is no loop {name!r}; the loops are {', '.join(sorted(self.loops))}")
        return self.loops[name]

    def _open_loop(self, name: str, configuration: LoopConfig) -> Loop:
        """Open a loop of the store. `configuration` is that of a loop that is new in the store."""
        model = self._first_model
        is_used = model is not None and model.configure(configuration) == configuration
        return Loop(
            name,
            self.store,
            self.clock,
            first_configuration=configuration,
            first_model=model if is_used else None,
            stop=self._stop,
        )

    def refresh_loops(self) -> None:
        """Open loops that another process has created, also again, and drop those that were deleted."""
        with self._changing_loops:
            created = dict.fromkeys(self._named, 0) | self.store.versions_of(IDENTITY)
            present = {name: loop.created for name, loop in self.loops.items()}
            if created == present:
                return
            for name in present.keys() - created.keys():
                self._failures.failing.pop(_activity(name), None)
            for name, version in created.items():
                if present.get(name) != version:
                    warm_up(opened := self._open_loop(name, self.first_configuration))
                    self.loops = {**self.loops, name: opened}
            self.loops = {name: loop for name, loop in self.loops.items() if name in created}

    def create_loop(self, name: str, configuration: LoopConfig) -> None:
        """Create a loop. Returns when all processes know it. Raises LoopExists if there is one of this name.

        Of two servers that create the same loop at the same time, one succeeds.
        """
        check_exact(configuration)
        with self._changing_loops:
            self.store.delete_remains(name)
            if not self.store.create_loop(name, self.clock(), first_documents(configuration)):
                raise LoopExists(f"there is a loop {name!r} already; change its configuration, or delete it first")
            warm_up(opened := self._open_loop(name, configuration))
            self.loops = {**self.loops, name: opened}
        time.sleep(2 * LOOPS_EVERY)

    def delete_loop(self, name: str) -> None:
        """Delete a loop with its log, models and settings. Returns when no process serves it.

        Raises InvalidInput if the server was started with this loop.
        """
        self.loop(name)
        if name in self._named:
            raise InvalidInput(
                f"loop {name!r} is in the server's setting loops, so the next start would create it again. Remove it "
                "there, restart, and delete it then"
            )
        self.store.delete_loop(name)
        self.refresh_loops()
        time.sleep(2 * LOOPS_EVERY)

    async def decide(
        self, loop_name: str, request: DecisionRequest, *, waited: float = 0.0, once: bool = False
    ) -> DecisionResult:
        """Choose an action, and write the decision.

        If the event was decided before, returns the first decision. Raises InvalidInput if its request was another one.

        Args:
            loop_name: the name of the loop.
            request: the request.
            waited: the longest time that another slot of the event has waited, in seconds. If the store was slow for
                it, this slot does not wait again.
            once: whether a sticky unit gets its last decision, without a new one.
        """
        loop = self.loop(loop_name)
        hashed_unit, sticky_for = partial(loop.hashed_unit, request.unit), loop.configuration.sticky_for
        return await self._decisions.write(loop.decide(request), hashed_unit, sticky_for, waited, once=once)

    async def decide_slots(self, loop_name: str, requests: Sequence[DecisionRequest]) -> list[DecisionResult]:
        """Choose an action for each slot of an event, in this order. Actions of earlier slots are excluded.

        The decisions are written in one commit. If the event was decided before, its slots keep their actions, and
        those that were not written are decided one after the other. Raises InvalidInput if the event had other slots.
        """
        loop, slots = self.loop(loop_name), tuple(request.slot for request in requests)
        decisions, writing = list[Decision](), None
        name = loop_name, requests[0].unit or requests[0].event_id
        async with self._rankings.setdefault(name, asyncio.Lock()):  # the draws of a unit are seen by its next ranking
            for request in requests:
                made = loop.decide(_slot(request, slots, decisions))
                decision = await self._decisions.repeated(made, loop.configuration.sticky_for)
                if decision is None:  # the event was decided before
                    break
                decisions.append(decision)
            else:
                writing = self._decisions.write_slots(decisions)
        if writing is not None and (results := await writing):
            return results
        results, waited = [], 0.0
        for request in requests:
            slot, began = _slot(request, slots, [result.decision for result in results]), time.monotonic()
            results.append(await self.decide(loop_name, slot, waited=waited))
            waited = max(waited, time.monotonic() - began)
        return results

    async def reward(
        self,
        loop_name: str,
        event_id: str,
        value: float,
        *,
        slot: str = "",
        key: str = "",
        cascade: bool = False,
        refusal: str = "",
    ) -> EventStatus:
        """Write a reward. The model learns it when the reward window of its decision has closed.

        With `cascade`, later slots of the event were not observed, and are not learned. Raises InvalidInput, and only
        counts the reward, if it is outside the range of its decision, or if `refusal` says why the API refuses it.
        """
        reward = Reward(
            loop=self.loop(loop_name).name,
            event_id=event_id,
            slot=slot,
            timestamp=self.clock(),
            value=value,
            key=key,
            cascade=cascade,
            refusal=refusal,
        )
        if refusal:
            with suppress(StoreError, QueueFull):  # the response is the same if the store cannot count it
                await self._write(reward)
            raise InvalidInput(refusal)
        receipt = await self._write(reward)
        if receipt.status is EventStatus.OUT_OF_RANGE:
            raise InvalidInput(receipt.message)
        return receipt.status

    async def metrics(
        self, loop_name: str, event_id: str, numbers: Mapping[str, float], *, slot: str = "", key: str = ""
    ) -> dict[str, EventStatus]:
        """Write numbers of metrics, and return the status of each.

        Raises InvalidInput, and writes nothing, if one of them cannot be used.
        """
        loop, now = self.loop(loop_name), self.clock()
        if not numbers.keys() <= loop.configuration.metrics.keys():
            await asyncio.to_thread(_refresh_configuration, loop)  # another process may have just declared the metric
        declared = loop.configuration.metrics
        check_numbers(declared, numbers)
        first = Reward(loop=loop.name, event_id=event_id, slot=slot, timestamp=now, value=None, key=key)
        events = [
            replace(first, metric=name, value=value, window=round(declared[name].seconds * SECOND))
            for name, value in numbers.items()
        ]
        receipts = await asyncio.gather(*map(self._write, events))  # in one batch, so in one commit
        return {event.metric: receipt.status for event, receipt in zip(events, receipts, strict=True)}

    async def activate(self, loop_name: str, event_id: str) -> EventStatus:
        """Record that a deferred decision was used, so that the model learns it."""
        activation = Activation(loop=self.loop(loop_name).name, event_id=event_id, timestamp=self.clock())
        return (await self._write(activation)).status

    async def last_event(self, loop_name: str, unit: str) -> str | None:
        """Return the last event in the log that was decided for a unit; None if there is none."""
        hashed = self.loop(loop_name).hashed_unit(unit)
        logged = await asyncio.to_thread(self.store.latest_of_unit, loop_name, hashed, 1)
        return logged[0].decision.event_id if logged else None

    async def _write(self, event: Reward | Activation) -> Receipt:
        try:
            return await self.writer.submit(event, REWARD_TIMEOUT)
        except TimeoutError:
            raise StoreError(f"The store took longer than {REWARD_TIMEOUT:g} s. Nothing was written; retry.") from None

    def _learn(self) -> None:
        updated, looked = (defaultdict[str, float](lambda: -math.inf) for _ in range(2))
        idle, learned = dict[str, tuple[Loop, object]](), False
        """Loops whose last update has left nothing to do, with the marks of the store before it."""
        while not self._stop.is_set():
            changed = self.store.wait_for_change(LEARNER_TICK)
            self._notice_lost_events()
            if self.learns() != learned:
                idle, learned = {}, not learned
            now, marks = time.monotonic(), None
            for name, loop in self.loops.items():
                # The present configuration counts: its interval may have become shorter since the last update.
                is_due = changed or loop.is_behind or now >= updated[name] + loop.configuration.model_update
                if not (
                    is_due or now >= looked[name] + LOOK_SECONDS or loop.is_relearning or loop.guardrails.is_behind
                ):
                    continue
                marks = self._marks() if marks is None else marks
                if name not in marks or idle.get(name) != (loop, marks[name]):
                    self._learn_loop(_activity(name), loop, is_due=is_due)
                    idle.pop(name, None)
                    if loop.is_idle and is_due and name in marks and _activity(name) not in self._failures.failing:
                        idle[name] = loop, marks[name]
                looked[name] = time.monotonic()
                if is_due:
                    updated[name] = looked[name]

    def _marks(self) -> Mapping[str, object]:
        """Return the marks of all loops; none if the store fails, so that all are updated."""
        try:
            return self.store.marks()
        except StoreError:
            return {}

    def _notice_lost_events(self) -> None:
        """Open all loops again if the store may have lost events that their models have learned."""
        history = self.store.history
        lost = [name for name, loop in self.loops.items() if loop.history != history]
        try:
            for name in lost:
                log.error(
                    "Loop %s: a standby of the database has taken over, which may lack the last events. The loop "
                    "continues with the model and the log of the standby.",
                    name,
                )
                with self._changing_loops:
                    if name in self.loops:
                        warm_up(opened := self._open_loop(name, self.first_configuration))
                        self.loops = {**self.loops, name: opened}
        except StoreError as error:  # the next tick tries again
            self._failures.failed("opening loops", error)

    def _learn_loop(self, activity: str, loop: Loop, *, is_due: bool) -> None:
        """Learn one loop, or read its model from the store, if that is due or its configuration has changed.

        Guardrails do not wait for that. If its log must be learned again, learn a batch of it. After a failure
        decisions use the present model, and the next look tries again.
        """
        try:
            if is_due or activity in self._failures.failing or loop.has_newer_configuration():
                if self.learns():
                    loop.learn(LEARN_SECONDS)
                else:
                    loop.refresh(LEARN_SECONDS)
            elif self.learns():
                loop.look_at_guardrails()
            if loop.is_relearning and self.learns():
                loop.relearn()
            self._failures.succeeded(activity)
        except Exception as error:
            self._failures.failed(activity, error)
            self.learning_failures += 1

    def stop(self) -> None:
        """Make loops stop learning and deleting after the present batch. Does not block."""
        self._stop.set()

    async def close(self) -> None:
        """Write the queue, save the models and close the store."""
        self.stop()
        await self.writer.close()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        if self._learner.is_alive():
            self._learner.join()
        for loop in self.loops.values():
            loop.close()
        self.store.close()


def _slot(request: DecisionRequest, slots: tuple[str, ...], earlier: Sequence[Decision]) -> DecisionRequest:
    """Return the request of a slot after the decisions of earlier slots."""
    excluded = {*request.excluded, *(decision.shown for decision in earlier)}
    # If an earlier slot has the baseline, the first remaining action is the baseline.
    baseline = None if request.baseline in excluded else request.baseline
    return replace(request, slots=slots, excluded=tuple(sorted(excluded)), baseline=baseline)


def _refresh_configuration(loop: Loop) -> None:
    """Adopt a newer configuration of another process. Blocks."""
    if loop.has_newer_configuration():
        loop.refresh()


def warm_up(loop: Loop) -> None:
    """Decide and learn once without storing anything, to load or compile the code."""
    bandit = loop.published.bandit
    arms = arms_of_zeros(bandit, 2)
    decide(bandit, arms, allowed_indices(2, ()), loop.configuration.exploration, seed=0)
    bandit.copy().learn(row_of(arms, 0), 0.0)


def _activity(loop_name: str) -> str:
    """Return the name of learning a loop in the log of failures."""
    return f"learning of loop {loop_name}"
