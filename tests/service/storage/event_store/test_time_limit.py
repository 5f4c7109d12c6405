"""Reads with a time limit, in stores of every kind."""

import time

import pytest

from glbandits.service.domain.errors import ReadTimeout
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.time_limit import time_limit
from tests.service.helpers import decision

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def test_a_read_ends_when_its_time_is_over(store: EventStore) -> None:
    began = time.monotonic()
    with time_limit(0.1), pytest.raises(ReadTimeout), store._reading() as connection:
        list(store._execute(connection, ENDLESS))
    assert time.monotonic() - began < 5.0
    with time_limit(0.0), pytest.raises(ReadTimeout):
        store.find("shop", "", 1)
    store.append_blocking([decision("a")])  # the connections can be used again
    assert store.find("shop", "a", 10) == [1]
    with time_limit(60.0):
        assert [logged.sequence for logged in store.search("shop", "", 10)] == [1]
