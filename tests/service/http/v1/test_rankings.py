"""Rankings: positions, probabilities, rewards of positions, clicks."""

import asyncio
import math
import time
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from glbandits.common.arrays import Floats
from glbandits.evaluation import LoggedData, evaluate_slates
from glbandits.evaluation.readers.service_export import read_export
from glbandits.service.domain.events import EventStatus, Mode
from glbandits.service.export.loop_export import export_loop
from glbandits.service.runtime.decision_writer import DECISION_TIMEOUT
from glbandits.service.runtime.loops.loop_statistics import Window
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.event_store import EventStore
from tests.service.http.v1.v1_site import ARMS, Site

FOUR = [*ARMS, [0.2, 0.1]]


def rank(site: Site, **changed: Any) -> Any:
    reply = site.ask("POST", "/v1/rank", {"arms": FOUR, "k": 3} | changed)
    assert reply.status_code == 200, reply.text
    return reply.json()


def reward(site: Site, **sent: Any) -> Any:
    reply = site.ask("POST", "/v1/reward", sent)
    assert reply.status_code == 200, reply.text
    return reply.json()["status"]


def rewards_of(store: EventStore, event_id: str) -> list[list[float | None]]:
    return [[each.value for each in logged.rewards] for logged in store.decisions_of("default", event_id)]


def learned(site: Site) -> int:
    return site.service.loop("default").statistics.view(Window.ALL).total.learned


class TestRank:
    def test_positions_have_different_arms_and_probabilities(self, site: Site) -> None:
        ranked = rank(site, eventId="e", ids=list("abcd"), excluded=[1])
        assert sorted(ranked["arms"]) == [0, 2, 3]
        assert ranked["ids"] == ["abcd"[arm] for arm in ranked["arms"]]
        assert ranked["probabilities"][2] == 1.0  # one arm is left
        assert ranked["probability"] == math.prod(ranked["probabilities"])
        assert (ranked["eventId"], ranked["modelVersion"], ranked["degraded"]) == ("e", "1.0", False)

    def test_each_position_is_a_decision_among_the_arms_left(self, site: Site) -> None:
        ranked = rank(site, eventId="e")
        for position, arm in enumerate(ranked["arms"]):
            record = site.ask("GET", f"/v1/events/e?slot={position}").json()
            assert record["excluded"] == sorted(ranked["arms"][:position])
            assert (record["shown"], record["probability"]) == (arm, ranked["probabilities"][position])
            assert sum(record["probabilities"]) == pytest.approx(1)

    def test_a_repeated_ranking_stays(self, site: Site) -> None:
        first = rank(site, eventId="e", k=2)
        reward(site, eventId="e", position=0, value=1, cascade=True)
        site.learn()
        assert rank(site, eventId="e", k=2) == first
        for changed in ({"k": 4}, {"k": 1}, {"arms": ARMS}):
            status, detail = site.refusal("POST", "/v1/rank", {"arms": FOUR, "k": 2, "eventId": "e"} | changed)
            assert (status, "was decided before" in detail) == (400, True)
        assert len(site.service.store.decisions_of("default", "e")) == 2

    def test_a_ranking_is_one_commit(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        batches, append = list[int](), site.service.store.append

        async def counting(events: Any) -> Any:
            batches.append(len(events))
            return await append(events)

        monkeypatch.setattr(site.service.store, "append", counting)
        rank(site, k=4)
        assert batches == [4]

    def test_a_partly_written_ranking_is_completed(self, site: Site) -> None:
        """Those that are written keep their actions, which another model has chosen."""
        rank(site, eventId="e", k=4)
        first, second, *_ = site.service.store.decisions_of("default", "e")
        moved = replace(first.decision, event_id="f", shown=(first.decision.shown + 1) % 4)
        then = replace(second.decision, event_id="f", shown=(moved.shown + 1) % 4, excluded=(moved.shown,))
        site.service.store.append_blocking([moved, then])
        ranked = rank(site, eventId="f", k=4)["arms"]
        assert (ranked[:2], sorted(ranked)) == ([moved.shown, then.shown], [0, 1, 2, 3])
        assert len(site.service.store.decisions_of("default", "f")) == 4

    def test_an_event_id_belongs_to_one_kind_of_request(self, site: Site) -> None:
        rank(site, eventId="r")
        site.decide(eventId="d")
        for path, sent in (
            ("decide", {"arms": FOUR, "eventId": "r"}),
            ("rank", {"arms": ARMS, "k": 1, "eventId": "d"}),
        ):
            status, detail = site.refusal("POST", f"/v1/{path}", {"arms": ARMS} | sent)
            assert (status, "was decided before" in detail) == (400, True)
        slots_of = {name: len(site.service.store.decisions_of("default", name)) for name in "rd"}
        assert slots_of == {"r": 3, "d": 1}

    def test_a_slow_store_delays_a_ranking_once(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """All positions together wait for one timeout, also those of a ranking that is in the log."""
        first, append = rank(site, eventId="e", k=4), site.service.store.append

        async def slow_append(events: Any) -> Any:
            await asyncio.sleep(1.0)
            return await append(events)

        monkeypatch.setattr(site.service.store, "append", slow_append)
        began = time.monotonic()
        assert rank(site, eventId="e", k=4) == first
        assert rank(site, eventId="f", k=4)["degraded"]
        assert time.monotonic() - began < 6 * DECISION_TIMEOUT

    def test_concurrent_requests_get_the_same_ranking(self, site: Site) -> None:
        sent = {"arms": FOUR, "k": 4, "eventId": "e"}

        async def send_five() -> list[Any]:
            replies = await asyncio.gather(*(site.ask_async("POST", "/v1/rank", sent) for _ in range(5)))
            return [reply.json() for reply in replies]

        first, *others = site.run(send_five())
        assert sorted(first["arms"]) == [0, 1, 2, 3]
        assert others == [first] * 4

    def test_apprentice_mode_shows_the_order_of_the_request(self, site: Site) -> None:
        site.set_mode(Mode.APPRENTICE)
        ranked = rank(site, excluded=[1])
        assert (ranked["arms"], ranked["probability"]) == ([0, 2, 3], 1.0)

    def test_a_deferred_ranking_is_activated_as_a_whole(self, site: Site) -> None:
        rank(site, eventId="e", deferred=True)
        assert site.ask("POST", "/v1/activate", {"eventId": "e"}).status_code == 200
        logged = site.service.store.decisions_of("default", "e")
        assert [each.activated_at is None for each in logged] == [False] * 3

    def test_all_rankings_have_their_stated_probability(self, site: Site) -> None:
        """Of 400 draws, the share of each ranking of two of three arms; beyond 4.5 standard errors once in 1e5."""
        drawn: dict[tuple[int, ...], list[float]] = {}
        for _ in range(400):
            ranked = rank(site, arms=ARMS, k=2)
            drawn.setdefault(tuple(ranked["arms"]), []).append(ranked["probability"])
        assert sum(probabilities[0] for probabilities in drawn.values()) == pytest.approx(1)
        for probabilities in drawn.values():
            p = probabilities[0]
            assert abs(len(probabilities) / 400 - p) < 4.5 * math.sqrt(p * (1 - p) / 400)

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"k": 5}, "k must be at most 4"),
            ({"k": 1, "excluded": [0, 1, 2, 3]}, "all actions are excluded"),
            ({"k": 51}, "<= 50"),
            ({"k": 1.5}, "Expected `int`"),
            ({"k": 2, "values": [1, 2]}, "values"),
        ],
    )
    def test_invalid_rankings_are_refused_and_not_stored(self, site: Site, changed: Any, message: str) -> None:
        status, detail = site.refusal("POST", "/v1/rank", {"arms": FOUR, "eventId": "e"} | changed)
        assert (status, message in detail) == (400, True), detail
        assert site.service.store.decisions_of("default", "e") == []


