"""A wall clock that steps."""

import logging
from pathlib import Path

import pytest

from glbandits.service.domain.events import EventStatus
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.runtime.service import Service
from glbandits.service.runtime.steady_clock import SECOND, STEP_SECONDS, SteadyClock
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import run
from tests.service.runtime.loops.loop_helpers import CONTEXTS, ask

START = 1_700_000_000 * SECOND
HOUR = 3600


class Times:
    """A wall clock and a monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.wall, self.elapsed = START, 5.0
        self.clock = SteadyClock(lambda: self.wall, lambda: self.elapsed)

    def wait(self, seconds: float, *, drift: float = 0.0) -> None:
        self.elapsed += seconds
        self.wall += round((seconds + drift) * SECOND)


def test_time_follows_small_corrections() -> None:
    times = Times()
    for _ in range(100):
        times.wait(1.0, drift=0.02)
        assert times.clock() == times.wall


@pytest.mark.parametrize("step", [4 * HOUR, -4 * HOUR])
def test_a_short_step_does_not_count(step: int) -> None:
    times = Times()
    times.wall += step * SECOND
    for _ in range(15):
        times.wait(0.1)
        assert times.clock() == times.wall - step * SECOND
    times.wall -= step * SECOND
    assert times.clock() == times.wall


def test_a_step_that_lasts_counts(caplog: pytest.LogCaptureFixture) -> None:
    times = Times()
    times.wall += 4 * HOUR * SECOND
    before = times.clock()
    times.wait(STEP_SECONDS - 1)
    assert times.clock() == before + (STEP_SECONDS - 1) * SECOND
    times.wait(2)
    with caplog.at_level(logging.WARNING):
        times.clock()
    assert times.clock() == times.wall
    assert "stepped by +14400 s" in caplog.text


def test_a_short_step_closes_no_reward_window(tmp_path: Path) -> None:
    times = Times()
    service = Service(SqliteStore(tmp_path / "store.db"), clock=times.clock)
    loop = service.loop("default")
    loop.configure(LoopConfig(width=16, reward_wait=600.0))
    service.store.append_blocking([ask(loop, "e", CONTEXTS[0])])
    times.wall += 4 * HOUR * SECOND
    times.wait(1.5)
    loop.learn()
    times.wall -= 4 * HOUR * SECOND
    times.wait(3.5)
    assert run(service.reward("default", "e", 1.0)) is EventStatus.ACCEPTED
    run(service.close())
