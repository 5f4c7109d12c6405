"""Stores of every kind, for the contract of `EventStore`."""

from collections.abc import Callable, Iterator

import pytest

from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.open_store import open_store
from tests.service.storage.postgres.postgres_server import PostgresServer

STORES = ("sqlite, process", "sqlite, power", "postgres")


@pytest.fixture(scope="module", params=STORES, name="new_address")
def new_address_fixture(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], tuple[str, str]]:
    """Makes addresses of empty stores, with their durability."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        return lambda: (server.new_address(), "process")
    return lambda: (str(tmp_path_factory.mktemp("store") / "events.db"), request.param.split()[1])


@pytest.fixture(name="where")
def where_fixture(new_address: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """Address and durability of the store of a test."""
    return new_address()


@pytest.fixture(name="address")
def address_fixture(where: tuple[str, str]) -> str:
    return where[0]


@pytest.fixture(name="opened")
def opened_fixture(where: tuple[str, str]) -> Callable[[], EventStore]:
    return lambda: open_store(where[0], durability=where[1])


@pytest.fixture(name="store")
def store_fixture(opened: Callable[[], EventStore]) -> Iterator[EventStore]:
    store = opened()
    yield store
    assert store.check() == []
    store.close()
