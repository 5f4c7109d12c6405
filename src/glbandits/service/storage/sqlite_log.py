"""The log in SQLite: statements inside a transaction that the caller began.

A batch needs few statements and few rows: one query looks up all events of the batch, and returns one row of JSON.
SQLite releases the GIL at every row that it returns, and a busy event loop may hold the GIL for long.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from glbandits.service.domain.event_rules import DecisionName, EventClassifier, KnownDecision, PriorEvent
from glbandits.service.domain.events import Decision, Event, Receipt, Reward
from glbandits.service.storage.event_store import Rows, encode_body

encode_json = msgspec.json.Encoder().encode
decode_json = msgspec.json.Decoder().decode

LAST_SEQUENCE_KEY = ("", "event", "numbered")
"""Primary key of the row of `event_counts` with the sequence number of the last event. It is never deleted."""
SELECT_LAST_SEQUENCE = f"SELECT count FROM event_counts WHERE (loop, kind, status) = {LAST_SEQUENCE_KEY}"
ALL_DIGITS = "printf('%%!.17g', %s)"
"""A number as text with all digits. SQLite's JSON has only 15."""
FIND_DECISIONS = f"""
    SELECT ({SELECT_LAST_SEQUENCE}), (
        SELECT json_group_object(s.loop, s.number)
        FROM json_each(:names) AS loops CROSS JOIN seals AS s ON s.loop = loops.key
    ), (
        SELECT json_group_array(json_array(
            d.loop, d.event_id, d.slot, d.number, d.deadline,
            iif(d.reward_min IS NULL, NULL, json_array({ALL_DIGITS % "d.reward_min"}, {ALL_DIGITS % "d.reward_max"})),
            (SELECT json_array(a.number, a.late) FROM activations AS a WHERE a.loop = d.loop AND a.decision = d.number)
        ))
        FROM json_each(:names) AS loops CROSS JOIN json_each(loops.value) AS events
        CROSS JOIN decisions AS d ON d.loop = loops.key AND d.event_id = events.value
    )"""
"""Selects the last sequence number, the last sealed decision of each loop, and decisions with their activations. The
parameter is a JSON object of event ids by loop."""
FIND_KEYS = """
    SELECT json_group_array(json_array(r.decision, r.key, r.number, r.late))
    FROM json_each(?) AS wanted CROSS JOIN rewards AS r
    ON r.key <> '' AND r.decision = json_extract(wanted.value, '$[0]') AND r.key = json_extract(wanted.value, '$[1]')"""
MAX_ROWS = 64
"""Rows of one INSERT statement, at most. Each number of rows is another entry in the cache of compiled statements."""
LARGE_BODY = 8 * 1024
"""Bytes above which a decision has an INSERT statement of its own."""
STATEMENT_CACHE_SIZE = 4 * MAX_ROWS
"""Size of the cache of compiled statements: INSERT statements for all numbers of rows, and all others."""
BODY_COLUMN = 6
"""Index of the body in a row of decisions."""


def append(connection: sqlite3.Connection, events: Sequence[Event], *, assume_new: bool) -> list[Receipt]:
    """Classify the events and write those that belong in the log.

    With `assume_new`, decisions are not looked up, because nearly all are new. If the log has one of them, this raises
    an `sqlite3.IntegrityError`; then roll back and call it again without.
    """
    named = [event for event in events if not isinstance(event, Decision)] if assume_new else events
    classified = _classifier(connection, named)
    receipts = classified.classify(events)
    decisions = [
        (sequence, d.loop, d.event_id, d.slot, d.timestamp, deadline, encode_body(d), *(d.reward_range or (None, None)))
        for sequence, deadline, d in classified.decisions
    ]
    _insert(connection, "INTO decisions", [row for row in decisions if len(row[BODY_COLUMN]) <= LARGE_BODY])
    for row in decisions:  # one by one, because each cached statement keeps the rows of its last use in memory
        if len(row[BODY_COLUMN]) > LARGE_BODY:
            _insert(connection, "INTO decisions", [row])
    rewards = [
        (r.loop, of, sequence, r.timestamp, r.value, r.key, late) for sequence, of, late, r in classified.rewards
    ]
    _insert(connection, "INTO rewards", rewards)
    activations = [(a.loop, of, sequence, a.timestamp, late) for sequence, of, late, a in classified.activations]
    _insert(connection, "OR REPLACE INTO activations", activations)
    counts = [
        (*LAST_SEQUENCE_KEY, classified.last - classified.before),
        *((*which, count) for which, count in classified.counts.items()),
    ]
    _insert(connection, "INTO event_counts", counts, "ON CONFLICT DO UPDATE SET count = count + excluded.count")
    return receipts


