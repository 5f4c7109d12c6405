"""A store of events in one SQLite file."""

import asyncio
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cache
from os import PathLike
from pathlib import Path
from threading import Lock

from glbandits.errors import InvalidInput, lookup
from glbandits.serving.domain.errors import StoreError
from glbandits.serving.domain.event_rules import check_events, size_of
from glbandits.serving.domain.events import Event, Receipt
from glbandits.serving.storage import sqlite_log
from glbandits.serving.storage.catalogue_store import Rows
from glbandits.serving.storage.event_store import EventStore
from glbandits.serving.storage.learner_lock import FileLearnerLock
from glbandits.serving.storage.sqlite_schema import prepare

DURABILITIES = {"process": "NORMAL", "power": "FULL"}
"""What survives, and SQLite's word for it: `process` hands a commit to the system, `power` waits for the disk too."""
WAIT_FOR_LOCK = 5_000
"""Milliseconds that a write waits for another process."""
PAGES_BEFORE_RESTART, PAGES_AT_MOST = 16_000, 64_000
"""Of 4096 bytes in the write-ahead log: with the first `tidy` has it begin again, with the second a commit."""
TIMES_BEFORE_RESTART = 2
"""That `tidy` brings to its place what was written meanwhile. The wait was then 10 ms; with 4 times, 7 ms."""
QUICK = 0.02
"""Seconds. After a slower commit the store's thread writes, until one of its commits is quicker."""
INLINE_BYTES, INLINE_EVENTS = 1024 * 1024, 256
"""The largest batch that is written in the event loop."""
DELETED_AT_ONCE = 1_000
"""Decisions that a transaction deletes: writers wait for no more than these."""


TRANSLATIONS = {
    "%s": "?",
    "loop_name": "loop",
    "sequence": "number",
    "decided_at": "at",
    "saved_at": "at",
    "sealed_through": "number",
    "loops": "seals",
}
"""From statements of `EventStore` to SQLite."""