class TestRewards:
    def test_each_position_has_its_own_reward(self, site: Site) -> None:
        rank(site, eventId="e")
        assert reward(site, eventId="e", position=2, value=0.5) == EventStatus.ACCEPTED
        batch = {"reward": [{"eventId": "e", "position": 0, "value": 1}, {"eventId": "e", "position": 3, "value": 1}]}
        known, unknown = site.ask("POST", "/v1/batch", batch).json()["reward"]
        assert known["rewarded"]["status"] == EventStatus.ACCEPTED
        assert unknown["problem"]["status"] == 404
        assert "at position 3" in unknown["problem"]["detail"]
        assert rewards_of(site.service.store, "e") == [[1.0], [], [0.5]]
        site.learn()
        assert learned(site) == 3

    def test_positions_below_a_click_are_not_learned(self, site: Site) -> None:
        rank(site, eventId="e", k=4)
        click = {"eventId": "e", "position": 1, "value": 1, "cascade": True, "key": "click"}
        assert reward(site, **click) == EventStatus.ACCEPTED
        assert reward(site, **click) == EventStatus.DUPLICATE
        assert rewards_of(site.service.store, "e") == [[], [1.0], [None], [None]]
        assert site.ask("GET", "/v1/events/e?slot=3").json()["rewards"][0]["value"] is None
        site.learn()
        assert learned(site) == 2  # 0 at the first position, 1 at the second
        assert verify(site.service.store, "default").sound

    def test_a_late_click_changes_nothing(self, site: Site) -> None:
        rank(site, eventId="e")
        site.learn()
        assert reward(site, eventId="e", position=0, value=1, cascade=True) == EventStatus.LATE
        assert learned(site) == 3
        assert verify(site.service.store, "default").sound

    def test_rewards_that_fit_no_position_are_refused(self, site: Site) -> None:
        rank(site, eventId="e")
        for sent, message in (
            ({"cascade": True}, "cascade needs the position"),
            ({}, "for a ranking, send a position"),
            ({"position": -1}, ">= 0"),
        ):
            status, detail = site.refusal("POST", "/v1/reward", {"eventId": "e", "value": 1} | sent)
            assert status in (400, 404)
            assert message in detail
        assert rewards_of(site.service.store, "e") == [[], [], []]


