"""Two servers on one store create and delete the same loops."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from glbandits.service.domain.errors import LoopExists, StoreError
from glbandits.service.domain.events import DecisionRequest
from glbandits.service.domain.groups.experiment import Control
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.runtime import service as service_module
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.runtime.service import Service
from glbandits.service.storage.open_store import open_store
from tests.service.helpers import run
from tests.service.runtime.loops.loop_helpers import ACTIONS, request_at

GROUPS = LoopConfig(width=16, control=Control(share=0.5))


@pytest.fixture(name="services")
def services_fixture(new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Service]]:
    monkeypatch.setattr(service_module, "LOOPS_EVERY", 0.0)
    address = new_address()
    services = [Service(open_store(address, durability="process")) for _ in range(2)]
    yield services
    for service in services:
        run(service.close())


def groups(service: Service, loop: str, first: int) -> list[str]:
    """The groups of ten users."""

    async def decide_all() -> list[str]:
        found = []
        for user in range(10):
            request = DecisionRequest(
                event_id=f"{first}-{user}",
                unit=f"user-{user}",
                request=request_at("noon"),
                encoding="json",
                actions=ACTIONS,
            )
            found.append(str((await service.decide(loop, request)).decision.group))
        return found

    return run(decide_all())


def test_of_two_servers_that_create_a_loop_one_succeeds(services: list[Service]) -> None:
    for number in range(5):
        name = f"loop-{number}"

        def create(service: Service, name: str = name) -> bool:
            try:
                service.create_loop(name, GROUPS)
            except LoopExists:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(create, services)) == [False, True]
        for service in services:
            service.refresh_loops()
        assert services[0].loop(name).salt == services[1].loop(name).salt
        assert groups(services[0], name, 0) == groups(services[1], name, 1)
        assert verify(services[0].store, name).sound


def test_a_loop_that_another_server_creates_first_is_its_loop(
    services: list[Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = services
    create_loop = one.store.create_loop

    def create_second(name: str, timestamp: int, bodies: Mapping[str, bytes]) -> bool:
        other.create_loop(name, GROUPS)
        groups(other, name, 0)
        return create_loop(name, timestamp, bodies)

    monkeypatch.setattr(one.store, "create_loop", create_second)
    with pytest.raises(LoopExists, match="there is a loop 'new' already"):
        one.create_loop("new", replace(GROUPS, width=8))
    one.refresh_loops()
    assert one.loop("new").salt == other.loop("new").salt
    assert one.loop("new").configuration == GROUPS
    assert verify(one.store, "new").decisions == 10


def test_a_server_that_slept_uses_the_loop_that_was_created_again(services: list[Service]) -> None:
    one, asleep = services
    one.create_loop("shop", GROUPS)
    asleep.refresh_loops()
    groups(asleep, "shop", 0)
    one.delete_loop("shop")
    one.create_loop("shop", GROUPS)
    with pytest.raises(StoreError, match="was deleted, or created again"):  # it wakes up
        groups(asleep, "shop", 1)
    asleep.refresh_loops()
    assert groups(asleep, "shop", 2) == groups(one, "shop", 3)
    result = verify(one.store, "shop")
    assert (result.decisions, result.different, result.unchecked) == (20, 0, 0), result.messages


def test_a_loop_that_was_created_again_learns(services: list[Service]) -> None:
    one, _ = services
    one.create_loop("shop", GROUPS)
    groups(one, "shop", 0)
    one.delete_loop("shop")
    one.create_loop("shop", replace(GROUPS, reward_wait=1e-6))
    groups(one, "shop", 1)
    loop = one.loop("shop")
    assert loop.learn() == 10
    groups(one, "shop", 2)
    loop.configure(replace(GROUPS, reward_wait=1e-6, exploration=0.3), reset_model=True)
    assert verify(one.store, "shop").sound
