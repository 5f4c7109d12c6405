"""The learner's lease: of the servers of one store, the one that holds the lease learns."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from glbandits.service.domain.errors import StoreError

BEAT_SECONDS = 1.0
"""Time between two beats of the learner."""
EXPIRY_SECONDS = 4.0
"""Time without a beat after which another process takes over. A new learner keeps the lease for as long at least."""


class LeaseStore(Protocol):
    """The part of a store that the lease needs, see `EventStore`."""

    def read_lease(self) -> tuple[int, int]: ...  # noqa: D102

    def change_lease(self, present: tuple[int, int], new: tuple[int, int]) -> bool: ...  # noqa: D102


class LearnerLease:
    """The right to learn, which is a row of the store: a term, and a beat.

    The learner raises the beat every second. Another process takes over and raises the term if the learner has given
    the lease back, or if the beat has stopped, because the process has ended or is paused. Each process measures by its
    own clock how long the beat has stood still. A learner that wakes up after another one has taken over cannot write:
    `EventStore.save_model` and `seal` compare the term in their transaction.

    Args:
        store: has the row.
        monotonic: seconds of a monotonic clock.
    """

    def __init__(self, store: LeaseStore, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store, self._monotonic = store, monotonic
        self.held = False
        """Whether this process learns, as far as it knows."""
        self.term: int | None = None
        """The last term in which this process was the learner."""
        self._seen: tuple[int, int] | None = None
        self._seen_at = self._beat_at = 0.0
        self._lost_at = -EXPIRY_SECONDS

    def keep(self) -> bool:
        """Renew the lease, or take it if it is free or has expired. Returns whether this process holds it.

        Call it several times a second, always from one thread. Raises StoreError; then it is unknown.
        """
        seen, self._seen = self._seen, None  # forgotten if the store fails: others could not reach it either
        row, now = self._store.read_lease(), self._monotonic()
        if row != seen:
            self._seen_at = now
        term, beat = row
        if self.held and term != self.term:
            self.held, self._lost_at = False, now
        elif self.held:
            if now - self._beat_at >= BEAT_SECONDS:
                self._change(row, (term, beat + 1))
        elif now - self._lost_at >= EXPIRY_SECONDS and self._is_free(beat, now):
            self.held = self._change(row, (term + 1, beat + 1))
            if self.held:
                self.term = term + 1
        self._seen = row
        return self.held

    def _is_free(self, beat: int, now: float) -> bool:
        return beat == 0 or now - self._seen_at > EXPIRY_SECONDS  # 0: never held, or given back

    def _change(self, present: tuple[int, int], new: tuple[int, int]) -> bool:
        self._beat_at = self._monotonic()
        return self._store.change_lease(present, new)

    def close(self) -> None:
        """Give the lease back."""
        if self.held:
            self.held = False
            with suppress(StoreError):
                row = self._store.read_lease()
                if row[0] == self.term:
                    self._store.change_lease(row, (row[0], 0))
