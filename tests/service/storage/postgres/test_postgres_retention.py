"""Partitions of a PostgreSQL store: created while others read, dropped when all of them is to be deleted."""

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from glbandits.service.domain.events import EventStatus
from glbandits.service.storage import postgres_retention, postgres_schema
from glbandits.service.storage.postgres_store import PostgresStore
from tests.service.helpers import WAIT, activation, decision, reward
from tests.service.storage.postgres.postgres_server import PostgresServer


@pytest.fixture(name="address")
def address_fixture(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(postgres_schema, "PARTITION_SIZE", 10)
    monkeypatch.setattr(postgres_retention, "DELETED_AT_ONCE", 4)
    return postgres.new_address()


@pytest.fixture(name="store")
def store_fixture(address: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(address)) as store:
        yield store
        assert store.check() == []


def partitions(address: str) -> list[int]:
    with psycopg.connect(address) as connection:
        rows = connection.execute("SELECT first_sequence FROM partitions ORDER BY 1").fetchall()
        tables = connection.execute(
            "SELECT c.relname FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid"
            " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'"
        ).fetchall()
    assert {table for (table,) in tables} == {f"{t}_{first}" for (first,) in rows for t in postgres_schema.PARTITIONED}
    return [first for (first,) in rows]


def write(store: PostgresStore, count: int, loop: str = "shop") -> None:
    for i in range(count):
        store.append_blocking([decision(f"{loop}-{i}", loop=loop)])


def remaining(store: PostgresStore, loop: str = "shop") -> list[int]:
    return sorted(logged.sequence for logged in store.search(loop, "", 1000))


def test_whole_partitions_are_dropped(store: PostgresStore, address: str) -> None:
    write(store, 35)
    store.append_blocking([reward("shop-3"), reward("shop-30", key="k"), activation("shop-30")])
    assert partitions(address) == [0, 10, 20, 30]
    assert store.delete_log("shop", up_to=25) == 25
    assert partitions(address) == [20, 30]
    assert remaining(store) == list(range(26, 36))
    (settled,) = store.settled("shop", 30, WAIT + 1, 1)
    assert (settled.rewards, settled.activated) == (((1, 1.0),), True)
    assert store.delete_log("shop") == 10
    assert partitions(address) == [30]
    assert store.append_blocking([decision("shop-3")])[0].sequence == 39


def test_a_shared_partition_stays_until_both_loops_are_old(store: PostgresStore, address: str) -> None:
    write(store, 5)
    write(store, 10, "news")
    write(store, 10)
    assert store.delete_log("shop") == 10
    assert (remaining(store), remaining(store, "news")) == ([], list(range(6, 16)))
    assert partitions(address) == [0, 10, 20]
    assert store.delete_log("news") == 10
    assert partitions(address) == [20]


def test_a_batch_larger_than_a_partition_is_written(store: PostgresStore, address: str) -> None:
    receipts = store.append_blocking([decision(str(i)) for i in range(25)])
    assert [receipt.status for receipt in receipts] == [EventStatus.ACCEPTED] * 25
    assert partitions(address) == [0]


def test_a_reader_delays_neither_partitions_nor_deletion(store: PostgresStore, address: str) -> None:
    """What pg_dump does: it keeps a shared lock on every table until it is done."""
    write(store, 12)
    with psycopg.connect(address) as reader:
        assert reader.execute("SELECT count(*) FROM decision_bodies").fetchall() == [(12,)]
        assert reader.execute("SELECT count(*) FROM rewards, activations").fetchall() == [(0,)]
        write(store, 25, "news")
        assert partitions(address) == [0, 10, 20, 30]
        assert store.delete_log("shop") == 12
        assert remaining(store) == []
        assert partitions(address) == [0, 10, 20, 30]
    assert store.delete_log("news") == 25
    assert partitions(address) == [30]


def test_partitions_that_were_in_use_are_dropped_later(store: PostgresStore, address: str) -> None:
    write(store, 12)
    with psycopg.connect(address) as reader:
        reader.execute("SELECT count(*) FROM decision_bodies")
        assert store.delete_log("shop") == 12
        assert partitions(address) == [0, 10]
    store.drop_empty_partitions()
    assert partitions(address) == [10]


def test_a_stopped_deletion_keeps_the_rest(store: PostgresStore, address: str) -> None:
    write(store, 12)
    assert store.delete_log("shop", stop=lambda: True) == 4
    assert remaining(store) == list(range(5, 13))
    assert store.delete_log("shop") == 8
    assert partitions(address) == [10]


def test_a_dump_can_be_restored(postgres: PostgresServer, store: PostgresStore, address: str, tmp_path: Path) -> None:
    store.append_blocking([decision("a"), reward("a", key="k"), activation("a")])
    store.save_model("shop", 1, 1, b"model")
    dump = tmp_path / "dump"
    subprocess.run([postgres.program("pg_dump"), "-Fc", "-f", dump, "-d", address], check=True)
    postgres.execute("CREATE DATABASE restored")
    copy = address.replace("/postgres?", "/restored?")
    subprocess.run([postgres.program("pg_restore"), "-d", copy, dump], check=True)
    with closing(PostgresStore(copy)) as restored:
        logged = restored.decision("shop", "a")
        assert logged is not None
        assert (len(logged.rewards), logged.activated_at, logged.decision) == (1, 1, decision("a"))
        assert restored.latest_model("shop") is not None
        assert restored.append_blocking([decision("b")])[0].sequence == 4
