"""Creates the tables of a PostgreSQL store."""

from typing import Any, TypeAlias

import psycopg
from psycopg import sql

from glbandits.service.domain.errors import StoreError
from glbandits.service.storage.schema import FIRST_ROWS, INDEXES, TABLES, VERSION, check_version

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

OLDEST_SERVER = 140000
"""`idle_session_timeout` and `client_connection_check_interval` need PostgreSQL 14."""
CREATE_LOCK = 0x676C6231 << 32
"""Advisory lock of the process that creates tables."""
SCHEMA_ID = "(SELECT oid::bigint FROM pg_namespace WHERE nspname = current_schema())"
TYPES = {"INTEGER": "bigint", "TEXT": 'text COLLATE "C"', "REAL": "double precision", "BLOB": "bytea"}
ROOM_FOR_UPDATES = ("event_counts", "coordination")
"""Tables with rows that are updated often. Free space in the page lets PostgreSQL update a row in place."""


def prepare(connection: Connection, address: str) -> None:
    """Create the tables, or check their version, in one transaction. Other processes may do so at once."""
    if connection.info.server_version < OLDEST_SERVER:
        raise StoreError(f"{address} has PostgreSQL {connection.info.server_version // 10_000}; use 14 or newer")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(f"{address} has the encoding {encoding}; create the database with ENCODING 'UTF8'")
    with connection.transaction():
        connection.execute(f"SELECT pg_advisory_xact_lock({CREATE_LOCK})")
        _create_schema(connection, address)
        if connection.execute("SELECT to_regclass('glbandits_schema')").fetchall() == [(None,)]:
            _create(connection)
        check_version(address, *connection.execute("SELECT version FROM glbandits_schema").fetchall()[0])


def _create_schema(connection: Connection, address: str) -> None:
    """Create the first schema of the search path if none of them exists."""
    schema, path = connection.execute("SELECT current_schema(), current_setting('search_path')").fetchall()[0]
    first = path.split(",")[0].strip().strip('"')
    if schema is None:
        if not first or first == "$user":
            raise StoreError(f"{address} has no schema for the tables; add ?options=-csearch_path%3Dglbandits")
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(first)))


def _create(connection: Connection) -> None:
    for name, columns in TABLES.items():
        for type_name, own in TYPES.items():
            columns = columns.replace(type_name, own)
        options = " WITH (fillfactor = 20)" if name in ROOM_FOR_UPDATES else ""
        connection.execute(f"CREATE TABLE {name} ({columns}){options}".encode())
    for statement in (*(f"CREATE {index}" for index in INDEXES.values()), *FIRST_ROWS):
        connection.execute(statement.encode())
    connection.execute("CREATE TABLE glbandits_schema (version integer NOT NULL)")
    connection.execute("INSERT INTO glbandits_schema VALUES (%s)", (VERSION,))
