"""The tables of a SQLite store, their version, and the way from older versions to this one."""

import sqlite3
from pathlib import Path

from glbandits.serving.domain.errors import StoreError

APPLICATION = 0x676C6231
"""Says in the head of a file that it is ours: "glb1"."""
OLDEST_SQLITE = (3, 38, 0)
"""STRICT tables need 3.37, JSON without a build option 3.38."""

UPGRADES: tuple[tuple[str, ...], ...] = (
    (
        # One row: the number of the last event that was kept. Deleted events must not free their numbers.
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
        # SQLite ends every index with the row's number: this one gives the decisions of a loop in order.
        "CREATE INDEX decisions_of_loop ON decisions (loop)",
        # Rewards lie beside those of the same decision: those of a range of decisions are one range.
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
        # A number is a count too, of all events that were kept: beside the others, one statement and one page have all.
        "INSERT INTO counts SELECT '', 'event', 'numbered', last FROM numbers",
        "DROP TABLE numbers",
    ),
)
"""What leads from version 0, an empty file, to 1, from 1 to 2, and so on. A change is a new entry, never an edit."""


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of this version, from nothing or from those of an older one. Refuse what is not ours."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(f"the store needs SQLite 3.38 or newer; this Python has {sqlite3.sqlite_version}")
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
        int(connection.execute(question).fetchone()[0])
        for question in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema")
    )
    if application != APPLICATION and (application or version or tables):
        raise StoreError(f"{path} is a database of another program; name a new file, or one that glbandits made")
    if version > len(UPGRADES):
        raise StoreError(
            f"{path} has version {version} of the tables; this glbandits knows up to {len(UPGRADES)}. "
            "Use the glbandits that wrote it, or a newer one"
        )
    return version
