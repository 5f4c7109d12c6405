"""A store of events in a PostgreSQL database, shared by any number of processes and machines."""

import asyncio
import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from os import PathLike

import psycopg
from psycopg_pool import ConnectionPool

from glbandits.errors import InvalidInput, whole
from glbandits.serving.domain.errors import StoreError
from glbandits.serving.domain.event_rules import check_events
from glbandits.serving.domain.events import Event, Receipt, SettledDecision
from glbandits.serving.storage import postgres_log, postgres_retention
from glbandits.serving.storage.event_store import Document, LoggedDecision, LogSummary, ModelEntry, SavedModel
from glbandits.serving.storage.postgres_connections import (
    ChangeListener,
    PostgresLearnerLock,
    connect,
    display_name,
    named_errors,
    open_pool,
    with_defaults,
)
from glbandits.serving.storage.postgres_schema import SCHEMA_ID, Connection, prepare

WRITERS, READERS = 2, 4
"""Connections of a process at most, besides one for notifications and one for the learner lock."""
OUTCOME_SECONDS = 8.0
"""Time to find out whether a batch was committed, if the connection was lost during the commit. It is longer than
`idle_in_transaction_session_timeout`, after which the server ends the transaction of a connection that broke."""
MAX_SEQUENCE = 2**63 - 1


class _UnknownOutcome(Exception):
    """An error during a commit, after which the batch may be written or not."""

    def __init__(self, batch: postgres_log.Batch) -> None:
        self.batch = batch


