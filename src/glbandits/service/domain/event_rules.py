"""The rules of `EventStore.append`, which are the same for every store.

A store looks up the decisions that the events name (`KnownDecision`), lets an `EventClassifier` classify the events,
and writes the rows that the classifier has collected.
"""

import math
import os
import random
import time
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from glbandits.common.errors import InvalidInput, value_text
from glbandits.service.domain.events import Activation, Decision, Event, EventStatus, Receipt, Reward, UnitStart

DecisionName: TypeAlias = tuple[str, str, str]
"""Loop, event_id and slot of a decision."""
UnitName: TypeAlias = tuple[str, str]
"""Loop and hash of a unit."""
Kind: TypeAlias = Literal["decision", "reward", "activation", "metric"]
NewDecision: TypeAlias = tuple[int, int, UnitStart, Decision]
"""A decision to write: its sequence number, the end of its reward window, its unit, and the decision."""
NewReward: TypeAlias = tuple[int, int, bool, Reward]
"""A reward to write: its sequence number, that of its decision, whether the reward is late, and the reward."""
NewActivation: TypeAlias = tuple[int, int, bool, Activation]
"""An activation to write, with the same fields. It replaces a late activation of the same decision."""

# Looking up a member of an enum for each event would be too slow.
ACCEPTED, DUPLICATE, LATE, UNKNOWN, OUT_OF_RANGE = EventStatus

NAMES = {
    "loop": "a loop name",
    "event_id": "an event id",
    "slot": "a slot",
    "key": "a key",
    "metric": "the name of a metric",
}
"""Fields of events that are names."""
ACTION_SIZE = 128
"""Approximate bytes of an action in memory beside its features: its id and its probability."""
# Not `os.urandom`, which releases the GIL at every call. The ids need not be secret: a reward needs an API key.
_random = random.Random()
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_random.seed)


