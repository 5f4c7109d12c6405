"""Events that are not written yet."""

from collections.abc import Iterable

from glbandits.serving.domain.event_rules import Name
from glbandits.serving.domain.events import Decision, Event

ACTION_SIZE = 128
"""Bytes that an action of a decision takes in memory beside its features, about: its id and its chance."""


class Unwritten:
    """Finds decisions by their names, and knows how many events there are, and how large.

    Belongs to the thread of the event loop, or to the writer's when that loop is gone.
    """

    def __init__(self) -> None:
        self.events = 0
        """Of all kinds."""
        self.bytes = 0
        """Of all decisions, about."""
        self._by_name: dict[Name, Decision] = {}

    def find(self, name: Name) -> Decision | None:
        """The first decision of this name."""
        return self._by_name.get(name)

    def add(self, events: Iterable[Event]) -> None:
        """More of them."""
        for event in events:
            self.events += 1
            if isinstance(event, Decision):
                self.bytes += size_of(event)
                self._by_name.setdefault((event.loop, event.event_id, event.slot), event)

    def remove(self, events: Iterable[Event]) -> None:
        """Those that are written, or given up."""
        for event in events:
            self.events -= 1
            if isinstance(event, Decision):
                self.bytes -= size_of(event)
                name = (event.loop, event.event_id, event.slot)
                if self._by_name.get(name) is event:
                    del self._by_name[name]


def size_of(event: Event) -> int:
    """Bytes of a decision in memory, about; others are small and count nothing."""
    return len(event.request) + ACTION_SIZE * len(event.actions) if isinstance(event, Decision) else 0
