"""A standby of PostgreSQL takes over, and lacks the last events."""

import logging
from collections.abc import Iterator
from functools import partial

import pytest

from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import Decision, DecisionRequest
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.runtime.service import Service
from glbandits.service.storage.postgres_store import PostgresStore
from tests.service.helpers import run, wait_until
from tests.service.runtime.loops.loop_helpers import ACTIONS, request_at
from tests.service.storage.postgres.postgres_server import PostgresServer

SETTINGS = LoopConfig(width=16, reward_wait=0.05, model_update=0.05)


@pytest.fixture(name="primary")
def primary_fixture() -> Iterator[PostgresServer]:
    """A server of its own, because it is replaced."""
    pytest.importorskip("psycopg")
    server = PostgresServer()
    yield server
    server.close()


def play(service: Service, first: int, count: int) -> None:
    """Decide and reward."""

    async def play_all() -> None:
        for number in range(first, first + count):
            request = DecisionRequest(
                event_id=f"event-{number}", request=request_at("noon"), encoding="json", actions=ACTIONS
            )
            made = (await service.decide("default", request)).decision
            await service.reward("default", made.event_id, float(made.shown == 1))

    run(play_all())


def keeps_lease(service: Service) -> bool:
    try:
        return service.store.lease.keep()
    except StoreError:
        return False


def has_learned(service: Service) -> bool:
    return service.loop("default").published.learned_through >= service.store.last_sequence("default")


def test_servers_continue_from_a_standby_that_lacks_the_last_events(
    primary: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    address = primary.new_address(connect_timeout=3)
    services = [Service(PostgresStore(address), first_configuration=SETTINGS) for _ in range(2)]
    leader, follower = services
    for service in services:
        service.learns = partial(keeps_lease, service)
        service.start()
    play(leader, 0, 40)
    wait_until(lambda: has_learned(leader))
    primary.copy_standby()
    play(leader, 40, 60)
    play(follower, 100, 20)
    wait_until(lambda: all(map(has_learned, services)))
    lost = leader.loop("default").published.learned_through
    with caplog.at_level(logging.ERROR):
        primary.fail_over()
        stale = leader.loop("default").decide(
            DecisionRequest(event_id="stale", request=request_at("noon"), encoding="json", actions=ACTIONS)
        )
        wait_until(lambda: is_written(leader, stale))
        wait_until(lambda: all(service.loop("default").history == 1 for service in services))
    assert "a standby of the database has taken over, which may lack the last events" in caplog.text
    assert all(service.loop("default").published.learned_through < lost for service in services)
    play(leader, 200, 30)
    play(follower, 300, 30)
    wait_until(lambda: all(map(has_learned, services)))
    result = verify(leader.store, "default")
    assert (result.different, result.unchecked) == (0, 1), result.messages  # the decision with the lost model
    assert result.decisions == 40 + 60
    logged = leader.store.decision("default", "stale")
    assert logged is not None
    assert logged.decision.lost_model
    for service in services:
        run(service.close())


def is_written(service: Service, decision: Decision) -> bool:
    try:
        service.store.append_blocking([decision])
    except StoreError:
        return False
    return True
