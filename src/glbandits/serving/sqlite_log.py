"""The log in SQLite: what is asked and written inside a transaction that someone else began.

Few statements for many events: what is known of all events of a call is asked at once, and comes as one row of JSON.
At every row that SQLite returns Python's lock may change hands, and a busy event loop may keep it for long.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain, groupby
from typing import Any

import msgspec

from glbandits.serving.events import Activation, Decision, Event, Fate, Receipt, Reward, Ripe
from glbandits.serving.fates import Judge, Kind, Known, Mark, Name
from glbandits.serving.store import LoggedDecision, LoggedReward, LogSummary

encode_body = msgspec.msgpack.Encoder().encode
decode_body = msgspec.msgpack.Decoder(Decision).decode

FIND_DECISIONS = """
    SELECT json_group_array(json_array(d.loop, d.event_id, d.slot, d.number, d.deadline))
    FROM json_each(?) AS asked CROSS JOIN decisions AS d
    ON d.loop = json_extract(asked.value, '$[0]') AND d.event_id = json_extract(asked.value, '$[1]')"""
FIND_KEYS = """
    SELECT json_group_array(json_array(r.decision, r.key, r.number, r.late))
    FROM json_each(?) AS asked CROSS JOIN rewards AS r
    ON r.key <> '' AND r.decision = json_extract(asked.value, '$[0]') AND r.key = json_extract(asked.value, '$[1]')"""
FIND_ACTIVATIONS = """
    SELECT json_group_array(json_array(a.decision, a.number, a.late))
    FROM json_each(?) AS asked CROSS JOIN activations AS a
    ON a.loop = json_extract(asked.value, '$[0]') AND a.decision = json_extract(asked.value, '$[1]')"""


ROWS_AT_ONCE = (64, 16, 4, 1)
"""Sizes of insertions: few enough that SQLite keeps them all compiled."""


def append(connection: sqlite3.Connection, events: Sequence[Event]) -> list[Receipt]:
    """Judge the events and write those that are kept."""
    known = _known(connection, events)
    last: int = connection.execute("SELECT last FROM numbers").fetchone()[0]
    judge = Judge(known, _seals(connection, events), last)
    receipts = judge.judge(events)
    _insert(
        connection,
        "decisions",
        [
            (new.number, d.loop, d.event_id, d.slot, d.at, new.deadline, encode_body(d))
            for new in judge.decisions
            for d in (new.decision,)
        ],
    )
    _insert(
        connection,
        "rewards",
        [(r.loop, new.of, new.number, r.at, r.value, r.key, new.late) for new in judge.rewards for r in (new.reward,)],
    )
    connection.executemany(
        "INSERT OR REPLACE INTO activations VALUES (?, ?, ?, ?, ?)",
        [(new.activation.loop, new.of, new.number, new.activation.at, new.late) for new in judge.activations],
    )
    connection.executemany(
        "INSERT INTO counts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
        [(*which, count) for which, count in judge.counts.items()],
    )
    connection.execute("UPDATE numbers SET last = ?", (judge.last,))
    return receipts


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Add rows by few statements of many rows each: `executemany` has one for each, and gives Python's lock away."""
    begin = 0
    for size in ROWS_AT_ONCE:
        while len(rows) - begin >= size:
            values = list(chain.from_iterable(rows[begin : begin + size]))
            connection.execute(_insertion(table, size, len(rows[0])), values)
            begin += size


