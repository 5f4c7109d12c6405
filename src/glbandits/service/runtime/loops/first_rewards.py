"""The first rewards of a loop, from which a range of rewards is proposed."""

from glbandits.service.storage.event_store import EventStore

MAX_DECISIONS, MAX_REWARDS = 1000, 100
"""Settled decisions, and rewards of them, that are read at most."""


class FirstRewards:
    """Reads the first rewards of a loop that had no range, and keeps them once there are enough."""

    def __init__(self, store: EventStore, loop_name: str) -> None:
        self._store, self._loop_name = store, loop_name
        self._values, self._complete = list[float](), False

    def values(self, now: int) -> list[float]:
        """Return the values of the first rewards. Reads the store until there are enough."""
        if not self._complete:
            batch = self._store.settled(self._loop_name, 0, now, MAX_DECISIONS)
            unlimited = (settled.rewards for settled in batch if settled.decision.reward_range is None)
            self._values = [value for rewards in unlimited for _, value in rewards][:MAX_REWARDS]
            self._complete = len(self._values) == MAX_REWARDS or len(batch) == MAX_DECISIONS
        return self._values
