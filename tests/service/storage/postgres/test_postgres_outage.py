"""A PostgreSQL store while the database is away, restarts, or cuts connections."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import numpy as np
import pytest

from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import DecisionRequest, Event, EventStatus, Receipt
from glbandits.service.domain.request_features import DENSE
from glbandits.service.runtime.batch_writer import WriterState
from glbandits.service.runtime.decision_writer import DecisionResult
from glbandits.service.runtime.service import DEFAULT_LOOP, Service
from glbandits.service.storage.postgres_store import PostgresStore
from tests.service.helpers import activation, decision, reward, wait_until
from tests.service.storage.postgres.cutting_proxy import Cut, CuttingProxy
from tests.service.storage.postgres.postgres_server import PostgresServer


@pytest.fixture(name="proxy")
def proxy_fixture(postgres: PostgresServer) -> Iterator[CuttingProxy]:
    with closing(CuttingProxy(postgres.socket_path)) as proxy:
        yield proxy


@pytest.fixture(name="store")
def store_fixture(postgres: PostgresServer, proxy: CuttingProxy) -> Iterator[PostgresStore]:
    address = postgres.new_address(connect_timeout=3)
    options = address[address.index("options=") :]
    with closing(PostgresStore(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?{options}")) as store:
        yield store


EVENTS: dict[str, Event] = {"decision": decision("new"), "reward": reward("old"), "activation": activation("old")}


@pytest.mark.parametrize("kind", EVENTS)
def test_a_commit_whose_response_is_lost_is_acknowledged(store: PostgresStore, proxy: CuttingProxy, kind: str) -> None:
    store.append_blocking([decision("old")])
    proxy.cut = Cut.AFTER_COMMIT
    assert store.append_blocking([EVENTS[kind]]) == [Receipt(EventStatus.ACCEPTED, 2)]
    assert proxy.cut is Cut.NEVER
    assert store.append_blocking([decision("next")]) == [Receipt(EventStatus.ACCEPTED, 3)]


@pytest.mark.parametrize("kind", EVENTS)
def test_a_commit_that_did_not_arrive_is_refused(store: PostgresStore, proxy: CuttingProxy, kind: str) -> None:
    store.append_blocking([decision("old")])
    proxy.cut = Cut.BEFORE_COMMIT
    with pytest.raises(StoreError, match="could not be written"):
        store.append_blocking([EVENTS[kind]])
    assert proxy.cut is Cut.NEVER
    assert store.append_blocking([decision("next")]) == [Receipt(EventStatus.ACCEPTED, 2)]


def ask(service: Service, event_id: str) -> DecisionRequest:
    width = service.loop(DEFAULT_LOOP).published.bandit.dim
    return DecisionRequest(
        event_id=event_id, request=np.eye(2, width).tobytes(), encoding=DENSE, actions=("tea", "cola")
    )


async def heal(service: Service) -> None:
    until = time.monotonic() + 20
    while service.writer.state is not WriterState.IDLE:
        assert time.monotonic() < until, "the store does not heal"
        await asyncio.sleep(0.05)


def test_two_rankers_return_the_same_decision(postgres: PostgresServer) -> None:
    address = postgres.new_address(connect_timeout=3)
    services = [Service(PostgresStore(address)) for _ in range(2)]

    async def play() -> list[tuple[DecisionResult, ...]]:
        answers = []
        for i in range(30):
            requests = [service.decide(DEFAULT_LOOP, ask(service, f"event-{i}")) for service in services]
            answers.append(tuple(await asyncio.gather(*requests)))
        for service in services:
            await service.close()
        return answers

    for one, other in asyncio.run(play()):
        assert one.decision == other.decision


def keeps_lease(store: PostgresStore) -> bool:
    with suppress(StoreError):  # of a connection from before the outage
        return store.lease.keep()
    return False


def test_changes_during_an_outage_are_noticed_after_it(postgres: PostgresServer) -> None:
    address = postgres.new_address(connect_timeout=3)
    with closing(PostgresStore(address)) as store, closing(PostgresStore(address)) as other:
        assert store.lease.keep()
        store.wait_for_change(0)
        other.save_document("shop", "policy", 1, b"")
        postgres.stop()
        assert not store.wait_for_change(0.01)
        with pytest.raises(StoreError):
            store.lease.keep()
        postgres.start()
        wait_until(lambda: store.wait_for_change(0.01))
        wait_until(lambda: keeps_lease(store))
