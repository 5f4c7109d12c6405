from collections.abc import Callable, Iterator

import pytest

from tests.service.storage.postgres.postgres_server import PostgresServer


@pytest.fixture(scope="session", name="postgres")
def postgres_fixture() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg", reason="PostgreSQL tests need: pip install '.[postgres]'")
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(scope="module", params=["sqlite", "postgres"], name="new_address")
def new_address_fixture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    """Makes addresses of empty stores, for tests that run on both kinds."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.new_address
    return lambda: str(tmp_path_factory.mktemp("store") / "store.db")
