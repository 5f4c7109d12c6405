"""Earlier draws of sticky units: the recent ones of this process in memory, the others in the store."""

from collections import OrderedDict
from typing import TypeAlias

from msgspec.structs import replace

from glbandits.service.domain.events import Decision
from glbandits.service.domain.sticky_units import can_repeat
from glbandits.service.storage.event_store import EventStore

LOOKED_BACK = 100
"""Decisions of a unit that are searched for a draw, beside those of the same event."""
MOST_ACTIONS = 200_000
"""Actions of all draws in memory, at most: about 20 MB with short ids, and 80 MB with the longest ones."""

Key: TypeAlias = tuple[str, str, str, frozenset[str]]
"""Loop, unit, slot and actions."""


class StickyDraws:
    """Finds the draw that a decision repeats. The recent draws in memory let simultaneous requests of a unit agree.

    `read` may be called from any thread, the other methods from one.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._recent: OrderedDict[Key, Decision] = OrderedDict()
        self._actions = 0

    def recent(self, decision: Decision, sticky_for: int) -> Decision | None:
        """Return a recent draw of this process that the decision may repeat."""
        draw = self._recent.get(key := _key(decision))
        if draw is None or not can_repeat(draw, decision, sticky_for):
            return None
        self._recent.move_to_end(key)
        return draw

    def read(self, decision: Decision, sticky_for: int) -> Decision | None:
        """Return the newest draw in the store that the decision may repeat; or the decision itself, if it is there.

        Blocks.
        """
        loop_name, names = decision.loop, frozenset(decision.actions)
        for logged in self._store.latest_of_unit(loop_name, decision.unit, LOOKED_BACK + len(decision.slots)):
            draw = logged.decision
            if (draw.event_id, draw.slot) == (decision.event_id, decision.slot):
                return draw
            if draw.repeats and draw.slot == decision.slot and names.issuperset(draw.actions):
                first = self._store.decision(loop_name, draw.repeats, draw.slot)
                draw = draw if first is None else first.decision
            if can_repeat(draw, decision, sticky_for):
                return draw
        return None

    def note(self, draw: Decision) -> None:
        """Remember a new draw, if it is sticky or newer than one in memory."""
        if not draw.is_stopped and (draw.sticky or (draw.unit and self._recent and _key(draw) in self._recent)):
            self.add(draw)

    def add(self, draw: Decision) -> None:
        """Remember a draw as the newest one of its unit."""
        self.remove(draw)
        self._recent[_key(draw)] = replace(draw, request=b"")
        self._actions += len(draw.actions)
        while self._actions > MOST_ACTIONS:
            _, oldest = self._recent.popitem(last=False)
            self._actions -= len(oldest.actions)

    def remove(self, draw: Decision) -> None:
        """Forget the draws of this unit among the same actions."""
        known = self._recent.pop(_key(draw), None)
        self._actions -= 0 if known is None else len(known.actions)


def _key(decision: Decision) -> Key:
    return decision.loop, decision.unit, decision.slot, frozenset(decision.actions)
