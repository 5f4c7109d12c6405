"""Stores of every earlier version open, and migrations are all or nothing."""

import logging
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.api_keys import Keys
from glbandits.service.storage.migrations import MIGRATIONS, Migration, present_version
from glbandits.service.storage.open_store import is_postgres, open_store, version_of
from glbandits.service.storage.postgres_schema import ROOM_FOR_UPDATES, TYPES
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import decision
from tests.service.storage.kept.write_store import CONFIGURATION, DECISIONS, FOLDER, KEY
from tests.service.storage.postgres.postgres_server import PostgresServer

KEPT = sorted(FOLDER.glob("version_*.db"))
NEW_TABLE = Migration("a table of a test", {"notes": "id INTEGER NOT NULL, note TEXT NOT NULL, PRIMARY KEY (id)"}, ())


@contextmanager
def postgres_copy(file: Path, address: str, version: int) -> Iterator[None]:
    """Create the tables of a SQLite file, and its rows, in an empty PostgreSQL schema."""
    with closing(sqlite3.connect(file)) as source, psycopg.connect(address) as target:
        schema = address.rpartition("search_path%3D")[2]
        target.execute(f"CREATE SCHEMA {schema}".encode())
        for kind, name, text in source.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL"):
            statement = text.replace(" STRICT, WITHOUT ROWID", "").replace(" STRICT", "")
            for old, new in TYPES.items():
                statement = statement.replace(old, new)
            target.execute((statement + (" WITH (fillfactor = 20)" if name in ROOM_FOR_UPDATES else "")).encode())
            if kind == "table":
                for row in source.execute(f"SELECT * FROM {name}").fetchall():
                    marks = ", ".join(["%s"] * len(row))
                    target.execute(f"INSERT INTO {name} VALUES ({marks})".encode(), row)
        target.execute("CREATE TABLE glbandits_store (version integer NOT NULL)")
        target.execute("INSERT INTO glbandits_store VALUES (%s)", (version,))
    yield


@pytest.fixture(params=[(file, kind) for file in KEPT for kind in ("sqlite", "postgres")], name="kept", ids=str)
def kept_fixture(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, int]]:
    """The address of a store of an earlier version, and the version."""
    file, kind = request.param
    version = int(file.stem.rpartition("_")[2])
    if kind == "sqlite":
        yield str(shutil.copy(file, tmp_path / "store.db")), version
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    address = server.new_address()
    with postgres_copy(file, address, version):
        yield address, version


def columns(address: str) -> dict[str, list[tuple[object, ...]]]:
    """The columns of each table of a store, and its indexes."""
    if is_postgres(address):
        with psycopg.connect(address) as connection:
            query = (
                "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
                " WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position"
            )
            indexes = "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1"
            return {"columns": connection.execute(query).fetchall(), "indexes": connection.execute(indexes).fetchall()}
    with closing(sqlite3.connect(address)) as file:
        names = file.execute("SELECT name FROM sqlite_schema ORDER BY name").fetchall()
        return {name: file.execute(f"PRAGMA table_xinfo('{name}')").fetchall() for (name,) in names}


def test_a_store_of_every_version_opens(kept: tuple[str, int], caplog: pytest.LogCaptureFixture) -> None:
    address, version = kept
    with closing(open_store(address, durability="process")) as store:
        assert store.check() == []
        assert len(store.search("shop", "", 1000)) == DECISIONS
        assert [key.name for key in Keys(store, lambda: 0).live()] == [KEY]
        loop = Loop("shop", store, lambda: 2**62)
        assert loop.configuration == CONFIGURATION != LoopConfig()
        loop.learn()
        result = verify(store, "shop")
        assert (result.decisions, result.unchecked, result.different) == (DECISIONS, 0, 0), result.messages
        store.append_blocking([decision("new")])
    migrated = f"migrated from version {version} of the tables to version {present_version()}" in caplog.text
    assert migrated == (version < present_version())


