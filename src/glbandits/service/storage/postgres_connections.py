"""Connections to PostgreSQL: settings, pools, errors."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo, timeout_from_conninfo
from psycopg_pool import ConnectionPool

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.errors import ReadTimeout, StoreError
from glbandits.service.storage.postgres_schema import Connection

CONNECT_TIMEOUT = 3
"""Seconds, for connecting and for waiting for a connection of a pool, unless the address sets `connect_timeout`."""
LIBPQ_DEFAULTS: dict[str, str | int] = {
    "connect_timeout": CONNECT_TIMEOUT,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 2,
    "tcp_user_timeout": 5_000,
    "application_name": "glbandits",
}
"""Used unless the address or the environment sets them. A dead server is noticed after about 5 s."""
SESSION_SETTINGS = {
    "synchronous_commit": "on",
    "client_encoding": "UTF8",
    "extra_float_digits": "1",  # all digits of a reward
    "statement_timeout": "10s",
    "lock_timeout": "3s",
    "idle_in_transaction_session_timeout": "5s",
    "idle_session_timeout": "0",
    "transaction_timeout": "0",
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "2",
    "tcp_user_timeout": "5s",
    "client_connection_check_interval": "2s",
    # Query plans must not depend on statistics, which are wrong for a table that was empty a minute ago.
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}
"""Used unless the address sets them. They override the defaults of the role and the database. Locks of a dead machine
are released after about 5 s."""
APPLY_SETTINGS = """
    SELECT set_config(name, value, false)
    FROM unnest(%s::text[], %s::text[]) AS wanted (name, value) JOIN pg_settings USING (name)
    WHERE CASE name WHEN 'synchronous_commit' THEN setting = 'off' ELSE source <> 'client' END"""
"""An acknowledged event must survive the end of the server, so a commit waits for the server's disk at least."""


def with_defaults(address: str) -> str:
    """Add `LIBPQ_DEFAULTS` to an address."""
    try:
        given = conninfo_to_dict(address)
        timeout_from_conninfo(given)
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
    """Return the address without user and password, for messages."""
    given = conninfo_to_dict(address)
    place = f"{given.get('host', '')}/{given.get('dbname', '')}" if "service" not in given else str(given["service"])
    return f"postgresql://{place}"


def configure(connection: Connection) -> None:
    """Apply `SESSION_SETTINGS` to a new connection, for transactions that write.

    The isolation level is not left to the defaults of the role: a transaction that waits for the append lock must then
    see what the one before it has written.
    """
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    connection.read_only = False
    connection.execute(APPLY_SETTINGS, (list(SESSION_SETTINGS), list(SESSION_SETTINGS.values())))
    connection.commit()


def configure_reader(connection: Connection) -> None:
    """Configure a connection for read transactions that see one state of the database."""
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
    timeout = timeout_from_conninfo(conninfo_to_dict(address))
    return ConnectionPool(
        address,
        min_size=1,
        max_size=size,
        timeout=timeout,
        # The pool doubles the time between two attempts. Short attempts let the store recover soon.
        reconnect_timeout=timeout,
        configure=configure_reader if reader else configure,
        num_workers=2,
        name="readers" if reader else "writers",
        open=True,
    )


@contextmanager
def as_store_errors(what: str) -> Iterator[None]:
    """Convert errors of the driver to StoreError, and invalid names to InvalidInput.

    `what` is the beginning of the message.
    """
    try:
        yield
    except (UnicodeEncodeError, OverflowError, psycopg.DataError) as error:
        raise InvalidInput(f"names must be valid Unicode text, and integers must fit 64 bits: {error}") from error
    except psycopg.errors.QueryCanceled as error:
        raise ReadTimeout(f"{what}: {error}") from error
    except psycopg.Error as error:
        raise StoreError(f"{what}: {error}") from error