def new_event_id() -> str:
    """Return a unique id of 32 hexadecimal digits: milliseconds since 1970 and 80 random bits.

    The time comes first because the log has an index on these ids: new ids are then neighbours on the disk, and a
    write touches few pages, however large the log is.
    """
    return (time.time_ns() // 1_000_000 << 80 | _random.getrandbits(80)).to_bytes(16, "big").hex()


def size_of(event: Event) -> int:
    """Return the approximate bytes of a decision in memory; 0 for other events. All slots have the same request."""
    if not isinstance(event, Decision):
        return 0
    return ACTION_SIZE * len(event.actions) + (len(event.request) if opens_event(event) else 0)


def opens_event(decision: Decision) -> bool:
    """Return whether a decision is the first of its event. The decisions of other slots follow it."""
    return not decision.slots or decision.slot == decision.slots[0]


def is_later_slot(event: Event) -> bool:
    """Return whether an event is the decision of a slot after the first one of its event."""
    return isinstance(event, Decision) and not opens_event(event)


def unit_of(event: Event) -> UnitName | None:
    """Return the unit to look up before an event is classified; None if the event needs none."""
    if isinstance(event, Decision) and event.unit and not event.alone and opens_event(event):
        return event.loop, event.unit
    return None


def name_of(reward: Reward) -> tuple[str, str] | None:
    """Return metric and key, which a decision has once; None for a reward without a key, of which every one counts."""
    return (reward.metric, reward.key) if reward.metric or reward.key else None


class PriorEvent(NamedTuple):
    """A reward with a key, the number of a metric, or an activation, that is already recorded for a decision."""

    sequence: int
    late: bool


class KnownDecision(msgspec.Struct):
    """The part of a logged decision that is needed to classify its rewards and activations."""

    sequence: int
    deadline: int
    """The end of the reward window, as a timestamp."""
    unit: UnitStart
    reward_range: tuple[float, float] | None = None
    keys: dict[tuple[str, str], PriorEvent] = {}
    """Recorded rewards by `name_of`, for the names of the rewards to classify."""
    activation: PriorEvent | None = None
    marked: bool = False
    """Whether it has a reward without a value in time, see `Reward.cascade`."""


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """What a store knows of the loops that events name."""

    last: int
    """The sequence number of the last event in the log."""
    history: int = 0
    """See `DocumentStore.history`."""
    sealed: Mapping[str, int] = {}
    """For each loop the sequence number of its last sealed decision. Its learner has closed the decisions up to this
    one, see `EventStore.seal`."""
    sealed_metrics: Mapping[tuple[str, str], int] = {}
    """For each loop and metric the first decision of the last unit that is counted, see `EventStore.seal_metrics`."""
    created: Mapping[str, int] = {}
    """For loops that were deleted, and perhaps created again, the column `created`, see `LoopStore`."""


class EventClassifier:
    """Classifies events in order, and collects the rows to write.

    Args:
        known: the decisions in the store that the events name.
        units: the units in the store that the events name, see `unit_of`.
        state: the state of the log.
    """

    def __init__(
        self, known: dict[DecisionName, KnownDecision], units: dict[UnitName, UnitStart], state: LogState
    ) -> None:
        self.before = self.last = state.last
        """The sequence number of the last event in the log, before these events (`before`) and with them (`last`)."""
        self.decisions: list[NewDecision] = []
        self.units: dict[UnitName, UnitStart] = {}
        """New units to write."""
        self.rewards: list[NewReward] = []
        self.activations: list[NewActivation] = []
        self.counts: dict[tuple[str, Kind, EventStatus], int] = {}
        self._known = known
        self._units = units
        self._state = state
        self._repeated: set[tuple[str, str]] = set()
        """Events whose first slot was a duplicate. Their later slots were chosen beside another one."""
        self._slots: dict[tuple[str, str], list[KnownDecision]] | None = None
        """The decisions of each event. Built when it is first needed, because few batches need it."""

    def classify(self, events: Iterable[Event]) -> list[Receipt]:
        """Return a receipt for each event."""
        receipts = []
        for event in events:
            kind: Kind
            if isinstance(event, Decision):
                kind, receipt = "decision", self._classify_decision(event)
            elif isinstance(event, Reward):
                kind, receipt = ("metric" if event.metric else "reward"), self._classify_reward(event)
            else:
                kind, receipt = "activation", self._classify_activation(event)
            which = (event.loop, kind, receipt.status)
            self.counts[which] = self.counts.get(which, 0) + 1
            receipts.append(receipt)
        return receipts

    def _classify_decision(self, decision: Decision) -> Receipt:
        name = (decision.loop, decision.event_id, decision.slot)
        first = self._known.get(name)
        if first is not None:
            if opens_event(decision):
                self._repeated.add(name[:2])
            return Receipt(DUPLICATE, first.sequence)
        if decision.learned_through < self._state.created.get(decision.loop, 0):
            return Receipt(UNKNOWN, 0)
        if opens_event(decision):
            others = self._slots_of(decision)
            if others:
                return Receipt(DUPLICATE, others[0].sequence)
            unit = self._unit_of(decision)
        elif (opening := self._known.get((*name[:2], decision.slots[0]))) is None or name[:2] in self._repeated:
            return Receipt(DUPLICATE, 0)  # the first slot was refused or deleted, or is another one
        else:
            unit = opening.unit
        if decision.history != self._state.history:
            decision = msgspec.structs.replace(decision, lost_model=True)
        self.last = sequence = self.last + 1
        deadline = decision.timestamp + decision.reward_window
        self._known[name] = new = KnownDecision(sequence, deadline, unit, decision.reward_range)
        if self._slots is not None:
            self._slots.setdefault(name[:2], []).append(new)
        self.decisions.append((sequence, deadline, unit, decision))
        return Receipt(ACCEPTED, sequence)

    def _unit_of(self, decision: Decision) -> UnitStart:
        """Return the unit of the next decision, which opens its event."""
        own = UnitStart(self.last + 1, decision.timestamp)
        name = unit_of(decision)
        if name is None:
            return own
        if name not in self._units:
            self._units[name] = self.units[name] = own
        return self._units[name]

    def _classify_reward(self, reward: Reward) -> Receipt:
        if reward.refusal:
            return Receipt(OUT_OF_RANGE, 0, reward.refusal)
        decision = self.decision_of(reward)
        if decision is None:
            return Receipt(UNKNOWN, 0)
        if decision.reward_range is not None and reward.value is not None and not reward.metric:
            lowest, highest = decision.reward_range
            if not lowest <= reward.value <= highest:
                return Receipt(OUT_OF_RANGE, 0, out_of_range(reward.value, lowest, highest))
        late = self._is_late(reward, decision)
        name = name_of(reward)
        first = decision.keys.get(name) if name else None
        if first is not None and not _replaces(late, first):
            receipt = Receipt(DUPLICATE, first.sequence)
        else:
            self.last = sequence = self.last + 1
            if name:
                decision.keys[name] = PriorEvent(sequence, late)
            self.rewards.append((sequence, decision.sequence, late, reward))
            receipt = Receipt(LATE if late else ACCEPTED, sequence)
        if reward.cascade:
            self._mark_unobserved(reward, decision)
        return receipt

    def decision_of(self, reward: Reward) -> KnownDecision | None:
        """Return the decision of a reward; for a metric without a slot, the first one of its event."""
        decision = self._known.get((reward.loop, reward.event_id, reward.slot))
        if decision is None and reward.metric and not reward.slot:  # a metric belongs to the unit, not to a slot
            return min(self._slots_of(reward), key=lambda known: known.sequence, default=None)
        return decision

    def _mark_unobserved(self, reward: Reward, decision: KnownDecision) -> None:
        """Add a reward without a value to each later slot of the event that has none. A late one would say nothing."""
        mark = msgspec.structs.replace(reward, value=None, key="")
        for slot in self._slots_of(reward):
            if slot.sequence > decision.sequence and not slot.marked and not self._is_late(reward, slot):
                self.last += 1
                slot.marked = True
                self.rewards.append((self.last, slot.sequence, False, mark))

    def _classify_activation(self, activation: Activation) -> Receipt:
        slots = self._slots_of(activation)
        if not slots:
            return Receipt(UNKNOWN, 0)
        fresh = [
            (slot, late)
            for slot in slots
            for late in (self._is_late(activation, slot),)
            if slot.activation is None or _replaces(late, slot.activation)
        ]
        if not fresh:
            return Receipt(DUPLICATE, min(slot.activation.sequence for slot in slots if slot.activation))
        self.last = sequence = self.last + 1
        for slot, late in fresh:
            slot.activation = PriorEvent(sequence, late)
            self.activations.append((sequence, slot.sequence, late, activation))
        return Receipt(LATE if all(late for _, late in fresh) else ACCEPTED, sequence)

    def _slots_of(self, event: Event) -> list[KnownDecision]:
        if self._slots is None:
            self._slots = {}
            for (loop, event_id, _), known in self._known.items():
                self._slots.setdefault((loop, event_id), []).append(known)
        return self._slots.get((event.loop, event.event_id), [])

    def _is_late(self, event: Reward | Activation, decision: KnownDecision) -> bool:
        if isinstance(event, Reward) and event.metric:
            sealed = self._state.sealed_metrics.get((event.loop, event.metric), 0)
            return event.timestamp > decision.unit.since + event.window or decision.unit.first <= sealed
        return event.timestamp > decision.deadline or decision.sequence <= self._state.sealed.get(event.loop, 0)


def out_of_range(value: float, lowest: float, highest: float) -> str:
    """Return the message for a reward outside the range of its decision."""
    return f"reward must be between {lowest:g} and {highest:g} for this event, got {value!r}"


def _replaces(late: bool, first: PriorEvent) -> bool:
    """Return whether an event replaces an earlier one of the same name.

    Only an event in time replaces a late one. So the result does not depend on the order of events.
    """
    return first.late and not late


def check_events(events: Iterable[Event]) -> None:
    """Raise InvalidInput for a NUL character in a name or a reward that is not finite, which no store can write."""
    for event in events:
        if isinstance(event, Reward) and not math.isfinite(event.value or 0.0):
            raise InvalidInput(f"a reward must be a finite number; got {event.value!r}")
        if isinstance(event, Decision) and "\0" not in event.loop + event.event_id + event.slot:
            continue
        for field, what in NAMES.items():
            if "\0" in (name := getattr(event, field, "")):
                raise InvalidInput(f"{what} must not contain the character NUL; got {value_text(name)}")
