"""A loop whose wait for rewards is changed while decisions wait."""

from pathlib import Path

import msgspec

from glbandits.service.domain.events import EventStatus, Reward
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.replay.replay_verification import verify
from tests.service.runtime.loops.loop_helpers import CONTEXTS, Clock, ask, small_loop


def test_a_shorter_window_applies_to_open_decisions(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), reward_wait=600.0)
    store.append_blocking([ask(loop, "old", CONTEXTS[0])])
    clock.wait(5)
    loop.reconfigure(lambda current: msgspec.structs.replace(current, reward_wait=1.0))
    store.append_blocking(
        [ask(loop, "new", CONTEXTS[0]), Reward(loop="default", event_id="new", timestamp=clock(), value=1.0)]
    )
    clock.wait(0.9)
    assert loop.learn() == 0  # the old one gets the whole of the shorter wait
    clock.wait(0.2)
    assert loop.learn() == 2
    (receipt,) = store.append_blocking([Reward(loop="default", event_id="old", timestamp=clock(), value=1.0)])
    assert receipt.status is EventStatus.LATE
    assert verify(store, "default").sound


def test_a_longer_window_applies_to_new_decisions(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), reward_wait=1.0)
    store.append_blocking([ask(loop, "old", CONTEXTS[0])])
    loop.reconfigure(lambda current: msgspec.structs.replace(current, reward_wait=600.0))
    clock.wait(2)
    assert loop.learn() == 1


def test_a_process_with_the_old_window_delays_nothing(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), reward_wait=600.0)
    other = Loop("default", store, clock)
    loop.reconfigure(lambda current: msgspec.structs.replace(current, reward_wait=1.0))
    clock.wait(0.5)
    store.append_blocking([ask(other, "a", CONTEXTS[0])])
    clock.wait(1.1)
    assert loop.learn() == 1
    assert verify(store, "default").sound


def test_other_changes_do_not_restart_a_shorter_window(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), reward_wait=600.0)
    store.append_blocking([ask(loop, "old", CONTEXTS[0])])
    loop.reconfigure(lambda current: msgspec.structs.replace(current, reward_wait=10.0))
    clock.wait(9)
    loop.reconfigure(lambda current: msgspec.structs.replace(current, exploration=0.5))
    clock.wait(2)
    assert Loop("default", store, clock).learn() == 1  # which another process knows too
    assert loop.learn() == 0