def test_exported_rankings_are_slates(site: Site, tmp_path: Path) -> None:
    """Both readers of slates, and the estimate of `rips` by hand."""
    clicked, total = 30, 0.0
    for number in range(60):
        ranked = rank(site, eventId=f"e{number}", k=2)
        if number < clicked:
            reward(site, eventId=f"e{number}", position=number % 2, value=1, cascade=True)
            weights = [1 / 4 / ranked["probabilities"][0], 1 / 3 / ranked["probabilities"][1]]
            total += math.prod(weights[: number % 2 + 1])
    site.learn()
    export_loop(site.service.store, "default", folder := tmp_path / "out")
    log = read_export(folder, cluster="event_id")
    evaluation = evaluate_slates(log, "uniform", ["rips"])
    assert (evaluation.slates, evaluation.logged) == (60, clicked / 60)
    assert evaluation["rips"].value == pytest.approx(total / 60, rel=1e-9)
    assert (evaluation.unit, "payoff" in str(evaluation)) == ("reward", False)
    assert len(log) == 2 * 60 - clicked // 2  # without positions below a click at the first position


def test_slates_of_decisions_with_values_are_payoffs(site: Site, tmp_path: Path) -> None:
    for number in range(3):
        rank(site, eventId=f"e{number}", values=[2, 2, 2, 2], costs=[0.5] * 4)
        reward(site, eventId=f"e{number}", position=0, value=1)
    site.learn()
    export_loop(site.service.store, "default", folder := tmp_path / "out")
    evaluation = evaluate_slates(read_export(folder, cluster="event_id"), "uniform", ["rips"])
    assert (evaluation.unit, evaluation.logged) == ("payoff", 2 - 3 * 0.5)
    assert "in payoffs" in str(evaluation)


def test_rankings_with_large_features_are_replayed_and_exported(site: Site, tmp_path: Path) -> None:
    """The log has their arms once."""
    arms = {"arms": [[0.1 * number, 0.2] for number in range(70)], "ids": [f"arm {number}" for number in range(70)]}
    for number in range(6):
        rank(site, eventId=f"e{number}", k=5, **arms)
        reward(site, eventId=f"e{number}", position=number % 5, value=1)
        site.learn()
    store = site.service.store
    with store._reading() as connection:
        assert list(store._execute(connection, "SELECT count(*) FROM action_sets")) == [(1,)]
    result = verify(store, "default")
    assert (result.decisions, result.unchecked, result.different) == (30, 0, 0)
    export_loop(store, "default", folder := tmp_path / "out")
    rows = next(read_export(folder, cluster="event_id").blocks())
    assert rows.features()[::5].tolist() == [arms["arms"]] * 6  # later positions lack the arms of earlier ones


@pytest.mark.statistics
def test_rips_recovers_the_value_of_another_ranking_policy(site: Site, tmp_path: Path) -> None:
    """Users read from the top, click one arm at most, and leave after each position with probability 0.4.

    The interval of 1,200 users misses the value with probability 1e-4.
    """
    rng, attraction, stays = np.random.default_rng(1), np.array([0.05, 0.1, 0.6, 0.2]), 0.6
    site.configure(exploration=0.6)
    for number in range(1200):
        ranked = rank(site, eventId=f"e{number}", ids=list("abcd"))
        clicks = np.flatnonzero(rng.random(3) < attraction[ranked["arms"]])
        if len(clicks) and rng.random() < stays ** clicks[0]:
            reward(site, eventId=f"e{number}", position=int(clicks[0]), value=1, cascade=True)
        if number == 300:
            site.learn()  # the log has decisions of two models
    site.learn()
    export_loop(site.service.store, "default", folder := tmp_path / "out")
    strengths = np.array([1.0, 2.0, 12.0, 4.0])  # the target fills each position in proportion to these

    def target(rows: LoggedData) -> Floats:
        assert rows.row_arm_names is not None
        shares = np.where(rows.arm_mask, strengths[rows.row_arm_names.indices], 0.0)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    value = 0.0
    for order in map(list, permutations(range(4), 3)):
        probability = math.prod(strengths[order] / (strengths.sum() - np.cumsum([0.0, *strengths[order[:-1]]])))
        passed = np.cumprod([1.0, *(stays * (1.0 - attraction[order[:-1]]))])
        value += probability * float(attraction[order] @ passed)
    evaluation = evaluate_slates(read_export(folder, cluster="event_id"), target, level=0.9999)
    assert evaluation["rips"].normal.low < value < evaluation["rips"].normal.high
    assert evaluation["rips"].mean_coefficient == pytest.approx(1, abs=0.2)
    assert evaluation.logged < value - evaluation["rips"].standard_error  # so that the weights matter
