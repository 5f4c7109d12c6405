import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import DecisionRequest, Event, Receipt
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.request_features import DENSE
from glbandits.service.runtime.metrics import ServiceMetrics
from glbandits.service.runtime.service import Service
from glbandits.service.storage.sqlite_store import SqliteStore

Figures = dict[tuple[str, frozenset[tuple[str, str]]], float]


def collected(service: Service) -> Figures:
    """The samples, as Prometheus' own client reads them."""
    registry = CollectorRegistry()
    registry.register(ServiceMetrics(service))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    samples = [sample for family in families for sample in family.samples]
    return {(one.name, frozenset(one.labels.items())): one.value for one in samples}


def figure(read: Figures, name: str, **labels: str) -> float:
    return read[name, frozenset(labels.items())]


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def service(tmp_path: Path, clock: Clock, runner: asyncio.Runner) -> Iterator[Service]:
    service = Service(SqliteStore(tmp_path / "store.db"), ("shop",), clock=clock)
    service.loop("shop").configure(LoopConfig(width=2, reward_wait=10.0))
    yield service
    runner.run(service.close())


async def play(service: Service) -> None:
    for event in ("a", "b", "c"):
        arms = np.eye(2).tobytes()
        await service.decide("shop", DecisionRequest(event_id=event, request=arms, encoding=DENSE, actions=("x", "y")))
    await service.reward("shop", "a", 1.0)
    await service.reward("shop", "a", 1.0, key="k")
    await service.reward("shop", "a", 1.0, key="k")
    await service.reward("shop", "none", 1.0)
    await service.activate("shop", "b")


def test_events_are_counted_by_status(runner: asyncio.Runner, service: Service) -> None:
    runner.run(play(service))
    read = collected(service)
    assert figure(read, "glb_decisions_total", loop="shop", status="accepted") == 3
    statuses = {
        status: figure(read, "glb_rewards_total", loop="shop", status=status)
        for status in ("accepted", "duplicate", "unknown")
    }
    assert statuses == {"accepted": 2, "duplicate": 1, "unknown": 1}
    assert figure(read, "glb_activations_total", loop="shop", status="accepted") == 1
    assert figure(read, "glb_batch_size_sum") == 8
    assert figure(read, "glb_commit_seconds_count") == figure(read, "glb_batch_size_count") > 0
    assert figure(read, "glb_queue_depth") == 0


def test_retries_and_write_errors_are_counted_separately(
    runner: asyncio.Runner, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, failures = service.store.append, iter([StoreError("the disk is full")] * 3)

    async def failing(events: Sequence[Event]) -> Sequence[Receipt]:
        for failure in failures:
            raise failure
        return await append(events)

    monkeypatch.setattr(service.store, "append", failing)

    async def play() -> None:
        with pytest.raises(StoreError):
            await service.reward("shop", "a", 1.0)
        arms = np.eye(2).tobytes()
        await service.decide("shop", DecisionRequest(event_id="a", request=arms, encoding=DENSE, actions=("x", "y")))
        await service.reward("shop", "a", 1.0)

    runner.run(play())
    read = collected(service)
    assert figure(read, "glb_write_errors_total") == 1
    assert figure(read, "glb_write_retries_total") == 2
    assert figure(read, "glb_decisions_total", loop="shop", status="accepted") == 1


def test_the_lag_grows_until_decisions_are_learned(runner: asyncio.Runner, service: Service, clock: Clock) -> None:
    runner.run(play(service))
    assert figure(collected(service), "glb_learning_lag_seconds", loop="shop") == 0.0
    clock.now += 13_000_000
    assert figure(collected(service), "glb_learning_lag_seconds", loop="shop") == pytest.approx(3.0, abs=0.1)
    service.loop("shop").learn()
    read = collected(service)
    assert figure(read, "glb_learning_lag_seconds", loop="shop") == 0.0
    assert figure(read, "glb_model_number", loop="shop") == 3
    service.loop("shop").configure(service.loop("shop").configuration, reset_model=True)
    # It began with one: the fixture's width is another than the default's.
    assert figure(collected(service), "glb_model_epoch", loop="shop") == 2
