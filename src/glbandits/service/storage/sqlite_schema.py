"""Creates the tables of a SQLite store, and checks them at the start."""

import sqlite3
from contextlib import closing
from pathlib import Path

from glbandits.service.domain.errors import StoreError
from glbandits.service.storage.schema import FIRST_ROWS, INDEXES, TABLES, VERSION, check_version

APPLICATION = 0x676C6231
"""SQLite's application id in the header of the file: "glb1"."""
OLDEST_SQLITE = (3, 38, 0)
"""STRICT tables need 3.37, JSON without a build option 3.38."""
WITH_ROWID = ("decisions", "documents", "models")
"""Tables with large rows, or with a sequence number as the primary key."""


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in an empty file.

    Raises StoreError if the file is damaged or belongs to another program or version.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(f"SQLite must be 3.38 or newer; this Python has {sqlite3.sqlite_version}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        application, version, tables = (
            int(connection.execute(query).fetchone()[0])
            for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema")
        )
        if not (application or version or tables):
            _create(connection)
        elif application != APPLICATION:
            raise StoreError(f"{path} is a database of another program; use a new file, or one that glbandits created")
        else:
            check_version(str(path), version)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    _check_tables(connection, path)


def _create(connection: sqlite3.Connection) -> None:
    for name, columns in TABLES.items():
        kind = "STRICT" if name in WITH_ROWID else "STRICT, WITHOUT ROWID"
        connection.execute(f"CREATE TABLE {name} ({columns}) {kind}")
    for index in INDEXES.values():
        connection.execute(f"CREATE {index}")
    for statement in FIRST_ROWS:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Read a row of each table and index. Raises if one is missing or unreadable.

    Takes the same time for any size of the store. `SqliteStore.check` reads all rows.
    """
    schema = "SELECT name, tbl_name, type FROM sqlite_schema WHERE type IN ('table', 'index') ORDER BY name"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as reference:
        _create(reference)
        expected = reference.execute(schema).fetchall()
    missing = set(expected).difference(connection.execute(schema))
    if missing:
        names = ", ".join(sorted(name for name, *_ in missing))
        raise StoreError(f"{path} is damaged: {names} is missing. Restore a backup")
    for name, table, kind in expected:
        index = "NOT INDEXED" if kind == "table" else f"INDEXED BY {name}"
        condition = " ".join(INDEXES.get(name, "").partition("WHERE")[1:])  # the index contains only these rows
        connection.execute(f"SELECT * FROM {table} {index} {condition} LIMIT 1").fetchone()
    connection.execute("SELECT * FROM decisions ORDER BY sequence DESC LIMIT 1").fetchone()
