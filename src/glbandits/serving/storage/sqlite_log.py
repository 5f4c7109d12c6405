"""The log in SQLite: what is asked and written inside a transaction that someone else began.

Few statements for many events: what is known of all events of a call is asked at once, and comes as one row of JSON.
At every row that SQLite returns Python's lock may change hands, and a busy event loop may keep it for long.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from glbandits.serving.domain.event_rules import EventClassifier, Known, Mark, Name
from glbandits.serving.domain.events import Decision, Event, Receipt, Reward
from glbandits.serving.storage.catalogue_store import Rows
from glbandits.serving.storage.event_store import encode_body

encode_json = msgspec.json.Encoder().encode
decode_json = msgspec.json.Decoder().decode

NUMBERED = ("", "event", "numbered")
"""Names the row of `event_counts` with the sequence number of the last event. It is of no loop and never deleted."""
LAST = f"SELECT count FROM event_counts WHERE (loop, kind, status) = {NUMBERED}"
EXACT = "printf('%%!.17g', %s)"
"""All digits of a number, as text: JSON of SQLite has 15."""
FIND = f"""
    SELECT ({LAST}), (
        SELECT json_group_object(s.loop, s.number)
        FROM json_each(:asked) AS loops CROSS JOIN seals AS s ON s.loop = loops.key
    ), (
        SELECT json_group_array(json_array(
            d.loop, d.event_id, d.slot, d.number, d.deadline,
            iif(d.reward_min IS NULL, NULL, json_array({EXACT % "d.reward_min"}, {EXACT % "d.reward_max"})),
            (SELECT json_array(a.number, a.late) FROM activations AS a WHERE a.loop = d.loop AND a.decision = d.number)
        ))
        FROM json_each(:asked) AS loops CROSS JOIN json_each(loops.value) AS events
        CROSS JOIN decisions AS d ON d.loop = loops.key AND d.event_id = events.value
    )"""
"""The last sequence number, and the seals and decisions, with their activations, for event_ids by loop."""
FIND_KEYS = """
    SELECT json_group_array(json_array(r.decision, r.key, r.number, r.late))
    FROM json_each(?) AS asked CROSS JOIN rewards AS r
    ON r.key <> '' AND r.decision = json_extract(asked.value, '$[0]') AND r.key = json_extract(asked.value, '$[1]')"""
ROWS_AT_ONCE = 64
"""Of an insertion, at most: each number of rows is a statement that is kept compiled."""
LARGE = 8 * 1024
"""Bytes of a decision that has an insertion for itself."""
STATEMENTS = 4 * ROWS_AT_ONCE
"""That a connection keeps compiled: the insertions of all sizes, and everything else."""


BODY = 6
"""The column with the body of a decision."""


def append(connection: sqlite3.Connection, events: Sequence[Event], *, trust: bool) -> list[Receipt]:
    """Classify the events and write those that belong in the log.

    With `trust`, decisions are taken to be new, as nearly all are: nothing is asked of their names. If one is known,
    this raises an `sqlite3.IntegrityError`. Roll back, and do it again without.
    """
    named = [event for event in events if not isinstance(event, Decision)] if trust else events
    new = _classifier(connection, named)
    receipts = new.judge(events)
    decisions = [
        (sequence, d.loop, d.event_id, d.slot, d.timestamp, deadline, encode_body(d), *(d.reward_range or (None, None)))
        for sequence, deadline, d in new.decisions
    ]
    _insert(connection, "INTO decisions", [row for row in decisions if len(row[BODY]) <= LARGE])
    for row in decisions:  # a statement that is kept compiled keeps the last rows that it had
        if len(row[BODY]) > LARGE:
            _insert(connection, "INTO decisions", [row])
    rewards = [(r.loop, of, sequence, r.timestamp, r.value, r.key, late) for sequence, of, late, r in new.rewards]
    _insert(connection, "INTO rewards", rewards)
    activations = [(a.loop, of, sequence, a.timestamp, late) for sequence, of, late, a in new.activations]
    _insert(connection, "OR REPLACE INTO activations", activations)
    counts = [(*NUMBERED, new.last - new.before), *((*which, count) for which, count in new.counts.items())]
    _insert(connection, "INTO event_counts", counts, "ON CONFLICT DO UPDATE SET count = count + excluded.count")
    return receipts


def _insert(connection: sqlite3.Connection, into: str, rows: Sequence[tuple[Any, ...]], otherwise: str = "") -> None:
    """Add rows by few statements of many rows each: `executemany` has one for each, and gives Python's lock away."""
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[begin : begin + ROWS_AT_ONCE]
        row = f"({', '.join('?' * len(some[0]))})"
        values = list(chain.from_iterable(some))
        connection.execute(f"INSERT {into} VALUES {', '.join([row] * len(some))} {otherwise}", values)


def _classifier(connection: sqlite3.Connection, events: Sequence[Event]) -> EventClassifier:
    """A classifier that knows what the log has of the decisions that are named in the events."""
    if not events:
        return EventClassifier({}, {}, connection.execute(LAST).fetchone()[0])
    asked: dict[str, set[str]] = {}
    for event in events:
        asked.setdefault(event.loop, set()).add(event.event_id)
    last, seals, decisions = connection.execute(FIND, {"asked": _json(asked)}).fetchone()
    known = {
        (loop, event_id, slot): Known(
            number,
            deadline,
            limits and (float(limits[0]), float(limits[1])),
            activation=activation and Mark(activation[0], bool(activation[1])),
        )
        for loop, event_id, slot, number, deadline, limits, activation in decode_json(decisions)
    }
    _add_keys(connection, events, known)
    return EventClassifier(known, decode_json(seals), last)


def _add_keys(connection: sqlite3.Connection, events: Sequence[Event], known: Mapping[Name, Known]) -> None:
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
        mark = by_sequence[sequence].keys.get(key)
        if mark is None or mark.late:
            by_sequence[sequence].keys[key] = Mark(number, bool(late))


def _json(value: object) -> str:
    return encode_json(value).decode()


def entries(connection: sqlite3.Connection, loop: str, sequences: Sequence[int]) -> tuple[Rows, Rows, Rows]:
    """Read the rows of decisions, of their rewards, and of their activations."""
    asked, among = (loop, _json(sequences)), "IN (SELECT value FROM json_each(?))"
    rewards = "SELECT decision, number, at, value, key, late FROM rewards"
    activations = "SELECT decision, at FROM activations"
    return (
        connection.execute(f"SELECT number, body FROM decisions WHERE loop = ? AND number {among}", asked),
        connection.execute(f"{rewards} WHERE loop = ? AND decision {among} ORDER BY decision, number", asked),
        connection.execute(f"{activations} WHERE loop = ? AND decision {among} AND late = 0", asked),
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
