import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from glbandits.service.storage.migrations import present_version
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.cli.in_process import glb
from tests.service.storage.kept.write_store import FOLDER


def test_version_of_an_older_store_is_shown_without_a_migration(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "version_1.db", tmp_path / "glb.db")
    for _ in range(2):
        run = glb("store", "version", folder=tmp_path)
        assert run.returncode == 0, run.stderr
        assert f"glb.db has version 1 of the tables; this glbandits uses version {present_version()}." in run.stdout
    assert [file.name for file in tmp_path.iterdir()] == ["glb.db"]
    SqliteStore(tmp_path / "glb.db").close()
    assert f"has version {present_version()} of" in glb("store", "version", folder=tmp_path).stdout


def test_newer_versions_and_other_files_are_refused(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "newer.db").close()
    with closing(sqlite3.connect(tmp_path / "newer.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    (tmp_path / "text.db").write_text("not a database, but a text that is long enough")
    (tmp_path / "empty.db").touch()
    for name, why in (
        ("newer.db", "version 99"),
        ("text.db", "not a database"),
        ("empty.db", "no tables"),
        ("none.db", "no store"),
    ):
        run = glb("store", "version", "--store", name, folder=tmp_path)
        assert run.returncode != 0
        assert why in run.stderr