class SqliteStore(EventStore):
    """An `EventStore` in a file, with one connection that writes and others that read.

    `durability` says what a kept event outlives: "process" the end of the process by any signal, "power" also a power
    failure, at the price of a wait for the disk with each commit.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> store = SqliteStore(Path(folder.name) / "events.db")
    >>> store.save_document("loop", "configuration", timestamp=0, body=b"{}")
    >>> store.latest_document("loop", "configuration")
    Document(version=1, timestamp=0, body=b'{}')
    >>> store.close(), folder.cleanup()
    (None, None)
    """

    def __init__(self, path: str | PathLike[str], *, durability: str = "process") -> None:
        self._synchronous = lookup("durability", durability, DURABILITIES)
        self._path = Path(path)
        self._write_lock = Lock()
        self._pool_lock = Lock()
        self._readers: list[sqlite3.Connection] = []
        self._closed = False
        self._executor = ThreadPoolExecutor(1, "sqlite-writer")
        self._was_quick = True
        """Whether the last commit took less than `QUICK` seconds."""
        with _named_errors(f"{self._path} could not be opened"):
            # Who may not read the keys and the log must not: SQLite gives its other files the same rights. A file that
            # is there is left alone: to close it would end the locks that another store of this process has on it.
            if not self._path.exists():
                os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            self._writer = self._connect()
            self._file = self._file_id()
            """Of the file that is open."""
            try:
                prepare(self._writer, self._path)
                _use_wal(self._writer)
                self._inline = self._connect(inline=True) if durability == "process" else None
                """Commits in the event loop. It never waits for a lock."""
            except BaseException:
                self._writer.close()
                raise

    def _connect(self, *, inline: bool = False) -> sqlite3.Connection:
        """Open a connection. An inline one neither waits for other writers nor runs checkpoints."""
        connection = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode=rw",  # never creates a file in place of a deleted one
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=sqlite_log.STATEMENTS,
        )
        connection.execute(f"PRAGMA busy_timeout = {WAIT_FOR_LOCK}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {0 if inline else PAGES_AT_MOST}")
        # This reads the file, so it may wait for another process that opens or closes the store.
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        if inline:
            connection.execute("PRAGMA busy_timeout = 0")
        return connection

    @contextmanager
    def _changing(self, _table: str, /) -> Iterator[sqlite3.Connection]:
        with self._write_lock, self._transaction(self._writer) as connection:  # one writer for all tables
            yield connection

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        self._check_open()
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            self._check_file()
            connection.execute("COMMIT")
        except BaseException as error:
            with _named_errors(f"{self._path} could not be written"):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise error

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that nobody else has meanwhile, in a transaction: all its reads see the same moment."""
        with _named_errors(f"{self._path} could not be read"):
            with self._pool_lock:
                self._check_open()
                self._check_file()
                connection = self._readers.pop() if self._readers else self._connect()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                with self._pool_lock:
                    if self._closed:
                        connection.close()
                    else:
                        self._readers.append(connection)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the store {self._path} is closed; open it again")

    def _check_file(self) -> None:
        """Raise a StoreError if the path no longer leads to the file that is open."""
        if self._file_id() != self._file:
            raise StoreError(
                f"{self._path} was deleted or replaced while in use. Nothing is written until the file is back in its "
                "place, or until a restart opens the new file."
            )

    def _file_id(self) -> tuple[int, int] | None:
        """Device and inode of the file at the path; None if there is none."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    async def append(self, events: Sequence[Event]) -> list[Receipt]:
        """See `EventStore.append`. Commits in the event loop if that is quick, else in the store's thread.

        A commit with durability "process" takes about 20 us, less than handing it to a thread. Cancelling the call
        does not undo a commit that the thread has begun.
        """
        if self._inline is not None and self._was_quick and _is_small(events):
            receipts = self._append_inline(self._inline, events)
            if receipts is not None:
                return receipts
        self._check_open()
        began = time.perf_counter()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, self.append_blocking, events)
        finally:
            self._was_quick = time.perf_counter() - began < QUICK

    def append_blocking(self, events: Sequence[Event]) -> list[Receipt]:
        """See `EventStore.append_blocking`."""
        with self._write_lock:
            return self._append(self._writer, events)

    def _append_inline(self, connection: sqlite3.Connection, events: Sequence[Event]) -> list[Receipt] | None:
        """Append without waiting for a lock. Returns None and writes nothing if another writer holds one."""
        if not self._write_lock.acquire(blocking=False):
            return None
        began = time.perf_counter()
        try:
            return self._append(connection, events)
        except StoreError as error:
            if getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:  # the primary code
                return None
            raise
        finally:
            self._write_lock.release()
            self._was_quick = time.perf_counter() - began < QUICK

    def _append(self, connection: sqlite3.Connection, events: Sequence[Event]) -> list[Receipt]:
        check_events(events)
        try:
            with self._transaction(connection):
                return sqlite_log.append(connection, events, trust=True)
        except StoreError as error:
            if not isinstance(error.__cause__, sqlite3.IntegrityError):
                raise
        with self._transaction(connection):
            return sqlite_log.append(connection, events, trust=False)

    def _execute(self, connection: sqlite3.Connection, statement: str, *parameters: object) -> sqlite3.Cursor:
        return connection.execute(_translated(statement), parameters)

    def _entries(self, connection: sqlite3.Connection, loop: str, sequences: Sequence[int]) -> tuple[Rows, Rows, Rows]:
        return sqlite_log.entries(connection, loop, sequences)

    def _delete_through(self, loop: str, last: int) -> int:
        deleted = 0
        while True:
            with self._changing("decisions") as connection:
                some = sqlite_log.delete_oldest(connection, loop, last, DELETED_AT_ONCE)
            if not some:
                return deleted
            deleted += some

    def learner_lock(self) -> FileLearnerLock:
        """See `EventStore.learner_lock`."""
        return FileLearnerLock(self._path)

    def wait_for_change(self, timeout: float) -> bool:
        """See `EventStore.wait_for_change`. SQLite has no notifications between processes."""
        time.sleep(timeout)
        return False

    def backup(self, path: str | PathLike[str]) -> None:
        """See `EventStore.backup`."""
        target = Path(path)
        if target.exists():
            raise InvalidInput(f"a backup must be a new file; {target} is there already")
        beside = target.parent / f".glbandits-{secrets.token_hex(8)}.tmp"
        try:
            with _named_errors(f"{self._path} could not be copied to {target}"):
                os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                with self._reading() as connection, closing(sqlite3.connect(beside)) as copy:
                    connection.execute("ROLLBACK")  # The copying is a transaction of its own.
                    connection.backup(copy)
                    # One file, with nothing beside it that could be left behind.
                    copy.execute("PRAGMA journal_mode = DELETE").fetchone()
                with beside.open("rb") as file:
                    os.fsync(file.fileno())
                beside.rename(target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise

    def tidy(self) -> None:
        """See `EventStore.tidy`. It brings what is in the write-ahead log to its place, which waits for the disk."""
        with self._reading() as connection:
            connection.execute("ROLLBACK")  # It is not done inside a transaction.
            if _bring_to_its_place(connection) >= PAGES_BEFORE_RESTART:
                # The log begins again only if all of it is in its place, so for the last bit writers wait. Each time
                # before brings what was written during the one before it: less and less.
                for _ in range(TIMES_BEFORE_RESTART):
                    _bring_to_its_place(connection)
                with self._write_lock:
                    _bring_to_its_place(connection)

    def check(self) -> list[str]:
        """See `EventStore.check`."""
        with self._reading() as connection:
            said = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
            lost = [f"{table} of no decision" for table, *_ in connection.execute("PRAGMA foreign_key_check")]
        return [line for line in said if line != "ok"] + lost

    def close(self) -> None:
        """See `EventStore.close`. A file that was deleted or replaced is left as it is."""
        with self._write_lock, self._pool_lock, _named_errors(f"{self._path} could not be closed"):
            if self._closed:
                return
            self._closed = True
            self._executor.shutdown(wait=False)
            for other in (*self._readers, *([self._inline] if self._inline else [])):
                other.close()
            try:
                if self._file_id() == self._file:
                    self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                self._writer.close()


def _is_small(events: Sequence[Event]) -> bool:
    return len(events) <= INLINE_EVENTS and sum(map(size_of, events)) <= INLINE_BYTES


def _bring_to_its_place(connection: sqlite3.Connection) -> int:
    """Copy the write-ahead log to the file, as far as nobody must wait for it. The pages that the log has."""
    return int(connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1])


@cache
def _translated(statement: str) -> str:
    """A statement of `EventStore` in SQLite's dialect, with the names that its tables have."""
    return re.sub("|".join(TRANSLATIONS), lambda match: TRANSLATIONS[match[0]], statement)


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log. SQLite itself does not wait here while another process opens the file too."""
    deadline = time.monotonic() + WAIT_FOR_LOCK / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@contextmanager
def _named_errors(what: str) -> Iterator[None]:
    """SQLite's and the system's errors as ours."""
    try:
        yield
    except (UnicodeEncodeError, OverflowError) as error:
        raise InvalidInput(f"names must be valid text, and whole numbers of 64 bits: {error}") from error
    except (sqlite3.Error, OSError) as error:
        damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT
        advice = ". The file is damaged: restore a backup, or try the .recover command of sqlite3" if damaged else ""
        raise StoreError(f"{what}: {error}{advice}") from error
