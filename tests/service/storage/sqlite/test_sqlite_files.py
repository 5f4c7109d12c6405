"""Store files that are deleted, replaced or damaged."""

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import DecisionRequest, EventStatus
from glbandits.service.runtime.service import Service
from glbandits.service.storage.sqlite_store import LOCK_TIMEOUT, SqliteStore
from tests.service.helpers import decision, reward, run, statuses
from tests.service.storage.sqlite.sqlite_helpers import make


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


def test_a_file_may_be_vacuumed_while_in_use(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    with closing(make(path, 2000)) as store:
        store.maintain()
        size = path.stat().st_size
        assert store.delete_log("shop") == 2000
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("VACUUM")
        for event_id in ("a", "b"):
            assert statuses(store, decision(event_id)) == [EventStatus.ACCEPTED]
            store.maintain()
        assert path.stat().st_size < size
        assert store.summary("shop").first_at == 0
        with closing(SqliteStore(path)) as second:  # a server that starts now
            second.append_blocking([decision("c")])
            second.maintain()
    assert decisions_named(path) == ["a", "b", "c"]


def decisions_named(path: Path) -> list[str]:
    with closing(SqliteStore(path)) as store:
        assert store.check() == []
        return [each.decision.event_id for each in reversed(store.search("shop", "", 100))]


def test_closing_does_not_wait_for_readers(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    with closing(make(path, 10)) as server, closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM decisions").fetchone()  # an analyst, or a backup
        server.append_blocking([decision("after")])
        began = time.monotonic()
        SqliteStore(path).close()  # a command
        assert time.monotonic() - began < LOCK_TIMEOUT / 1000 / 2
        server.append_blocking([decision("later")])


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
