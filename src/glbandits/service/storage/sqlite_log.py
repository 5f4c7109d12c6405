"""The log in SQLite: statements inside a transaction that the caller began.

A batch needs few statements and few rows: one query looks up all events of the batch, and returns one row of JSON.
SQLite releases the GIL at every row that it returns, and a busy event loop may hold the GIL for long.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec

from glbandits.service.domain.event_rules import (
    EventClassifier,
    KnownDecision,
    LogState,
    PriorEvent,
    UnitName,
    name_of,
    opens_event,
    unit_of,
)
from glbandits.service.domain.events import Decision, Event, Receipt, Reward, UnitStart
from glbandits.service.storage.action_sets import BatchSets, RecentSets, SetName
from glbandits.service.storage.log_rows import rows_of
from glbandits.service.storage.schema import COLUMNS, SELECT_LAST_SEQUENCE

encode_json = msgspec.json.Encoder().encode
decode_json = msgspec.json.Decoder().decode

ALL_DIGITS = "printf('%%!.17g', %s)"
"""A number as text with all digits. SQLite's JSON has only 15."""
FIND_DECISIONS = f"""
    SELECT ({SELECT_LAST_SEQUENCE}), (
        SELECT json_group_object(l.loop_name, l.sealed_through)
        FROM json_each(:names) AS names CROSS JOIN loops AS l ON l.loop_name = names.key
    ), (
        SELECT json_group_array(json_array(
            d.loop_name, d.event_id, d.slot, d.sequence, d.deadline, d.unit, d.unit_since,
            iif(d.reward_min IS NULL, NULL, json_array({ALL_DIGITS % "d.reward_min"}, {ALL_DIGITS % "d.reward_max"})),
            (SELECT json_array(a.sequence, a.late) FROM activations AS a WHERE a.decision = d.sequence),
            EXISTS (SELECT 1 FROM rewards AS r WHERE r.decision = d.sequence AND r.value IS NULL AND r.late = 0)
        ))
        FROM json_each(:names) AS names CROSS JOIN json_each(names.value) AS events
        CROSS JOIN decisions AS d ON d.loop_name = names.key AND d.event_id = events.value
    )"""
"""Selects the last sequence number, the last sealed decision of each loop, and decisions with their activations. The
parameter is a JSON object of event ids by loop."""
HAS_EVENTS = """
    SELECT EXISTS (
        SELECT 1 FROM json_each(:names) AS names CROSS JOIN json_each(names.value) AS events
        CROSS JOIN decisions AS d ON d.loop_name = names.key AND d.event_id = events.value
    ), (
        SELECT json_group_object(l.loop_name, l.created)
        FROM json_each(:names) AS names CROSS JOIN loops AS l ON l.loop_name = names.key WHERE l.created > 0
    )"""
"""Selects whether the log has a decision of one of the events, and the column `created` of loops that were deleted.
The parameter is that of FIND_DECISIONS."""
FIND_UNITS = """
    SELECT json_group_array(json_array(u.loop_name, u.unit, u.first, u.since))
    FROM json_each(?) AS names CROSS JOIN json_each(names.value) AS wanted
    CROSS JOIN units AS u ON u.loop_name = names.key AND u.unit = wanted.value"""
"""Selects units. The parameter is a JSON object of hashes by loop."""
FIND_KEYS = """
    SELECT json_group_array(json_array(r.decision, r.metric, r.key, r.sequence, r.late))
    FROM json_each(?) AS wanted CROSS JOIN rewards AS r
    ON (r.metric <> '' OR r.key <> '') AND r.decision = json_extract(wanted.value, '$[0]')
    AND r.metric = json_extract(wanted.value, '$[1]') AND r.key = json_extract(wanted.value, '$[2]')"""
FIND_SETS = """
    SELECT json_group_array(json_array(s.loop_name, s.digest, s.first))
    FROM json_each(?) AS names CROSS JOIN json_each(names.value) AS wanted
    CROSS JOIN action_sets AS s ON s.loop_name = names.key AND s.digest = wanted.value"""
"""Selects sets of actions. The parameter is a JSON object of digests by loop."""
FIND_METRIC_SEALS = """
    SELECT json_group_array(json_array(s.loop_name, s.metric, s.sealed_through))
    FROM json_each(?) AS names CROSS JOIN json_each(names.value) AS wanted
    CROSS JOIN metric_seals AS s ON s.loop_name = names.key AND s.metric = wanted.value"""
"""Selects seals of metrics. The parameter is a JSON object of metrics by loop."""
MAX_ROWS = 64
"""Rows of one INSERT statement, at most. Each number of rows is another entry in the cache of compiled statements."""
BODY_COLUMNS = {table: list(COLUMNS[table]).index("body") for table in ("decisions", "action_sets")}
"""The index of the column with the body, in tables whose rows may be large."""
LARGE_BODY = 8 * 1024
"""Bytes above which a row has an INSERT statement of its own."""
STATEMENT_CACHE_SIZE = 4 * MAX_ROWS
"""Size of the cache of compiled statements: INSERT statements for all numbers of rows, and all others."""


