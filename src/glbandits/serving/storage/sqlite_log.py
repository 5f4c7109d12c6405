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
from glbandits.serving.domain.events import Activation, Decision, Event, Receipt, Reward
from glbandits.serving.storage.event_store import Rows, encode_body

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
            iif(d.reward_min IS NULL, NULL, json_array({EXACT % "d.reward_min"}, {EXACT % "d.reward_max"}))
        ))
        FROM json_each(:asked) AS loops CROSS JOIN json_each(loops.value) AS events
        CROSS JOIN decisions AS d ON d.loop = loops.key AND d.event_id = events.value
    )"""
"""The last number, and the seals and decisions for event_ids by loop."""
FIND_KEYS = """
    SELECT json_group_array(json_array(r.decision, r.key, r.number, r.late))
    FROM json_each(?) AS asked CROSS JOIN rewards AS r
    ON r.key <> '' AND r.decision = json_extract(asked.value, '$[0]') AND r.key = json_extract(asked.value, '$[1]')"""
FIND_ACTIVATIONS = """
    SELECT json_group_array(json_array(a.decision, a.number, a.late))
    FROM json_each(?) AS asked CROSS JOIN activations AS a
    ON a.loop = json_extract(asked.value, '$[0]') AND a.decision = json_extract(asked.value, '$[1]')"""


ROWS_AT_ONCE = 64
"""Of an insertion, at most: each number of rows is a statement that is kept compiled."""
LARGE = 8 * 1024
"""Bytes of a decision that has an insertion for itself."""
STATEMENTS = 4 * ROWS_AT_ONCE
"""That a connection keeps compiled: the insertions of all sizes, and everything else."""


def _insertions(into: str, columns: int, otherwise: str = "") -> tuple[str, ...]:
    """Statements that add rows, by their number."""
    row = f"({', '.join('?' * columns)})"
    return tuple(f"INSERT {into} VALUES {', '.join([row] * rows)}{otherwise}" for rows in range(ROWS_AT_ONCE + 1))


DECISIONS = _insertions("INTO decisions", 9)
BODY = 6
"""The column with the body of a decision."""
REWARDS = _insertions("INTO rewards", 7)
ACTIVATIONS = _insertions("OR REPLACE INTO activations", 5)
COUNTS = _insertions("INTO event_counts", 4, " ON CONFLICT DO UPDATE SET count = count + excluded.count")


class KnownName(Exception):
    """A decision that was taken to be new is in the log."""


def append(connection: sqlite3.Connection, events: Sequence[Event], *, trust: bool) -> list[Receipt]:
    """EventClassifier the events and write those that are kept.

    With `trust`, decisions are taken to be new, as nearly all are: nothing is asked of their names, because SQLite
    finds those that are known when it writes. Then this raises `KnownName`; roll back, and do it again without.
    """
    judge = _judge(connection, [event for event in events if not isinstance(event, Decision)] if trust else events)
    receipts = judge.judge(events)
    if judge.decisions:
        try:
            _insert_decisions(connection, [_decision_row(*new) for new in judge.decisions])
        except sqlite3.IntegrityError as error:
            if trust:
                raise KnownName from error
            raise
    if judge.rewards:
        _insert(connection, REWARDS, [_reward_row(*new) for new in judge.rewards])
    if judge.activations:
        _insert(connection, ACTIVATIONS, [_activation_row(*new) for new in judge.activations])
    counts = [(*which, count) for which, count in judge.counts.items()]
    _insert(connection, COUNTS, [(*NUMBERED, judge.last - judge.before), *counts])
    return receipts


def _decision_row(sequence: int, deadline: int, decision: Decision) -> tuple[Any, ...]:
    body, limits = encode_body(decision), decision.reward_range or (None, None)
    return (sequence, decision.loop, decision.event_id, decision.slot, decision.timestamp, deadline, body, *limits)


def _reward_row(sequence: int, of: int, late: bool, reward: Reward) -> tuple[Any, ...]:
    return (reward.loop, of, sequence, reward.timestamp, reward.value, reward.key, late)


def _activation_row(sequence: int, of: int, late: bool, activation: Activation) -> tuple[Any, ...]:
    return (activation.loop, of, sequence, activation.timestamp, late)


def _insert(connection: sqlite3.Connection, statements: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Add rows by few statements of many rows each: `executemany` has one for each, and gives Python's lock away."""
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[begin : begin + ROWS_AT_ONCE]
        connection.execute(statements[len(some)], list(chain.from_iterable(some)))


def _insert_decisions(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Large ones one by one: a statement that is kept compiled keeps the last rows that it had."""
    _insert(connection, DECISIONS, [row for row in rows if len(row[BODY]) <= LARGE])
    for row in rows:
        if len(row[BODY]) > LARGE:
            connection.execute(DECISIONS[1], row)


def _judge(connection: sqlite3.Connection, events: Sequence[Event]) -> EventClassifier:
    """One that knows what the log has of the decisions that are named in the events."""
    if not events:
        return EventClassifier({}, {}, connection.execute(LAST).fetchone()[0])
    asked: dict[str, set[str]] = {}
    for event in events:
        asked.setdefault(event.loop, set()).add(event.event_id)
    last, seals, decisions = connection.execute(FIND, {"asked": _json(asked)}).fetchone()
    known = {
        (loop, event_id, slot): Known(number, deadline, limits and (float(limits[0]), float(limits[1])))
        for loop, event_id, slot, number, deadline, limits in decode_json(decisions)
    }
    _add_keys(connection, events, known)
    _add_activations(connection, events, known)
    return EventClassifier(known, decode_json(seals), last)


def _add_keys(connection: sqlite3.Connection, events: Sequence[Event], known: Mapping[Name, Known]) -> None:
    named = [
        (known.get((event.loop, event.event_id, event.slot)), event.key)
        for event in events
        if isinstance(event, Reward) and event.key
    ]
    asked = {found.sequence: found for found, _ in named if found is not None}
    pairs = [(found.sequence, key) for found, key in named if found is not None]
    for decision, key, number, late in _ask(connection, FIND_KEYS, pairs):
        mark = asked[decision].keys.get(key)
        if mark is None or mark.late:
            asked[decision].keys[key] = Mark(number, bool(late))


def _add_activations(connection: sqlite3.Connection, events: Sequence[Event], known: Mapping[Name, Known]) -> None:
    activated = {(event.loop, event.event_id) for event in events if isinstance(event, Activation)}
    slots = {found.sequence: (name[0], found) for name, found in known.items() if name[:2] in activated}
    pairs = [(loop, number) for number, (loop, _) in slots.items()]
    for decision, number, late in _ask(connection, FIND_ACTIVATIONS, pairs):
        slots[decision][1].activation = Mark(number, bool(late))


def _ask(connection: sqlite3.Connection, query: str, asked: Sequence[Any]) -> list[list[Any]]:
    """The rows that a query gives for a list of pairs. It gives them as one text."""
    if not asked:
        return []
    rows: list[list[Any]] = decode_json(connection.execute(query, (_json(asked),)).fetchone()[0])
    return rows


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
