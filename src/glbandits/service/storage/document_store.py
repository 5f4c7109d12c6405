"""The base class of stores: documents, models, and the lease of the learner."""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from glbandits.common.errors import check_int
from glbandits.service.domain.errors import LeaseLost, StoreError
from glbandits.service.storage.learner_lease import LearnerLease

Rows: TypeAlias = Iterable[tuple[Any, ...]]
MAX_SEQUENCE = 2**63 - 1
SNAPSHOT_SPACING, MAX_SNAPSHOTS, SNAPSHOT_BYTES = 10_000, 32, 64 * 1024 * 1024
"""`save_model` keeps one older model in each so many sequence numbers, at most so many, and at most so many bytes."""


class Document(msgspec.Struct, frozen=True):
    """A version of a document, such as a configuration, a key or an evaluation."""

    version: int
    """1 for the first version."""
    timestamp: int
    body: bytes


class SavedModel(msgspec.Struct, frozen=True):
    """A model that has learned the decisions up to a sequence number."""

    sequence: int
    timestamp: int
    body: bytes
    """A snapshot, see `decode_snapshot`."""


class DocumentStore(ABC):
    """Versions of documents and models of all loops. `EventStore` has the rules for threads and durability."""

    parameter_mark = "%s"
    """How the database writes a parameter of a statement."""
    _own_changes, _other_changes = 0, -1
    """Documents and models saved by this store since it was opened, and by others, as far as it knows."""
    history_expression = "0"
    """SQL of `history`."""
    history = 0
    """The history of the store that this process knows. The number is another one when the store may have lost its last
    events, because a standby of the database became the primary server. `wait_for_change` reads it."""
    lease: LearnerLease
    """The right to learn. `close` gives it back."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Any]:
        """A connection in a read transaction. All its statements see the same state of the store."""

    @abstractmethod
    def _changing(self, table: str, /) -> AbstractContextManager[Any]:
        """A connection in a write transaction. Others wait until it ends to write to the table."""

    def _execute(self, connection: Any, statement: str, *parameters: object) -> Rows:
        """Execute a statement. Read the rows before the transaction ends."""
        rows: Rows = connection.execute(statement.replace("%s", self.parameter_mark), parameters)
        return rows

    def _check_learner(self, connection: Any) -> None:
        """Raise LeaseLost if this process was the learner, and another one has taken over, or the database has."""
        if self.lease.term is not None:
            ((term, history),) = self._execute(connection, f"SELECT term, {self.history_expression} FROM coordination")
            if term != self.lease.term:
                raise LeaseLost("another process has become the learner")
            if history != self.history:
                raise LeaseLost("another server of the database has taken over")

    def read_history(self) -> int:
        """Read and return `history`."""
        with self._reading() as connection:
            ((self.history,),) = self._execute(connection, f"SELECT {self.history_expression}")
        return self.history

    @contextmanager
    def _publishing(self, table: str) -> Iterator[Any]:
        """As `_changing`, for a table whose changes other processes notice, see `wait_for_change`."""
        with self._changing(table) as connection:
            yield connection
            self._execute(connection, "UPDATE coordination SET changes = changes + 1")
        self._own_changes += 1

    def save_document(self, loop_name: str, kind: str, timestamp: int, body: bytes) -> None:
        """Save a new version of a document. Older versions stay."""
        self.save_documents(loop_name, timestamp, {kind: body}, expected_versions={})

    def save_documents(
        self,
        loop_name: str,
        timestamp: int,
        bodies: Mapping[str, bytes],
        *,
        expected_versions: Mapping[str, int],
        latest_only: Collection[str] = (),
        oldest: Mapping[str, tuple[int, bytes]] = MappingProxyType({}),
    ) -> bool:
        """Save new versions of documents in one transaction, unless others have changed them.

        Args:
            loop_name: the name of the loop.
            timestamp: the time of the new versions.
            bodies: the documents by kind.
            expected_versions: newest versions that the caller knows, of these kinds or others; 0 for no version. If any
                of them is not the newest, nothing is written, and False is returned.
            latest_only: kinds of which older versions are deleted.
            oldest: by kind, a version that gets another body, and before which all versions are deleted.
        """
        with self._publishing("documents") as connection:
            newest = {kind: self._newest_version(connection, loop_name, kind) for kind in {*expected_versions, *bodies}}
            if any(newest[kind] != version for kind, version in expected_versions.items()):
                return False
            for kind, (version, body) in oldest.items():
                older = "DELETE FROM documents WHERE loop_name = %s AND kind = %s AND version < %s"
                self._execute(connection, older, loop_name, kind, version)
                change = (
                    "UPDATE documents SET saved_at = %s, body = %s WHERE loop_name = %s AND kind = %s AND version = %s"
                )
                self._execute(connection, change, timestamp, body, loop_name, kind, version)
            for kind, body in bodies.items():
                if kind in latest_only:
                    self._execute(
                        connection, "DELETE FROM documents WHERE loop_name = %s AND kind = %s", loop_name, kind
                    )
                row = (loop_name, kind, newest[kind] + 1, timestamp, body)
                self._execute(connection, "INSERT INTO documents VALUES (%s, %s, %s, %s, %s)", *row)
        return True

    def _newest_version(self, connection: Any, loop_name: str, kind: str) -> int:
        query = "SELECT coalesce(max(version), 0) FROM documents WHERE loop_name = %s AND kind = %s"
        ((version,),) = self._execute(connection, query, loop_name, kind)
        return int(version)

    def newest_version(self, loop_name: str, kind: str) -> int:
        """Return the newest version of a document; 0 if there is none."""
        with self._reading() as connection:
            return self._newest_version(connection, loop_name, kind)

    def documents(self, loop_name: str, kind: str) -> list[Document]:
        """Return all versions of a document, the oldest first."""
        return self._documents(loop_name, kind, "")

    def latest_document(self, loop_name: str, kind: str) -> Document | None:
        """Return the newest version of a document."""
        return next(iter(self._documents(loop_name, kind, "DESC LIMIT 1")), None)

    def _documents(self, loop_name: str, kind: str, order: str) -> list[Document]:
        query = "SELECT version, saved_at, body FROM documents WHERE loop_name = %s AND kind = %s ORDER BY version "
        with self._reading() as connection:
            return [Document(*row) for row in self._execute(connection, query + order, loop_name, kind)]

    def names_with(self, kind: str) -> list[str]:
        """Return the names under which documents of a kind are saved, in alphabetical order."""
        query = "SELECT DISTINCT loop_name FROM documents WHERE kind = %s"
        with self._reading() as connection:
            return sorted(name for (name,) in self._execute(connection, query, kind))

    def versions_of(self, kind: str) -> dict[str, int]:
        """Return the newest version of the documents of a kind by name."""
        query = "SELECT loop_name, max(version) FROM documents WHERE kind = %s GROUP BY loop_name"
        with self._reading() as connection:
            return dict(self._execute(connection, query, kind))

    def save_model(
        self, loop_name: str, sequence: int, timestamp: int, body: bytes, *, keep: int | None = None
    ) -> None:
        """Save a model. Replaces all of the same or a greater sequence number: the learner has gone back before them.

        With `keep`, older models are deleted except the first one, the last `keep`, and one in each `SNAPSHOT_SPACING`
        sequence numbers.
        """
        if keep is not None:
            check_int("keep", keep, at_least=1)
        spaced_since = sequence - SNAPSHOT_SPACING * min(MAX_SNAPSHOTS, SNAPSHOT_BYTES // max(1, len(body)))
        with self._publishing("models") as connection:
            self._check_learner(connection)
            self._execute(
                connection,
                "INSERT INTO models VALUES (%s, %s, %s, %s) ON CONFLICT (loop_name, sequence)"
                " DO UPDATE SET saved_at = excluded.saved_at, body = excluded.body",
                *(loop_name, sequence, timestamp, body),
            )
            self._execute(connection, "DELETE FROM models WHERE loop_name = %s AND sequence > %s", loop_name, sequence)
            if keep is not None:
                self._execute(
                    connection,
                    "DELETE FROM models WHERE loop_name = %s"
                    " AND sequence > (SELECT min(sequence) FROM models WHERE loop_name = %s) AND sequence NOT IN"
                    " (SELECT sequence FROM models WHERE loop_name = %s ORDER BY sequence DESC LIMIT %s)"
                    " AND (sequence < %s OR sequence NOT IN"
                    " (SELECT min(sequence) FROM models WHERE loop_name = %s GROUP BY sequence / %s))",
                    *(loop_name, loop_name, loop_name, keep, spaced_since, loop_name, SNAPSHOT_SPACING),
                )

    def latest_model(self, loop_name: str) -> SavedModel | None:
        """Return the model with the greatest sequence number."""
        return self.model_at_most(loop_name, MAX_SEQUENCE)

    def latest_model_sequence(self, loop_name: str) -> int:
        """Return the sequence number of `latest_model`, 0 without one. Does not read the model."""
        query = "SELECT coalesce(max(sequence), 0) FROM models WHERE loop_name = %s"
        with self._reading() as connection:
            ((sequence,),) = self._execute(connection, query, loop_name)
        return int(sequence)

    def model_at_most(self, loop_name: str, sequence: int) -> SavedModel | None:
        """Return the model with the greatest sequence number that is at most `sequence`."""
        query = (
            "SELECT sequence, saved_at, body FROM models WHERE loop_name = %s AND sequence <= %s"
            " ORDER BY sequence DESC LIMIT 1"
        )
        with self._reading() as connection:
            return next((SavedModel(*row) for row in self._execute(connection, query, loop_name, sequence)), None)

    def read_lease(self) -> tuple[int, int]:
        """Return the term and the beat of the learner, see `LearnerLease`."""
        with self._reading() as connection:
            ((term, beat),) = self._execute(connection, "SELECT term, beat FROM coordination")
        return term, beat

    def change_lease(self, present: tuple[int, int], new: tuple[int, int]) -> bool:
        """Replace term and beat, unless they are not the present ones. Returns whether it did."""
        with self._changing("coordination") as connection:
            rows = self._execute(connection, "SELECT term, beat FROM coordination")
            if is_present := list(rows) == [present]:
                self._execute(connection, "UPDATE coordination SET term = %s, beat = %s", *new)
        return is_present

    def wait_for_change(self, seconds: float) -> bool:
        """Sleep, and return whether another process has saved a document or a model since the last call.

        Also reads `history`. True at the first call. False without an answer of the store: then a later call returns
        True. For one thread.
        """
        time.sleep(seconds)
        known = self._other_changes
        with suppress(StoreError), self._reading() as connection:
            query = f"SELECT changes, {self.history_expression} FROM coordination"
            ((changes, self.history),) = self._execute(connection, query)
            self._other_changes = changes - self._own_changes
        return self._other_changes != known
