"""The interface of event stores. Every store passes tests/serving/storage/test_event_store.py."""

from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from typing import Protocol

import msgspec

from glbandits.serving.domain.events import Decision, Event, EventStatus, Receipt, SettledDecision


class LoggedReward(msgspec.Struct, frozen=True):
    """A reward as it is in the log."""

    sequence: int
    timestamp: int
    value: float
    key: str
    late: bool


class LoggedDecision(msgspec.Struct, frozen=True):
    """A decision as it is in the log, with all that came of it so far."""

    sequence: int
    decision: Decision
    rewards: tuple[LoggedReward, ...]
    """Late ones too, in the order in which they came."""
    activated_at: int | None
    """When it was activated in time; None if it was not."""


class LogSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What there is in the log of a loop."""

    first_at: int | None
    """Of the oldest decision; None if there is none."""
    last_at: int | None
    decisions: dict[EventStatus, int]
    """How many came, of each status, since the log was begun, or deleted to begin anew. Kept and late ones were written
    to it; the others were only counted."""
    rewards: dict[EventStatus, int]
    activations: dict[EventStatus, int]


class Document(msgspec.Struct, frozen=True):
    """A version of a document: a configuration, a policy's settings, a key, an evaluation."""

    version: int
    """1 is the first."""
    timestamp: int
    body: bytes


class SavedModel(msgspec.Struct, frozen=True):
    """A model as it was when it had passed the decision of this number."""

    sequence: int
    timestamp: int
    body: bytes
    """The content of a model file."""


class ModelEntry(msgspec.Struct, frozen=True):
    """That there is a saved model, without its content."""

    sequence: int
    timestamp: int
    size: int
    """Bytes."""


class LearnerLock(Protocol):
    """Elects the process that learns: at most one process holds the lock of a store."""

    def held(self) -> bool:
        """Take the lock if it is free, and return whether this process holds it."""

    def close(self) -> None:
        """Release the lock."""