@cache
def _insertion(table: str, rows: int, columns: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return f"INSERT INTO {table} VALUES {', '.join([row] * rows)}"


def _known(connection: sqlite3.Connection, events: Sequence[Event]) -> dict[Name, Known]:
    """What the log has of the decisions that are named in the events."""
    asked = list({(event.loop, event.event_id) for event in events})
    known = {
        (loop, event_id, slot): Known(number, deadline)
        for loop, event_id, slot, number, deadline in _ask(connection, FIND_DECISIONS, asked)
    }
    by_number = {found.number: found for found in known.values()}
    keys = [
        (found.number, event.key)
        for event in events
        if isinstance(event, Reward) and event.key
        for found in (known.get((event.loop, event.event_id, event.slot)),)
        if found is not None
    ]
    for decision, key, number, late in _ask(connection, FIND_KEYS, keys):
        mark = by_number[decision].keys.get(key)
        if mark is None or mark.late:
            by_number[decision].keys[key] = Mark(number, bool(late))
    activated = {(event.loop, event.event_id) for event in events if isinstance(event, Activation)}
    slots = [(name[0], found.number) for name, found in known.items() if name[:2] in activated]
    for decision, number, late in _ask(connection, FIND_ACTIVATIONS, slots):
        by_number[decision].activation = Mark(number, bool(late))
    return known


def _ask(connection: sqlite3.Connection, query: str, asked: Sequence[Any]) -> list[list[Any]]:
    """The rows that a query gives for a list of pairs. It gives them as one text."""
    if not asked:
        return []
    found: str = connection.execute(query, (msgspec.json.encode(asked).decode(),)).fetchone()[0]
    rows: list[list[Any]] = msgspec.json.decode(found)
    return rows


def _seals(connection: sqlite3.Connection, events: Iterable[Event]) -> dict[str, int]:
    loops = {event.loop for event in events if not isinstance(event, Decision)}
    found = {loop: connection.execute("SELECT number FROM seals WHERE loop = ?", (loop,)).fetchone() for loop in loops}
    return {loop: row[0] for loop, row in found.items() if row is not None}


def last_ripe(connection: sqlite3.Connection, loop: str, after: int, now: int, limit: int) -> int:
    """The number of the last decision that `ripe` has for the same arguments; 0 if it has none."""
    last = 0
    for number, deadline in connection.execute(
        "SELECT number, deadline FROM decisions WHERE loop = ? AND number > ? ORDER BY number LIMIT ?",
        (loop, after, limit),
    ):
        if deadline >= now:
            break
        last = number
    return last


def ripe(connection: sqlite3.Connection, loop: str, after: int, now: int, limit: int) -> list[Ripe]:
    """See `EventStore.ripe`. Three ranges, merged."""
    found: list[tuple[int, bytes]] = []
    for number, deadline, body in connection.execute(
        "SELECT number, deadline, body FROM decisions WHERE loop = ? AND number > ? ORDER BY number LIMIT ?",
        (loop, after, limit),
    ):
        if deadline >= now:
            break
        found.append((number, body))
    if not found:
        return []
    span = (loop, found[0][0], found[-1][0])
    rewards: dict[int, list[tuple[int, float]]] = {}
    for decision, at, value in connection.execute(
        "SELECT decision, at, value FROM rewards"
        " WHERE loop = ? AND decision BETWEEN ? AND ? AND late = 0 ORDER BY decision, number",
        span,
    ):
        rewards.setdefault(decision, []).append((at, value))
    activated = {
        decision
        for (decision,) in connection.execute(
            "SELECT decision FROM activations WHERE loop = ? AND decision BETWEEN ? AND ? AND late = 0", span
        )
    }
    return [
        Ripe(number, decode_body(body), tuple(rewards.get(number, ())), number in activated) for number, body in found
    ]


def look_up(connection: sqlite3.Connection, loop: str, numbers: Sequence[int]) -> list[LoggedDecision]:
    """The decisions of these numbers, in this order, with all that came of them."""
    asked = (loop, msgspec.json.encode(numbers).decode())
    bodies = dict(
        connection.execute(
            "SELECT number, body FROM decisions WHERE loop = ? AND number IN (SELECT value FROM json_each(?))", asked
        )
    )
    rows = connection.execute(
        "SELECT decision, number, at, value, key, late FROM rewards"
        " WHERE loop = ? AND decision IN (SELECT value FROM json_each(?)) ORDER BY decision, number",
        asked,
    )
    rewards: dict[int, tuple[LoggedReward, ...]] = {
        decision: tuple(LoggedReward(number, at, value, key, bool(late)) for _, number, at, value, key, late in group)
        for decision, group in groupby(rows, key=lambda row: row[0])
    }
    activated = dict(
        connection.execute(
            "SELECT decision, at FROM activations"
            " WHERE loop = ? AND decision IN (SELECT value FROM json_each(?)) AND late = 0",
            asked,
        )
    )
    return [
        LoggedDecision(number, decode_body(bodies[number]), rewards.get(number, ()), activated.get(number))
        for number in numbers
        if number in bodies
    ]


def find(connection: sqlite3.Connection, loop: str, event_id: str, slot: str) -> list[int]:
    """The number of the decision of this name, if there is one."""
    found = connection.execute(
        "SELECT number FROM decisions WHERE loop = ? AND event_id = ? AND slot = ?", (loop, event_id, slot)
    )
    return [number for (number,) in found]


def newest(connection: sqlite3.Connection, loop: str, prefix: str, limit: int, before: int) -> list[int]:
    """Numbers of the newest decisions whose event_id begins so."""
    if not prefix:
        found = connection.execute(
            "SELECT number FROM decisions WHERE loop = ? AND number < ? ORDER BY number DESC LIMIT ?",
            (loop, before, limit),
        )
    else:
        # The plus keeps SQLite from going through all numbers in order: few names begin so. The end of the range has
        # the last character there is: whatever begins with the prefix is not greater.
        found = connection.execute(
            "SELECT number FROM decisions WHERE loop = ? AND event_id BETWEEN ? AND ? AND +number < ?"
            " ORDER BY +number DESC LIMIT ?",
            (loop, prefix, prefix + chr(0x10FFFF), before, limit),
        )
    return [number for (number,) in found]


def summary(connection: sqlite3.Connection, loop: str) -> LogSummary:
    """See `EventStore.summary`."""
    first, last = (
        connection.execute(
            f"SELECT at FROM decisions WHERE loop = ? ORDER BY number {order} LIMIT 1", (loop,)
        ).fetchone()
        for order in ("ASC", "DESC")
    )
    counts: dict[Kind, dict[Fate, int]] = {
        kind: dict.fromkeys(Fate, 0) for kind in ("decision", "reward", "activation")
    }
    for kind, fate, count in connection.execute("SELECT kind, fate, count FROM counts WHERE loop = ?", (loop,)):
        counts[kind][Fate(fate)] = count
    return LogSummary(
        first_at=first and first[0],
        last_at=last and last[0],
        decisions=counts["decision"],
        rewards=counts["reward"],
        activations=counts["activation"],
    )


def delete_oldest(connection: sqlite3.Connection, loop: str, up_to: int, limit: int) -> int:
    """Delete at most so many decisions up to this number, with what came of them. How many decisions that were."""
    found = connection.execute(
        "SELECT number FROM decisions WHERE loop = ? AND number <= ? ORDER BY number LIMIT ?", (loop, up_to, limit)
    ).fetchall()
    if not found:
        return 0
    span = (loop, found[0][0], found[-1][0])
    connection.execute("DELETE FROM rewards WHERE loop = ? AND decision BETWEEN ? AND ?", span)
    connection.execute("DELETE FROM activations WHERE loop = ? AND decision BETWEEN ? AND ?", span)
    connection.execute("DELETE FROM decisions WHERE loop = ? AND number BETWEEN ? AND ?", span)
    return len(found)


def last_number(connection: sqlite3.Connection, loop: str, before: int | None, up_to: int) -> int:
    """See `EventStore.last_number`."""
    numbers = "SELECT number FROM decisions WHERE loop = ?"
    if before is not None:
        first = connection.execute(f"{numbers} AND at >= ? ORDER BY number LIMIT 1", (loop, before)).fetchone()
        up_to = up_to if first is None else min(up_to, first[0] - 1)
    last = connection.execute(f"{numbers} AND number <= ? ORDER BY number DESC LIMIT 1", (loop, up_to)).fetchone()
    return 0 if last is None else int(last[0])
