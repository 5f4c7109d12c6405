"""Earlier draws of sticky units, in the store and in memory."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeAlias

from msgspec.structs import replace

from glbandits.service.domain.events import Decision, LoggedDecision
from glbandits.service.domain.sticky_units import can_repeat
from glbandits.service.storage.event_store import NO_REWARDS, EventStore

LOOKED_BACK = 10, 100
"""Decisions of a unit that are searched for a draw, beside those of the same event; more if there is none in few."""
MOST_ACTIONS = 200_000
"""Actions of all draws in memory, at most: about 20 MB with short ids, and 80 MB with the longest ones."""

Key: TypeAlias = tuple[str, str, str, frozenset[str]]
"""Loop, unit, slot and actions."""


class StickyDraws:
    """Finds the draw that a decision repeats: the newest one in the store, so that all processes agree.

    Recent draws of this process are in memory, for those that the store does not have yet. `read` may be called from
    any thread, the other methods from one.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._recent: OrderedDict[Key, Decision] = OrderedDict()
        self._actions = 0

    def recent(self, decision: Decision, sticky_for: int) -> Decision | None:
        """Return a recent draw of this process that the decision may repeat."""
        draw = self._recent.get(_key(decision))
        return draw if draw is not None and can_repeat(draw, decision, sticky_for) else None

    def read(self, decision: Decision, sticky_for: int) -> Decision | None:
        """Return the newest draw in the store that the decision may repeat; or the decision itself, if it is there.

        Blocks.
        """
        for limit in LOOKED_BACK:
            logged = self._store.latest_of_unit(decision.loop, decision.unit, limit + len(decision.slots))
            draw = self._newest(logged, decision, sticky_for)
            if draw is not None or len(logged) < limit:
                return draw
        return None

    def _newest(self, logged: Sequence[LoggedDecision], decision: Decision, sticky_for: int) -> Decision | None:
        names, slot = frozenset(decision.actions), decision.slot
        newest = [each for each in logged if each.decision.slot == slot]
        for each in newest:
            if each.decision.event_id == decision.event_id:
                return each.decision
        # A draw that was repeated and is not among these decisions is older than all of them.
        older = {each.decision.repeats for each in newest if names.issuperset(each.decision.actions)}
        older -= {"", *(each.decision.event_id for each in newest)}
        found = [draw for name in older if (draw := self._store.decision(decision.loop, name, slot, NO_REWARDS))]
        newest += sorted(found, key=lambda draw: -draw.sequence)
        return next((each.decision for each in newest if can_repeat(each.decision, decision, sticky_for)), None)

    def note(self, draw: Decision) -> None:
        """Remember a new draw of a sticky unit."""
        if draw.sticky:
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