def test_a_migrated_store_has_the_tables_of_a_new_one(
    kept: tuple[str, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address, _ = kept
    new = str(tmp_path / "new.db")
    if is_postgres(address):
        new = request.getfixturevalue("postgres").new_address()
    for each in (address, new):
        open_store(each, durability="process").close()
    assert columns(address) == columns(new)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_migration_that_fails_changes_nothing(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(tmp_path / "store.db") if kind == "sqlite" else request.getfixturevalue("postgres").new_address()
    with closing(open_store(address, durability="process")) as store:
        store.append_blocking([decision("a")])
    before = columns(address)
    step = present_version() + 1
    with monkeypatch.context() as patch:
        patch.setitem(MIGRATIONS, step, NEW_TABLE._replace(statements=("SELECT nothing FROM nowhere",)))
        with pytest.raises(StoreError, match="could not be opened"):
            open_store(address, durability="process")
    assert columns(address) == before
    open_store(address, durability="process").close()
    monkeypatch.setitem(MIGRATIONS, step, NEW_TABLE)
    with closing(open_store(address, durability="process")) as store:
        assert store.decision("shop", "a") is not None
    assert columns(address) != before


def test_a_file_is_copied_before_its_migration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, version = tmp_path / "store.db", present_version()
    with closing(SqliteStore(path)) as store:
        store.append_blocking([decision("a")])
    with monkeypatch.context() as patch:
        patch.setitem(MIGRATIONS, version + 1, NEW_TABLE)
        SqliteStore(path).close()
    copy = tmp_path / f"store.db.version-{version}"
    assert f"(a table of a test). The file before the migration is {copy}" in caplog.text
    with closing(SqliteStore(copy)) as store:  # the version before can use it
        assert store.decision("shop", "a") is not None
    with pytest.raises(StoreError, match="A newer glbandits wrote it: upgrade glbandits"):
        SqliteStore(path)


def test_a_newer_version_is_refused_by_name(tmp_path: Path, postgres: PostgresServer) -> None:
    path, address = tmp_path / "events.db", postgres.new_address()
    for each in (str(path), address):
        open_store(each, durability="process").close()
        assert version_of(each) == present_version()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with psycopg.connect(address) as server:
        server.execute("UPDATE glbandits_store SET version = 99")
    known = f"version 99 of the tables, and this version of glbandits knows versions 1 to {present_version()}"
    for each in (str(path), address):
        with pytest.raises(StoreError, match=known):
            open_store(each, durability="process")
        with pytest.raises(StoreError, match=known):
            version_of(each)


def test_a_store_of_a_development_version_is_not_called_damaged(tmp_path: Path, postgres: PostgresServer) -> None:
    address = postgres.new_address()
    SqliteStore(tmp_path / "events.db").close()
    with closing(sqlite3.connect(tmp_path / "events.db")) as connection:
        connection.execute(f"PRAGMA application_id = {int.from_bytes(b'glb1')}")
    open_store(address, durability="process").close()
    with psycopg.connect(address) as server:
        server.execute("ALTER TABLE glbandits_store RENAME TO glbandits_schema")
    for each in (str(tmp_path / "events.db"), address):
        with pytest.raises(StoreError, match="was written by a development version of glbandits"):
            open_store(each, durability="process")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_store_in_use_is_not_migrated(
    kind: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    address = str(tmp_path / "store.db") if kind == "sqlite" else request.getfixturevalue("postgres").new_address()
    stop, store = threading.Event(), open_store(address, durability="process")

    def learn() -> None:
        while not stop.wait(0.05):
            store.lease.keep()

    assert store.lease.keep()
    learner = threading.Thread(target=learn)
    learner.start()
    monkeypatch.setitem(MIGRATIONS, present_version() + 1, NEW_TABLE)
    try:
        with pytest.raises(StoreError, match="another server uses it. Stop all servers"):
            open_store(address, durability="process")
    finally:
        stop.set()
        learner.join()
    with caplog.at_level(logging.WARNING):
        store.close()
        open_store(address, durability="process").close()
    assert "was migrated" in caplog.text
