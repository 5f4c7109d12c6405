"""An event store in one SQLite file."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from threading import Lock

from glbandits.common.errors import InvalidInput, lookup
from glbandits.service.domain.errors import ReadTimeout, StoreError
from glbandits.service.domain.event_rules import check_events, size_of
from glbandits.service.domain.events import Event, Receipt
from glbandits.service.storage import sqlite_log
from glbandits.service.storage.action_sets import RecentSets
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.learner_lease import LearnerLease
from glbandits.service.storage.sqlite_schema import prepare, write_copy
from glbandits.service.storage.time_limit import time_left

DURABILITIES = {"process": "NORMAL", "power": "FULL"}
"""Values of `durability`, and SQLite's setting `synchronous` for each: `process` hands a commit to the operating
system, `power` also waits for the disk."""
LOCK_TIMEOUT = 5_000
"""Milliseconds that a write waits for another process."""
RESTART_PAGES, MAX_PAGES = 16_000, 64_000
"""Sizes of the write-ahead log, in pages of 4096 bytes. Above the first, `maintain` makes SQLite restart the log from
its beginning. Above the second, a commit runs a checkpoint."""
CHECKPOINTS_BEFORE_RESTART = 2
"""Checkpoints that `maintain` runs before the one for which writers wait. Writers waited 10 ms with 2, 7 ms with 4."""
FAST_COMMIT = 0.02
"""Seconds. After a slower commit, the store's thread writes until one of its commits is faster."""
OPERATIONS_BETWEEN_LOOKS = 10_000
"""Operations of SQLite after which a read with a time limit looks at the clock: less than 1 ms."""
INLINE_BYTES, INLINE_EVENTS = 1024 * 1024, 256
"""The largest batch that is written in the event loop."""


