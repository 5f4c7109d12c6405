"""Delete the oldest decisions of a PostgreSQL store, whole partitions if possible."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from psycopg.errors import LockNotAvailable

from glbandits.service.storage.postgres_log import lock_log
from glbandits.service.storage.postgres_schema import PARTITIONED, Connection, drop_partition

log = logging.getLogger(__name__)

DELETED_AT_ONCE = 1_000
"""Decisions that one transaction deletes. Writers wait for at most one such transaction."""
DROP_TIMEOUT = "500ms"
"""Time that writers and readers may wait while a partition is dropped. If it is not enough, the next deletion
retries."""
COMPLETE = """
    SELECT first_sequence, end_sequence FROM partitions
    WHERE end_sequence <= (SELECT last_sequence + 1 FROM log_counter)
    AND NOT EXISTS (
        SELECT FROM loops AS l CROSS JOIN LATERAL (
            SELECT FROM decisions AS d WHERE d.loop_name = l.loop_name
            AND d.sequence >= first_sequence AND d.sequence < end_sequence
            AND (d.loop_name <> %(loop)s OR d.sequence > %(up_to)s) LIMIT 1
        ) AS found
    ) ORDER BY first_sequence"""
"""Selects partitions that are full, and have no decision of another loop or after a sequence number."""

Begin: TypeAlias = Callable[[], AbstractContextManager[Connection]]
"""Begins a transaction that writes."""


def delete_log(begin: Begin, loop_name: str, up_to: int, stop: Callable[[], bool]) -> int:
    """Delete the decisions of a loop up to a sequence number. Returns the number of decisions.

    Of decisions in partitions that will be dropped, only the rows of the table `decisions` are deleted.
    """
    with begin() as connection:
        partitions = connection.execute(COMPLETE, {"loop": loop_name, "up_to": up_to}).fetchall()
    deleted = 0
    while count := _delete_oldest(begin, loop_name, up_to, partitions):
        deleted += count
        if stop():
            return deleted
    _drop_all(begin, partitions)
    return deleted


def drop_empty_partitions(begin: Begin) -> None:
    """Drop the full partitions without any decision that could not be dropped when their decisions were deleted."""
    with begin() as connection:
        partitions = connection.execute(COMPLETE, {"loop": "", "up_to": 0}).fetchall()  # any decision counts
    _drop_all(begin, partitions)


def _delete_oldest(begin: Begin, loop_name: str, up_to: int, partitions: list[tuple[int, int]]) -> int:
    with begin() as connection:
        lock_log(connection)
        rows = connection.execute(
            "DELETE FROM decisions WHERE loop_name = %(loop)s AND sequence <= (SELECT max(sequence) FROM ("
            " SELECT sequence FROM decisions WHERE loop_name = %(loop)s AND sequence <= %(up_to)s"
            " ORDER BY sequence LIMIT %(limit)s) AS oldest) RETURNING sequence",
            {"loop": loop_name, "up_to": up_to, "limit": DELETED_AT_ONCE},
        ).fetchall()
        undropped = [s for (s,) in rows if not any(first <= s < end for first, end in partitions)]
        if undropped:
            span = (min(undropped), max(undropped), undropped)
            for table in PARTITIONED:
                column = "sequence" if table == "decision_bodies" else "decision"
                query = f"DELETE FROM {table} WHERE {column} BETWEEN %s AND %s AND {column} = ANY(%s)"
                connection.execute(query.encode(), span)
    return len(rows)


def _drop_all(begin: Begin, partitions: list[tuple[int, int]]) -> None:
    """Drop partitions, except those that a long transaction uses."""
    if not all(_drop(begin, first) for first, _ in partitions):
        log.warning("Partitions are in use, for example by pg_dump. The next deletion drops them.")


def _drop(begin: Begin, first: int) -> bool:
    """Drop a partition unless a long transaction uses it. Returns whether it was dropped."""
    with begin() as connection:
        lock_log(connection)
        connection.execute(f"SET LOCAL lock_timeout = '{DROP_TIMEOUT}'")
        try:
            drop_partition(connection, first)
        except LockNotAvailable:
            connection.rollback()
            return False
    return True
