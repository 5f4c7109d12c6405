"""The base of event stores. Every store passes tests/serving/storage/test_event_store.py."""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby, takewhile
from operator import itemgetter
from os import PathLike
from typing import Any, Protocol

import msgspec

from glbandits.errors import check_int
from glbandits.serving.domain.event_rules import Kind
from glbandits.serving.domain.events import (
    Decision,
    Event,
    EventStatus,
    LoggedDecision,
    LoggedReward,
    Receipt,
    SettledDecision,
)
from glbandits.serving.storage.catalogue_store import CatalogueStore, Rows

MAX_SEQUENCE = 2**63 - 1
SNAPSHOT_SPACING, MOST_SNAPSHOTS, SNAPSHOT_BYTES = 10_000, 32, 64 * 1024 * 1024
"""Sequence numbers between older models that `save_model` keeps, how many of them, and how large they are together."""
encode_body = msgspec.msgpack.Encoder().encode
decode_body = msgspec.msgpack.Decoder(Decision).decode


class LogSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What there is in the log of a loop."""

    first_at: int | None
    """Timestamp of the oldest decision; None if there is none."""
    last_at: int | None
    decisions: dict[EventStatus, int]
    """The number of submitted decisions by status, since the log was begun, or deleted to begin anew."""
    rewards: dict[EventStatus, int]
    activations: dict[EventStatus, int]


class Document(msgspec.Struct, frozen=True):
    """A version of a document: a configuration, a policy's settings, a key, an evaluation."""

    version: int
    """1 is the first."""
    timestamp: int
    body: bytes


class SavedModel(msgspec.Struct, frozen=True):
    """A model that has learned the decisions up to a sequence number."""

    sequence: int
    timestamp: int
    body: bytes
    """The content of a model file."""


class LearnerLock(Protocol):
    """Elects the process that learns: at most one process holds the lock of a store."""

    def held(self) -> bool:
        """Take the lock if it is free, and return whether this process holds it."""

    def close(self) -> None:
        """Release the lock."""


