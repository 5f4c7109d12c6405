"""What becomes of events: the rules of `EventStore.append`, for any store.

A store finds what it has of the decisions that are named (`Known`), hands over the events, and writes what is returned.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from glbandits.errors import InvalidInput
from glbandits.serving.events import Activation, Decision, Event, Fate, Receipt, Reward

Name: TypeAlias = tuple[str, str, str]
"""Loop, event_id and slot of a decision."""
Kind: TypeAlias = Literal["decision", "reward", "activation"]


class Mark(NamedTuple):
    """A reward with a key, or an activation, that a decision has."""

    number: int
    late: bool


@dataclass
class Known:
    """What must be known of a decision to judge what comes of it."""

    number: int
    deadline: int
    """The end of its wait."""
    keys: dict[str, Mark] = field(default_factory=dict)
    """Of those rewards' keys that are asked for."""
    activation: Mark | None = None


class NewDecision(NamedTuple):
    """A decision to be written."""

    number: int
    deadline: int
    decision: Decision


class NewReward(NamedTuple):
    """A reward to be written."""

    number: int
    of: int
    late: bool
    reward: Reward


class NewActivation(NamedTuple):
    """An activation to be written, in place of a late one if there is one."""

    number: int
    of: int
    late: bool
    activation: Activation


class Judge:
    """Goes through events in order and collects what is to be written.

    Args:
        known: what the store has of the decisions that are named.
        sealed: for each loop the last decision that is closed.
        last: the number of the last event that was kept.
    """

    def __init__(self, known: dict[Name, Known], sealed: dict[str, int], last: int) -> None:
        self.last = last
        """The number of the last event that was kept."""
        self.decisions: list[NewDecision] = []
        self.rewards: list[NewReward] = []
        self.activations: list[NewActivation] = []
        self.counts: Counter[tuple[str, Kind, Fate]] = Counter()
        self._known = known
        self._sealed = sealed
        self._slots: dict[tuple[str, str], list[Known]] = {}
        for (loop, event_id, _), found in known.items():
            self._slots.setdefault((loop, event_id), []).append(found)

    def judge(self, events: Iterable[Event]) -> list[Receipt]:
        """What becomes of each."""
        return [self._receipt(event) for event in events]

    def _receipt(self, event: Event) -> Receipt:
        kind: Kind
        if isinstance(event, Decision):
            kind, receipt = "decision", self._decide(event)
        elif isinstance(event, Reward):
            kind, receipt = "reward", self._reward(event)
        else:
            kind, receipt = "activation", self._activate(event)
        self.counts[event.loop, kind, receipt.fate] += 1
        return receipt

    def _decide(self, decision: Decision) -> Receipt:
        name = (decision.loop, decision.event_id, decision.slot)
        first = self._known.get(name)
        if first is not None:
            return Receipt(Fate.DUPLICATE, first.number)
        made = Known(self._next(), decision.at + decision.wait)
        self._known[name] = made
        self._slots.setdefault(name[:2], []).append(made)
        self.decisions.append(NewDecision(made.number, made.deadline, decision))
        return Receipt(Fate.KEPT, made.number)

    def _reward(self, reward: Reward) -> Receipt:
        decision = self._known.get((reward.loop, reward.event_id, reward.slot))
        if decision is None:
            return Receipt(Fate.UNKNOWN, 0)
        late = self._late(reward, decision)
        first = decision.keys.get(reward.key) if reward.key else None
        if first is not None and not _replaces(late, first):
            return Receipt(Fate.DUPLICATE, first.number)
        number = self._next()
        if reward.key:
            decision.keys[reward.key] = Mark(number, late)
        self.rewards.append(NewReward(number, decision.number, late, reward))
        return Receipt(Fate.LATE if late else Fate.KEPT, number)

    def _activate(self, activation: Activation) -> Receipt:
        slots = self._slots.get((activation.loop, activation.event_id))
        if not slots:
            return Receipt(Fate.UNKNOWN, 0)
        fresh = [
            (slot, late)
            for slot in slots
            for late in (self._late(activation, slot),)
            if slot.activation is None or _replaces(late, slot.activation)
        ]
        if not fresh:
            return Receipt(Fate.DUPLICATE, min(slot.activation.number for slot in slots if slot.activation))
        number = self._next()
        for slot, late in fresh:
            slot.activation = Mark(number, late)
            self.activations.append(NewActivation(number, slot.number, late, activation))
        return Receipt(Fate.LATE if all(late for _, late in fresh) else Fate.KEPT, number)

    def _late(self, event: Reward | Activation, decision: Known) -> bool:
        return event.at > decision.deadline or decision.number <= self._sealed.get(event.loop, 0)

    def _next(self) -> int:
        self.last += 1
        return self.last


def _replaces(late: bool, first: Mark) -> bool:
    """Whether one more of the same name counts: only one in time after a late one, so that order does not matter."""
    return first.late and not late


def check_events(events: Iterable[Event]) -> None:
    """Refuse what no store could keep as it is."""
    for event in events:
        if "\0" in event.loop or "\0" in event.event_id:
            raise InvalidInput(f"names of loops and events must be without NUL; got {event.loop!r}, {event.event_id!r}")
        if isinstance(event, Activation):
            continue
        if "\0" in event.slot:
            raise InvalidInput(f"the name of a slot must be without NUL; got {event.slot!r}")
        if isinstance(event, Reward) and (not math.isfinite(event.value) or "\0" in event.key):
            raise InvalidInput(
                f"a reward must be a finite number and its key without NUL; got {event.value!r}, {event.key!r}"
            )
