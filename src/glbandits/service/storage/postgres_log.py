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
from glbandits.service.storage.event_store import encode_body
from glbandits.service.storage.postgres_schema import HISTORY, Connection
from glbandits.service.storage.schema import LAST_SEQUENCE_KEY, SELECT_LAST_SEQUENCE

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

NAME_COLUMNS = ("loop_name", "event_id")
KEY_COLUMNS = (*NAME_COLUMNS, "slot", "metric", "key")
UNIT_COLUMNS = ("loop_name", "unit", "first", "since")
DECISION_COLUMNS = (
    *("sequence", *NAME_COLUMNS, "slot", "decided_at", "deadline"),
    *("reward_min", "reward_max", "unit", "unit_since"),
)
REWARD_COLUMNS = ("decision", "sequence", "received_at", "value", "metric", "key", "late")
ACTIVATION_COLUMNS = ("decision", "sequence", "received_at", "late")
COUNT_COLUMNS = ("loop_name", "kind", "status", "count")
INSERT_DECISIONS = """
    INSERT INTO decisions SELECT * FROM ROWS FROM (
        json_to_recordset(%s) AS (
            sequence bigint, loop_name text, event_id text, slot text, decided_at bigint, deadline bigint,
            reward_min double precision, reward_max double precision, unit bigint, unit_since bigint
        ),
        unnest(%b::bytea[])
    )"""
INSERT_UNITS = """
    INSERT INTO units SELECT * FROM json_to_recordset(%s)
    AS new (loop_name text, unit text, first bigint, since bigint)"""
INSERT_REWARDS = """
    INSERT INTO rewards SELECT * FROM json_to_recordset(%s)
    AS new (
        decision bigint, sequence bigint, received_at bigint, value double precision, metric text, key text, late bigint
    )"""
INSERT_ACTIVATIONS = """
    INSERT INTO activations SELECT * FROM json_to_recordset(%s)
    AS new (decision bigint, sequence bigint, received_at bigint, late bigint)
    ON CONFLICT (decision) DO UPDATE
    SET sequence = excluded.sequence, received_at = excluded.received_at, late = excluded.late"""
ADD_COUNTS = """
    INSERT INTO event_counts AS c SELECT * FROM json_to_recordset(%s)
    AS new (loop_name text, kind text, status text, count bigint)
    ON CONFLICT (loop_name, kind, status) DO UPDATE SET count = c.count + excluded.count"""


class Batch(NamedTuple):
    """Classified events that are not committed yet."""

    written: EventClassifier
    receipts: list[Receipt]


def classify(connection: Connection, events: Sequence[Event]) -> Batch:
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
    lock = connection.execute(LOCK)
    seals = connection.execute(FIND_SEALS, (loop_names,))
    has_metrics = any(isinstance(event, Reward) and event.metric for event in events)
    metric_seals = connection.execute(FIND_METRIC_SEALS, (loop_names,)) if has_metrics else None
    decisions = connection.execute(FIND_DECISIONS, (_records(NAME_COLUMNS, names),))
    found = connection.execute(FIND_UNITS, (_records(UNIT_COLUMNS[:2], units),)) if units else None
    keys = connection.execute(FIND_KEYS, (_records(KEY_COLUMNS, keyed),)) if keyed else None
    activations = connection.execute(FIND_ACTIVATIONS, (_records(NAME_COLUMNS, activated),)) if activated else None
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
    return Batch(classifier, classifier.classify(events))


def write(connection: Connection, batch: Batch) -> None:
    """Write a batch and commit.

    One round trip in pipeline mode: errors are raised when the pipeline ends.
    """
    new = batch.written
    if new.decisions:
        rows = [
            (sequence, d.loop, d.event_id, d.slot, d.timestamp, deadline, *(d.reward_range or (None, None)), *unit)
            for sequence, deadline, unit, d in new.decisions
        ]
        bodies = [encode_body(d) for *_, d in new.decisions]
        connection.execute(INSERT_DECISIONS, (_records(DECISION_COLUMNS, rows), bodies))
    if new.units:
        units = [(*name, *unit) for name, unit in new.units.items()]
        connection.execute(INSERT_UNITS, (_records(UNIT_COLUMNS, units),))
    if new.rewards:
        rewards = [
            (decision, sequence, r.timestamp, r.value, r.metric, r.key, int(late))
            for sequence, decision, late, r in new.rewards
        ]
        connection.execute(INSERT_REWARDS, (_records(REWARD_COLUMNS, rewards),))
    if new.activations:
        # One statement may update a row once: of a late activation and one on time, the second counts.
        activations = {
            decision: (decision, sequence, a.timestamp, int(late)) for sequence, decision, late, a in new.activations
        }
        connection.execute(INSERT_ACTIVATIONS, (_records(ACTIVATION_COLUMNS, activations.values()),))
    counts = [(*LAST_SEQUENCE_KEY, new.last - new.before), *((*which, count) for which, count in new.counts.items())]
    connection.execute(ADD_COUNTS, (_records(COUNT_COLUMNS, counts),))
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
