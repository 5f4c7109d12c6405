"""The model depends on which rewards came in time, and on nothing else about their arrival."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glbandits.common.arrays import Floats
from glbandits.service.domain.events import Aggregation, Reward
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.open_store import open_store
from tests.service.runtime.loops.loop_helpers import CONTEXTS, Clock, ask, loop_in

EVENTS = 6


class Sent(NamedTuple):
    """A reward, by the number of its event."""

    event: int
    key: str
    value: float


VALUES = (0.1, 0.2, -0.3)
REWARDS = [Sent(event, f"{key}", VALUES[key]) for event in range(EVENTS) for key in range(event % 4)]
"""None to three of each event, each with its own key."""


@pytest.fixture(scope="module", name="expected")
def expected_fixture(new_address: Callable[[], str]) -> Floats:
    """The model after every reward came once, in the order of the events."""
    return state_after(new_address(), [[(0.01, reward)] for reward in REWARDS])


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_order_duplicates_and_delays_do_not_change_the_model(
    new_address: Callable[[], str], expected: Floats, data: st.DataObject
) -> None:
    duplicates = data.draw(st.lists(st.sampled_from(REWARDS), max_size=5))
    order = data.draw(st.permutations(REWARDS + duplicates))
    delays = data.draw(st.lists(st.floats(0.0, 0.5), min_size=len(order), max_size=len(order)))
    size = data.draw(st.integers(1, len(order)))
    arriving = list(zip(delays, order, strict=True))
    batches = [arriving[first : first + size] for first in range(0, len(order), size)]
    np.testing.assert_array_equal(state_after(new_address(), batches), expected)


def state_after(address: str, batches: Sequence[Sequence[tuple[float, Sent]]]) -> Floats:
    """The model that learned from rewards, each sent some seconds after the one before, and committed in batches."""
    with closing(open_store(address, durability="process")) as store:
        loop = loop_in(store, clock := Clock(), width=8, aggregation=Aggregation.SUM)
        store.append_blocking([ask(loop, f"event-{event}", CONTEXTS[event % 3]) for event in range(EVENTS)])
        for batch in batches:
            rewards = []
            for delay, sent in batch:
                clock.wait(delay)
                rewards.append(
                    Reward(
                        loop="default",
                        event_id=f"event-{sent.event}",
                        timestamp=clock(),
                        value=sent.value,
                        key=sent.key,
                    )
                )
            store.append_blocking(rewards)
        clock.wait(20)
        assert loop.learn() == EVENTS
        assert verify(store, "default").sound
        return loop.published.bandit.state