class EventStore(Protocol):
    """The log of decisions, activations and rewards; documents; and models. Of any number of loops.

    **Threads.** Every method may be called from any thread at any time. Writes happen one after another; reads see
    what was written before they began, all of a transaction or nothing of it, and do not wait for writes.

    **Ownership.** What is handed in and out is immutable or bytes, and nobody's afterwards. The store owns its files
    until it is closed. Other processes may read and write the same files meanwhile.

    **Safety.** A method that writes returns when what it wrote is safe, in the sense that the store was opened with
    (it outlives the process, or a power failure). If it raises, nothing of it was written, but for deletions.

    **Numbers.** Every event that is kept gets a number. Numbers grow in the order in which events are committed and
    are never used twice, not even for those of deleted events.

    **Time** is in microseconds since 1970 and comes from the caller: a store has no clock.
    """

    async def append(self, events: Sequence[Event]) -> list[Receipt]:
        """Write events in this order in one transaction, and return the receipt of each. Does not block the event loop.

        A decision of a known (loop, event_id, slot) is a duplicate and changes nothing. A reward may come in the same
        call as its decision, after it. It is late if its timestamp is after the reward window of its decision, or if
        `seal` has closed its decision. A reward with the key of an accepted reward of the same decision is a
        duplicate. An activation applies to all slots of its event.
        """

    def append_blocking(self, events: Sequence[Event]) -> list[Receipt]:
        """Do the same from a thread without an event loop. Blocks until the events are durable."""

    def seal(
        self, loop: str, after: int, now: int, limit: int, *, made_before: int = 0, logged_through: int = 0
    ) -> int:
        """Close decisions, at most `limit` after the number `after`: rewards that are appended later are late.

        Goes through the decisions in order and stops at the first one that must stay open. A decision can be closed if
        it is closed already, if its reward window was over at `now`, if its timestamp is before `made_before`, or if
        its number is at most `logged_through`, whatever its timestamp says. `settled` returns closed decisions.

        Returns the last number that is closed, or 0 if there is nothing to close. All decisions up to it are closed,
        and stay closed. The store keeps a number and not a time, so that a clock that was wrong for a moment does not
        close later decisions.

        A reward may come in time and still wait to be written when its decision is learned. If it then counted as
        accepted, the log could not give the same model again. So a learner seals first, then reads `settled`, and
        learns the decisions that are sealed.
        """

    def settled(self, loop: str, after: int, now: int, limit: int) -> list[SettledDecision]:
        """Decisions with greater numbers than `after` that are closed, or whose wait was over at `now`.

        With what came in time, in the order of their numbers, and no further than the first of another kind: none
        overtakes another.
        """

    def decision(self, loop: str, event_id: str, slot: str = "") -> LoggedDecision | None:
        """The decision of this name, with all that came of it."""

    def decisions_of(self, loop: str, event_id: str) -> list[LoggedDecision]:
        """All decisions of an event, one for each slot, in the order of their numbers."""

    def search(self, loop: str, prefix: str, limit: int, before: int | None = None) -> list[LoggedDecision]:
        """Decisions whose event_id begins so, the newest first; only those with numbers below `before`, if given."""

    def summary(self, loop: str) -> LogSummary:
        """What there is in the log."""

    def last_sequence(self, loop: str, *, before: int | None = None, up_to: int | None = None) -> int:
        """The number of the last decision; 0 if there is none.

        With `before`, of those that are older than the first that was made at this time or later; with `up_to`, of
        those whose numbers are not above this.
        """

    def delete_log(self, loop: str, up_to: int | None = None, *, anew: bool = False) -> int:
        """Forget decisions up to this number, with what came of them. How many decisions that were.

        Without `up_to` those that are there when it is called, not those that come meanwhile. Their names are free
        again. With `anew`, events are counted from 0 again. If it raises, a part may be gone: it is done in many small
        steps, so that others can write meanwhile.
        """

    def save_document(self, loop: str, kind: str, timestamp: int, body: bytes) -> int:
        """Keep a new version of a document, and say which it is. Older versions stay."""

    def save_documents(
        self,
        loop: str,
        timestamp: int,
        bodies: Mapping[str, bytes],
        *,
        after: Mapping[str, int],
        alone: Collection[str] = (),
    ) -> bool:
        """Keep new versions of documents, by kind: all at once, if nobody else was faster.

        `after` has the newest versions that the caller knows, of these kinds or others; 0 where there is none. If
        any of them is not the newest, nothing is written, and the answer is False. Of the kinds in `alone`, older
        versions go.
        """

    def documents(self, loop: str, kind: str) -> list[Document]:
        """All versions, the oldest first."""

    def latest_document(self, loop: str, kind: str) -> Document | None:
        """The newest version."""

    def save_model(self, loop: str, sequence: int, timestamp: int, body: bytes, *, keep: int | None = None) -> None:
        """Keep a model, in place of one of the same number. With `keep`, only the first and the last so many stay."""

    def models(self, loop: str) -> list[ModelEntry]:
        """What models there are, in the order of their numbers."""

    def latest_model(self, loop: str) -> SavedModel | None:
        """The model with the greatest number."""

    def model_at_most(self, loop: str, sequence: int) -> SavedModel | None:
        """The model with the greatest number that is not above this."""

    def learner_lock(self) -> LearnerLock:
        """Return this process's handle of the learner lock. The system releases the lock when the process ends."""

    def wait_for_change(self, timeout: float) -> bool:
        """Block until another process saves a document or a model, at most `timeout` seconds.

        Returns whether one did. A store without notifications sleeps and returns False, so callers must poll.
        """

    def backup(self, path: str | PathLike[str]) -> None:
        """Write a copy of the whole store, as it is at one moment, to a new file. Others may write meanwhile."""

    def tidy(self) -> None:
        """Do what a write would otherwise have to wait for now and then. Call it often, from a thread of its own.

        A store that is never tidied is as safe, and writes as much, but some of its writes take long.
        """

    def check(self) -> list[str]:
        """What is wrong with the files; nothing if all is sound. Reads everything."""

    def close(self) -> None:
        """Bring everything to its place and let go of the files. A second time does nothing."""
