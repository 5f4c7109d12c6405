"""Store files that are deleted, replaced or damaged."""

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import DecisionRequest, EventStatus
from glbandits.service.runtime.service import Service
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import decision, reward, run


def replace_file(path: Path) -> None:
    SqliteStore(path.with_name("other.db")).close()
    path.with_name("other.db").replace(path)


LOSSES: dict[str, Callable[[Path], None]] = {"deleted": os.unlink, "replaced": replace_file}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_a_lost_file_is_noticed_by_reads_and_writes(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    with closing(SqliteStore(tmp_path / "events.db")) as store:
        store.append_blocking([decision("a")])
        lose(tmp_path / "events.db")
        for use in (
            lambda: store.append_blocking([reward("a")]),
            lambda: run(store.append([decision("b")])),
            lambda: store.save_document("shop", "policy", 0, b""),
            lambda: store.latest_document("shop", "policy"),
            store.maintain,
        ):
            with pytest.raises(StoreError, match=r"events\.db was deleted or replaced while in"):
                use()


def test_a_deleted_file_is_not_created_again(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "events.db")
    (tmp_path / "events.db").unlink()
    with pytest.raises(StoreError):
        store.summary("shop")
    store.close()
    assert not (tmp_path / "events.db").exists()


def test_a_file_that_is_moved_back_is_used_again(tmp_path: Path) -> None:
    path, away = tmp_path / "events.db", tmp_path / "away.db"
    with closing(SqliteStore(path)) as store:
        path.rename(away)
        with pytest.raises(StoreError):
            store.append_blocking([decision("a")])
        away.rename(path)
        assert store.append_blocking([decision("a")])[0].status is EventStatus.ACCEPTED
        assert store.check() == []


def test_nothing_is_acknowledged_without_the_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        service = Service(SqliteStore(tmp_path / "events.db"))
        width = service.loop("default").published.bandit.dim
        request = DecisionRequest(
            event_id="e", request=np.eye(2, width).tobytes(), encoding="dense", actions=("a", "b")
        )
        (tmp_path / "events.db").unlink()
        assert (await service.decide("default", request)).degraded
        with pytest.raises(StoreError):
            await service.reward("default", "e", 1.0)
        assert service.writer.problem(60.0) == "the last events could not be written"
        await service.close()

    with caplog.at_level(logging.INFO):
        run(main())
    begun = [record for record in caplog.records if "failed and will be retried" in record.getMessage()]
    assert len(begun) == 1
    assert "was deleted or replaced while in use" in begun[0].getMessage()


def overwrite_by_backup(path: Path) -> None:
    path.write_bytes(path.with_name("backup.db").read_bytes())


def overwrite_by_text(path: Path) -> None:
    with path.open("r+b") as file:  # without shortening it
        file.write(b"Dear diary, " * 1000)


OVERWRITTEN: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: os.truncate(path, 0),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "backup": overwrite_by_backup,
    "text": overwrite_by_text,
}


@pytest.mark.parametrize("overwrite", OVERWRITTEN.values(), ids=OVERWRITTEN)
@pytest.mark.parametrize("is_busy", [True, False])
def test_an_overwritten_file_stops_acknowledgements(
    tmp_path: Path, overwrite: Callable[[Path], object], is_busy: bool
) -> None:
    path = tmp_path / "events.db"
    with closing(SqliteStore(path)) as store:
        store.append_blocking([decision("a")])
        store.backup(tmp_path / "backup.db")
        store.append_blocking([decision("b")])
        store.maintain()
        overwrite(path)
        if is_busy:
            with suppress(StoreError):
                store.append_blocking([decision("c")])
        with suppress(StoreError):
            store.maintain()
        for use in (lambda: store.append_blocking([decision("d")]), lambda: store.summary("shop"), store.maintain):
            with pytest.raises(StoreError, match="while in use. Nothing is written any more|file is damaged"):
                use()


def damage_schema(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TABLE loops")


def damage_pages(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "schema": damage_schema,
    "pages": damage_pages,
    "length": cut_short,
    "header": lambda path: path.write_bytes(b"\0" * 100 + path.read_bytes()[100:]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_store_is_not_opened(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    path = tmp_path / "events.db"
    with closing(SqliteStore(path)) as store:
        for i in range(200):
            store.append_blocking([decision(str(i)), reward(str(i))])
    damage(path)
    with pytest.raises(StoreError, match=r"events\.db.*(is damaged|file is not a database)"):
        SqliteStore(path)
