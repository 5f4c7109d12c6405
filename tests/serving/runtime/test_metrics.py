import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from glbandits.serving.domain.errors import StoreError
from glbandits.serving.domain.events import DecisionRequest, Event, Receipt
from glbandits.serving.domain.loop_config import LoopConfig
from glbandits.serving.domain.request_features import DENSE
from glbandits.serving.runtime.metrics import (
    BOUNDS,
    Family,
    Histogram,
    RequestMetrics,
    Sample,
    exposition,
    labelled,
    log_families,
    process_families,
)
from glbandits.serving.runtime.service import Service
from glbandits.serving.storage.sqlite_store import SqliteStore

GUIDE = Path(__file__).parents[3] / "docs" / "service.md"
Figures = dict[tuple[str, frozenset[tuple[str, str]]], float]


def figures(text: str) -> Figures:
    """As Prometheus' own client reads them."""
    families = text_string_to_metric_families(text)
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def figure(read: Figures, name: str, **labels: str) -> float:
    return read[name, frozenset(labels.items())]


@given(st.lists(st.floats(0.0, 10.0)))
def test_a_histogram_counts_what_is_at_most_each_bound(values: list[float]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    read = figures(exposition([Family("x", "histogram", "Of x.", histogram.samples({"a": "b"}))]))
    for bound in BOUNDS:
        assert figure(read, "x_bucket", a="b", le=str(bound)) == sum(value <= bound for value in values)
    assert figure(read, "x_bucket", a="b", le="+Inf") == figure(read, "x_count", a="b") == len(values)
    assert figure(read, "x_sum", a="b") == pytest.approx(sum(values))


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])), st.floats(allow_nan=False, allow_infinity=False))
def test_any_label_and_any_value_are_read_again(label: str, value: float) -> None:
    text = exposition([Family("x", "gauge", "Of x.", [Sample({"a": label}, value)])])
    assert figure(figures(text), "x", a=label) == value


def test_requests_are_counted_by_scope_and_status() -> None:
    requests = RequestMetrics()
    for scope, status in (("rank", 200), ("rank", 200), ("rank", 429), ("none", 404)):
        requests.add(scope, status, 0.003)
    read = figures(exposition(requests.families()))
    assert figure(read, "glb_requests_total", scope="rank", status="200") == 2
    assert figure(read, "glb_requests_total", scope="rank", status="429") == 1
    assert figure(read, "glb_request_seconds_bucket", scope="rank", le="0.002") == 0
    assert figure(read, "glb_request_seconds_bucket", scope="rank", le="0.005") == 3
    assert figure(read, "glb_request_seconds_count", scope="none") == 1


def test_labels_of_all_figures_of_a_process() -> None:
    requests = RequestMetrics()
    requests.add("rank", 200, 0.003)
    read = figures(exposition(labelled(requests.families(), process="1")))
    assert figure(read, "glb_requests_total", scope="rank", status="200", process="1") == 1
    assert all(("process", "1") in labels for _, labels in read)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(tmp_path: Path, clock: Clock) -> Iterator[Service]:
    service = Service(SqliteStore(tmp_path / "store.db"), ("shop",), clock=clock)
    service.loop("shop").configure(LoopConfig(width=2, reward_wait=10.0))
    yield service
    asyncio.run(service.close())


def read_all(service: Service) -> Figures:
    return figures(exposition([*log_families(service), *process_families(service)]))


async def play(service: Service) -> None:
    for event in ("a", "b", "c"):
        arms = np.eye(2).tobytes()
        await service.decide("shop", DecisionRequest(event_id=event, request=arms, encoding=DENSE, actions=("x", "y")))
    await service.reward("shop", "a", 1.0)
    await service.reward("shop", "a", 1.0, key="k")
    await service.reward("shop", "a", 1.0, key="k")
    await service.reward("shop", "none", 1.0)
    await service.activate("shop", "b")


def test_events_are_counted_by_what_became_of_them(service: Service) -> None:
    asyncio.run(play(service))
    read = read_all(service)
    assert figure(read, "glb_decisions_total", loop="shop", status="accepted") == 3
    statuses = {
        status: figure(read, "glb_rewards_total", loop="shop", status=status)
        for status in ("accepted", "duplicate", "unknown")
    }
    assert statuses == {"accepted": 2, "duplicate": 1, "unknown": 1}
    assert figure(read, "glb_activations_total", loop="shop", status="accepted") == 1
    assert figure(read, "glb_group_size_sum") == 8
    assert figure(read, "glb_commit_seconds_count") == figure(read, "glb_group_size_count") > 0
    assert figure(read, "glb_queue_depth") == 0


def test_what_is_written_again_is_counted_apart_from_what_is_not_written(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, failures = service.store.append, iter([StoreError("the disk is full")] * 3)

    async def failing(events: Sequence[Event]) -> list[Receipt]:
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

    asyncio.run(play())
    read = read_all(service)
    assert figure(read, "glb_write_errors_total") == 1
    assert figure(read, "glb_write_retries_total") == 2
    assert figure(read, "glb_decisions_total", loop="shop", status="accepted") == 1


def test_every_figure_is_in_the_guide(service: Service) -> None:
    families = [*log_families(service), *process_families(service), *RequestMetrics().families()]
    rows = re.findall(r"^\| `(glb_\w+)` \| (\w+) \|", GUIDE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted((family.name, family.kind) for family in families)


def test_the_lag_grows_until_what_is_settled_is_learned(service: Service, clock: Clock) -> None:
    asyncio.run(play(service))
    assert figure(read_all(service), "glb_learning_lag_seconds", loop="shop") == 0.0
    clock.now += 13_000_000
    assert figure(read_all(service), "glb_learning_lag_seconds", loop="shop") == pytest.approx(3.0, abs=0.1)
    service.loop("shop").learn()
    read = read_all(service)
    assert figure(read, "glb_learning_lag_seconds", loop="shop") == 0.0
    assert figure(read, "glb_model_number", loop="shop") == 3
    service.loop("shop").reset()
    # It began with one: the fixture's width is another than the default's.
    assert figure(read_all(service), "glb_model_epoch", loop="shop") == 2
