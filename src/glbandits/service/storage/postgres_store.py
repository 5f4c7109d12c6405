"""An event store in a PostgreSQL database, shared by any number of processes and machines."""

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from os import PathLike

import psycopg
from psycopg_pool import ConnectionPool

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.event_rules import check_events
from glbandits.service.domain.events import Event, Receipt
from glbandits.service.storage import postgres_log
from glbandits.service.storage.action_sets import RecentSets
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.learner_lease import LearnerLease
from glbandits.service.storage.postgres_connections import (
    as_store_errors,
    connect,
    display_name,
    open_pool,
    with_defaults,
)
from glbandits.service.storage.postgres_schema import HISTORY, Connection, prepare, stored_version
from glbandits.service.storage.time_limit import time_left

WRITERS, READERS = 2, 6
"""Connections of a process at most, besides one for notifications."""
OUTCOME_SECONDS = 8.0
"""Time to find out whether a batch was committed, if the connection was lost during the commit. It is longer than
`idle_in_transaction_session_timeout`, after which the server ends the transaction of a connection that broke."""
LEARNER = "SELECT FROM coordination FOR UPDATE"
LOCKS = {
    "loops": (postgres_log.LOCK, LEARNER),  # waits for batches that have read the old seal and are not committed
    "metric_seals": (postgres_log.LOCK, LEARNER),
    "models": (LEARNER,),
    "coordination": (LEARNER,),
    "decisions": (postgres_log.LOCK,),
    "event_counts": (postgres_log.LOCK,),
    "creation": ("LOCK TABLE documents IN SHARE ROW EXCLUSIVE MODE", postgres_log.LOCK),
    "documents": ("LOCK TABLE documents IN SHARE ROW EXCLUSIVE MODE",),  # no other process may write the same version
}
"""Statements that make other processes wait before they write to a table. Readers do not wait."""


class _UnknownOutcome(Exception):
    """An error during a commit, after which the batch may be written or not."""

    def __init__(self, batch: postgres_log.Batch) -> None:
        self.batch = batch


def version_at(address: str) -> int:
    """Return the version of the tables at an address, 0 if there are none, and change nothing. Raises StoreError."""
    name = display_name(address := with_defaults(address))
    with as_store_errors(f"{name} could not be read"), connect(address) as connection:
        return stored_version(connection, name)


class PostgresStore(EventStore):
    """An `EventStore` in PostgreSQL 14 or newer.

    An acknowledged event is on the disk of the database server. After a lost connection, methods raise StoreError until
    the store has connected again.

    Args:
        address: `postgresql://...` with any parameter of libpq. The tables are in the first schema of `search_path`.
    """

    history_expression = HISTORY

    def __init__(self, address: str) -> None:
        self._address = with_defaults(address)
        self._name = display_name(self._address)
        self._closed = False
        self.lease, self.recent_sets = LearnerLease(self), RecentSets()
        with as_store_errors(f"{self._name} could not be opened"), connect(self._address) as connection:
            prepare(connection, self._name)
        self._writers = open_pool(self._address, WRITERS)
        self._readers = open_pool(self._address, READERS, reader=True)
        self._executor = ThreadPoolExecutor(1, "postgres-writer")

    @contextmanager
    def _transaction(self, pool: "ConnectionPool[Connection]", verb: str) -> Iterator[Connection]:
        self._check_open()
        with as_store_errors(f"{self._name} could not be {verb}"), pool.connection() as connection:
            try:
                yield connection
            finally:
                if connection.closed:
                    pool.drain()  # the other connections are probably lost too

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the store {self._name} is closed; open it again")

    def _writing(self) -> AbstractContextManager[Connection]:
        """A connection in a write transaction."""
        return self._transaction(self._writers, "written")

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """A connection in a read transaction. All its statements see the same state of the store."""
        with self._transaction(self._readers, "read") as connection:
            if left := time_left():
                connection.execute(f"SET LOCAL statement_timeout = {math.ceil(1000 * left)}".encode())
            yield connection

    async def append(self, events: Sequence[Event]) -> list[Receipt]:
        """See `EventStore.append`. Commits in the store's thread."""
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._executor, self.append_blocking, events)

    def append_blocking(self, events: Sequence[Event]) -> list[Receipt]:
        """See `EventStore.append_blocking`.

        If the connection is lost during the commit, the method waits up to `OUTCOME_SECONDS` to read the outcome from
        the database. After that it raises a `StoreError` that says that the outcome is unknown. It never writes an
        event twice.
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
                batch = postgres_log.classify(connection, events, self.recent_sets)
                postgres_log.write(connection, batch)
        except psycopg.OperationalError as error:
            # A server that dies after the commit may send its error before libpq notices the end of the connection.
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

    @contextmanager
    def _changing(self, table: str, /) -> Iterator[Connection]:
        with self._writing() as connection:
            for statement in LOCKS[table]:
                connection.execute(statement.encode())
            yield connection

    def backup(self, path: str | PathLike[str]) -> None:
        """Raise InvalidInput: use the tools of PostgreSQL."""
        raise InvalidInput(f"{self._name} cannot be copied to the file {path}; use pg_dump, see docs/production.md")

    def maintain(self) -> None:
        """See `EventStore.maintain`. PostgreSQL needs no such work."""
        self._check_open()

    def check(self) -> list[str]:
        with self._reading() as connection:
            connection.execute("SET LOCAL statement_timeout = 0")
            connection.execute("SET LOCAL enable_seqscan = on")
            return self._inconsistencies(connection)

    def close(self) -> None:
        if not self._closed:
            self.lease.close()
            self._closed = True
            self._executor.shutdown()
            self._writers.close()
            self._readers.close()
