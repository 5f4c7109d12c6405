"""Closing the stores of the tests of loops. A loop does not own its store."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from glbandits.service.storage.sqlite_store import SqliteStore


@pytest.fixture(autouse=True)
def close_stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the SQLite stores that a test opened."""
    open_store = SqliteStore.__init__
    with ExitStack() as opened:

        def open_and_record(store: SqliteStore, *args: Any, **settings: Any) -> None:
            open_store(store, *args, **settings)
            opened.callback(store.close)

        monkeypatch.setattr(SqliteStore, "__init__", open_and_record)
        yield
