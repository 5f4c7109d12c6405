"""The base class of stores: creating and deleting loops, and deleting their logs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from glbandits.service.storage.document_store import MAX_SEQUENCE, DocumentStore
from glbandits.service.storage.schema import LAST_SEQUENCE_KEY, SELECT_LAST_SEQUENCE

DELETED_AT_ONCE = 1_000
"""Decisions that one transaction deletes. Writers wait for at most one such transaction."""
IDENTITY = "loop"
"""The kind of the document that every loop has, and that is created with it. Its version is 1; for a loop that was
deleted and created again it is a sequence number at that time, so that both differ."""


class LoopStore(DocumentStore):
    """Loops and their logs. `EventStore` has the rules for threads and durability.

    The column `created` of a loop says which decisions are its own: models of a loop that was created again begin with
    this sequence number, so a smaller one belongs to the loop that was deleted. For a deleted one it is `MAX_SEQUENCE`.
    """

    def create_loop(self, loop_name: str, timestamp: int, bodies: Mapping[str, bytes]) -> bool:
        """Save the first documents of a loop in one transaction, `IDENTITY` among them.

        Returns False and saves nothing if there is a loop of this name.
        """
        with self._publishing("creation") as connection:
            if self._newest_version(connection, loop_name, IDENTITY):
                return False
            self._delete_documents(connection, loop_name)  # a server that did not know of the deletion saved them
            row = "SELECT created FROM loops WHERE loop_name = %s"
            is_new = not any(created for (created,) in self._execute(connection, row, loop_name))
            created = 1 if is_new else self._next_sequence(connection)
            if not is_new:
                mark = "UPDATE loops SET created = %s WHERE loop_name = %s"
                self._execute(connection, mark, created, loop_name)
            for kind, body in bodies.items():
                document = (loop_name, kind, created if kind == IDENTITY else 1, timestamp, body)
                self._execute(connection, "INSERT INTO documents VALUES (%s, %s, %s, %s, %s)", *document)
        return True

    def _next_sequence(self, connection: Any) -> int:
        """Take the next sequence number, which no event will have."""
        add = f"UPDATE event_counts SET count = count + 1 WHERE (loop_name, kind, status) = {LAST_SEQUENCE_KEY}"
        self._execute(connection, add)
        ((sequence,),) = self._execute(connection, SELECT_LAST_SEQUENCE)
        return int(sequence)

    def _delete_documents(self, connection: Any, loop_name: str) -> None:
        for table in ("documents", "models"):
            self._execute(connection, f"DELETE FROM {table} WHERE loop_name = %s", loop_name)
        counts = "DELETE FROM event_counts WHERE loop_name = %s AND kind <> 'event'"
        self._execute(connection, counts, loop_name)

    def delete_loop(self, loop_name: str) -> None:
        """Delete the documents and models of a loop in one transaction, then its log, units and counts.

        Decisions that come later are refused until the loop is created again.
        """
        with self._publishing("creation") as connection:
            self._delete_documents(connection, loop_name)
            self._next_sequence(connection)
            self._execute(
                connection,
                "INSERT INTO loops VALUES (%s, 0, %s) ON CONFLICT (loop_name) DO UPDATE SET created = excluded.created",
                *(loop_name, MAX_SEQUENCE),
            )
        self.delete_remains(loop_name)

    def delete_remains(self, loop_name: str) -> None:
        """Delete the log and the units of a loop that was deleted, if its deletion was interrupted.

        Deletes nothing of a loop of the same name that is created meanwhile.
        """
        last = self.last_event()
        with self._reading() as connection:
            rows = self._execute(connection, "SELECT created FROM loops WHERE loop_name = %s", loop_name)
            is_deleted = list(rows) == [(MAX_SEQUENCE,)]
        if not is_deleted:
            return
        self.delete_log(loop_name, last)
        some = f"SELECT unit FROM units WHERE loop_name = %s AND first <= %s LIMIT {DELETED_AT_ONCE}"
        deleted = 1
        while deleted:
            with self._changing("decisions") as connection:
                delete = f"DELETE FROM units WHERE loop_name = %s AND unit IN ({some})"
                units: Any = self._execute(connection, delete, loop_name, loop_name, last)
                deleted = units.rowcount

    def delete_log(
        self,
        loop_name: str,
        up_to: int | None = None,
        *,
        before: int = MAX_SEQUENCE,
        reset_counts: bool = False,
        stop: Callable[[], bool] = lambda: False,
    ) -> int:
        """Delete decisions up to a sequence number and before a timestamp, with their rewards and activations.

        Returns the number of decisions. Without `up_to`, all decisions at the time of the call. Their event ids can be
        used again. With `reset_counts`, the counts of events start at 0 again. If the method raises, a part may be
        deleted, because it uses small transactions, so that others can write meanwhile. It ends between two of them if
        `stop` returns True.
        """
        last = self.last_sequence(loop_name) if up_to is None else up_to
        if reset_counts:
            with self._changing("event_counts") as connection:
                self._execute(
                    connection, "DELETE FROM event_counts WHERE loop_name = %s AND kind <> 'event'", loop_name
                )
        deleted, count = 0, 1
        while count and not stop():
            with self._changing("decisions") as connection:
                count = self._delete_oldest(connection, loop_name, last, before)
            deleted += count
        return deleted

    def _delete_oldest(self, connection: Any, loop_name: str, up_to: int, before: int) -> int:
        rows = self._execute(
            connection,
            "SELECT sequence, action_set FROM decisions WHERE loop_name = %s AND decided_at < %s AND +sequence <= %s"
            " ORDER BY decided_at LIMIT %s",
            *(loop_name, before, up_to, DELETED_AT_ONCE),
        )
        sequences, sets = list[int](), set[int]()
        for sequence, action_set in rows:
            sequences.append(sequence)
            sets.update([] if action_set is None else [action_set])
        for column in ("rewards.decision", "activations.decision", "decisions.sequence") if sequences else ():
            delete = f"DELETE FROM {column.split('.')[0]} WHERE {column} IN {marks(sequences)}"
            self._execute(connection, delete, *sequences)
        if sets:
            has_no_decision = (
                "NOT EXISTS (SELECT 1 FROM decisions WHERE sequence = first AND action_set = first) AND NOT EXISTS"
                " (SELECT 1 FROM decisions WHERE action_set = first AND action_set <> sequence)"
            )
            unused = f"DELETE FROM action_sets WHERE first IN {marks(list(sets))} AND {has_no_decision}"
            self._execute(connection, unused, *sets)
        return len(sequences)

    def last_sequence(self, loop_name: str, *, before: int | None = None, up_to: int = MAX_SEQUENCE) -> int:
        """Return the sequence number of the last decision, at most `up_to`; 0 if there is none.

        With `before`, only decisions with an earlier timestamp count.
        """
        query, parameters = "SELECT max(sequence) FROM decisions WHERE loop_name = %s AND sequence <= %s", [up_to]
        if before is not None:  # +sequence makes the database use the index on timestamps
            query, parameters = f"{query.replace('sequence', '+sequence')} AND decided_at < %s", [up_to, before]
        with self._reading() as connection:
            ((sequence,),) = self._execute(connection, query, loop_name, *parameters)
        return int(sequence or 0)

    def last_event(self) -> int:
        """Return the sequence number of the last event of all loops; 0 if there was none."""
        with self._reading() as connection:
            ((sequence,),) = self._execute(connection, SELECT_LAST_SEQUENCE)
        return int(sequence)


def marks(values: Sequence[object]) -> str:
    """Return a list of parameters for IN."""
    return f"({', '.join(['%s'] * len(values))})"
