"""Connections to PostgreSQL: session settings, pools, errors, the learner lock, and notifications."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool

from glbandits.errors import InvalidInput
from glbandits.serving.domain.errors import StoreError
from glbandits.serving.storage.postgres_schema import LEARNER_LOCK, SCHEMA_ID, Connection

CONNECT_TIMEOUT = 3
"""Seconds, for connecting and for waiting for a connection of a pool."""
RECONNECT_SECONDS = 1.0
"""Time between two attempts to connect for notifications and for the learner lock."""
LIBPQ_DEFAULTS: dict[str, str | int] = {
    "connect_timeout": CONNECT_TIMEOUT,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 2,
    "tcp_user_timeout": 5_000,
    "application_name": "glbandits",
}
"""Used where neither the address nor the environment says otherwise. A dead server is noticed after about 5 s."""
SESSION_SETTINGS = {
    "statement_timeout": "10s",
    "lock_timeout": "3s",
    "idle_in_transaction_session_timeout": "5s",
    "idle_session_timeout": "0",
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "2",
    "tcp_user_timeout": "5s",
    "client_connection_check_interval": "2s",
    # The plans of the few statements must not depend on statistics: a table that was empty a minute ago is not now.
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}
"""Used unless the address, the role or the database says otherwise. A dead machine frees its locks after about 5 s."""
APPLY_SETTINGS = """
    SELECT set_config(name, value, false)
    FROM unnest(%s::text[], %s::text[]) AS wanted (name, value) JOIN pg_settings USING (name)
    WHERE source IN ('default', 'configuration file', 'command line', 'environment variable')"""
KEEP_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
"""An acknowledged event must survive the end of the server, so a commit waits for the server's disk at least."""


def with_defaults(address: str) -> str:
    """Add `LIBPQ_DEFAULTS` to an address."""
    try:
        given = conninfo_to_dict(address)
    except psycopg.ProgrammingError as error:
        raise InvalidInput(f"store address must be like postgresql://user@host/database: {error}") from None
    environment = {"connect_timeout": "PGCONNECT_TIMEOUT", "application_name": "PGAPPNAME"}
    missing = {
        name: value
        for name, value in LIBPQ_DEFAULTS.items()
        if name not in given and environment.get(name, "") not in os.environ
    }
    return make_conninfo(address, **missing)


def display_name(address: str) -> str:
    """The address without a password, for messages."""
    given = conninfo_to_dict(address)
    place = f"{given.get('host', '')}/{given.get('dbname', '')}" if "service" not in given else str(given["service"])
    return f"postgresql://{place}"


def configure(connection: Connection) -> None:
    """Apply `SESSION_SETTINGS` to a new connection."""
    connection.execute(APPLY_SETTINGS, (list(SESSION_SETTINGS), list(SESSION_SETTINGS.values())))
    connection.execute(KEEP_DURABLE)
    connection.commit()


def configure_reader(connection: Connection) -> None:
    """Make all statements of a transaction see the same moment, and refuse writes."""
    configure(connection)
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True


def connect(address: str) -> Connection:
    """Open a connection outside the pools. It commits each statement."""
    connection = psycopg.connect(address)
    try:
        configure(connection)
        connection.autocommit = True
    except BaseException:
        connection.close()
        raise
    return connection


def open_pool(address: str, size: int, *, reader: bool = False) -> "ConnectionPool[Connection]":
    """Open a pool of at most `size` connections. It connects in the background."""
    return ConnectionPool(
        address,
        min_size=1,
        max_size=size,
        timeout=CONNECT_TIMEOUT,
        # The pool doubles the time between two attempts, so an attempt must end soon for the store to heal soon.
        reconnect_timeout=CONNECT_TIMEOUT,
        configure=configure_reader if reader else configure,
        num_workers=2,
        name="readers" if reader else "writers",
        open=True,
    )


@contextmanager
def named_errors(what: str) -> Iterator[None]:
    """Turn errors of the driver into ours."""
    try:
        yield
    except (UnicodeEncodeError, OverflowError, psycopg.DataError) as error:
        raise InvalidInput(f"names must be valid text, and whole numbers of 64 bits: {error}") from error
    except psycopg.Error as error:
        raise StoreError(f"{what}: {error}") from error


class DedicatedSession:
    """A connection that is kept open for a lock or for notifications, and opened again after it was lost.

    Args:
        address: with all parameters.
        statement: executed on every new connection.
    """

    def __init__(self, address: str, statement: str) -> None:
        self._address, self._statement = address, statement
        self._connection: Connection | None = None
        self._next_attempt = 0.0
        self._closed = False

    def get(self) -> Connection | None:
        """Return the connection, opened if necessary, or None if that fails or failed less than a second ago."""
        if self._connection is None and not self._closed and time.monotonic() >= self._next_attempt:
            self._next_attempt = time.monotonic() + RECONNECT_SECONDS
            with suppress(psycopg.Error):
                connection = connect(self._address)
                connection.execute(self._statement.encode())
                self._connection = connection
        return self._connection

    def discard(self) -> None:
        """Close the connection after an error. `get` opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Close the connection for good."""
        self._closed = True
        self.discard()


class PostgresLearnerLock:
    """See `LearnerLock`: an advisory lock of a session, which the server releases when the session ends."""

    def __init__(self, address: str) -> None:
        self._session = DedicatedSession(address, "SELECT")
        self._lock = Lock()
        self._held = False

    def held(self) -> bool:
        """Take the lock if it is free, and return whether this process holds it. False while the database is away."""
        with self._lock:
            connection = self._session.get()
            if connection is None:
                return False
            try:
                # A session that holds the lock only has to be alive. Taking it again would count twice.
                question = "true" if self._held else f"pg_try_advisory_lock({LEARNER_LOCK} + {SCHEMA_ID})"
                self._held = connection.execute(f"SELECT {question}".encode()).fetchall() == [(True,)]
            except psycopg.Error:
                self._held = False
                self._session.discard()
            return self._held

    def close(self) -> None:
        """Release the lock."""
        with self._lock:
            self._held = False
            self._session.close()


class ChangeListener:
    """Waits for notifications that other stores send.

    Args:
        address: with all parameters.
        channel: name of the channel.
        own: payload of the notifications that this store sends, which are ignored.
    """

    def __init__(self, address: str, channel: str, own: str) -> None:
        self._session = DedicatedSession(address, f"LISTEN {channel}")
        self._own = own
        self._lock = Lock()
        self._connected = True

    def wait(self, timeout: float) -> bool:
        """Block until a notification comes, at most `timeout` seconds. Sleeps while there is no connection.

        Returns True after a connection was lost and opened again, because notifications may have been missed.
        """
        deadline = time.monotonic() + timeout
        if not self._lock.acquire(timeout=timeout):
            return False
        try:
            changed = self._receive(deadline)
        finally:
            self._lock.release()
        if not changed:
            time.sleep(max(0.0, deadline - time.monotonic()))
        return changed

    def _receive(self, deadline: float) -> bool:
        connection = self._session.get()
        reconnected = connection is not None and not self._connected
        self._connected = connection is not None
        if connection is None or reconnected:
            return reconnected
        try:
            while (seconds := deadline - time.monotonic()) > 0:
                for notification in connection.notifies(timeout=seconds, stop_after=1):
                    if notification.payload != self._own:
                        return True
        except psycopg.Error:
            self._connected = False
            self._session.discard()
        return False

    def close(self) -> None:
        """Close the connection, after a `wait` that another thread has begun."""
        with self._lock:
            self._session.close()
