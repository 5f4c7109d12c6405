"""Writes decisions: finds the draw that a sticky unit gets again, and the first decision of a repeated event."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.event_rules import opens_event
from glbandits.service.domain.events import Decision, EventStatus, LoggedDecision, Receipt
from glbandits.service.domain.loop_config import SECOND
from glbandits.service.domain.sticky_units import repeat_of
from glbandits.service.runtime.batch_writer import BatchWriter, WriterState
from glbandits.service.runtime.sticky_draws import StickyDraws
from glbandits.service.storage.event_store import NO_REWARDS, EventStore

DECISION_TIMEOUT = 0.25
"""Seconds that a decision waits for its commit. After that it is returned as degraded, and still written."""
REQUEST_FIELDS = ("slot", "slots", "request", "encoding", "actions", "values", "costs", "excluded", "baseline")
"""Fields of a decision that must be the same when a client sends the same event again, beside the unit."""
HashedUnit: TypeAlias = Callable[[str], str]
"""Returns the hash of the request's unit by a `Decision.unit_rule`."""


class DecisionResult(NamedTuple):
    """A decision, and whether it is durable."""

    decision: Decision
    degraded: bool
    """Whether the store has not confirmed the decision in time, so that a crash now might lose it."""


class DecisionWriter:
    """Writes the decisions of all loops. All methods belong to one event loop.

    Args:
        store: where earlier decisions are read.
        writer: writes events to the store.
    """

    def __init__(self, store: EventStore, writer: BatchWriter) -> None:
        self._store, self._writer, self._draws = store, writer, StickyDraws(store)
        self.degraded = 0
        """Decisions that were returned before they were durable."""

    async def write(
        self, decision: Decision, hashed_unit: HashedUnit, sticky_for: float, waited: float, *, once: bool = False
    ) -> DecisionResult:
        """Write a decision, and return it; or the first one, if its event was decided before.

        A sticky unit gets the action of its last draw again if that was at most `sticky_for` seconds ago; with `once`
        it gets that decision itself. `waited` is the longest time that another slot of the event has waited. Raises
        InvalidInput if the first request differs.
        """
        began = time.monotonic()
        draw = await self._earlier_draw(decision, sticky_for, once=once)
        if draw is not None and draw.event_id != decision.event_id:
            pending = self._writer.pending_decision(draw.loop, draw.event_id, draw.slot)
            if once and pending is None:
                return DecisionResult(draw, degraded=False)
            # A duplicate of a pending decision waits for its commit.
            decision = pending if once and pending is not None else repeat_of(draw, decision)
        waited = max(waited, time.monotonic() - began)
        receipt = self._writer.submit(decision, DECISION_TIMEOUT if waited < DECISION_TIMEOUT else 0.0)
        if draw is None:
            self._draws.note(decision)
        try:
            status = (await receipt).status
        except TimeoutError:
            return await self._degraded_result(decision, hashed_unit, waited)
        except Exception:
            self._draws.remove(decision)
            raise
        if status is EventStatus.UNKNOWN:
            self._draws.remove(decision)
            raise _deleted_loop(decision)
        if status is EventStatus.DUPLICATE:
            if draw is None:  # otherwise the draw that it repeats counts, which may be pending
                self._draws.remove(decision)
            logged = await asyncio.to_thread(self._logged, decision)
            if logged is None:
                raise StoreError(
                    f"event {decision.event_id!r} was decided before, and has just been deleted; send it again"
                )
            decision = _same_decision(logged.decision, decision, hashed_unit)
        return DecisionResult(decision, degraded=False)

    async def repeated(self, decision: Decision, sticky_for: float) -> Decision | None:
        """Return the decision of a slot; that of an earlier draw if its unit gets that again.

        Returns None if the event was decided before.
        """
        draw = await self._earlier_draw(decision, sticky_for)
        if draw is None:
            return decision
        return None if draw.event_id == decision.event_id else repeat_of(draw, decision)

    def write_slots(self, decisions: Sequence[Decision]) -> Awaitable[list[DecisionResult]]:
        """Queue the decisions of all slots of an event for one commit. Their draws count from now on.

        The result has them when they are written. It is empty, and nothing is written, if the event was decided before.
        """
        first = decisions[0]
        earlier = self._writer.pending_decision(first.loop, first.event_id, first.slot)
        receipts = self._writer.submit_slots(decisions)
        for decision in decisions:
            if not decision.repeats:
                self._draws.note(decision)
        return self._written_slots(decisions, receipts, earlier)

    async def _written_slots(
        self, decisions: Sequence[Decision], queued: Sequence[Awaitable[Receipt]], earlier: Decision | None
    ) -> list[DecisionResult]:
        receipts, statuses, first = asyncio.gather(*queued), set[EventStatus](), decisions[0]
        drawn = [decision for decision in decisions if not decision.repeats]
        try:
            statuses = {receipt.status for receipt in await asyncio.wait_for(receipts, DECISION_TIMEOUT)}
        except TimeoutError:
            if earlier is None and await self._logged_in_time(first, DECISION_TIMEOUT) is None:
                self.degraded += len(decisions)
                return [DecisionResult(decision, degraded=True) for decision in decisions]
        except Exception:
            self._remove_draws(drawn)
            raise
        if statuses == {EventStatus.ACCEPTED}:
            return [DecisionResult(decision, degraded=False) for decision in decisions]
        self._remove_draws(drawn)
        if EventStatus.UNKNOWN in statuses:
            raise _deleted_loop(first)
        return []

    def _remove_draws(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            self._draws.remove(decision)

    async def _earlier_draw(self, decision: Decision, sticky_seconds: float, *, once: bool = False) -> Decision | None:
        """Return the draw that the decision repeats, or the first decision of the same event; None without either.

        None too for a decision that is not sticky, and for one without a draw, unless `once`. The newest draw in the
        store counts. A draw in memory counts if it was not written when the store was read, or if the store does not
        answer in time.
        """
        if not decision.sticky or (decision.is_stopped and not once):
            return None
        sticky_for = round(sticky_seconds * SECOND)
        before = self._draws.recent(decision, sticky_for)
        if self._writer.state is not WriterState.RETRYING:
            is_pending = before and self._writer.pending_decision(before.loop, before.event_id, before.slot)
            with suppress(TimeoutError, StoreError):
                reading = asyncio.to_thread(self._draws.read, decision, sticky_for)
                read = await asyncio.wait_for(reading, DECISION_TIMEOUT)
                recent = self._draws.recent(decision, sticky_for)
                return recent if recent and (is_pending or recent is not before) else read
        return self._draws.recent(decision, sticky_for)

    async def _degraded_result(self, decision: Decision, hashed_unit: HashedUnit, waited: float) -> DecisionResult:
        """Return a degraded decision, because the store is slow.

        If the event was decided before, return that decision.
        """
        # Before the store is read, because the decision may be written in between.
        first = self._writer.pending_decision(decision.loop, decision.event_id, decision.slot)
        logged = await self._logged_in_time(decision, waited)
        if logged is not None:
            return DecisionResult(_same_decision(logged.decision, decision, hashed_unit), degraded=False)
        result = DecisionResult(_same_decision(first or decision, decision, hashed_unit), degraded=True)
        self.degraded += 1
        return result

    async def _logged_in_time(self, decision: Decision, waited: float) -> LoggedDecision | None:
        """Return what `_logged` does; None if the store does not answer in time."""
        is_readable = self._writer.state is not WriterState.RETRYING and waited < 2 * DECISION_TIMEOUT
        if is_readable:  # reading from a store that fails would only cost time
            with suppress(TimeoutError, StoreError):
                return await asyncio.wait_for(asyncio.to_thread(self._logged, decision), DECISION_TIMEOUT)
        return None

    def _logged(self, decision: Decision) -> LoggedDecision | None:
        """Return the logged decision of this name; of an event with other slots, any of its decisions."""
        logged = self._store.decisions_of(decision.loop, decision.event_id, NO_REWARDS)
        same = (each for each in logged if each.decision.slot == decision.slot)
        return next(same, logged[0] if logged and opens_event(decision) else None)


def _deleted_loop(decision: Decision) -> StoreError:
    return StoreError(f"loop {decision.loop!r} was deleted, or created again, a moment ago; retry")


def _same_decision(first: Decision, repeated: Decision, hashed_unit: HashedUnit) -> Decision:
    """Return the first decision of an event.

    Raises InvalidInput if the repeated request differs.
    """
    is_same_unit = first.unit == hashed_unit(first.unit_rule)
    if not is_same_unit or any(getattr(first, name) != getattr(repeated, name) for name in REQUEST_FIELDS):
        raise InvalidInput(
            f"event {repeated.event_id!r} was decided before with other actions, features, payoffs, slots or "
            "another unit; use another event id"
        )
    if first.deferred != repeated.deferred:
        raise InvalidInput(
            f"event {repeated.event_id!r} was decided before with deferred={str(first.deferred).lower()}; send the "
            "same value, or use another event id"
        )
    return first
