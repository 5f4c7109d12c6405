from collections.abc import Iterator

import pytest

from tests.serving.storage.postgres_server import PostgresServer


@pytest.fixture(scope="session", name="postgres")
def postgres_fixture() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg", reason="PostgreSQL tests need: pip install 'glbandits[postgres]'")
    server = PostgresServer()
    yield server
    server.close()
