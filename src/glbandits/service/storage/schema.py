"""The tables of a store. SQLite and PostgreSQL have the same names and columns.

`postgres_schema` replaces the names of the types. A change here needs a step in `migrations`.
"""

TABLES = {
    "decisions": """
        sequence INTEGER PRIMARY KEY,
        loop_name TEXT NOT NULL,
        event_id TEXT NOT NULL,
        slot TEXT NOT NULL,
        decided_at INTEGER NOT NULL,
        deadline INTEGER NOT NULL,
        reward_min REAL,
        reward_max REAL,
        unit INTEGER NOT NULL,
        unit_since INTEGER NOT NULL,
        body BLOB NOT NULL,
        action_set INTEGER,
        UNIQUE (loop_name, event_id, slot)""",
    # `first` is the sequence number of the first decision with the set, see `action_sets`.
    "action_sets": """
        first INTEGER PRIMARY KEY,
        loop_name TEXT NOT NULL,
        digest TEXT NOT NULL,
        body BLOB NOT NULL""",
    "rewards": """
        decision INTEGER NOT NULL,
        sequence INTEGER NOT NULL,
        received_at INTEGER NOT NULL,
        value REAL,
        metric TEXT NOT NULL,
        key TEXT NOT NULL,
        late INTEGER NOT NULL CHECK (late IN (0, 1)),
        PRIMARY KEY (decision, sequence)""",
    "activations": """
        decision INTEGER NOT NULL,
        sequence INTEGER NOT NULL,
        received_at INTEGER NOT NULL,
        late INTEGER NOT NULL CHECK (late IN (0, 1)),
        PRIMARY KEY (decision)""",
    # Units stay when their decisions are deleted, so that a unit that comes back is not a new one.
    "units": """
        loop_name TEXT NOT NULL,
        unit TEXT NOT NULL,
        first INTEGER NOT NULL,
        since INTEGER NOT NULL,
        PRIMARY KEY (loop_name, unit)""",
    # The last sequence number is the row LAST_SEQUENCE_KEY, so that one statement and one page update all.
    "event_counts": """
        loop_name TEXT NOT NULL,
        kind TEXT NOT NULL,
        status TEXT NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY (loop_name, kind, status)""",
    "loops": """
        loop_name TEXT NOT NULL,
        sealed_through INTEGER NOT NULL,
        created INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (loop_name)""",
    "metric_seals": """
        loop_name TEXT NOT NULL,
        metric TEXT NOT NULL,
        sealed_through INTEGER NOT NULL,
        PRIMARY KEY (loop_name, metric)""",
    "documents": """
        loop_name TEXT NOT NULL,
        kind TEXT NOT NULL,
        version INTEGER NOT NULL,
        saved_at INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (loop_name, kind, version)""",
    "models": """
        loop_name TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        saved_at INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (loop_name, sequence)""",
    # One row: the term and the beat of the learner, see `LearnerLease`, and the number of saved documents and models.
    "coordination": """
        only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
        term INTEGER NOT NULL,
        beat INTEGER NOT NULL,
        changes INTEGER NOT NULL""",
}
"""The columns of each table."""
COLUMNS = {
    name: {column.split()[0]: column.split()[1] for column in text.split(",\n") if column.strip()[0].islower()}
    for name, text in TABLES.items()
}
"""The type of each column of each table."""
IS_REPEATED = "unit <> sequence"
"""Condition for decisions after the first one of their unit."""
INDEXES = {
    "decisions_by_sequence": "INDEX decisions_by_sequence ON decisions (loop_name, sequence)",
    "decisions_by_time": "INDEX decisions_by_time ON decisions (loop_name, decided_at)",
    # A first decision is found by its sequence number, so a decision without a unit costs no entry.
    "decisions_by_unit": f"INDEX decisions_by_unit ON decisions (unit, sequence) WHERE {IS_REPEATED}",
    # A set that only its first decision has costs no entry.
    "decisions_by_action_set": "INDEX decisions_by_action_set ON decisions (action_set, sequence)"
    " WHERE action_set <> sequence",
    "action_set_digests": "UNIQUE INDEX action_set_digests ON action_sets (loop_name, digest)",
    "reward_keys": "UNIQUE INDEX reward_keys ON rewards (decision, metric, key, late) WHERE metric <> '' OR key <> ''",
}
LAST_SEQUENCE_KEY = ("", "event", "numbered")
"""Primary key of the row of `event_counts` with the sequence number of the last event. It is never deleted, because
sequence numbers of deleted events must not be used again."""
SELECT_LAST_SEQUENCE = f"SELECT count FROM event_counts WHERE (loop_name, kind, status) = {LAST_SEQUENCE_KEY}"
FIRST_ROWS = (
    f"INSERT INTO event_counts VALUES {(*LAST_SEQUENCE_KEY, 0)}",
    "INSERT INTO coordination VALUES (1, 0, 0, 0)",
)