def append(connection: sqlite3.Connection, events: Sequence[Event], recent_sets: RecentSets) -> list[Receipt]:
    """Classify the events and write those that belong in the log."""
    named, created = _named(connection, events)
    classified = _classifier(connection, named, _units(connection, events), created)
    receipts, sets = classified.classify(events), BatchSets(events, recent_sets)
    rows = rows_of(classified, sets, _known_sets(connection, sets))
    for table, body in BODY_COLUMNS.items():
        _insert(connection, f"INTO {table}", [row for row in rows[table] if len(row[body]) <= LARGE_BODY])
        for row in rows[table]:  # one by one, because each cached statement keeps the rows of its last use in memory
            if len(row[body]) > LARGE_BODY:
                _insert(connection, f"INTO {table}", [row])
    _insert(connection, "INTO units", rows["units"])
    _insert(connection, "INTO rewards", rows["rewards"])
    _insert(connection, "OR REPLACE INTO activations", rows["activations"])
    increase = "ON CONFLICT DO UPDATE SET count = count + excluded.count"
    _insert(connection, "INTO event_counts", rows["event_counts"], increase)
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


def _named(connection: sqlite3.Connection, events: Sequence[Event]) -> tuple[Sequence[Event], dict[str, int]]:
    """Return the events that may name decisions of the log, and the column `created` of loops that were deleted.

    Nearly all first decisions of an event are new.
    """
    new = [event for event in events if isinstance(event, Decision) and opens_event(event)]
    found, created = connection.execute(HAS_EVENTS, {"names": _names(new)}).fetchone() if new else (0, "{}")
    others = [event for event in events if not isinstance(event, Decision) or not opens_event(event)]
    return events if found else others, decode_json(created)


def _names(events: Sequence[Event]) -> str:
    """Return the event ids by loop, as JSON."""
    return _by_loop((event.loop, event.event_id) for event in events)


def _by_loop(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the second parts by the first ones, as JSON."""
    names: dict[str, set[str]] = {}
    for loop_name, name in pairs:
        names.setdefault(loop_name, set()).add(name)
    return _json(names)


def _units(connection: sqlite3.Connection, events: Sequence[Event]) -> dict[UnitName, UnitStart]:
    """Return the units of the log that the events name."""
    names = [name for event in events if (name := unit_of(event))]
    if not names:
        return {}
    rows = decode_json(connection.execute(FIND_UNITS, (_by_loop(names),)).fetchone()[0])
    return {(loop_name, unit): UnitStart(first, since) for loop_name, unit, first, since in rows}


def _classifier(
    connection: sqlite3.Connection,
    events: Sequence[Event],
    units: dict[UnitName, UnitStart],
    created: dict[str, int],
) -> EventClassifier:
    """Return a classifier with the logged decisions that the events name."""
    if not events:
        last = connection.execute(SELECT_LAST_SEQUENCE).fetchone()[0]
        return EventClassifier({}, units, LogState(last=last, created=created))
    last, seals, decisions = connection.execute(FIND_DECISIONS, {"names": _names(events)}).fetchone()
    known = {
        (loop_name, event_id, slot): KnownDecision(
            number,
            deadline,
            UnitStart(unit, since),
            limits and (float(limits[0]), float(limits[1])),
            activation=activation and PriorEvent(activation[0], bool(activation[1])),
            marked=bool(marked),
        )
        for loop_name, event_id, slot, number, deadline, unit, since, limits, activation, marked in decode_json(
            decisions
        )
    }
    metric_seals = _metric_seals(connection, events)
    state = LogState(last=last, sealed=decode_json(seals), sealed_metrics=metric_seals, created=created)
    classifier = EventClassifier(known, units, state)
    _add_keys(connection, events, classifier)
    return classifier


def _known_sets(connection: sqlite3.Connection, sets: BatchSets) -> dict[SetName, int]:
    """Return the numbers of the sets of actions that the log has."""
    if not sets.names:
        return {}
    rows = decode_json(connection.execute(FIND_SETS, (_by_loop(sets.names),)).fetchone()[0])
    return {(loop_name, digest): number for loop_name, digest, number in rows}


def _metric_seals(connection: sqlite3.Connection, events: Sequence[Event]) -> dict[tuple[str, str], int]:
    """Return the seals of the metrics that the events name."""
    wanted = [(event.loop, event.metric) for event in events if isinstance(event, Reward) and event.metric]
    if not wanted:
        return {}
    rows = decode_json(connection.execute(FIND_METRIC_SEALS, (_by_loop(wanted),)).fetchone()[0])
    return {(loop_name, metric): sealed_through for loop_name, metric, sealed_through in rows}


def _add_keys(connection: sqlite3.Connection, events: Sequence[Event], classifier: EventClassifier) -> None:
    keyed = [
        (decision, name)
        for event in events
        if isinstance(event, Reward) and (name := name_of(event))
        if (decision := classifier.decision_of(event))
    ]
    if not keyed:
        return
    by_sequence = {decision.sequence: decision for decision, _ in keyed}
    wanted = _json([(decision.sequence, *name) for decision, name in keyed])
    for sequence, metric, key, number, late in decode_json(connection.execute(FIND_KEYS, (wanted,)).fetchone()[0]):
        prior = by_sequence[sequence].keys.get((metric, key))
        if prior is None or prior.late:
            by_sequence[sequence].keys[metric, key] = PriorEvent(number, bool(late))


def _json(value: object) -> str:
    return encode_json(value).decode()