class SqliteStore(EventStore):
    """An `EventStore` in a file, with one connection that writes and others that read.

    `durability` says what an acknowledged event survives: with "process" the end of the process by any signal, with
    "power" also a power failure, but then each commit waits for the disk.

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

    parameter_mark = "?"

    def __init__(self, path: str | PathLike[str], *, durability: str = "process") -> None:
        self._synchronous = lookup("durability", durability, DURABILITIES)
        self._path = Path(path)
        self._write_lock = Lock()
        self._pool_lock = Lock()
        self._readers: list[sqlite3.Connection] = []
        self.recent_sets = RecentSets()
        self._closed = False
        self._executor = ThreadPoolExecutor(1, "sqlite-writer")
        self._was_fast = True
        """Whether the last commit took less than `FAST_COMMIT` seconds."""
        with _as_store_errors(f"{self._path} could not be opened"):
            # Create the file with mode 0600; SQLite gives its other files the same mode. Do not open an existing file:
            # closing it would release the locks that another store of this process has on it.
            if not self._path.exists():
                os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            self._writer = self._connect()
            self._file = self._present_file()
            """Device and inode of the open file."""
            self.lease = LearnerLease(self)
            try:
                prepare(self._writer, self._path)
                _use_wal(self._writer)
                self._inline = self._connect(inline=True) if durability == "process" else None
                """The connection for commits in the event loop. It never waits for a lock."""
            except BaseException:
                self._writer.close()
                raise

    def _connect(self, *, inline: bool = False) -> sqlite3.Connection:
        """Open a connection. An inline one neither waits for other writers nor runs checkpoints."""
        connection = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode=rw",  # does not create a file if it was deleted
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=sqlite_log.STATEMENT_CACHE_SIZE,
        )
        try:
            connection.execute(f"PRAGMA busy_timeout = {LOCK_TIMEOUT}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {0 if inline else MAX_PAGES}")
            # The log grows while a long transaction reads, such as a backup. Afterwards the file shrinks to this.
            connection.execute(f"PRAGMA journal_size_limit = {4096 * MAX_PAGES}")
            # This reads the file, so it may wait for another process that opens or closes the store.
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            if inline:
                connection.execute("PRAGMA busy_timeout = 0")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _changing(self, _table: str, /) -> Iterator[sqlite3.Connection]:
        with self._write_lock, self._transaction(self._writer) as connection:  # one connection writes to all tables
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
            with _as_store_errors(f"{self._path} could not be written"):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise error

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for this thread alone, in a transaction that sees one state of the store."""
        with _as_store_errors(f"{self._path} could not be read"):
            with self._pool_lock:
                self._check_open()
                self._check_file()
                connection = self._readers.pop() if self._readers else self._connect()
            try:
                if left := time_left():
                    until = time.monotonic() + left
                    connection.set_progress_handler(lambda: time.monotonic() > until, OPERATIONS_BETWEEN_LOOKS)
                connection.execute("BEGIN")
                yield connection
            finally:
                connection.set_progress_handler(None, 0)
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
        """Raise a StoreError if the path no longer leads to the open file."""
        if self._present_file() != self._file:
            raise StoreError(
                f"{self._path} was deleted or replaced while in use. Nothing is written until the file is back in its "
                "place, or until a restart opens the new file."
            )

    def _present_file(self) -> tuple[int, int] | None:
        """Device and inode of the file at the path; None if there is none."""
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    async def append(self, events: Sequence[Event]) -> list[Receipt]:
        """See `EventStore.append`.

        Commits in the event loop if commits are fast, else in the store's thread. A commit with durability "process"
        takes about 20 us, less than handing it to a thread. Cancelling the call does not undo a commit that the thread
        has started.
        """
        if self._inline is not None and self._was_fast and _is_small(events):
            receipts = self._append_inline(self._inline, events)
            if receipts is not None:
                return receipts
        self._check_open()
        began = time.perf_counter()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, self.append_blocking, events)
        finally:
            self._was_fast = time.perf_counter() - began < FAST_COMMIT

    def append_blocking(self, events: Sequence[Event]) -> list[Receipt]:
        with self._write_lock:
            return self._append(self._writer, events)

    def _append_inline(self, connection: sqlite3.Connection, events: Sequence[Event]) -> list[Receipt] | None:
        """Append without waiting for a lock.

        Returns None and writes nothing if another writer holds one.
        """
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
            self._was_fast = time.perf_counter() - began < FAST_COMMIT

    def _append(self, connection: sqlite3.Connection, events: Sequence[Event]) -> list[Receipt]:
        check_events(events)
        with self._transaction(connection):
            return sqlite_log.append(connection, events, self.recent_sets)

    def backup(self, path: str | PathLike[str]) -> None:
        target = Path(path)
        if target.exists():
            raise InvalidInput(f"a backup must be a new file; {target} exists already")
        with self._reading() as connection, _as_store_errors(f"{self._path} could not be copied to {target}"):
            connection.execute("ROLLBACK")  # `backup` starts a transaction itself
            write_copy(connection, target)

    def maintain(self) -> None:
        """See `EventStore.maintain`.

        Runs a checkpoint of the write-ahead log, which waits for the disk.
        """
        self._check_file()
        with self._reading() as connection:
            connection.execute("ROLLBACK")  # a checkpoint needs to be outside of a transaction
            if _checkpoint(connection) >= RESTART_PAGES:
                # The log restarts only if a checkpoint has copied all of it, so writers must wait for the last one. The
                # checkpoints before copy what was written meanwhile, which is less each time.
                for _ in range(CHECKPOINTS_BEFORE_RESTART):
                    _checkpoint(connection)
                with self._write_lock:
                    _checkpoint(connection)

    def check(self) -> list[str]:
        with self._reading() as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        messages = list[str]()
        for table in ("sqlite_schema", *tables):  # a transaction for each: the write-ahead log can restart in between
            with self._reading() as connection:
                messages += [message for (message,) in connection.execute(f"PRAGMA integrity_check('{table}')")]
        with self._reading() as connection:
            messages += self._inconsistencies(connection)
        return [message for message in messages if message != "ok"]

    def close(self) -> None:
        """See `EventStore.close`.

        The last process that closes the file makes SQLite copy the write-ahead log into it. Others do not, because they
        would wait for readers, and writers for them.
        """
        if not self._closed:
            self.lease.close()
        with self._write_lock, self._pool_lock, _as_store_errors(f"{self._path} could not be closed"):
            if self._closed:
                return
            self._closed = True
            self._executor.shutdown(wait=False)
            for connection in (*self._readers, *([self._inline] if self._inline else []), self._writer):
                connection.close()


def _is_small(events: Sequence[Event]) -> bool:
    return len(events) <= INLINE_EVENTS and sum(map(size_of, events)) <= INLINE_BYTES


def _checkpoint(connection: sqlite3.Connection) -> int:
    """Run a passive checkpoint, which makes no other connection wait.

    Returns the pages of the write-ahead log.
    """
    return int(connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1])


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log.

    Retries, because SQLite does not wait here for another process that opens the file.
    """
    deadline = time.monotonic() + LOCK_TIMEOUT / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


ADVICE = {
    sqlite3.SQLITE_CORRUPT: ". The file is damaged: restore a backup, or try the .recover command of sqlite3",
    sqlite3.SQLITE_BUSY: ". Another process has locked it, such as a server that migrates it: try again later",
}
"""What to do after an error of SQLite, by its code."""


@contextmanager
def _as_store_errors(what: str) -> Iterator[None]:
    """Convert errors of SQLite and the system to StoreError, and invalid names to InvalidInput.

    `what` is the beginning of the message.
    """
    try:
        yield
    except (UnicodeEncodeError, OverflowError) as error:
        raise InvalidInput(f"names must be valid Unicode text, and integers must fit 64 bits: {error}") from error
    except (sqlite3.Error, OSError) as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
            raise ReadTimeout(f"{what}: it took too long") from error
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise StoreError(f"{what}: {error}{ADVICE.get(code, '')}") from error
