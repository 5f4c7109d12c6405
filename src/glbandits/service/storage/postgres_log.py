"""The log in PostgreSQL: statements inside a transaction that the caller began.

A batch takes two round trips, whatever its size: one locks the log and reads what the classifier needs, the other
writes and commits. Rows travel as one JSON parameter per statement, which costs a third of the CPU of arrays.
LATERAL with OFFSET 0 makes PostgreSQL look up each name by index, whatever its statistics are.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from glbandits.service.domain.event_rules import (
    DecisionName,
    EventClassifier,
    KnownDecision,
    LogState,
    PriorEvent,
    name_of,
    unit_of,
)
from glbandits.service.domain.events import Activation, Event, Receipt, Reward, UnitStart
from glbandits.service.storage.action_sets import BatchSets, RecentSets, SetName
from glbandits.service.storage.log_rows import rows_of
from glbandits.service.storage.postgres_schema import HISTORY, TYPES, Connection
from glbandits.service.storage.schema import COLUMNS, SELECT_LAST_SEQUENCE

encode_json = msgspec.json.Encoder().encode

LOCK = f"{SELECT_LAST_SEQUENCE.replace('SELECT count', f'SELECT count, {HISTORY}')} FOR UPDATE"
"""Every transaction that appends takes this lock first, so events become visible in the order of sequence."""
FIND_SEALS = "SELECT loop_name, sealed_through, created FROM loops WHERE loop_name = ANY(%s)"
FIND_METRIC_SEALS = "SELECT loop_name, metric, sealed_through FROM metric_seals WHERE loop_name = ANY(%s)"
FIND_DECISIONS = """
    SELECT d.loop_name, d.event_id, d.slot, d.sequence, d.deadline, d.unit, d.unit_since,
        d.reward_min, d.reward_max,
        EXISTS (SELECT 1 FROM rewards AS r WHERE r.decision = d.sequence AND r.value IS NULL AND r.late = 0)
    FROM json_to_recordset(%s) AS wanted (loop_name text, event_id text)
    CROSS JOIN LATERAL (
        SELECT * FROM decisions WHERE loop_name = wanted.loop_name AND event_id = wanted.event_id OFFSET 0
    ) AS d"""
FIND_UNITS = """
    SELECT u.* FROM json_to_recordset(%s) AS wanted (loop_name text, unit text)
    CROSS JOIN LATERAL (
        SELECT * FROM units WHERE loop_name = wanted.loop_name AND unit = wanted.unit OFFSET 0
    ) AS u"""
FIND_KEYS = """
    SELECT d.loop_name, d.event_id, d.slot, r.metric, r.key, r.sequence, r.late
    FROM json_to_recordset(%s) AS wanted (loop_name text, event_id text, slot text, metric text, key text)
    CROSS JOIN LATERAL (
        SELECT * FROM decisions
        WHERE loop_name = wanted.loop_name AND event_id = wanted.event_id
        AND (slot = wanted.slot OR wanted.slot = '' AND wanted.metric <> '') OFFSET 0
    ) AS d
    CROSS JOIN LATERAL (
        SELECT * FROM rewards
        WHERE decision = d.sequence AND metric = wanted.metric AND key = wanted.key AND (metric <> '' OR key <> '')
        OFFSET 0
    ) AS r
    ORDER BY r.late DESC"""
FIND_ACTIVATIONS = """
    SELECT d.loop_name, d.event_id, d.slot, a.sequence, a.late
    FROM json_to_recordset(%s) AS wanted (loop_name text, event_id text)
    CROSS JOIN LATERAL (
        SELECT * FROM decisions WHERE loop_name = wanted.loop_name AND event_id = wanted.event_id OFFSET 0
    ) AS d
    CROSS JOIN LATERAL (SELECT * FROM activations WHERE decision = d.sequence OFFSET 0) AS a"""

FIND_SETS = """
    SELECT s.loop_name, s.digest, s.first FROM json_to_recordset(%s) AS wanted (loop_name text, digest text)
    CROSS JOIN LATERAL (
        SELECT * FROM action_sets WHERE loop_name = wanted.loop_name AND digest = wanted.digest OFFSET 0
    ) AS s"""

NAME_COLUMNS = ("loop_name", "event_id")
KEY_COLUMNS = (*NAME_COLUMNS, "slot", "metric", "key")
UNIT_COLUMNS = ("loop_name", "unit")
SET_COLUMNS = ("loop_name", "digest")
ON_CONFLICT = {
    "activations": "ON CONFLICT (decision) DO UPDATE"
    " SET sequence = excluded.sequence, received_at = excluded.received_at, late = excluded.late",
    "event_counts": "ON CONFLICT (loop_name, kind, status) DO UPDATE SET count = c.count + excluded.count",
}
"""What to do with rows that the table has."""


def _insert(table: str) -> str:
    """Return the statement that inserts rows: one parameter of JSON, and an array if they have a body."""
    small = {name: TYPES[kind] for name, kind in COLUMNS[table].items() if name != "body"}
    typed = ", ".join(f"{name} {kind}" for name, kind in small.items())
    names, rows = ", ".join(small), f"json_to_recordset(%s) AS ({typed})"
    if "body" in COLUMNS[table]:
        names, rows = f"{names}, body", f"{rows}, unnest(%b::bytea[])"
    return f"INSERT INTO {table} AS c ({names}) SELECT * FROM ROWS FROM ({rows}) {ON_CONFLICT.get(table, '')}"


WRITTEN = ("decisions", "action_sets", "units", "rewards", "activations", "event_counts")
INSERT = {table: _insert(table) for table in WRITTEN}


class Batch(NamedTuple):
    """Classified events that are not committed yet."""

    written: EventClassifier
    receipts: list[Receipt]
    sets: BatchSets
    known_sets: dict[SetName, int]


def classify(connection: Connection, events: Sequence[Event], recent_sets: RecentSets) -> Batch:
    """Take the append lock and classify the events. One round trip in pipeline mode."""
    loop_names = list({event.loop for event in events})
    names = {(event.loop, event.event_id) for event in events}
    units = {name for event in events if (name := unit_of(event))}
    keyed = {
        (event.loop, event.event_id, event.slot, *name)
        for event in events
        if isinstance(event, Reward) and (name := name_of(event))
    }
    activated = {(event.loop, event.event_id) for event in events if isinstance(event, Activation)}
    sets = BatchSets(events, recent_sets)
    lock = connection.execute(LOCK)
    seals = connection.execute(FIND_SEALS, (loop_names,))
    has_metrics = any(isinstance(event, Reward) and event.metric for event in events)
    metric_seals = connection.execute(FIND_METRIC_SEALS, (loop_names,)) if has_metrics else None
    decisions = connection.execute(FIND_DECISIONS, (_records(NAME_COLUMNS, names),))
    found = connection.execute(FIND_UNITS, (_records(UNIT_COLUMNS, units),)) if units else None
    keys = connection.execute(FIND_KEYS, (_records(KEY_COLUMNS, keyed),)) if keyed else None
    activations = connection.execute(FIND_ACTIVATIONS, (_records(NAME_COLUMNS, activated),)) if activated else None
    known_sets = connection.execute(FIND_SETS, (_records(SET_COLUMNS, sets.names),)) if sets.names else None
    ((last, history),) = lock.fetchall()
    known: dict[DecisionName, KnownDecision] = {
        (loop_name, event_id, slot): KnownDecision(
            sequence, deadline, UnitStart(unit, since), None if lowest is None else (lowest, highest), marked=marked
        )
        for loop_name, event_id, slot, sequence, deadline, unit, since, lowest, highest, marked in decisions.fetchall()
    }
    starts = {(loop_name, unit): UnitStart(*start) for loop_name, unit, *start in (found.fetchall() if found else ())}
    for loop_name, event_id, slot, metric, key, sequence, late in keys.fetchall() if keys else ():
        known[loop_name, event_id, slot].keys[metric, key] = PriorEvent(sequence, bool(late))
    for loop_name, event_id, slot, sequence, late in activations.fetchall() if activations else ():
        known[loop_name, event_id, slot].activation = PriorEvent(sequence, bool(late))
    sealed_metrics = {
        (loop_name, metric): through for loop_name, metric, through in (metric_seals.fetchall() if metric_seals else ())
    }
    loops = seals.fetchall()
    state = LogState(
        last=last,
        history=history,
        sealed={loop_name: through for loop_name, through, _ in loops},
        sealed_metrics=sealed_metrics,
        created={loop_name: since for loop_name, _, since in loops},
    )
    classifier = EventClassifier(known, starts, state)
    numbers = {(loop_name, digest): number for loop_name, digest, number in (known_sets or ())}
    return Batch(classifier, classifier.classify(events), sets, numbers)


def write(connection: Connection, batch: Batch) -> None:
    """Write a batch and commit.

    One round trip in pipeline mode: errors are raised when the pipeline ends.
    """
    for table, rows in rows_of(batch.written, batch.sets, batch.known_sets).items():
        if rows:
            records = [dict(zip(COLUMNS[table], row, strict=True)) for row in rows]
            bodies = [[record.pop("body") for record in records]] if "body" in records[0] else []
            connection.execute(INSERT[table].encode(), (encode_json(records).decode(), *bodies))
    connection.commit()


def was_written(connection: Connection, batch: Batch) -> bool:
    """Return whether a batch was committed. Waits for the end of its transaction."""
    connection.execute(LOCK)
    if batch.written.decisions:
        sequence, _, _, decision = batch.written.decisions[0]
        query = "SELECT FROM decisions WHERE (loop_name, event_id, slot, sequence, decided_at) = (%s, %s, %s, %s, %s)"
        row: tuple[Any, ...] = (decision.loop, decision.event_id, decision.slot, sequence, decision.timestamp)
    elif batch.written.rewards:
        sequence, decision_sequence, _, reward = batch.written.rewards[0]
        query = "SELECT FROM rewards WHERE (decision, sequence, received_at, key) = (%s, %s, %s, %s)"
        row = (decision_sequence, sequence, reward.timestamp, reward.key)
    elif batch.written.activations:
        sequence, decision_sequence, _, activation = batch.written.activations[-1]
        query = "SELECT FROM activations WHERE (decision, sequence, received_at) = (%s, %s, %s)"
        row = (decision_sequence, sequence, activation.timestamp)
    else:
        return True
    return bool(connection.execute(query.encode(), row).fetchall())


def _records(columns: Sequence[str], rows: Any) -> str:
    """Encode rows for `json_to_recordset`."""
    return encode_json([dict(zip(columns, row, strict=True)) for row in rows]).decode()
