"""Replay of a log with groups, sticky units, fallback, rankings and changes of settings."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from glbandits.service.domain.events import Decision, DecisionRequest, Group, Mode
from glbandits.service.domain.groups.experiment import Control
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.runtime.loops.guardrails import Fallback, GuardrailState
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.runtime.service import DEFAULT_LOOP, Service
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.runtime.loops.loop_helpers import ACTIONS, CONTEXTS, Clock, ask, request_at, small_loop

pytestmark = pytest.mark.usefixtures("plain_python")

SETTINGS: list[dict[str, Any]] = [
    {},
    {"control": Control(share=0.3), "sticky": True},
    {"control": Control(share=0.5, show="uniform")},
    {"control": Control(share=0.5, show="arm:music", by="event")},
    {"control": Control(share=0.3), "mode": Mode.APPRENTICE},
    {"control": Control(share=0.4), "sticky": True, "sticky_for": 60.0},
]


@pytest.fixture(name="store")
def store_fixture(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "events.db")
    yield store
    store.close()


async def play(store: SqliteStore) -> list[Decision]:
    """Mixed decisions under all settings, with and without fallback, of which some are learned."""
    clock, rng, decisions = Clock(), np.random.default_rng(0), list[Decision]()
    service = Service(store, clock=clock)
    loop = service.loop(DEFAULT_LOOP)
    for number in range(240):
        if number % 40 == 0:
            loop.configure(LoopConfig(width=16, reward_wait=5.0, **SETTINGS[number // 40]))
        stopped, control = number % 40 > 34, loop.configuration.control
        by_event = control is not None and control.by == "event"
        loop.guardrails.state = GuardrailState(fallback=Fallback(1, "ms", "test") if stopped else None)
        order = rng.permutation(3)
        request = DecisionRequest(
            event_id=f"e{number}",
            request=request_at(CONTEXTS[number % 3]),
            encoding="json",
            actions=tuple(ACTIONS[index] for index in order),
            excluded=(int(rng.integers(3)),) if number % 7 == 0 else (),
            unit=f"u{rng.integers(8)}" if number % 5 else "",
            sticky=bool(number % 2) and number % 5 > 0 and not by_event,
        )
        if number % 6 == 0 and not request.excluded:
            results = await service.decide_slots(DEFAULT_LOOP, [replace(request, slot=slot) for slot in "01"])
        else:
            results = [await service.decide(DEFAULT_LOOP, request)]
        for made, _ in results:
            decisions.append(made)
            value = float(made.actions[made.shown] == ACTIONS[number % 3])
            await service.reward(DEFAULT_LOOP, made.event_id, value, slot=made.slot)
        if number % 20 == 19:
            clock.wait(6)
            loop.learn()
            loop.guardrails.state = GuardrailState()
    await service.writer.close()
    return decisions


def test_replay_repeats_a_mixed_log(store: SqliteStore) -> None:
    decisions = asyncio.run(play(store))
    result = verify(store, DEFAULT_LOOP)
    assert result.messages == ()
    assert (result.decisions, result.unchecked) == (len(decisions), 0)
    assert {each.group for each in decisions} == {None, *Group}
    kinds = {(each.group, each.fallback, bool(each.repeats), each.mode) for each in decisions}
    assert len(kinds) >= 10
    assert sum(bool(each.repeats) for each in decisions) > 20
    assert {each.control_show for each in decisions} == {"baseline", "uniform", "arm:music"}


def wrong_group(decision: Decision) -> dict[str, Any]:
    return {"group": next(group for group in Group if group is not decision.group)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (wrong_group, "the group"),
        (lambda made: {"predicted": (0.5, made.predicted[1])}, "the predicted rewards"),
        (lambda _: {"predicted": None}, "the predicted rewards"),
        (lambda made: {"shown": (made.shown + 1) % 3}, "the shown action"),
        (lambda made: {"probability": made.probability / 2}, "its probability"),
        (lambda _: {"fallback": True, "shown": 2}, "the shown action"),
        (lambda _: {"control_share": 0.01, "group": Group.CONTROL}, "the group"),
    ],
)
def test_replay_finds_a_changed_decision(tmp_path: Path, change: Any, message: str) -> None:
    loop, store = small_loop(tmp_path, Clock(), control=Control(share=0.5))
    made = ask(loop, "e", "noon", unit="ann")
    store.append_blocking([replace(made, **change(made))])
    (found,) = verify(store, "default").messages
    assert message in found
    store.close()


def test_replay_checks_what_a_sticky_decision_repeats(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, Clock())
    first, other, second = (ask(loop, name, "noon", unit=unit) for name, unit in (("a", "u"), ("b", "v"), ("c", "u")))
    wrong = replace(second, repeats="a", chosen=(first.shown + 1) % 3, shown=(first.shown + 1) % 3)
    foreign = replace(second, event_id="d", repeats="b")
    lost = replace(second, event_id="e", repeats="deleted")
    store.append_blocking([first, other, wrong, foreign, lost])
    result = verify(store, "default")
    assert (result.decisions, result.unchecked, result.different) == (4, 1, 2)
    assert "the drawn action" in result.messages[0]
    assert "another unit, group or set of actions" in result.messages[1]
    store.close()
