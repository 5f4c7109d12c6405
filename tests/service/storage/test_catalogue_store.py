"""The contract of stores for catalogues: every store passes these tests."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from glbandits.service.domain.catalogues.catalogue_records import CatalogueArm, NewArm
from glbandits.service.storage import sqlite_schema
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.open_store import open_store
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import decision

FEATURES = b"\0\xff" * 8


@pytest.fixture(name="opened")
def opened_fixture(new_address: Callable[[], str]) -> Callable[[], EventStore]:
    address = new_address()
    return lambda: open_store(address, durability="process")


@pytest.fixture(name="store")
def store_fixture(opened: Callable[[], EventStore]) -> Iterator[EventStore]:
    store = opened()
    yield store
    assert store.check() == []
    store.close()


def new(*ids: str) -> list[NewArm]:
    return [NewArm(arm, "dense", FEATURES) for arm in ids]


def change(store: EventStore, *add: str, retire: tuple[int, ...] = (), loop: str = "shop", at: int = 1) -> int:
    version, _ = store.catalogue_head(loop)
    made = store.change_catalogue(loop, at, expected_version=version, add=new(*add), retire=retire)
    assert made is not None
    return made


def ids_in(store: EventStore, version: int) -> list[str]:
    return [arm.id for arm in store.catalogue_changes("shop", 0)[2] if arm.is_in(version)]


def test_arms_are_read_as_written(store: EventStore) -> None:
    assert store.live_arms("shop") == (0, [])
    assert change(store, "tea", "cola") == 1
    arms = [CatalogueArm(1, "tea", 1, 0, "dense", FEATURES), CatalogueArm(2, "cola", 1, 0, "dense", FEATURES)]
    assert store.live_arms("shop") == (1, arms)
    assert store.live_arms("other") == (0, [])


def test_arms_survive_reopening(opened: Callable[[], EventStore], store: EventStore) -> None:
    change(store, "tea")
    with closing(opened()) as again:
        assert again.live_arms("shop") == store.live_arms("shop")


def test_every_version_can_be_read(store: EventStore) -> None:
    change(store, "tea", "cola")
    change(store, "milk", retire=(1,))
    change(store, "tea", retire=(3,))
    assert [ids_in(store, version) for version in range(4)] == [
        [],
        ["tea", "cola"],
        ["cola", "milk"],
        ["cola", "tea"],
    ]


def test_changes_after_a_version_are_complete(store: EventStore) -> None:
    change(store, "tea", "cola")
    seen = change(store, "milk")
    change(store, "juice", retire=(2,))
    version, _, arms = store.catalogue_changes("shop", seen)
    assert (version, [(arm.id, arm.retired) for arm in arms]) == (3, [("cola", 3), ("juice", 0)])
    assert store.catalogue_changes("shop", version)[2] == []


def test_a_change_after_another_version_writes_nothing(store: EventStore) -> None:
    change(store, "tea")
    assert store.change_catalogue("shop", 1, expected_version=0, add=new("cola"), retire=[1]) is None
    assert [arm.id for arm in store.live_arms("shop")[1]] == ["tea"]


def test_concurrent_changes_get_their_own_versions(store: EventStore) -> None:
    def add(arm: str) -> int:
        while True:
            version, _ = store.catalogue_head("shop")
            if made := store.change_catalogue("shop", 1, expected_version=version, add=new(arm), retire=()):
                return made

    with ThreadPoolExecutor(4) as pool:
        versions = list(pool.map(add, [f"arm {i}" for i in range(12)]))
    assert sorted(versions) == list(range(1, 13))
    assert [arm.number for arm in store.live_arms("shop")[1]] == list(range(1, 13))


def test_more_arms_than_a_statement_holds(store: EventStore) -> None:
    names = [f"arm {i}" for i in range(150)]
    change(store, *names)
    change(store, retire=tuple(range(1, 101)))
    assert [arm.id for arm in store.live_arms("shop")[1]] == names[100:]
    assert len(store.arms_of_ids("shop", names)) == 150


def test_arms_are_listed_page_by_page(store: EventStore) -> None:
    change(store, "a", "b", "c")
    _, page = store.live_arms("shop", limit=2)
    assert [arm.id for arm in page] == ["a", "b"]
    assert [arm.id for arm in store.live_arms("shop", after=page[-1].number, limit=2)[1]] == ["c"]


def test_an_id_finds_its_newest_arm(store: EventStore) -> None:
    change(store, "tea", "cola")
    change(store, "tea", retire=(1, 2))
    arms = store.arms_of_ids("shop", ["tea", "cola", "unheard-of"])
    assert {name: (arm.number, arm.retired) for name, arm in arms.items()} == {"tea": (3, 0), "cola": (2, 2)}


def test_numbers_are_not_reused_after_a_deletion(store: EventStore) -> None:
    change(store, "tea")
    change(store, "tea", loop="other")
    assert store.delete_catalogue("shop", 5) == 2
    assert store.catalogue_head("shop")[1].complete_since == 2
    assert store.live_arms("shop") == (2, [])
    change(store, "tea")
    assert [arm.number for arm in store.live_arms("shop")[1]] == [2]
    assert len(store.live_arms("other")[1]) == 1


def test_pruning_deletes_arms_retired_before_a_time(store: EventStore) -> None:
    change(store, "tea", "cola", "milk")
    change(store, retire=(1,), at=10)
    change(store, retire=(2,), at=20)
    store.prune_catalogue("shop", 30, before=15)
    assert store.catalogue_head("shop")[1].complete_since == 2
    assert list(store.arms_of_ids("shop", ["tea", "cola", "milk"])) == ["cola", "milk"]
    store.prune_catalogue("shop", 30)
    assert [arm.id for arm in store.catalogue_changes("shop", 0)[2]] == ["milk"]
    before = store.catalogue_head("shop")
    store.prune_catalogue("shop", 30)
    assert store.catalogue_head("shop") == before


def test_a_store_of_version_3_gets_catalogues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_schema, "UPGRADES", sqlite_schema.UPGRADES[:3])
    with closing(SqliteStore(tmp_path / "store.db")) as old:
        old.append_blocking([decision("e")])
    monkeypatch.undo()
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        assert change(store, "tea") == 1
        assert store.decision("shop", "e") is not None


def test_a_backup_has_the_catalogue(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        change(store, "tea", "cola")
        store.backup(tmp_path / "copy.db")
        with closing(SqliteStore(tmp_path / "copy.db")) as copy:
            assert copy.live_arms("shop") == store.live_arms("shop")