def _insert(connection: sqlite3.Connection, into: str, rows: Sequence[tuple[Any, ...]], on_conflict: str = "") -> None:
    """Insert rows with few statements.

    `executemany` runs one statement per row, and releases the GIL each time.
    """
    for start in range(0, len(rows), MAX_ROWS):
        part = rows[start : start + MAX_ROWS]
        row = f"({', '.join('?' * len(part[0]))})"
        values = list(chain.from_iterable(part))
        connection.execute(f"INSERT {into} VALUES {', '.join([row] * len(part))} {on_conflict}", values)


def _classifier(connection: sqlite3.Connection, events: Sequence[Event]) -> EventClassifier:
    """Return a classifier with the logged decisions that the events name."""
    if not events:
        return EventClassifier({}, {}, connection.execute(SELECT_LAST_SEQUENCE).fetchone()[0])
    names: dict[str, set[str]] = {}
    for event in events:
        names.setdefault(event.loop, set()).add(event.event_id)
    last, seals, decisions = connection.execute(FIND_DECISIONS, {"names": _json(names)}).fetchone()
    known = {
        (loop_name, event_id, slot): KnownDecision(
            number,
            deadline,
            limits and (float(limits[0]), float(limits[1])),
            activation=activation and PriorEvent(activation[0], bool(activation[1])),
        )
        for loop_name, event_id, slot, number, deadline, limits, activation in decode_json(decisions)
    }
    _add_keys(connection, events, known)
    return EventClassifier(known, decode_json(seals), last)


def _add_keys(
    connection: sqlite3.Connection, events: Sequence[Event], known: Mapping[DecisionName, KnownDecision]
) -> None:
    keyed = [
        (decision, event.key)
        for event in events
        if isinstance(event, Reward) and event.key
        if (decision := known.get((event.loop, event.event_id, event.slot)))
    ]
    if not keyed:
        return
    by_sequence = {decision.sequence: decision for decision, _ in keyed}
    pairs = _json([(decision.sequence, key) for decision, key in keyed])
    for sequence, key, number, late in decode_json(connection.execute(FIND_KEYS, (pairs,)).fetchone()[0]):
        prior = by_sequence[sequence].keys.get(key)
        if prior is None or prior.late:
            by_sequence[sequence].keys[key] = PriorEvent(number, bool(late))


def _json(value: object) -> str:
    return encode_json(value).decode()


def entries(connection: sqlite3.Connection, loop_name: str, sequences: Sequence[int]) -> tuple[Rows, Rows, Rows]:
    """Read the rows of decisions, of their rewards, and of their activations."""
    parameters, among = (loop_name, _json(sequences)), "IN (SELECT value FROM json_each(?))"
    rewards = "SELECT decision, number, at, value, key, late FROM rewards"
    activations = "SELECT decision, at FROM activations"
    return (
        connection.execute(f"SELECT number, body FROM decisions WHERE loop = ? AND number {among}", parameters),
        connection.execute(f"{rewards} WHERE loop = ? AND decision {among} ORDER BY decision, number", parameters),
        connection.execute(f"{activations} WHERE loop = ? AND decision {among} AND late = 0", parameters),
    )


def delete_oldest(connection: sqlite3.Connection, loop_name: str, up_to: int, limit: int) -> int:
    """Delete the oldest decisions up to a sequence number, at most `limit`.

    Returns their number.
    """
    rows = connection.execute(
        "SELECT number FROM decisions WHERE loop = ? AND number <= ? ORDER BY number LIMIT ?", (loop_name, up_to, limit)
    ).fetchall()
    if not rows:
        return 0
    span = (loop_name, rows[0][0], rows[-1][0])
    connection.execute("DELETE FROM rewards WHERE loop = ? AND decision BETWEEN ? AND ?", span)
    connection.execute("DELETE FROM activations WHERE loop = ? AND decision BETWEEN ? AND ?", span)
    connection.execute("DELETE FROM decisions WHERE loop = ? AND number BETWEEN ? AND ?", span)
    return len(rows)
