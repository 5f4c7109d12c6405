"""Creates the tables of a SQLite store, migrates those of older versions, and checks them at the start."""

import os
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

from glbandits.common.atomic_files import atomic_path
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

APPLICATION, BEFORE_RELEASE = 0x676C6273, 0x676C6231
"""SQLite's application id in the header of the file: "glbs", and "glb1" before the first release."""
OLDEST_SQLITE = (3, 38, 0)
"""STRICT tables need 3.37, JSON without a build option 3.38."""
WITH_ROWID = ("decisions", "action_sets", "documents", "models")
"""Tables with large rows, or with a sequence number as the primary key."""


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in an empty file, or migrate those of an older version after a backup beside the file.

    Raises StoreError if the file is damaged, belongs to another program or a newer version, or is in use during a
    migration.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(f"SQLite must be 3.38 or newer; this Python has {sqlite3.sqlite_version}")
    version = _version(connection, path)
    if 0 < version < present_version():
        check_unused(str(path), partial(_lease, connection))
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection, path)  # another process may have created or migrated the tables meanwhile
        if not version:
            _create(connection)
        elif version < present_version():
            copy = path.with_name(f"{path.name}.version-{version}")
            with closing(sqlite3.connect(path)) as reader:
                write_copy(reader, copy)
            migrate(version, partial(_create_table, connection), connection.execute)
            connection.execute(f"PRAGMA user_version = {present_version()}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    if 0 < version < present_version():
        log_migration(str(path), version, f"The file before the migration is {copy}; delete it when all is well.")
    _check_tables(connection, path)


def stored_version(path: Path) -> int:
    """Return the version of the tables of a file, 0 if there are none, and change nothing. Raises StoreError."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return _version(connection, path)
    except sqlite3.Error as error:
        raise StoreError(f"{path} could not be read: {error}") from error


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of the tables; 0 for an empty file. Raises StoreError if this version cannot use it."""
    application, version, tables = (
        int(connection.execute(query).fetchone()[0])
        for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema")
    )
    if not (application or version or tables):
        return 0
    if application == BEFORE_RELEASE:
        raise StoreError(DEVELOPMENT.format(path))
    if application != APPLICATION:
        raise StoreError(f"{path} is a database of another program; use a new file, or one that glbandits created")
    check_version(str(path), version)
    return version


def _lease(connection: sqlite3.Connection) -> tuple[int, int]:
    term, beat = connection.execute("SELECT term, beat FROM coordination").fetchone()
    return term, beat


def write_copy(connection: sqlite3.Connection, target: Path) -> None:
    """Write a consistent copy of a database to a file, which appears when it is complete."""
    with atomic_path(target) as temporary:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(temporary)) as copy:
            connection.backup(copy)
            # Without a write-ahead log, so that the copy is a single file.
            copy.execute("PRAGMA journal_mode = DELETE").fetchone()


def _create_table(connection: sqlite3.Connection, name: str, columns: str) -> None:
    kind = "STRICT" if name in WITH_ROWID else "STRICT, WITHOUT ROWID"
    connection.execute(f"CREATE TABLE {name} ({columns}) {kind}")


def _create(connection: sqlite3.Connection) -> None:
    for name, columns in TABLES.items():
        _create_table(connection, name, columns)
    for index in INDEXES.values():
        connection.execute(f"CREATE {index}")
    for statement in FIRST_ROWS:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {present_version()}")


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
        raise StoreError(
            f"{path} has no {names}: it is damaged, or was written by a version of glbandits that was not released. "
            "Restore a backup, or use the version that wrote it"
        )
    for name, table, kind in expected:
        index = "NOT INDEXED" if kind == "table" else f"INDEXED BY {name}"
        condition = " ".join(INDEXES.get(name, "").partition("WHERE")[1:])  # the index contains only these rows
        connection.execute(f"SELECT * FROM {table} {index} {condition} LIMIT 1").fetchone()
    connection.execute("SELECT * FROM decisions ORDER BY sequence DESC LIMIT 1").fetchone()
