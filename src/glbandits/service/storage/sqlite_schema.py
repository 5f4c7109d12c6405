"""The tables of a SQLite store: their version, migrations, and a check at the start."""

import sqlite3
from contextlib import closing
from itertools import chain
from pathlib import Path

from glbandits.service.domain.errors import StoreError

APPLICATION = 0x676C6231
"""SQLite's application id in the header of the file: "glb1"."""
OLDEST_SQLITE = (3, 38, 0)
"""STRICT tables need 3.37, JSON without a build option 3.38."""

UPGRADES: tuple[tuple[str, ...], ...] = (
    (
        # One row: the sequence number of the last event. Numbers of deleted events must not be used again.
        "CREATE TABLE numbers (one INTEGER PRIMARY KEY CHECK (one = 1), last INTEGER NOT NULL) STRICT",
        "INSERT INTO numbers VALUES (1, 0)",
        "CREATE TABLE seals (loop TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT, WITHOUT ROWID",
        """CREATE TABLE decisions (
            number INTEGER PRIMARY KEY,
            loop TEXT NOT NULL,
            event_id TEXT NOT NULL,
            slot TEXT NOT NULL,
            at INTEGER NOT NULL,
            deadline INTEGER NOT NULL,
            body BLOB NOT NULL,
            UNIQUE (loop, event_id, slot)
        ) STRICT""",
        # SQLite appends the row id to every index, so this one has the decisions of a loop in order.
        "CREATE INDEX decisions_of_loop ON decisions (loop)",
        # The rewards of a range of decisions are one range of this table.
        """CREATE TABLE rewards (
            loop TEXT NOT NULL,
            decision INTEGER NOT NULL REFERENCES decisions (number),
            number INTEGER NOT NULL,
            at INTEGER NOT NULL,
            value REAL NOT NULL,
            key TEXT NOT NULL,
            late INTEGER NOT NULL CHECK (late IN (0, 1)),
            PRIMARY KEY (loop, decision, number)
        ) STRICT, WITHOUT ROWID""",
        "CREATE UNIQUE INDEX keys_of_rewards ON rewards (decision, key, late) WHERE key <> ''",
        """CREATE TABLE activations (
            loop TEXT NOT NULL,
            decision INTEGER NOT NULL REFERENCES decisions (number),
            number INTEGER NOT NULL,
            at INTEGER NOT NULL,
            late INTEGER NOT NULL CHECK (late IN (0, 1)),
            PRIMARY KEY (loop, decision)
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE counts (
            loop TEXT NOT NULL,
            kind TEXT NOT NULL,
            fate TEXT NOT NULL,
            count INTEGER NOT NULL,
            PRIMARY KEY (loop, kind, fate)
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE documents (
            loop TEXT NOT NULL,
            kind TEXT NOT NULL,
            version INTEGER NOT NULL,
            at INTEGER NOT NULL,
            body BLOB NOT NULL,
            PRIMARY KEY (loop, kind, version)
        ) STRICT""",
        """CREATE TABLE models (
            loop TEXT NOT NULL,
            number INTEGER NOT NULL,
            at INTEGER NOT NULL,
            body BLOB NOT NULL,
            PRIMARY KEY (loop, number)
        ) STRICT""",
    ),
    (
        # The last sequence number moves to the counts, so that one statement and one page of the file update all.
        "INSERT INTO counts SELECT '', 'event', 'numbered', last FROM numbers",
        "DROP TABLE numbers",
    ),
    (
        # The range of rewards that a decision accepts; NULL for all finite rewards.
        "ALTER TABLE decisions ADD COLUMN reward_min REAL",
        "ALTER TABLE decisions ADD COLUMN reward_max REAL",
        """CREATE TABLE event_counts (
            loop TEXT NOT NULL,
            kind TEXT NOT NULL,
            status TEXT NOT NULL,
            count INTEGER NOT NULL,
            PRIMARY KEY (loop, kind, status)
        ) STRICT, WITHOUT ROWID""",
        "INSERT INTO event_counts SELECT loop, kind, iif(fate = 'kept', 'accepted', fate), count FROM counts",
        "DROP TABLE counts",
    ),
)
"""The statements from version 0, an empty file, to version 1, and so on. Append entries; never edit one."""


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create or upgrade the tables.

    Raises StoreError if the file is damaged or belongs to another program.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(f"SQLite must be 3.38 or newer; this Python has {sqlite3.sqlite_version}")
    _upgrade(connection, path)
    _check_tables(connection, path)


def _check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Read a row of each table and index. Raises if one is missing or unreadable.

    Takes the same time for any size of the store. `SqliteStore.check` reads all rows.
    """
    schema = "SELECT name, tbl_name, type FROM sqlite_schema WHERE type IN ('table', 'index') ORDER BY name"
    with closing(sqlite3.connect(":memory:")) as reference:
        for step in chain.from_iterable(UPGRADES):
            reference.execute(step)
        expected = reference.execute(schema).fetchall()
    missing = set(expected).difference(connection.execute(schema))
    if missing:
        names = ", ".join(sorted(name for name, *_ in missing))
        raise StoreError(f"{path} is damaged: {names} is missing. Restore a backup")
    for name, table, kind in expected:
        index = "NOT INDEXED" if kind == "table" else f"INDEXED BY {name}"
        where = " WHERE key <> ''" if name == "keys_of_rewards" else ""  # the index contains only these rows
        connection.execute(f"SELECT * FROM {table} {index}{where} LIMIT 1").fetchone()
    connection.execute("SELECT * FROM decisions ORDER BY number DESC LIMIT 1").fetchone()


def _upgrade(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection, path)
        for steps in UPGRADES[version:]:
            for step in steps:
                connection.execute(step)
        if version < len(UPGRADES):
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {len(UPGRADES)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection, path: Path) -> int:
    application, version, tables = (
        int(connection.execute(query).fetchone()[0])
        for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema")
    )
    if application != APPLICATION and (application or version or tables):
        raise StoreError(f"{path} is a database of another program; use a new file, or one that glbandits created")
    if version > len(UPGRADES):
        raise StoreError(
            f"{path} has version {version} of the tables; this version of glbandits knows up to {len(UPGRADES)}. "
            "Use the version of glbandits that wrote it, or a newer one"
        )
    return version