class EventStore(CatalogueStore):
    """The log of decisions, activations and rewards; documents; models; and catalogues. Of any number of loops.

    **Threads.** Every method may be called from any thread at any time. Writes happen one after another. Reads see
    what was written before they began, all of a transaction or nothing of it, and do not wait for writes.

    **Ownership.** Arguments and results are immutable. Other processes may read and write the same store.

    **Safety.** A method that writes returns when the data is durable: it survives the process, or a power failure,
    depending on how the store was opened. If it raises, it wrote nothing, except for deletions.

    **Sequence numbers.** Every event in the log has one. They grow in the order of commits and are never used twice,
    not even those of deleted events.

    **Time** is in microseconds since 1970 and comes from the caller: a store has no clock.

    The SQL in this class is that of PostgreSQL. `_execute` of a store translates it.
    """

    @abstractmethod
    def _entries(self, connection: Any, loop: str, sequences: Sequence[int]) -> tuple[Rows, Rows, Rows]:
        """Read decisions by sequence number.

        Returns rows of (sequence, body); of (decision, sequence, timestamp, value, key, late) for rewards, in order;
        and of (decision, timestamp) for activations in time.
        """

    @abstractmethod
    def _delete_through(self, loop: str, last: int) -> int:
        """Delete decisions up to a sequence number, in many small transactions. Returns how many."""

    @abstractmethod
    async def append(self, events: Sequence[Event]) -> list[Receipt]:
        """Write events in this order in one transaction, and return the receipt of each. Does not block the event loop.

        A decision of a known (loop, event_id, slot) is a duplicate and changes nothing. A reward may come in the same
        call as its decision, after it. It is late if its timestamp is after the reward window of its decision, or if
        `seal` has closed its decision. A reward with the key of an accepted reward of the same decision is a
        duplicate. An activation applies to all slots of its event.
        """

    @abstractmethod
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
        with self._reading() as connection:
            closed = self._closable(connection, loop, after, now, limit, made_before, logged_through)
        if not closed:
            return 0
        with self._changing("loops") as connection:
            self._execute(
                connection,
                "INSERT INTO loops VALUES (%s, %s) ON CONFLICT (loop_name) DO UPDATE"
                " SET sealed_through = excluded.sealed_through WHERE loops.sealed_through < excluded.sealed_through",
                *(loop, closed[-1]),
            )
        return closed[-1]

    def _closable(
        self, connection: Any, loop: str, after: int, now: int, limit: int, made_before: int, logged_through: int
    ) -> list[int]:
        """The sequence numbers of the next decisions that are closed, or can be, see `seal`."""
        check_int("limit", limit, at_least=1)
        seals = self._execute(connection, "SELECT sealed_through FROM loops WHERE loop_name = %s", loop)
        through = max([logged_through, *(number for (number,) in seals)])
        query = (
            "SELECT sequence, decided_at, deadline FROM decisions"
            " WHERE loop_name = %s AND sequence > %s ORDER BY sequence LIMIT %s"
        )
        rows = self._execute(connection, query, loop, after, limit)
        closed = takewhile(lambda row: row[0] <= through or row[1] < made_before or row[2] < now, rows)
        return [sequence for sequence, *_ in closed]

    def settled(self, loop: str, after: int, now: int, limit: int) -> list[SettledDecision]:
        """Return decisions after a sequence number that are closed, or whose reward window was over at `now`.

        In the order of their sequence numbers, up to the first one that is open, with what came in time.
        """
        with self._reading() as connection:
            closed = self._closable(connection, loop, after, now, limit, 0, 0)
            return [logged.settled() for logged in self._look_up(connection, loop, closed)]

    def _look_up(self, connection: Any, loop: str, sequences: Sequence[int]) -> list[LoggedDecision]:
        """The decisions with these sequence numbers, in this order."""
        if not sequences:
            return []
        bodies, rewards, activations = map(list, self._entries(connection, loop, sequences))
        body_of: dict[int, bytes] = dict(bodies)
        activated_at: dict[int, int] = dict(activations)
        rewards_of = {
            decision: tuple(
                LoggedReward(sequence, timestamp, value, key, bool(late))
                for _, sequence, timestamp, value, key, late in group
            )
            for decision, group in groupby(rewards, key=itemgetter(0))
        }
        return [
            LoggedDecision(number, decode_body(body_of[number]), rewards_of.get(number, ()), activated_at.get(number))
            for number in sequences
            if number in body_of
        ]

    def decision(self, loop: str, event_id: str, slot: str = "") -> LoggedDecision | None:
        """Return the decision of this name, with its rewards."""
        return next((logged for logged in self.decisions_of(loop, event_id) if logged.decision.slot == slot), None)

    def decisions_of(self, loop: str, event_id: str) -> list[LoggedDecision]:
        """Return all decisions of an event, one for each slot, in the order of their sequence numbers."""
        return self._select(loop, "event_id = %s ORDER BY +sequence", event_id)

    def search(self, loop: str, prefix: str, limit: int, before: int | None = None) -> list[LoggedDecision]:
        """Return decisions whose event_id begins with the prefix, the newest first.

        With `before`, only those with smaller sequence numbers.
        """
        end = MAX_SEQUENCE if before is None else before
        check_int("limit", limit, at_least=1)
        if not prefix:
            return self._select(loop, "sequence < %s ORDER BY sequence DESC LIMIT %s", end, limit)
        # The end of the range has the last character there is: whatever begins with the prefix is not greater.
        names = "event_id BETWEEN %s AND %s AND +sequence < %s ORDER BY +sequence DESC LIMIT %s"
        return self._select(loop, names, prefix, prefix + chr(0x10FFFF), end, limit)

    def _select(self, loop: str, condition: str, *parameters: object) -> list[LoggedDecision]:
        # A condition on names sorts by +sequence: by sequence the database would read all decisions in order.
        query = f"SELECT sequence FROM decisions WHERE loop_name = %s AND {condition}"
        with self._reading() as connection:
            rows = self._execute(connection, query, loop, *parameters)
            return self._look_up(connection, loop, [sequence for (sequence,) in rows])

    def summary(self, loop: str) -> LogSummary:
        """Return the times of the first and the last decision, and the counts of events."""
        timestamp = "(SELECT decided_at FROM decisions WHERE loop_name = %s ORDER BY sequence {} LIMIT 1)"
        counts: dict[Kind, dict[EventStatus, int]] = {
            kind: dict.fromkeys(EventStatus, 0) for kind in ("decision", "reward", "activation")
        }
        with self._reading() as connection:
            ends = f"SELECT {timestamp.format('ASC')}, {timestamp.format('DESC')}"
            ((first_at, last_at),) = self._execute(connection, ends, loop, loop)
            query = "SELECT kind, status, count FROM event_counts WHERE loop_name = %s AND kind <> 'event'"
            for kind, status, count in self._execute(connection, query, loop):
                counts[kind][EventStatus(status)] = count
        return LogSummary(
            first_at=first_at,
            last_at=last_at,
            decisions=counts["decision"],
            rewards=counts["reward"],
            activations=counts["activation"],
        )

    def last_sequence(self, loop: str, *, before: int | None = None, up_to: int = MAX_SEQUENCE) -> int:
        """Return the sequence number of the last decision, at most `up_to`; 0 if there is none.

        With `before`, of those that are older than the first that was made at this time or later.
        """
        query = "SELECT sequence FROM decisions WHERE loop_name = %s AND"
        with self._reading() as connection:
            if before is not None:
                later = f"{query} decided_at >= %s ORDER BY sequence LIMIT 1"
                for (sequence,) in self._execute(connection, later, loop, before):
                    up_to = min(up_to, sequence - 1)
            last = f"{query} sequence <= %s ORDER BY sequence DESC LIMIT 1"
            return next((int(sequence) for (sequence,) in self._execute(connection, last, loop, up_to)), 0)

    def delete_log(self, loop: str, up_to: int | None = None, *, anew: bool = False) -> int:
        """Delete decisions up to a sequence number, with their rewards and activations. Returns how many.

        Without `up_to`, those that are there when it is called. Their names are free again. With `anew`, events are
        counted from 0 again. If it raises, a part may be gone: it works in small transactions, so that others can
        write meanwhile.
        """
        last = self.last_sequence(loop) if up_to is None else up_to
        if anew:
            with self._changing("event_counts") as connection:
                self._execute(connection, "DELETE FROM event_counts WHERE loop_name = %s AND kind <> 'event'", loop)
        return self._delete_through(loop, last)

    def save_document(self, loop: str, kind: str, timestamp: int, body: bytes) -> None:
        """Save a new version of a document. Older versions stay."""
        self.save_documents(loop, timestamp, {kind: body}, after={})

    def save_documents(
        self,
        loop: str,
        timestamp: int,
        bodies: Mapping[str, bytes],
        *,
        after: Mapping[str, int],
        alone: Collection[str] = (),
    ) -> bool:
        """Save new versions of documents, by kind, in one transaction, if no other process was faster.

        `after` has the newest versions that the caller knows, of these kinds or others; 0 where there is none. If any
        of them is not the newest, nothing is written, and the answer is False. Of the kinds in `alone`, older versions
        are deleted.
        """
        with self._changing("documents") as connection:
            newest = {kind: self._newest_version(connection, loop, kind) for kind in {*after, *bodies}}
            if any(newest[kind] != version for kind, version in after.items()):
                return False
            for kind, body in bodies.items():
                if kind in alone:
                    self._execute(connection, "DELETE FROM documents WHERE loop_name = %s AND kind = %s", loop, kind)
                row = (loop, kind, newest[kind] + 1, timestamp, body)
                self._execute(connection, "INSERT INTO documents VALUES (%s, %s, %s, %s, %s)", *row)
        return True

    def _newest_version(self, connection: Any, loop: str, kind: str) -> int:
        query = "SELECT coalesce(max(version), 0) FROM documents WHERE loop_name = %s AND kind = %s"
        ((version,),) = self._execute(connection, query, loop, kind)
        return int(version)

    def documents(self, loop: str, kind: str) -> list[Document]:
        """Return all versions of a document, the oldest first."""
        return self._documents(loop, kind, "")

    def latest_document(self, loop: str, kind: str) -> Document | None:
        """Return the newest version of a document."""
        return next(iter(self._documents(loop, kind, "DESC LIMIT 1")), None)

    def _documents(self, loop: str, kind: str, order: str) -> list[Document]:
        query = "SELECT version, saved_at, body FROM documents WHERE loop_name = %s AND kind = %s ORDER BY version "
        with self._reading() as connection:
            return [Document(*row) for row in self._execute(connection, query + order, loop, kind)]

    def save_model(self, loop: str, sequence: int, timestamp: int, body: bytes, *, keep: int | None = None) -> None:
        """Save a model, in place of one of the same sequence number.

        With `keep`, only the first and the last so many stay, and one in each `SNAPSHOT_SPACING` sequence numbers.
        """
        if keep is not None:
            check_int("keep", keep, at_least=1)
        spaced_since = sequence - SNAPSHOT_SPACING * min(MOST_SNAPSHOTS, SNAPSHOT_BYTES // max(1, len(body)))
        with self._changing("models") as connection:
            self._execute(
                connection,
                "INSERT INTO models VALUES (%s, %s, %s, %s) ON CONFLICT (loop_name, sequence)"
                " DO UPDATE SET saved_at = excluded.saved_at, body = excluded.body",
                *(loop, sequence, timestamp, body),
            )
            if keep is not None:
                self._execute(
                    connection,
                    "DELETE FROM models WHERE loop_name = %s"
                    " AND sequence > (SELECT min(sequence) FROM models WHERE loop_name = %s) AND sequence NOT IN"
                    " (SELECT sequence FROM models WHERE loop_name = %s ORDER BY sequence DESC LIMIT %s)"
                    " AND (sequence < %s OR sequence NOT IN"
                    " (SELECT min(sequence) FROM models WHERE loop_name = %s GROUP BY sequence / %s))",
                    *(loop, loop, loop, keep, spaced_since, loop, SNAPSHOT_SPACING),
                )

    def latest_model(self, loop: str) -> SavedModel | None:
        """Return the model with the greatest sequence number."""
        return self.model_at_most(loop, MAX_SEQUENCE)

    def model_at_most(self, loop: str, sequence: int) -> SavedModel | None:
        """Return the model with the greatest sequence number that is not above this."""
        query = (
            "SELECT sequence, saved_at, body FROM models WHERE loop_name = %s AND sequence <= %s"
            " ORDER BY sequence DESC LIMIT 1"
        )
        with self._reading() as connection:
            return next((SavedModel(*row) for row in self._execute(connection, query, loop, sequence)), None)

    @abstractmethod
    def learner_lock(self) -> LearnerLock:
        """Return this process's handle of the learner lock. The system releases the lock when the process ends."""

    @abstractmethod
    def wait_for_change(self, timeout: float) -> bool:
        """Block until another process saves a document or a model, at most `timeout` seconds.

        Returns whether one did. A store without notifications sleeps and returns False, so callers must poll.
        """

    @abstractmethod
    def backup(self, path: str | PathLike[str]) -> None:
        """Write a copy of the whole store, as it is at one moment, to a new file. Others may write meanwhile."""

    @abstractmethod
    def tidy(self) -> None:
        """Do what some writes would otherwise have to wait for. Call it often, from a thread of its own."""

    @abstractmethod
    def check(self) -> list[str]:
        """Read everything, and return what is wrong with the store; nothing if all is sound."""

    @abstractmethod
    def close(self) -> None:
        """Release all files and connections. Idempotent."""
