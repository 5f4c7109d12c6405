"""The numbered chain of versions of a store. Each step leads from one version of the tables to the next.

A store is brought to the present version at the first start: a step for each version, all in one transaction. A step
never changes once it is released, so it names no table of `schema.TABLES`.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from glbandits.service.domain.errors import StoreError
from glbandits.service.storage.learner_lease import EXPIRY_SECONDS

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
"""Time between two looks whether a server uses the store."""


class Migration(NamedTuple):
    """A step from the version before."""

    reason: str
    """What the step is for, for the log."""
    tables: Mapping[str, str]
    """New tables, with their columns. The types are those of `schema.TABLES`."""
    statements: tuple[str, ...]
    """Statements for both databases, after the tables were created."""


MIGRATIONS = {
    2: Migration(
        "a number of a metric is late once its unit is counted, and a loop that is created again is another one",
        {
            "metric_seals": "loop_name TEXT NOT NULL, metric TEXT NOT NULL, sealed_through INTEGER NOT NULL,"
            " PRIMARY KEY (loop_name, metric)"
        },
        ("ALTER TABLE loops ADD COLUMN created INTEGER NOT NULL DEFAULT 0",),
    ),
    3: Migration(
        "a set of actions with large features is stored once",
        {"action_sets": "first INTEGER PRIMARY KEY, loop_name TEXT NOT NULL, digest TEXT NOT NULL, body BLOB NOT NULL"},
        (
            "ALTER TABLE decisions ADD COLUMN action_set INTEGER",
            "CREATE INDEX decisions_by_action_set ON decisions (action_set, sequence) WHERE action_set <> sequence",
            "CREATE UNIQUE INDEX action_set_digests ON action_sets (loop_name, digest)",
        ),
    ),
}
"""The step to each version after the first one."""
DEVELOPMENT = (
    "{} was written by a development version of glbandits, before the first release. Use the version that wrote it, or "
    "a new store"
)


def present_version() -> int:
    """Return the version of the tables that this version of glbandits uses."""
    return 1 + len(MIGRATIONS)


def check_version(name: str, version: int) -> None:
    """Raise StoreError if a newer version of glbandits wrote a store."""
    if version > present_version():
        raise StoreError(
            f"{name} has version {version} of the tables, and this version of glbandits knows versions 1 to "
            f"{present_version()}. A newer glbandits wrote it: upgrade glbandits, or use a new store"
        )


def migrate(version: int, create: Callable[[str, str], object], execute: Callable[[str], object]) -> None:
    """Apply all steps after a version, in the transaction of the caller.

    Args:
        version: the version of the store.
        create: creates a table with these columns.
        execute: executes a statement. Types of columns in it must be replaced as in a new table.
    """
    for step in range(version + 1, present_version() + 1):
        for name, columns in MIGRATIONS[step].tables.items():
            create(name, columns)
        for statement in MIGRATIONS[step].statements:
            execute(statement)


def log_migration(name: str, version: int, backup: str) -> None:
    """Log that a store was migrated. `backup` says where the former state is."""
    reasons = "; ".join(MIGRATIONS[step].reason for step in range(version + 1, present_version() + 1))
    log.warning(
        "%s was migrated from version %d of the tables to version %d (%s). %s",
        *(name, version, present_version(), reasons, backup),
    )


def check_unused(name: str, read_lease: Callable[[], tuple[int, int]]) -> None:
    """Raise StoreError if a server uses a store that is to be migrated. Blocks for up to `EXPIRY_SECONDS`.

    `read_lease` returns the term and the beat of the learner, see `LearnerLease`.
    """
    first = read_lease()
    until = time.monotonic() + EXPIRY_SECONDS
    while first[1] and time.monotonic() < until:  # 0: no server learns
        time.sleep(LOOK_SECONDS)
        if read_lease() != first:
            raise StoreError(
                f"{name} has an older version of the tables, and another server uses it. Stop all servers of the "
                "former version, and start again"
            )
