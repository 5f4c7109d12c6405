"""PostgreSQL stores of several processes: order, duplicates and settings."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import EventStatus
from glbandits.service.storage.open_store import open_store
from glbandits.service.storage.postgres_connections import configure
from glbandits.service.storage.postgres_log import LOCK
from glbandits.service.storage.postgres_store import PostgresStore
from tests.service.helpers import WAIT, activation, decision, reward
from tests.service.storage.postgres.postgres_server import PostgresServer


@pytest.fixture(name="address")
def address_fixture(postgres: PostgresServer) -> str:
    return postgres.new_address()


@pytest.fixture(name="store")
def store_fixture(address: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(address)) as store:
        yield store


@pytest.fixture(name="other")
def other_fixture(address: str, store: PostgresStore) -> Iterator[PostgresStore]:
    """A store of another process in the same database. It is opened after `store`."""
    assert store.check() == []
    with closing(PostgresStore(address)) as other:
        yield other


def test_events_become_visible_in_the_order_of_sequence(address: str, store: PostgresStore) -> None:
    stop = threading.Event()

    def write(writer: int) -> None:
        with closing(PostgresStore(address)) as own:
            for batch in range(25):
                names = [f"{writer}-{batch}-{i}" for i in range(1 + (writer + batch) % 7)]
                own.append_blocking([*map(decision, names), *map(reward, names)])

    def visible() -> set[int]:
        decisions = store.search("shop", "", 10**6)
        return {logged.sequence for logged in decisions} | {r.sequence for each in decisions for r in each.rewards}

    def poll() -> int:
        seen: set[int] = set()
        polls = 0
        while not stop.is_set():
            now, polls = visible(), polls + 1
            assert now >= seen
            assert min(now - seen, default=sys.maxsize) > max(seen, default=0)
            seen = now
        return polls

    with ThreadPoolExecutor(5) as pool:
        polling = pool.submit(poll)
        list(pool.map(write, range(4)))
        stop.set()
        assert polling.result() > 5
    assert visible() == set(range(1, len(visible()) + 1))


def test_an_event_of_two_rankers_is_one_decision(store: PostgresStore, other: PostgresStore) -> None:
    names = [f"event-{i}" for i in range(100)]

    def write(own: PostgresStore, timestamp: int, order: list[str]) -> list[tuple[str, EventStatus, int]]:
        receipts = [own.append_blocking([decision(name, timestamp=timestamp)])[0] for name in order]
        return [(name, receipt.status, receipt.sequence) for name, receipt in zip(order, receipts, strict=True)]

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(write, store, 1, names)
        second = pool.submit(write, other, 2, names)
    outcomes = sorted(first.result() + second.result())
    for one, two in zip(outcomes[::2], outcomes[1::2], strict=True):
        assert (one[0], one[2]) == (two[0], two[2])
        assert {one[1], two[1]} == {EventStatus.ACCEPTED, EventStatus.DUPLICATE}
    assert store.summary("shop").decisions[EventStatus.ACCEPTED] == len(names)
    assert [store.decision("shop", name) for name in names] == [other.decision("shop", name) for name in names]


def test_no_reward_is_accepted_after_sealing(store: PostgresStore, other: PostgresStore) -> None:
    """Rewards and seals race. What the learner has read is all that the log has on time."""
    names = [f"event-{i}" for i in range(60)]
    store.append_blocking([decision(name) for name in names])
    learned: dict[str, int] = {}

    def send() -> None:
        for name in names * 2:
            other.append_blocking([reward(name)])

    def learn() -> None:
        after = 0
        while after < len(names):
            after = store.seal("shop", after, WAIT + 1, 3) or after
            for settled in store.settled("shop", len(learned), WAIT + 1, 3):
                if settled.sequence <= after:
                    learned[settled.decision.event_id] = len(settled.rewards)

    with ThreadPoolExecutor(2) as pool:
        sending, learning = pool.submit(send), pool.submit(learn)
        sending.result()
        learning.result()
    logged = {each.decision.event_id: each for each in store.search("shop", "", 1000)}
    assert learned == {name: sum(not r.late for r in logged[name].rewards) for name in names}


def test_concurrent_starts_create_the_tables_once(postgres: PostgresServer) -> None:
    address = postgres.new_address()
    with ThreadPoolExecutor(6) as pool, ExitStack() as stack:
        stores = list(pool.map(lambda _: stack.enter_context(closing(PostgresStore(address))), range(6)))
        assert [store.append_blocking([decision("a")])[0].sequence for store in stores] == [1] * 6


def test_another_version_is_refused(address: str, store: PostgresStore) -> None:
    assert store.check() == []
    with psycopg.connect(address) as connection:
        connection.execute("UPDATE glbandits_store SET version = 99")
    with pytest.raises(StoreError, match="version 99 of the tables"):
        PostgresStore(address)


def test_stores_in_two_schemas_are_independent(postgres: PostgresServer, store: PostgresStore) -> None:
    with closing(PostgresStore(postgres.new_address())) as apart:
        assert store.lease.keep()
        assert apart.lease.keep()
        store.append_blocking([decision("a")])
        store.wait_for_change(0)
        apart.save_document("shop", "policy", 1, b"")
        assert not store.wait_for_change(0)
        assert apart.decision("shop", "a") is None


def test_error_messages_omit_the_password() -> None:
    with pytest.raises(StoreError, match="postgresql://127.0.0.1/shop could not be") as caught:
        open_store("postgresql://user:secret@127.0.0.1:1/shop", durability="process")
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidInput, match="store address must be like"):
        open_store("postgresql://user@host/shop?colour=blue", durability="process")


def test_a_backup_names_the_tool_to_use(store: PostgresStore, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="use pg_dump"):
        store.backup(tmp_path / "copy")


def test_settings_of_the_address_win_over_defaults(address: str, store: PostgresStore) -> None:
    """A writer that waits for another one gives up after `lock_timeout`, and works when the lock is free."""
    with closing(PostgresStore(f"{address}%20-clock_timeout%3D100ms")) as hasty, psycopg.connect(address) as holder:
        hasty.append_blocking([decision("a")])
        holder.execute(LOCK)
        began = time.monotonic()
        with pytest.raises(StoreError, match="lock timeout"):
            hasty.append_blocking([decision("b")])
        assert time.monotonic() - began < 2.9
        holder.rollback()
        hasty.append_blocking([decision("b")])
        assert store.decision("shop", "b") is not None


def test_address_sets_how_long_to_wait_for_a_connection(postgres: PostgresServer) -> None:
    for given, seconds in (("", 3), ("&connect_timeout=7", 7)):
        with closing(PostgresStore(postgres.uri + given)) as store:
            assert store._writers.timeout == store._readers.timeout == seconds
    with pytest.raises(InvalidInput, match="store address must be .*: bad value for connect_timeout: 'soon'"):
        PostgresStore(postgres.uri + "&connect_timeout=soon")


def test_sessions_have_timeouts_and_wait_for_the_disk(postgres: PostgresServer) -> None:
    names = "'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'synchronous_commit'"
    with psycopg.connect(postgres.uri, options="-csynchronous_commit=off") as connection:
        configure(connection)
        rows = connection.execute(f"SELECT name, setting FROM pg_settings WHERE name IN ({names})".encode()).fetchall()
    assert dict(rows) == {
        "statement_timeout": "10000",
        "lock_timeout": "3000",
        "idle_in_transaction_session_timeout": "5000",
        "synchronous_commit": "on",
    }


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_defaults_of_the_role_do_not_apply(postgres: PostgresServer, isolation: str) -> None:
    role = f"role_{isolation.split()[0]}"
    postgres.execute(f"CREATE ROLE {role} LOGIN SUPERUSER")
    for setting, value in (
        ("default_transaction_isolation", f"'{isolation}'"),
        ("default_transaction_read_only", "on"),
        ("statement_timeout", "'200ms'"),
        ("lock_timeout", "'1ms'"),
        ("idle_in_transaction_session_timeout", "'50ms'"),
        ("synchronous_commit", "off"),
        ("extra_float_digits", "-10"),
        ("client_encoding", "'LATIN1'"),
    ):
        postgres.execute(f"ALTER ROLE {role} SET {setting} = {value}")
    address = postgres.new_address().replace("postgres:@", f"{role}:@")
    assert role in address
    with closing(PostgresStore(address)) as store, closing(PostgresStore(address)) as other:
        names = [f"event-{i} \u0416" for i in range(50)]
        store.append_blocking([decision(name) for name in names])

        def send(own: PostgresStore) -> None:
            for name in names:
                own.append_blocking([reward(name, value=1 / 3)])

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(send, (store, other)))
        assert {r.value for each in store.search("shop", "", 100) for r in each.rewards} == {1 / 3}
        assert store.summary("shop").rewards[EventStatus.ACCEPTED] == 2 * len(names)


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
