"""Versions of the tables, and files of other programs."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from glbandits.service.domain.errors import StoreError
from glbandits.service.storage.sqlite_store import SqliteStore


def test_files_of_other_programs_are_refused(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("Dear diary, " * 100)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = text.read_bytes(), other.read_bytes()
    with pytest.raises(StoreError, match="notes.txt could not be opened: file"):
        SqliteStore(text)
    with pytest.raises(StoreError, match="other.db is a database of another program"):
        SqliteStore(other)
    assert (text.read_bytes(), other.read_bytes()) == before
    with pytest.raises(StoreError, match="could not be opened"):
        SqliteStore(tmp_path / "no folder" / "events.db")


def test_a_refused_file_leaves_no_connection_open(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    (tmp_path / "notes.txt").write_text("Dear diary, " * 100)
    with pytest.raises(StoreError, match="could not be opened"):
        SqliteStore(tmp_path / "notes.txt")
    (connection,) = opened
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
