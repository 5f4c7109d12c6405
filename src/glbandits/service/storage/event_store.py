"""The base class of event stores.

Every store must pass the tests in tests/service/storage/event_store/.
"""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from operator import itemgetter
from os import PathLike
from typing import Any, NamedTuple, get_args

import msgspec

from glbandits.common.errors import check_int
from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.event_rules import Kind
from glbandits.service.domain.events import (
    Decision,
    Event,
    EventStatus,
    LoggedDecision,
    LoggedReward,
    Receipt,
    SettledDecision,
    UnitStart,
)
from glbandits.service.storage.action_sets import RecentSets, decode_set, with_set
from glbandits.service.storage.document_store import MAX_SEQUENCE, Rows
from glbandits.service.storage.log_rows import decode_body
from glbandits.service.storage.loop_store import LoopStore, marks
from glbandits.service.storage.schema import IS_REPEATED, SELECT_LAST_SEQUENCE

READ_AT_ONCE = 1_000
"""Decisions that one statement reads."""


class RewardPage(NamedTuple):
    """Which rewards and numbers of metrics of each decision are read: a decision may have very many."""

    after: int = 0
    """The sequence number after which they are read."""
    limit: int = MAX_SEQUENCE


ALL_REWARDS, NO_REWARDS = RewardPage(), RewardPage(limit=0)


class LogSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The time span and the counts of the log of a loop."""

    first_at: int | None
    """Timestamp of the oldest decision; None if there is none."""
    last_at: int | None
    decisions: dict[EventStatus, int]
    """The number of submitted decisions by status, since the last `delete_log` with `reset_counts`."""
    rewards: dict[EventStatus, int]
    activations: dict[EventStatus, int]
    metrics: dict[EventStatus, int]


class EventStore(LoopStore):
    """The log of events, the documents and the models of all loops.

    **Threads.** Every method may be called from any thread at any time. Writes happen one after another. A read sees
    the transactions that were committed before it started, and does not wait for writes.

    **Ownership.** Arguments and results are immutable. Other processes may read and write the same store.

    **Durability.** A method that writes returns when the data survives the process, or a power failure, depending on
    how the store was opened. If it raises, nothing was written. Only a deletion may have deleted a part.

    **Sequence numbers.** Every event in the log has one. They grow in the order of commits and are never used twice,
    not even those of deleted events.

    **Timestamps** are in microseconds since 1970 and come from the caller: a store has no clock.

    The tables are those of `schema.TABLES`. The SQL in this class is for all databases, with %s for a parameter.
    """

    recent_sets: RecentSets
    """The sets of actions that this process has written."""

    @abstractmethod
    async def append(self, events: Sequence[Event]) -> list[Receipt]:
        """Write events in this order in one transaction. Returns a receipt for each.

        Does not block the event loop. A decision of a known (loop, event_id, slot) is a duplicate and changes nothing.
        A decision of a loop that was deleted, also if it was created again since, is unknown. If the first slot of an
        event is a duplicate, so are the later slots of the call: they were chosen beside another first slot.
        A reward may be in the same call as its decision, after it. A reward is late if its timestamp is after the
        reward window of its decision, or if its decision is sealed. A reward with the key of an accepted reward of the
        same decision is a duplicate. An activation applies to all slots of its event.

        A unit begins with its first decision, and stays known if that is deleted. A decision without a unit is one of
        its own, with all slots of its event. A number of a metric is late if its timestamp is after its window, which
        begins with the unit, or if the unit is sealed for the metric. A second number of the same metric, key and
        decision is a duplicate.
        """

    @abstractmethod
    def append_blocking(self, events: Sequence[Event]) -> list[Receipt]:
        """Do the same as `append`, without an event loop. Blocks until the events are durable."""

    def seal(
        self, loop_name: str, after: int, now: int, limit: int, *, made_before: int = 0, logged_through: int = 0
    ) -> int:
        """Seal at most `limit` decisions after a sequence number: later rewards are late.

        Goes through the decisions in order, and stops at the first one that must stay open. A decision can be sealed if
        its reward window had closed at `now`, if its timestamp is before `made_before`, or if its sequence number is
        at most `logged_through`, whatever its timestamp says.

        Returns the sequence number of the last sealed decision, or 0 if there is none after `after`. All decisions up
        to it stay sealed. The store records a sequence number and not a time, so that a clock that is wrong for a
        moment does not seal later decisions.

        A reward may come in time but be written after its decision was learned. If it counted as accepted, the log
        would not give the same model again. So a learner seals first, then reads `settled`, and learns only sealed
        decisions.
        """
        with self._reading() as connection:
            sealable = self._sealable(connection, loop_name, after, now, limit, made_before, logged_through)
        if not sealable:
            return 0
        with self._changing("loops") as connection:
            self._check_learner(connection)
            self._execute(
                connection,
                "INSERT INTO loops VALUES (%s, %s, 0) ON CONFLICT (loop_name) DO UPDATE"
                " SET sealed_through = excluded.sealed_through WHERE loops.sealed_through < excluded.sealed_through",
                *(loop_name, sealable[-1]),
            )
        return sealable[-1]

    def seal_metrics(self, loop_name: str, through: Mapping[str, int]) -> None:
        """Seal units for metrics by name, up to these sequence numbers of first decisions: later numbers are late.

        A learner seals first and then counts the units, for the reason that `seal` explains.
        """
        if not through:
            return
        with self._changing("metric_seals") as connection:
            self._check_learner(connection)
            for metric, sequence in through.items():
                self._execute(
                    connection,
                    "INSERT INTO metric_seals VALUES (%s, %s, %s) ON CONFLICT (loop_name, metric) DO UPDATE SET"
                    " sealed_through = excluded.sealed_through"
                    " WHERE metric_seals.sealed_through < excluded.sealed_through",
                    *(loop_name, metric, sequence),
                )

    def _sealable(
        self, connection: Any, loop_name: str, after: int, now: int, limit: int, made_before: int, logged_through: int
    ) -> list[int]:
        """Return the sequence numbers of the next decisions that are or can be sealed."""
        check_int("limit", limit, at_least=1)
        seals = self._execute(connection, "SELECT sealed_through FROM loops WHERE loop_name = %s", loop_name)
        through = max([logged_through, *(number for (number,) in seals)])
        query = (
            "SELECT sequence, decided_at, deadline FROM decisions"
            " WHERE loop_name = %s AND sequence > %s ORDER BY sequence LIMIT %s"
        )
        rows = self._execute(connection, query, loop_name, after, limit)
        sealable = takewhile(lambda row: row[0] <= through or row[1] < made_before or row[2] < now, rows)
        return [sequence for sequence, *_ in sealable]

    def settled(self, loop_name: str, after: int, now: int, limit: int) -> list[SettledDecision]:
        """Return settled decisions after a sequence number, in order, at most `limit`.

        A decision is settled if it is sealed, or if its reward window had closed at `now`. The list ends before the
        first open decision. The decisions have the rewards that came in time.
        """
        with self._reading() as connection:
            sealable = self._sealable(connection, loop_name, after, now, limit, 0, 0)
            return [logged.settled() for logged in self._look_up(connection, sealable)]

    def _look_up(
        self, connection: Any, sequences: Sequence[int], page: RewardPage = ALL_REWARDS
    ) -> list[LoggedDecision]:
        """Return the decisions with these sequence numbers, in this order."""
        body_of: dict[int, Decision] = {}
        activated_at: dict[int, int] = {}
        rewards_of: dict[int, tuple[LoggedReward, ...]] = {}
        for start in range(0, len(sequences), READ_AT_ONCE):
            part = sequences[start : start + READ_AT_ONCE]
            body_of.update(self._decisions(connection, part))
            activations = f"SELECT decision, received_at FROM activations WHERE late = 0 AND decision IN {marks(part)}"
            activated_at.update(self._execute(connection, activations, *part))
            found = () if page == NO_REWARDS else self._rewards(connection, part, page)
            for decision, group in groupby(found, key=itemgetter(0)):
                rewards_of[decision] = tuple(
                    LoggedReward(sequence, timestamp, value, key, bool(late), metric)
                    for _, sequence, timestamp, value, key, late, metric in group
                )
        return [
            LoggedDecision(own, body_of[own], rewards_of.get(own, ()), activated_at.get(own))
            for own in sequences
            if own in body_of
        ]

    def _decisions(self, connection: Any, sequences: Sequence[int]) -> Iterator[tuple[int, Decision]]:
        """Yield decisions of the log with their sequence numbers, without those that were deleted."""
        query = f"SELECT sequence, body, action_set FROM decisions WHERE sequence IN {marks(sequences)}"
        rows = list(self._execute(connection, query, *sequences))
        numbers = list({number for *_, number in rows if number is not None})
        query = f"SELECT first, body FROM action_sets WHERE first IN {marks(numbers)}"
        found = self._execute(connection, query, *numbers) if numbers else ()
        sets = {number: decode_set(body) for number, body in found}
        for sequence, body, number in rows:
            decision = decode_body(body)
            if number is not None and number not in sets:
                raise StoreError(f"decision {sequence} has lost its set of actions, {number}; restore a backup")
            yield sequence, decision if number is None else with_set(decision, sets[number])

    def _rewards(self, connection: Any, decisions: Sequence[int], page: RewardPage) -> Rows:
        """Return the rewards and numbers of metrics of decisions, by decision and in the order of the log."""
        columns = "decision, sequence, received_at, value, key, late, metric"
        of_decisions = f"FROM rewards WHERE decision IN {marks(decisions)}"
        if page == ALL_REWARDS:
            query = f"SELECT {columns} {of_decisions} ORDER BY decision, sequence"
            return self._execute(connection, query, *decisions)
        query = (
            f"SELECT {columns} FROM (SELECT {columns}, row_number() OVER (PARTITION BY decision ORDER BY sequence)"
            f" AS number {of_decisions} AND sequence > %s) AS r WHERE number <= %s ORDER BY decision, sequence"
        )
        return self._execute(connection, query, *decisions, page.after, page.limit)

    def decision(
        self, loop_name: str, event_id: str, slot: str = "", page: RewardPage = ALL_REWARDS
    ) -> LoggedDecision | None:
        """Return the decision of this name, with its rewards."""
        decisions = self.decisions_of(loop_name, event_id, page)
        return next((logged for logged in decisions if logged.decision.slot == slot), None)

    def decisions_of(self, loop_name: str, event_id: str, page: RewardPage = ALL_REWARDS) -> list[LoggedDecision]:
        """Return all decisions of an event, one for each slot, in the order of the log."""
        return self.look_up(self._sequences(loop_name, "event_id = %s ORDER BY +sequence", event_id), page)

    def search(self, loop_name: str, prefix: str, limit: int, before: int | None = None) -> list[LoggedDecision]:
        """Return decisions whose event_id begins with the prefix, the newest first.

        With `before`, only those with smaller sequence numbers.
        """
        return self.look_up(self.find(loop_name, prefix, limit, before))

    def find(self, loop_name: str, prefix: str, limit: int, before: int | None = None) -> list[int]:
        """Return the sequence numbers of the decisions of `search`. Reads the ids of all decisions with the prefix."""
        end = MAX_SEQUENCE if before is None else before
        check_int("limit", limit, at_least=1)
        if not prefix:
            return self._sequences(loop_name, "sequence < %s ORDER BY sequence DESC LIMIT %s", end, limit)
        # The end of the range has the last Unicode character, so no id with the prefix is greater.
        names = "event_id BETWEEN %s AND %s AND +sequence < %s ORDER BY +sequence DESC LIMIT %s"
        return self._sequences(loop_name, names, prefix, prefix + chr(0x10FFFF), end, limit)

    def look_up(self, sequences: Sequence[int], page: RewardPage = ALL_REWARDS) -> list[LoggedDecision]:
        """Return the decisions with these sequence numbers, in this order. Those that were deleted are left out."""
        with self._reading() as connection:
            return self._look_up(connection, sequences, page)

    def _sequences(self, loop_name: str, condition: str, *parameters: object) -> list[int]:
        # Conditions on ids sort by +sequence, because for sequence the database would use that index and read all rows.
        query = f"SELECT sequence FROM decisions WHERE loop_name = %s AND {condition}"
        with self._reading() as connection:
            return [sequence for (sequence,) in self._execute(connection, query, loop_name, *parameters)]

    def units_after(self, loop_name: str, after: int, limit: int) -> list[UnitStart]:
        """Return units that began after a sequence number, in the order of their first decisions, at most `limit`.

        A unit whose first decision was deleted is left out.
        """
        query = (
            "SELECT sequence, decided_at FROM decisions"
            " WHERE loop_name = %s AND sequence > %s AND unit = sequence ORDER BY sequence LIMIT %s"
        )
        with self._reading() as connection:
            rows = self._execute(connection, query, loop_name, after, check_int("limit", limit, at_least=1))
            return [UnitStart(first, since) for first, since in rows]

    def count_units(self, loop_name: str, after: int, decisions: int) -> int:
        """Return the number of units that began in the next `decisions` decisions after a sequence number."""
        query = (
            "SELECT count(*) FROM (SELECT sequence, unit FROM decisions WHERE loop_name = %s AND sequence > %s"
            " ORDER BY sequence LIMIT %s) AS later WHERE unit = sequence"
        )
        with self._reading() as connection:
            ((count,),) = self._execute(connection, query, loop_name, after, decisions)
        return int(count)

    def decisions_of_units(self, firsts: Sequence[int], limit: int) -> Iterator[tuple[int, LoggedDecision]]:
        """Yield the first `limit` decisions of each unit, with the sequence number of the first one of the unit.

        They come in the order of the log, and a part is in memory at a time. `firsts` are those of `units_after`.
        """
        later = (
            "SELECT sequence, unit FROM (SELECT sequence, unit, row_number() OVER (PARTITION BY unit ORDER BY sequence)"
            f" AS number FROM decisions WHERE unit IN {marks(firsts)} AND {IS_REPEATED}) AS r WHERE number < %s"
        )
        with self._reading() as connection:
            unit_of = dict[int, int](self._execute(connection, later, *firsts, limit)) if firsts else {}
        unit_of |= {first: first for first in firsts}
        sequences = sorted(unit_of)
        for start in range(0, len(sequences), READ_AT_ONCE):
            with self._reading() as connection:
                part = self._look_up(connection, sequences[start : start + READ_AT_ONCE])
            for logged in part:
                yield unit_of[logged.sequence], logged

    def latest_of_unit(self, loop_name: str, unit: str, limit: int) -> list[LoggedDecision]:
        """Return the newest decisions of a unit without rewards, the newest first, at most `limit`. `unit` is its hash.

        Decisions that are units of their own (`Decision.alone`) are not among them.
        """
        later = f"SELECT sequence FROM decisions WHERE unit = %s AND {IS_REPEATED} ORDER BY sequence DESC LIMIT %s"
        with self._reading() as connection:
            find = "SELECT first FROM units WHERE loop_name = %s AND unit = %s"
            for (first,) in list(self._execute(connection, find, loop_name, unit)):
                rows = self._execute(connection, later, first, check_int("limit", limit, at_least=1))
                sequences = [*(sequence for (sequence,) in rows), first][:limit]
                return self._look_up(connection, sequences, NO_REWARDS)
        return []

    def summary(self, loop_name: str) -> LogSummary:
        """Return the timestamps of the first and the last decision, and the counts of events."""
        timestamp = "(SELECT decided_at FROM decisions WHERE loop_name = %s ORDER BY sequence {} LIMIT 1)"
        counts: dict[Kind, dict[EventStatus, int]] = {kind: dict.fromkeys(EventStatus, 0) for kind in get_args(Kind)}
        with self._reading() as connection:
            ends = f"SELECT {timestamp.format('ASC')}, {timestamp.format('DESC')}"
            ((first_at, last_at),) = self._execute(connection, ends, loop_name, loop_name)
            query = "SELECT kind, status, count FROM event_counts WHERE loop_name = %s AND kind <> 'event'"
            for kind, status, count in self._execute(connection, query, loop_name):
                counts[kind][EventStatus(status)] = count
        return LogSummary(
            first_at=first_at,
            last_at=last_at,
            decisions=counts["decision"],
            rewards=counts["reward"],
            activations=counts["activation"],
            metrics=counts["metric"],
        )

    def marks(self) -> dict[str, frozenset[tuple[str, str, int]]]:
        """Return for each loop what changes with every event, document and model of it, by one query for all loops."""
        query = (
            "SELECT loop_name, kind, status, count FROM event_counts UNION ALL"
            " SELECT loop_name, kind, '', max(version) FROM documents GROUP BY loop_name, kind UNION ALL"
            " SELECT loop_name, '', '', max(sequence) FROM models GROUP BY loop_name"
        )
        found = defaultdict[str, set[tuple[str, str, int]]](set)
        with self._reading() as connection:
            for loop_name, *mark in self._execute(connection, query):
                found[loop_name].add(tuple(mark))
        return {loop_name: frozenset(marks) for loop_name, marks in found.items()}

    def count_after(self, loop_name: str, sequence: int) -> int:
        """Return the number of decisions after a sequence number."""
        query = "SELECT count(*) FROM decisions WHERE loop_name = %s AND sequence > %s"
        with self._reading() as connection:
            ((count,),) = self._execute(connection, query, loop_name, sequence)
        return int(count)

    def reward_bounds(self, loop_name: str) -> tuple[float, float] | None:
        """Return the smallest and the largest reward in time; None without rewards. Reads all rewards."""
        query = (
            "SELECT min(value), max(value) FROM rewards JOIN decisions ON rewards.decision = decisions.sequence"
            " WHERE loop_name = %s AND late = 0 AND metric = ''"
        )
        with self._reading() as connection:
            ((lowest, highest),) = self._execute(connection, query, loop_name)
        return None if lowest is None else (lowest, highest)

    @abstractmethod
    def backup(self, path: str | PathLike[str]) -> None:
        """Write a consistent copy of the whole store to a new file. Others may write meanwhile."""

    @abstractmethod
    def maintain(self) -> None:
        """Do periodic work that would otherwise delay writes.

        Call it often, from a thread of its own.
        """

    @abstractmethod
    def check(self) -> list[str]:
        """Read the whole store, and return a message for each damage."""

    def _inconsistencies(self, connection: Any) -> list[str]:
        """Return a message for each kind of rows that contradict others. Reads the log."""
        orphans = "SELECT count(*) FROM {} AS e WHERE NOT EXISTS (SELECT 1 FROM decisions AS d WHERE d.sequence = {})"
        checks = {
            "rewards of no decision": orphans.format("rewards", "e.decision"),
            "activations of no decision": orphans.format("activations", "e.decision"),
            "decisions without their set of actions": "SELECT count(*) FROM decisions AS d WHERE action_set IS NOT NULL"
            " AND NOT EXISTS (SELECT 1 FROM action_sets AS s WHERE s.first = d.action_set)",
            "sets of actions of no decision": "SELECT count(*) FROM action_sets AS s WHERE NOT EXISTS"
            " (SELECT 1 FROM decisions AS d WHERE d.sequence = s.first AND d.action_set = s.first) AND NOT EXISTS"
            " (SELECT 1 FROM decisions AS d WHERE d.action_set = s.first AND d.action_set <> d.sequence)",
            "events above the last sequence number": "SELECT count(*) FROM (SELECT sequence FROM decisions UNION ALL"
            " SELECT sequence FROM rewards UNION ALL SELECT first FROM units UNION ALL SELECT first FROM action_sets"
            ") AS e"
            f" WHERE sequence > ({SELECT_LAST_SEQUENCE})",
            "decisions that contradict the first one of their unit": "SELECT count(*) FROM decisions AS d"
            " JOIN decisions AS f ON f.sequence = d.unit WHERE d.unit > d.sequence OR d.loop_name <> f.loop_name"
            " OR f.unit <> f.sequence OR d.unit_since <> f.decided_at",
        }
        return [what for what, query in checks.items() if list(self._execute(connection, query)) != [(0,)]]

    @abstractmethod
    def close(self) -> None:
        """Release all files and connections. Idempotent."""
