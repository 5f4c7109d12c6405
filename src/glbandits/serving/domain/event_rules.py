"""What becomes of events: the rules of `EventStore.append`, for any store.

A store finds what it has of the decisions that are named (`Known`), hands over the events, and writes what is returned.
"""

import math
import os
import random
import time
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from glbandits.errors import InvalidInput
from glbandits.serving.domain.events import Activation, Decision, Event, EventStatus, Receipt, Reward

Name: TypeAlias = tuple[str, str, str]
"""Loop, event_id and slot of a decision."""
Kind: TypeAlias = Literal["decision", "reward", "activation"]
NewDecision: TypeAlias = tuple[int, int, Decision]
"""A decision to be written: its number, the end of its wait, and itself."""
NewReward: TypeAlias = tuple[int, int, bool, Reward]
"""A reward to be written: its number, its decision's, whether it is late, and itself."""
NewActivation: TypeAlias = tuple[int, int, bool, Activation]
"""An activation to be written, in place of a late one if there is one: as of a reward."""

# Python looks up the members of an enum slowly: too slowly for each event.
ACCEPTED, DUPLICATE, LATE, UNKNOWN, OUT_OF_RANGE = EventStatus


ACTION_SIZE = 128
"""Approximate bytes of an action in memory beside its features: its id and its probability."""
# Not `os.urandom`, which releases the GIL at every call. The ids need not be secret: a reward needs an API key.
_random = random.Random()
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_random.seed)


def new_event_id() -> str:
    """Return a unique id of 32 hexadecimal digits: the milliseconds since 1970, and 80 random bits.

    The time goes first because the log is sorted by these names as well: new ones then lie side by side on the disk,
    and a write touches few of its pages however large the log is.
    """
    return (time.time_ns() // 1_000_000 << 80 | _random.getrandbits(80)).to_bytes(16, "big").hex()


def size_of(event: Event) -> int:
    """Return the approximate size of a decision in memory, in bytes; 0 for other events, which are small."""
    return len(event.request) + ACTION_SIZE * len(event.actions) if isinstance(event, Decision) else 0


class Mark(NamedTuple):
    """A reward with a key, or an activation, that a decision has."""

    sequence: int
    late: bool


class Known(msgspec.Struct):
    """What must be known of a decision to judge what comes of it."""

    sequence: int
    deadline: int
    """The end of its wait."""
    reward_range: tuple[float, float] | None = None
    keys: dict[str, Mark] = {}
    """Of those rewards' keys that are asked for."""
    activation: Mark | None = None


class EventClassifier:
    """Goes through events in order and collects what is to be written.

    Args:
        known: what the store has of the decisions that are named.
        sealed: for each loop the last decision that is closed.
        last: the number of the last event that was kept.
    """

    def __init__(self, known: dict[Name, Known], sealed: dict[str, int], last: int) -> None:
        self.before = self.last = last
        """The number of the last event that was kept, before these events and with them."""
        self.decisions: list[NewDecision] = []
        self.rewards: list[NewReward] = []
        self.activations: list[NewActivation] = []
        self.counts: dict[tuple[str, Kind, EventStatus], int] = {}
        self._known = known
        self._sealed = sealed
        self._slots: dict[tuple[str, str], list[Known]] | None = None
        """The decisions of each event, from the first activation on: few calls have one."""

    def judge(self, events: Iterable[Event]) -> list[Receipt]:
        """What becomes of each."""
        receipts = []
        for event in events:
            kind: Kind
            if isinstance(event, Decision):
                kind, receipt = "decision", self._decide(event)
            elif isinstance(event, Reward):
                kind, receipt = "reward", self._reward(event)
            else:
                kind, receipt = "activation", self._activate(event)
            which = (event.loop, kind, receipt.status)
            self.counts[which] = self.counts.get(which, 0) + 1
            receipts.append(receipt)
        return receipts

    def _decide(self, decision: Decision) -> Receipt:
        name = (decision.loop, decision.event_id, decision.slot)
        first = self._known.get(name)
        if first is not None:
            return Receipt(DUPLICATE, first.sequence)
        self.last = number = self.last + 1
        deadline = decision.timestamp + decision.reward_window
        self._known[name] = made = Known(number, deadline, decision.reward_range)
        if self._slots is not None:
            self._slots.setdefault(name[:2], []).append(made)
        self.decisions.append((number, deadline, decision))
        return Receipt(ACCEPTED, number)

    def _reward(self, reward: Reward) -> Receipt:
        decision = self._known.get((reward.loop, reward.event_id, reward.slot))
        if decision is None:
            return Receipt(UNKNOWN, 0)
        if decision.reward_range is not None:
            lowest, highest = decision.reward_range
            if not lowest <= reward.value <= highest:
                return Receipt(OUT_OF_RANGE, 0, out_of_range(reward.value, lowest, highest))
        late = self._late(reward, decision)
        key = reward.key
        first = decision.keys.get(key) if key else None
        if first is not None and not _replaces(late, first):
            return Receipt(DUPLICATE, first.sequence)
        self.last = number = self.last + 1
        if key:
            decision.keys[key] = Mark(number, late)
        self.rewards.append((number, decision.sequence, late, reward))
        return Receipt(LATE if late else ACCEPTED, number)

    def _activate(self, activation: Activation) -> Receipt:
        if self._slots is None:
            self._slots = {}
            for (loop, event_id, _), found in self._known.items():
                self._slots.setdefault((loop, event_id), []).append(found)
        slots = self._slots.get((activation.loop, activation.event_id))
        if not slots:
            return Receipt(UNKNOWN, 0)
        fresh = [
            (slot, late)
            for slot in slots
            for late in (self._late(activation, slot),)
            if slot.activation is None or _replaces(late, slot.activation)
        ]
        if not fresh:
            return Receipt(DUPLICATE, min(slot.activation.sequence for slot in slots if slot.activation))
        self.last = number = self.last + 1
        for slot, late in fresh:
            slot.activation = Mark(number, late)
            self.activations.append((number, slot.sequence, late, activation))
        return Receipt(LATE if all(late for _, late in fresh) else ACCEPTED, number)

    def _late(self, event: Reward | Activation, decision: Known) -> bool:
        return event.timestamp > decision.deadline or decision.sequence <= self._sealed.get(event.loop, 0)


def out_of_range(value: float, lowest: float, highest: float) -> str:
    """The message for a reward that its decision does not accept."""
    return f"reward must be between {lowest:g} and {highest:g} for this event, got {value!r}"


def _replaces(late: bool, first: Mark) -> bool:
    """Whether one more of the same name counts: only one in time after a late one, so that order does not matter."""
    return first.late and not late


def check_events(events: Iterable[Event]) -> None:
    """Refuse what no store could keep as it is."""
    for event in events:
        if isinstance(event, Decision):
            names = event.loop + event.event_id + event.slot
        elif isinstance(event, Reward):
            names = event.loop + event.event_id + event.slot + event.key
            if not math.isfinite(event.value):
                raise InvalidInput(f"a reward must be a finite number; got {event.value!r}")
        else:
            names = event.loop + event.event_id
        if "\0" in names:
            named = {what: getattr(event, what, "") for what in ("loop", "event_id", "slot", "key")}
            raise InvalidInput(f"names of loops, events and slots, and keys, must be without NUL; got {named}")
