"""The connections that SQLite stores open."""

import sqlite3
from typing import Any

import pytest


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """The connections that stores open, in order: the first one of a store writes."""
    connections, connect = list[sqlite3.Connection](), sqlite3.connect

    def recorded(*args: Any, **named: Any) -> sqlite3.Connection:
        connections.append(connect(*args, **named))
        return connections[-1]

    monkeypatch.setattr(sqlite3, "connect", recorded)
    return connections
