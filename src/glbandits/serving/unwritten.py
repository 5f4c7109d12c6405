"""Decisions that are not written yet."""

from collections.abc import Iterable

from glbandits.serving.events import Decision, Event
from glbandits.serving.fates import Name

ACTION_SIZE = 128
"""Bytes that an action of a decision takes in memory beside its features, about: its id and its chance."""


class Unwritten:
    """Finds decisions by their names, and knows how large they are together. Changes need the writer's lock."""

    def __init__(self) -> None:
        self.bytes = 0
        """Of all, about."""
        self._by_name: dict[Name, Decision] = {}

    def find(self, name: Name) -> Decision | None:
        """The first decision of this name. Needs no lock."""
        return self._by_name.get(name)

    def add(self, event: Event) -> None:
        """One more, if it is a decision."""
        if isinstance(event, Decision):
            self.bytes += size_of(event)
            self._by_name.setdefault(_name(event), event)

    def remove(self, events: Iterable[Event]) -> None:
        """Those that are written, or given up."""
        for event in events:
            if isinstance(event, Decision):
                self.bytes -= size_of(event)
                if self._by_name.get(_name(event)) is event:
                    del self._by_name[_name(event)]


def size_of(event: Event) -> int:
    """Bytes of a decision in memory, about; others are small and count nothing."""
    return len(event.request) + ACTION_SIZE * len(event.actions) if isinstance(event, Decision) else 0


def _name(decision: Decision) -> Name:
    return decision.loop, decision.event_id, decision.slot
