"""Deletion of the oldest decisions of a PostgreSQL store: whole partitions where possible, else rows in small steps."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from psycopg.errors import LockNotAvailable

from glbandits.serving.storage.postgres_log import lock_log
from glbandits.serving.storage.postgres_schema import PARTITIONED, Connection, drop_partition

log = logging.getLogger(__name__)

DELETED_AT_ONCE = 1_000
"""Decisions that a transaction deletes: writers wait for no more than these."""
DROP_TIMEOUT = "500ms"
"""Time that writers and readers may wait for a partition to be dropped. If it is not enough, the next run tries."""
COMPLETE = """
    SELECT first_sequence, end_sequence FROM partitions
    WHERE end_sequence <= (SELECT last_sequence + 1 FROM log_counter) AND end_sequence <= %(up_to)s + 1
    AND NOT EXISTS (
        SELECT FROM loops AS l CROSS JOIN LATERAL (
            SELECT FROM decisions AS d WHERE d.loop_name = l.loop_name
            AND d.sequence >= first_sequence AND d.sequence < end_sequence LIMIT 1
        ) AS found WHERE l.loop_name <> %(loop)s
    ) ORDER BY first_sequence"""
"""Partitions that get no more decisions, end before a sequence number, and have no decision of another loop."""

Begin: TypeAlias = Callable[[], AbstractContextManager[Connection]]
"""Begins a transaction that writes."""


def delete_log(begin: Begin, loop: str, up_to: int) -> int:
    """Delete the decisions of a loop up to a sequence number. Returns how many.

    In partitions that will be dropped only names are deleted: nothing finds the rest any more.
    """
    with begin() as connection:
        partitions = connection.execute(COMPLETE, {"loop": loop, "up_to": up_to}).fetchall()
    deleted = 0
    while some := _delete_oldest(begin, loop, up_to, partitions):
        deleted += some
    if not all(_drop(begin, first) for first, _ in partitions):
        log.warning("partitions are in use, by pg_dump for example; the next deletion drops them")
    return deleted


def _delete_oldest(begin: Begin, loop: str, up_to: int, partitions: list[tuple[int, int]]) -> int:
    with begin() as connection:
        lock_log(connection)
        rows = connection.execute(
            "DELETE FROM decisions WHERE loop_name = %(loop)s AND sequence <= (SELECT max(sequence) FROM ("
            " SELECT sequence FROM decisions WHERE loop_name = %(loop)s AND sequence <= %(up_to)s"
            " ORDER BY sequence LIMIT %(limit)s) AS oldest) RETURNING sequence",
            {"loop": loop, "up_to": up_to, "limit": DELETED_AT_ONCE},
        ).fetchall()
        rest = [s for (s,) in rows if not any(first <= s < end for first, end in partitions)]
        if rest:
            span = (min(rest), max(rest), rest)
            for table in PARTITIONED:
                column = "sequence" if table == "decision_bodies" else "decision"
                query = f"DELETE FROM {table} WHERE {column} BETWEEN %s AND %s AND {column} = ANY(%s)"
                connection.execute(query.encode(), span)
    return len(rows)


def _drop(begin: Begin, first: int) -> bool:
    """Drop a partition unless a long transaction uses it: others must not wait for that. Returns whether it did."""
    with begin() as connection:
        lock_log(connection)
        connection.execute(f"SET LOCAL lock_timeout = '{DROP_TIMEOUT}'")
        try:
            drop_partition(connection, first)
        except LockNotAvailable:
            connection.rollback()
            return False
    return True
