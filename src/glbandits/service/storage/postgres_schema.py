"""The tables of a PostgreSQL store: their version, migrations, and partitions."""

from typing import Any, TypeAlias

import psycopg
from psycopg import sql

from glbandits.service.domain.errors import StoreError

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

OLDEST_SERVER = 140000
"""`idle_session_timeout` and `client_connection_check_interval` need PostgreSQL 14."""
PARTITION_SIZE = 2**23
"""Sequence numbers of a partition. At 4,000 events a second a partition lasts 35 minutes, and a month has 1,250."""
PARTITIONED = ("decision_bodies", "rewards", "activations")
"""Tables that are partitioned by the sequence number of the decision, in the order in which all code locks them."""
UPGRADE_LOCK, LEARNER_LOCK = 0x676C6231 << 32, 0x676C6232 << 32
"""Advisory locks. The object id of the schema is added to the second, because every store has its own learner."""
SCHEMA_ID = "(SELECT oid::bigint FROM pg_namespace WHERE nspname = current_schema())"

UPGRADES: tuple[tuple[str, ...], ...] = (
    (
        # One row. Every transaction that appends locks it first, so events become visible in the order of sequence.
        # Free space in the page lets PostgreSQL update the row in place instead of growing the table.
        """CREATE TABLE log_counter (
            only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
            last_sequence bigint NOT NULL,
            partitions_end bigint NOT NULL
        ) WITH (fillfactor = 20)""",
        "INSERT INTO log_counter VALUES (true, 0, 0)",
        "CREATE TABLE partitions (first_sequence bigint PRIMARY KEY, end_sequence bigint NOT NULL)",
        'CREATE TABLE loops (loop_name text COLLATE "C" PRIMARY KEY, sealed_through bigint NOT NULL DEFAULT 0)',
        # Names are unique over all partitions, so this table has none.
        """CREATE TABLE decisions (
            loop_name text COLLATE "C" NOT NULL,
            event_id text COLLATE "C" NOT NULL,
            slot text COLLATE "C" NOT NULL,
            sequence bigint NOT NULL,
            decided_at bigint NOT NULL,
            deadline bigint NOT NULL,
            reward_min double precision,
            reward_max double precision,
            PRIMARY KEY (loop_name, event_id, slot)
        )""",
        "CREATE UNIQUE INDEX decisions_by_sequence ON decisions (loop_name, sequence)",
        """CREATE TABLE decision_bodies (
            sequence bigint PRIMARY KEY,
            body bytea NOT NULL
        ) PARTITION BY RANGE (sequence)""",
        """CREATE TABLE rewards (
            decision bigint NOT NULL,
            sequence bigint NOT NULL,
            received_at bigint NOT NULL,
            value double precision NOT NULL,
            key text COLLATE "C" NOT NULL,
            late boolean NOT NULL,
            PRIMARY KEY (decision, sequence)
        ) PARTITION BY RANGE (decision)""",
        "CREATE UNIQUE INDEX reward_keys ON rewards (decision, key, late) WHERE key <> ''",
        """CREATE TABLE activations (
            decision bigint PRIMARY KEY,
            sequence bigint NOT NULL,
            received_at bigint NOT NULL,
            late boolean NOT NULL
        ) PARTITION BY RANGE (decision)""",
        """CREATE TABLE event_counts (
            loop_name text COLLATE "C" NOT NULL,
            kind text NOT NULL,
            status text NOT NULL,
            count bigint NOT NULL,
            PRIMARY KEY (loop_name, kind, status)
        ) WITH (fillfactor = 20)""",
        """CREATE TABLE documents (
            loop_name text COLLATE "C" NOT NULL,
            kind text COLLATE "C" NOT NULL,
            version bigint NOT NULL,
            saved_at bigint NOT NULL,
            body bytea NOT NULL,
            PRIMARY KEY (loop_name, kind, version)
        )""",
        """CREATE TABLE models (
            loop_name text COLLATE "C" NOT NULL,
            sequence bigint NOT NULL,
            saved_at bigint NOT NULL,
            body bytea NOT NULL,
            PRIMARY KEY (loop_name, sequence)
        )""",
    ),
)
"""The statements from version 0, an empty schema, to version 1, and so on. Append entries; never edit one."""


def prepare(connection: Connection, address: str) -> None:
    """Create the tables or upgrade them to this version, in one transaction.

    Other processes may do so at once.
    """
    _check_server(connection, address)
    with connection.transaction():
        # An upgrade may take long, and other processes wait for it.
        connection.execute("SET LOCAL statement_timeout = 0")
        connection.execute("SET LOCAL lock_timeout = 0")
        connection.execute(f"SELECT pg_advisory_xact_lock({UPGRADE_LOCK})")
        _create_schema(connection, address)
        version = _version(connection, address)
        if version == 0:
            connection.execute("CREATE TABLE glbandits_schema (version integer NOT NULL)")
            connection.execute("INSERT INTO glbandits_schema VALUES (0)")
        for statement in (statement for steps in UPGRADES[version:] for statement in steps):
            connection.execute(statement.encode())
        if version < len(UPGRADES):
            connection.execute("UPDATE glbandits_schema SET version = %s", (len(UPGRADES),))


def _check_server(connection: Connection, address: str) -> None:
    if connection.info.server_version < OLDEST_SERVER:
        raise StoreError(f"{address} has PostgreSQL {connection.info.server_version // 10_000}; use 14 or newer")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(f"{address} has the encoding {encoding}; create the database with ENCODING 'UTF8'")


def _create_schema(connection: Connection, address: str) -> None:
    """Create the first schema of the search path if none of them exists."""
    schema, path = connection.execute("SELECT current_schema(), current_setting('search_path')").fetchall()[0]
    first = path.split(",")[0].strip().strip('"')
    if schema is None:
        if not first or first == "$user":
            raise StoreError(f"{address} has no schema for the tables; add ?options=-csearch_path%3Dglbandits")
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(first)))


def _version(connection: Connection, address: str) -> int:
    if connection.execute("SELECT to_regclass('glbandits_schema')").fetchall() == [(None,)]:
        return 0
    version = int(connection.execute("SELECT version FROM glbandits_schema").fetchall()[0][0])
    if version > len(UPGRADES):
        raise StoreError(
            f"{address} has version {version} of the tables; this version of glbandits knows up to {len(UPGRADES)}. "
            "Use the version of glbandits that wrote it, or a newer one"
        )
    return version


def add_partition(connection: Connection, first: int, events: int) -> None:
    """Create the partitions from a sequence number on, for at least so many events.

    The caller holds the append lock. ATTACH does not conflict with readers, a running pg_dump among them. CREATE TABLE
    ... PARTITION OF would.
    """
    end = first + max(PARTITION_SIZE, events + 1)
    for table in PARTITIONED:
        part, whole = sql.Identifier(f"{table}_{first}"), sql.Identifier(table)
        connection.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(part, whole))
        connection.execute(
            sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(whole, part, first, end)
        )
    connection.execute("INSERT INTO partitions VALUES (%s, %s)", (first, end))
    connection.execute("UPDATE log_counter SET partitions_end = %s", (end,))


def drop_partition(connection: Connection, first: int) -> None:
    """Drop the partitions that begin at a sequence number."""
    for table in PARTITIONED:
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(f"{table}_{first}")))
    connection.execute("DELETE FROM partitions WHERE first_sequence = %s", (first,))
