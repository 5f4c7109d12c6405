"""Creates the tables of a PostgreSQL store, and migrates those of older versions."""

from functools import partial
from typing import Any, TypeAlias

import psycopg
from psycopg import sql

from glbandits.service.domain.errors import StoreError
from glbandits.service.storage.migrations import (
    DEVELOPMENT,
    check_unused,
    check_version,
    log_migration,
    migrate,
    present_version,
)
from glbandits.service.storage.schema import FIRST_ROWS, INDEXES, TABLES

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

OLDEST_SERVER = 140000
"""`idle_session_timeout` and `client_connection_check_interval` need PostgreSQL 14."""
CREATE_LOCK = 0x676C6231 << 32
"""Advisory lock of the process that creates tables."""
TYPES = {"INTEGER": "bigint", "TEXT": 'text COLLATE "C"', "REAL": "double precision", "BLOB": "bytea"}
ROOM_FOR_UPDATES = ("event_counts", "coordination")
"""Tables with rows that are updated often. Free space in the page lets PostgreSQL update a row in place."""
HISTORY = """
    CASE WHEN pg_is_in_recovery() THEN 0
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int - 1 END"""
"""See `DocumentStore.history`: how often a standby became the primary server, or the database was restored to a point
in time. PostgreSQL counts that as its timeline."""
VERSION_TABLE, BEFORE_RELEASE = "glbandits_store", "glbandits_schema"
"""The table with the version of the tables, and its name before the first release."""


def prepare(connection: Connection, address: str) -> None:
    """Create the tables, or migrate those of an older version, in one transaction. Other processes may do so at once.

    Raises StoreError if the tables belong to a newer version, or if a server uses them during a migration.
    """
    if connection.info.server_version < OLDEST_SERVER:
        raise StoreError(f"{address} has PostgreSQL {connection.info.server_version // 10_000}; use 14 or newer")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(f"{address} has the encoding {encoding}; create the database with ENCODING 'UTF8'")
    if 0 < stored_version(connection, address) < present_version():
        check_unused(address, partial(_lease, connection))
    with connection.transaction():
        try:
            connection.execute(f"SELECT pg_advisory_xact_lock({CREATE_LOCK})")
        except psycopg.errors.LockNotAvailable as error:
            raise StoreError(f"another server migrates {address}; start again when it is done") from error
        _create_schema(connection, address)
        version = stored_version(connection, address)
        if not version:
            _create(connection)
        elif version < present_version():
            connection.execute("SET LOCAL statement_timeout = 0")  # a large table may take long
            migrate(version, partial(_create_table, connection), partial(_execute, connection))
            connection.execute(f"UPDATE {VERSION_TABLE} SET version = {present_version()}".encode())
    if 0 < version < present_version():
        log_migration(address, version, "Servers of the former version can no longer use it.")


def stored_version(connection: Connection, address: str) -> int:
    """Return the version of the tables; 0 if there are none. Raises StoreError if this version cannot use them."""
    query = "SELECT to_regclass(%s) IS NOT NULL, to_regclass(%s) IS NOT NULL"
    ((has_version, is_unreleased),) = connection.execute(query, (VERSION_TABLE, BEFORE_RELEASE)).fetchall()
    if is_unreleased:
        raise StoreError(DEVELOPMENT.format(address))
    if not has_version:
        return 0
    ((version,),) = connection.execute(f"SELECT version FROM {VERSION_TABLE}".encode()).fetchall()
    check_version(address, version)
    return int(version)


def _lease(connection: Connection) -> tuple[int, int]:
    ((term, beat),) = connection.execute("SELECT term, beat FROM coordination").fetchall()
    return term, beat


def _create_schema(connection: Connection, address: str) -> None:
    """Create the first schema of the search path if none of them exists."""
    schema, path = connection.execute("SELECT current_schema(), current_setting('search_path')").fetchall()[0]
    first = path.split(",")[0].strip().strip('"')
    if schema is None:
        if not first or first == "$user":
            raise StoreError(f"{address} has no schema for the tables; add ?options=-csearch_path%3Dglbandits")
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(first)))


def _execute(connection: Connection, statement: str) -> None:
    """Execute a statement with the types of PostgreSQL."""
    for name, own in TYPES.items():
        statement = statement.replace(name, own)
    connection.execute(statement.encode())


def _create_table(connection: Connection, name: str, columns: str) -> None:
    options = " WITH (fillfactor = 20)" if name in ROOM_FOR_UPDATES else ""
    _execute(connection, f"CREATE TABLE {name} ({columns}){options}")


def _create(connection: Connection) -> None:
    for name, columns in TABLES.items():
        _create_table(connection, name, columns)
    for statement in (*(f"CREATE {index}" for index in INDEXES.values()), *FIRST_ROWS):
        connection.execute(statement.encode())
    connection.execute(f"CREATE TABLE {VERSION_TABLE} (version integer NOT NULL)".encode())
    connection.execute(f"INSERT INTO {VERSION_TABLE} VALUES ({present_version()})".encode())