class PostgresStore:
    """An `EventStore` in PostgreSQL 14 or newer.

    An acknowledged event is on the disk of the database server, whatever `durability` is. Errors of the driver become
    `StoreError`; the store connects again by itself.

    Args:
        address: `postgresql://...` with any parameter of libpq. The tables are in the first schema of `search_path`.
    """

    def __init__(self, address: str) -> None:
        self._address = with_defaults(address)
        self._name = display_name(self._address)
        self._id = secrets.token_hex(8)
        self._closed = False
        with named_errors(f"{self._name} could not be opened"), connect(self._address) as connection:
            prepare(connection, self._name)
            self._channel = f"glbandits_{connection.execute(f'SELECT {SCHEMA_ID}').fetchall()[0][0]}"
        self._writers = open_pool(self._address, WRITERS)
        self._readers = open_pool(self._address, READERS, reader=True)
        self._listener = ChangeListener(self._address, self._channel, self._id)
        self._executor = ThreadPoolExecutor(1, "postgres-writer")

    @contextmanager
    def _transaction(self, pool: "ConnectionPool[Connection]", verb: str) -> Iterator[Connection]:
        self._check_open()
        with named_errors(f"{self._name} could not be {verb}"), pool.connection() as connection:
            try:
                yield connection
            finally:
                if connection.closed:
                    pool.drain()  # the other connections are lost too, unless this one was closed on purpose

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the store {self._name} is closed; open it again")

    def _writing(self) -> AbstractContextManager[Connection]:
        """A transaction that writes: all of it, or nothing."""
        return self._transaction(self._writers, "written")

    def _reading(self) -> AbstractContextManager[Connection]:
        """A transaction that reads. All its statements see the same moment."""
        return self._transaction(self._readers, "read")

    async def append(self, events: Sequence[Event]) -> list[Receipt]:
        """See `EventStore.append`. Commits in the store's thread."""
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._executor, self.append_blocking, events)

    def append_blocking(self, events: Sequence[Event]) -> list[Receipt]:
        """See `EventStore.append_blocking`.

        If the connection is lost during the commit, this waits up to `OUTCOME_SECONDS` for the database to tell the
        outcome. After that it raises a `StoreError` that says so. It never writes an event a second time.
        """
        check_events(events)
        if not events:
            return []
        try:
            with self._writing() as connection:
                return self._append(connection, events)
        except _UnknownOutcome as lost:
            if self._was_written(lost.batch):
                return lost.batch.receipts
            raise StoreError(f"{self._name} could not be written: {lost.__cause__}") from lost.__cause__

    def _append(self, connection: Connection, events: Sequence[Event]) -> list[Receipt]:
        batch = None
        try:
            with connection.pipeline():
                batch = postgres_log.classify(connection, events)
                postgres_log.write(connection, batch)
        except psycopg.OperationalError as error:
            # A server that dies after the commit may report that before libpq notices the end of the connection.
            if batch is not None:
                raise _UnknownOutcome(batch) from error
            raise
        return batch.receipts

    def _was_written(self, batch: postgres_log.Batch) -> bool:
        deadline = time.monotonic() + OUTCOME_SECONDS
        while time.monotonic() < deadline:
            with suppress(StoreError), self._writing() as connection:
                return postgres_log.was_written(connection, batch)
            time.sleep(0.1)
        raise StoreError(
            f"{self._name} was lost during a commit. It is unknown whether {len(batch.receipts)} events were written"
        )

    def seal(
        self, loop: str, after: int, now: int, limit: int, *, made_before: int = 0, logged_through: int = 0
    ) -> int:
        """See `EventStore.seal`."""
        whole("limit", limit, at_least=1)
        with self._reading() as connection:
            last = postgres_log.last_closable(connection, loop, after, now, limit, made_before, logged_through)
        if last:
            with self._writing() as connection:
                # No batch may be in progress that has read the old seal and has not been committed.
                postgres_log.lock_log(connection)
                connection.execute(
                    "INSERT INTO loops AS l VALUES (%s, %s) ON CONFLICT (loop_name)"
                    " DO UPDATE SET sealed_through = greatest(l.sealed_through, excluded.sealed_through)",
                    (loop, last),
                )
        return last

    def settled(self, loop: str, after: int, now: int, limit: int) -> list[SettledDecision]:
        """See `EventStore.settled`."""
        with self._reading() as connection:
            return postgres_log.settled(connection, loop, after, now, whole("limit", limit, at_least=1))

    def decision(self, loop: str, event_id: str, slot: str = "") -> LoggedDecision | None:
        """See `EventStore.decision`."""
        with self._reading() as connection:
            found = postgres_log.look_up(connection, postgres_log.find(connection, loop, event_id, slot))
        return found[0] if found else None

    def decisions_of(self, loop: str, event_id: str) -> list[LoggedDecision]:
        """See `EventStore.decisions_of`."""
        with self._reading() as connection:
            return postgres_log.look_up(connection, postgres_log.find(connection, loop, event_id))

    def search(self, loop: str, prefix: str, limit: int, before: int | None = None) -> list[LoggedDecision]:
        """See `EventStore.search`."""
        end = MAX_SEQUENCE if before is None else before
        with self._reading() as connection:
            numbers = postgres_log.newest(connection, loop, prefix, whole("limit", limit, at_least=1), end)
            return postgres_log.look_up(connection, numbers)

    def summary(self, loop: str) -> LogSummary:
        """See `EventStore.summary`."""
        with self._reading() as connection:
            return postgres_log.summary(connection, loop)

    def last_sequence(self, loop: str, *, before: int | None = None, up_to: int | None = None) -> int:
        """See `EventStore.last_sequence`."""
        with self._reading() as connection:
            return postgres_log.last_sequence(connection, loop, before, MAX_SEQUENCE if up_to is None else up_to)

    def delete_log(self, loop: str, up_to: int | None = None, *, anew: bool = False) -> int:
        """See `EventStore.delete_log`. Drops partitions that have only decisions to be deleted."""
        last = self.last_sequence(loop) if up_to is None else up_to
        if anew:
            with self._writing() as connection:
                postgres_log.lock_log(connection)
                connection.execute("DELETE FROM event_counts WHERE loop_name = %s", (loop,))
        return postgres_retention.delete_log(self._writing, loop, last)

    def save_document(self, loop: str, kind: str, timestamp: int, body: bytes) -> int:
        """See `EventStore.save_document`."""
        with self._writing() as connection:
            _lock_documents(connection)
            version = _newest_version(connection, loop, kind) + 1
            connection.execute(
                "INSERT INTO documents VALUES (%s, %s, %s, %s, %s)", (loop, kind, version, timestamp, body)
            )
            self._notify(connection)
        return version

    def save_documents(
        self,
        loop: str,
        timestamp: int,
        bodies: Mapping[str, bytes],
        *,
        after: Mapping[str, int],
        alone: Collection[str] = (),
    ) -> bool:
        """See `EventStore.save_documents`."""
        with self._writing() as connection:
            _lock_documents(connection)
            if any(_newest_version(connection, loop, kind) != version for kind, version in after.items()):
                return False
            for kind, body in bodies.items():
                version = _newest_version(connection, loop, kind) + 1
                if kind in alone:
                    connection.execute("DELETE FROM documents WHERE loop_name = %s AND kind = %s", (loop, kind))
                connection.execute(
                    "INSERT INTO documents VALUES (%s, %s, %s, %s, %s)", (loop, kind, version, timestamp, body)
                )
            self._notify(connection)
        return True

    def documents(self, loop: str, kind: str) -> list[Document]:
        """See `EventStore.documents`."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT version, saved_at, body FROM documents WHERE loop_name = %s AND kind = %s ORDER BY version",
                (loop, kind),
            )
            return [Document(*row) for row in rows]

    def latest_document(self, loop: str, kind: str) -> Document | None:
        """See `EventStore.latest_document`."""
        with self._reading() as connection:
            row = connection.execute(
                "SELECT version, saved_at, body FROM documents WHERE loop_name = %s AND kind = %s"
                " ORDER BY version DESC LIMIT 1",
                (loop, kind),
            ).fetchone()
        return None if row is None else Document(*row)

    def save_model(self, loop: str, sequence: int, timestamp: int, body: bytes, *, keep: int | None = None) -> None:
        """See `EventStore.save_model`."""
        if keep is not None:
            whole("keep", keep, at_least=1)
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO models VALUES (%s, %s, %s, %s) ON CONFLICT (loop_name, sequence)"
                " DO UPDATE SET saved_at = excluded.saved_at, body = excluded.body",
                (loop, sequence, timestamp, body),
            )
            if keep is not None:
                connection.execute(
                    "DELETE FROM models WHERE loop_name = %(loop)s"
                    " AND sequence > (SELECT min(sequence) FROM models WHERE loop_name = %(loop)s)"
                    " AND sequence NOT IN (SELECT sequence FROM models WHERE loop_name = %(loop)s"
                    " ORDER BY sequence DESC LIMIT %(keep)s)",
                    {"loop": loop, "keep": keep},
                )
            self._notify(connection)

    def models(self, loop: str) -> list[ModelEntry]:
        """See `EventStore.models`."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT sequence, saved_at, length(body) FROM models WHERE loop_name = %s ORDER BY sequence", (loop,)
            )
            return [ModelEntry(*row) for row in rows]

    def latest_model(self, loop: str) -> SavedModel | None:
        """See `EventStore.latest_model`."""
        return self.model_at_most(loop, MAX_SEQUENCE)

    def model_at_most(self, loop: str, sequence: int) -> SavedModel | None:
        """See `EventStore.model_at_most`."""
        with self._reading() as connection:
            row = connection.execute(
                "SELECT sequence, saved_at, body FROM models WHERE loop_name = %s AND sequence <= %s"
                " ORDER BY sequence DESC LIMIT 1",
                (loop, sequence),
            ).fetchone()
        return None if row is None else SavedModel(*row)

    def learner_lock(self) -> PostgresLearnerLock:
        """See `EventStore.learner_lock`."""
        return PostgresLearnerLock(self._address)

    def _notify(self, connection: Connection) -> None:
        connection.execute("SELECT pg_notify(%s, %s)", (self._channel, self._id))

    def wait_for_change(self, timeout: float) -> bool:
        """See `EventStore.wait_for_change`. An attempt to connect again may take `CONNECT_TIMEOUT` longer."""
        return self._listener.wait(timeout)

    def backup(self, path: str | PathLike[str]) -> None:
        """Refuse: PostgreSQL has its own tools."""
        raise InvalidInput(f"{self._name} cannot be copied to the file {path}; use pg_dump, see docs/postgres.md")

    def tidy(self) -> None:
        """See `EventStore.tidy`. PostgreSQL does this by itself."""
        self._check_open()

    def check(self) -> list[str]:
        """See `EventStore.check`."""
        with self._reading() as connection:
            return postgres_log.check(connection)

    def close(self) -> None:
        """See `EventStore.close`."""
        if not self._closed:
            self._closed = True
            self._executor.shutdown()
            self._listener.close()
            self._writers.close()
            self._readers.close()


def _lock_documents(connection: Connection) -> None:
    """Make other processes wait until the transaction ends before they choose a version. Readers go on."""
    connection.execute("LOCK TABLE documents IN SHARE ROW EXCLUSIVE MODE")


def _newest_version(connection: Connection, loop: str, kind: str) -> int:
    newest = "SELECT coalesce(max(version), 0) FROM documents WHERE loop_name = %s AND kind = %s"
    return int(connection.execute(newest, (loop, kind)).fetchall()[0][0])
