"""The log in SQLite: what is asked and written inside a transaction that someone else began.

Few statements for many events: what is known of all events of a call is asked at once, and comes as one row of JSON.
At every row that SQLite returns Python's lock may change hands, and a busy event loop may keep it for long.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from typing import Any

import msgspec

from glbandits.serving.domain.event_rules import EventClassifier, Kind, Known, Mark, Name
from glbandits.serving.domain.events import Activation, Decision, Event, EventStatus, Receipt, Reward, SettledDecision
from glbandits.serving.storage.event_store import LoggedDecision, LoggedReward, LogSummary

encode_body = msgspec.msgpack.Encoder().encode
decode_body = msgspec.msgpack.Decoder(Decision).decode
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


def last_settled(
    connection: sqlite3.Connection, loop: str, after: int, now: int, limit: int, made_before: int, logged_through: int
) -> int:
    """The number of the last decision that can be closed, see `EventStore.seal`; 0 if there is none."""
    last, closable = 0, max(_sealed(connection, loop), logged_through)
    for number, at, deadline in connection.execute(
        "SELECT number, at, deadline FROM decisions WHERE loop = ? AND number > ? ORDER BY number LIMIT ?",
        (loop, after, limit),
    ):
        if deadline >= now and at >= made_before and number > closable:
            break
        last = number
    return last


def _sealed(connection: sqlite3.Connection, loop: str) -> int:
    row = connection.execute("SELECT number FROM seals WHERE loop = ?", (loop,)).fetchone()
    return 0 if row is None else int(row[0])


def settled(connection: sqlite3.Connection, loop: str, after: int, now: int, limit: int) -> list[SettledDecision]:
    """See `EventStore.settled`. Three ranges, merged."""
    found: list[tuple[int, bytes]] = []
    sealed = _sealed(connection, loop)
    for number, deadline, body in connection.execute(
        "SELECT number, deadline, body FROM decisions WHERE loop = ? AND number > ? ORDER BY number LIMIT ?",
        (loop, after, limit),
    ):
        if deadline >= now and number > sealed:
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
        SettledDecision(number, decode_body(body), tuple(rewards.get(number, ())), number in activated)
        for number, body in found
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


def find(connection: sqlite3.Connection, loop: str, event_id: str, slot: str | None = None) -> list[int]:
    """The number of the decision of this name, if there is one; without a slot, of all decisions of the event."""
    found = connection.execute(
        "SELECT number FROM decisions WHERE loop = ? AND event_id = ? AND slot = coalesce(?, slot) ORDER BY number",
        (loop, event_id, slot),
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
    counts: dict[Kind, dict[EventStatus, int]] = {
        kind: dict.fromkeys(EventStatus, 0) for kind in ("decision", "reward", "activation")
    }
    found = "SELECT kind, status, count FROM event_counts WHERE loop = ? AND kind <> 'event'"
    for kind, status, count in connection.execute(found, (loop,)):
        counts[kind][EventStatus(status)] = count
    return LogSummary(
        first_at=first and first[0],
        last_at=last and last[0],
        decisions=counts["decision"],
        rewards=counts["reward"],
        activations=counts["activation"],
    )


def begin_anew(connection: sqlite3.Connection, loop: str) -> None:
    """Count the events of a loop from 0 again. Their numbers go on."""
    connection.execute("DELETE FROM event_counts WHERE loop = ? AND kind <> 'event'", (loop,))


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


def last_sequence(connection: sqlite3.Connection, loop: str, before: int | None, up_to: int) -> int:
    """See `EventStore.last_sequence`."""
    numbers = "SELECT number FROM decisions WHERE loop = ?"
    if before is not None:
        first = connection.execute(f"{numbers} AND at >= ? ORDER BY number LIMIT 1", (loop, before)).fetchone()
        up_to = up_to if first is None else min(up_to, first[0] - 1)
    last = connection.execute(f"{numbers} AND number <= ? ORDER BY number DESC LIMIT 1", (loop, up_to)).fetchone()
    return 0 if last is None else int(last[0])
