"""Moves all data of a store to another one, for example from SQLite to PostgreSQL."""

import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import msgspec

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.errors import StoreError
from glbandits.service.storage.api_keys import SERVICE, UNFINISHED_MOVE
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.learner_lease import EXPIRY_SECONDS
from glbandits.service.storage.schema import LAST_SEQUENCE_KEY

Row: TypeAlias = tuple[Any, ...]
Progress: TypeAlias = Callable[[str, int], object]
"""Gets what is done to which table, and the number of rows so far."""

BATCH = 1_000
"""Rows that one transaction copies."""
LOG = {
    "decisions": ("sequence",),
    "action_sets": ("first",),
    "rewards": ("decision", "sequence"),
    "activations": ("decision",),
    "units": ("loop_name", "unit"),
}
"""The large tables with their primary keys, which are their first columns. A repeated move continues them."""
OTHERS = {
    "loops": ("loop_name",),
    "metric_seals": ("loop_name", "metric"),
    "event_counts": ("loop_name", "kind", "status"),
    "documents": ("loop_name", "kind", "version"),
    "models": ("loop_name", "sequence"),
}
"""Tables that are copied last, in one transaction. Until then the target has neither loops nor keys."""
EMPTY: dict[str, list[Row]] = {name: [] for name in OTHERS} | {"event_counts": [(*LAST_SEQUENCE_KEY, 0)]}


class Content(NamedTuple):
    """The number of rows of a table, and a digest of them in the order of the primary key."""

    rows: int
    digest: str


def move(source: EventStore, target: EventStore, progress: Progress = lambda *_: None) -> dict[str, Content]:
    """Copy all rows, compare both stores, and return the content of each table. The source does not change.

    A move that was interrupted can be repeated, and then continues. So can a complete one, which only compares. Raises
    InvalidInput if a server uses one of the stores, or if the target is not empty and has other data, and StoreError if
    the stores differ at the end.
    """
    _check_unused(source, target)
    moved, present = (
        {name: list(chain.from_iterable(_batches(store, name, key))) for name, key in OTHERS.items()}
        for store in (source, target)
    )
    if not moved["documents"]:
        raise InvalidInput("the store to move is empty; name the store that `glb serve --store` uses")
    present["documents"] = [row for row in present["documents"] if row[1] != UNFINISHED_MOVE]
    if present not in (EMPTY, moved):
        raise InvalidInput("the store to move to has other data; name an empty database, or another schema of it")
    if present != moved:
        target.save_document(SERVICE, UNFINISHED_MOVE, 0, b"")  # so that nobody uses the target
    for name, key in LOG.items():
        _copy(source, target, name, key, progress)
    if present != moved:
        with target._changing("loops") as connection:
            for name, rows in moved.items():
                target._execute(connection, f"DELETE FROM {name}")
                _insert(target, connection, name, rows)
    contents = {}
    for name, key in (LOG | OTHERS).items():
        contents[name], copied = (_content(store, name, key, progress) for store in (source, target))
        if copied != contents[name]:
            raise StoreError(
                f"the table {name} has {contents[name].rows} rows, and the copy {copied.rows} or others. The store "
                "has changed since the move began; stop all servers, and move to an empty store"
            )
    _check_unused(source, target)
    return contents


def _check_unused(*stores: EventStore) -> None:
    """Raise InvalidInput if a server uses one of the stores. No server that starts later learns."""
    until = time.monotonic() + 2 * EXPIRY_SECONDS  # the server that learned may have died a moment ago
    while False in [store.lease.keep() for store in stores]:  # asks for both leases, so both expire at the same time
        if time.monotonic() > until:
            raise InvalidInput("a server uses the store to move, or the one to move to; stop all servers of both")
        time.sleep(0.2)


def _copy(source: EventStore, target: EventStore, name: str, key: Sequence[str], progress: Progress) -> None:
    """Copy the rows after the last one of the target, which must be in the source."""
    order = ", ".join(f"{column} DESC" for column in key)
    with target._reading() as connection:
        last = list(target._execute(connection, f"SELECT * FROM {name} ORDER BY {order} LIMIT 1"))
    after = last[0][: len(key)] if last else None
    if last and next(_batches(source, name, key, after, includes=True), [])[:1] != last:
        raise InvalidInput(f"the store to move to has other {name}; name an empty database, or another schema of it")
    copied = 0
    for rows in _batches(source, name, key, after):
        _check_unused(source, target)
        with target._changing("decisions") as connection:
            _insert(target, connection, name, rows)
        copied += len(rows)
        progress(f"copying {name}", copied)


def _insert(store: EventStore, connection: Any, name: str, rows: Sequence[Row]) -> None:
    if rows:
        marks = ", ".join([store.parameter_mark] * len(rows[0]))
        connection.cursor().executemany(f"INSERT INTO {name} VALUES ({marks})", rows)


def _batches(
    store: EventStore, name: str, key: Sequence[str], after: Row | None = None, *, includes: bool = False
) -> Iterator[list[Row]]:
    """Read a table in the order of its primary key, after a key, or also with it."""
    columns, marks = ", ".join(key), ", ".join(["%s"] * len(key))
    comparison = ">=" if includes else ">"
    while True:
        where = "" if after is None else f"WHERE ({columns}) {comparison} ({marks})"
        with store._reading() as connection:
            query = f"SELECT * FROM {name} {where} ORDER BY {columns} LIMIT {BATCH}"
            rows = list(store._execute(connection, query, *(after or ())))
        if not rows:
            return
        yield rows
        after, comparison = rows[-1][: len(key)], ">"


def _content(store: EventStore, name: str, key: Sequence[str], progress: Progress) -> Content:
    digest, count = sha256(), 0
    for rows in _batches(store, name, key):
        for row in rows:
            same = [each + 0.0 if isinstance(each, float) else each for each in row]  # SQLite stores -0.0 as 0.0
            digest.update(msgspec.msgpack.encode(same))
        count += len(rows)
        progress(f"comparing {name}", count)
    return Content(count, digest.hexdigest())
