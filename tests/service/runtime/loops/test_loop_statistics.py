import math
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import astuple

from glbandits.service.domain.decision_totals import (
    MAX_NAMES,
    DecisionTotals,
    MeanWithError,
    baseline_of,
    totals_of,
)
from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import Mode, Reward, SettledDecision
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.loops.loop_statistics import (
    STATISTICS,
    LoopStatistics,
    SavedStatistics,
    Timeline,
    Window,
)
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import decision
from tests.service.runtime.loops.loop_helpers import Clock, ask, small_loop

SECOND, MINUTE = 1_000_000, 60_000_000


def passed(
    sequence: int = 1, timestamp: int = 0, *, rewards: tuple[tuple[int, float], ...] = (), **changed: Any
) -> SettledDecision:
    return SettledDecision(sequence, decision(f"e{sequence}", timestamp, **changed), rewards, activated=False)


def total_of(*decisions: SettledDecision) -> DecisionTotals:
    total = DecisionTotals()
    for settled in decisions:
        total.add(totals_of(settled))
    return total


def shown(index: int, probability: float, reward: float) -> SettledDecision:
    """A decision among a, b and c that showed one of them; a is the baseline."""
    return passed(rewards=((5, reward),), shown=index, chosen=index, probability=probability)


FOUR = (shown(0, 0.5, 1.0), shown(0, 0.25, 0.0), shown(1, 0.5, 1.0), shown(2, 0.25, 1.0))


class TestTally:
    def test_the_mean_reward_and_its_error(self) -> None:
        reward = total_of(*FOUR).reward
        assert reward is not None
        assert astuple(reward) == pytest.approx((0.75, math.sqrt(3 * 0.25**2 + 0.75**2) / 4))

    def test_the_baseline_is_estimated_by_weights(self) -> None:
        """Weights 2 and 4 on rewards 1 and 0: a third, with the error sqrt((2 * 2/3)^2 + (4 * 1/3)^2) / 6."""
        baseline = total_of(*FOUR).baseline
        assert baseline is not None
        assert astuple(baseline) == pytest.approx((1 / 3, math.sqrt(32) / 18))

    def test_empty_totals_have_no_estimates(self) -> None:
        nothing = DecisionTotals()
        assert (nothing.reward, nothing.baseline, nothing.delay(0.5)) == (None, None, None)
        assert total_of(FOUR[2]).baseline is None

    def test_totals_count_shares(self) -> None:
        likely: dict[str, Any] = {"probabilities": (0.25, 0.5, 0.25)}
        totals = total_of(passed(**likely), passed(chosen=0, shown=0, **likely), passed(chosen=2, shown=2, **likely))
        assert (totals.decisions, totals.explored, totals.agreed) == (3, 2, 1)
        assert totals.frequent() == [("a", 1), ("b", 1), ("c", 1)]

    def test_equally_likely_actions_are_not_exploration(self) -> None:
        assert (
            total_of(passed(probabilities=(0.4, 0.4, 0.2)), passed(chosen=0, probabilities=(0.4, 0.4, 0.2))).explored
            == 0
        )

    def test_a_decision_that_is_not_learned_has_no_reward(self) -> None:
        totals = total_of(passed(mode=Mode.LOGGING), passed(deferred=True, rewards=((3, 1.0),)))
        assert (totals.decisions, totals.learned, totals.reward) == (2, 0, None)

    def test_missing_rewards_are_counted(self) -> None:
        totals = total_of(passed(default_reward=0.25), passed(rewards=((1, 0.75),)))
        assert totals.missing == 1
        assert totals.reward is not None
        assert totals.reward.value == 0.5

    def test_quantiles_of_the_delay_of_the_first_reward(self) -> None:
        """The scale has steps of 9 %, so a quantile is within 5 %."""
        delays = [1000 * step for step in range(1, 101)]
        totals = total_of(*(passed(timestamp=7, rewards=((7 + 900_000, 0.0), (7 + delay, 1.0))) for delay in delays))
        assert totals.delay(0.5) == pytest.approx(50_000, rel=0.05)
        assert totals.delay(0.99) == pytest.approx(99_000, rel=0.05)

    def test_a_reward_from_before_its_decision_has_no_delay(self) -> None:
        assert total_of(passed(timestamp=100, rewards=((40, 1.0),))).delay(0.5) == 0.0

    def test_added_totals_equal_totals_of_all(self) -> None:
        rows = [*FOUR, passed(), passed(mode=Mode.LOGGING)]
        one, other = total_of(*rows[:3]), total_of(*rows[3:])
        one.add(other)
        assert one == total_of(*rows)

    def test_rarest_actions_are_no_longer_counted(self) -> None:
        often = [passed(actions=("often",), shown=0, chosen=0, probabilities=(1.0,)) for _ in range(3)]
        rare = [passed(actions=(f"{n}",), shown=0, chosen=0, probabilities=(1.0,)) for n in range(5 * MAX_NAMES)]
        totals = total_of(*often, *rare)
        assert len(totals.actions) <= 2 * MAX_NAMES
        assert totals.frequent()[0] == ("often", 3)


def test_the_baseline_is_the_first_allowed_action() -> None:
    assert baseline_of(decision("e", excluded=(0, 2))) == 1


def test_the_baseline_is_the_action_that_a_slot_names() -> None:
    assert baseline_of(decision("e", slot="top", baseline=2)) == 2
    totals = total_of(passed(rewards=((5, 1.0),), baseline=1), passed(rewards=((5, 0.0),), baseline=0))
    assert (totals.agreed, totals.baseline_shown, totals.baseline) == (1, 1, MeanWithError(1.0, 0.0))


@pytest.mark.statistics
def test_errors_are_right_in_simulation() -> None:
    """400 logs of 500 decisions. Intervals should hold the truth in 95 %: below 91 % once in 3000 times."""
    rng, held = np.random.default_rng(1), np.zeros(2)
    for _ in range(400):
        log = [
            shown(int(b), 0.4 if b else 0.6, float(rng.random() < (0.5 if b else 0.3))) for b in rng.random(500) < 0.4
        ]
        totals = total_of(*log)
        assert totals.reward is not None
        assert totals.baseline is not None
        held += [
            abs(estimate.value - truth) <= 1.96 * estimate.error
            for estimate, truth in ((totals.reward, 0.3 * 0.6 + 0.5 * 0.4), (totals.baseline, 0.3))
        ]
    assert held.min() >= 0.91 * 400


class TestTimeline:
    def test_too_many_buckets_become_longer(self) -> None:
        timeline = Timeline(SECOND, 4, is_sliding=False)
        for second in (0, 1, 2, 3, 100):
            timeline.add(second * SECOND, totals_of(passed()))
        assert timeline.width == 2 * SECOND
        assert {at: totals.decisions for at, totals in timeline.view().points.items()} == {
            0: 2,
            2 * SECOND: 2,
            100 * SECOND: 1,
        }

    def test_memory_is_bounded_and_nothing_is_lost(self) -> None:
        timeline = Timeline(SECOND, 50, is_sliding=False)
        for second in np.random.default_rng(0).integers(0, 10**6, 2000).tolist():
            timeline.add(second * SECOND, totals_of(passed()))
            assert len(timeline.buckets) <= 50
        assert timeline.view().total.decisions == 2000

    def test_a_window_drops_old_buckets(self) -> None:
        timeline = Timeline(SECOND, 3, is_sliding=True)
        for second in (5, 1, 6, 7, 8, 2):
            timeline.add(second * SECOND, totals_of(passed()))
        assert list(timeline.view().points) == [6 * SECOND, 7 * SECOND, 8 * SECOND]

    def test_timestamps_in_the_future_drop_nothing(self) -> None:
        timeline = Timeline(SECOND, 3, is_sliding=True)
        for second in (5, 10**9, 6):
            timeline.add(second * SECOND, totals_of(passed()), now=6 * SECOND)
        assert {at: totals.decisions for at, totals in timeline.view().points.items()} == {5 * SECOND: 1, 6 * SECOND: 2}

    def test_a_clock_that_steps_back_drops_later_buckets(self) -> None:
        timeline = Timeline(SECOND, 3, is_sliding=True)
        for second in (10**9, 5, 6):
            timeline.add(second * SECOND, totals_of(passed()), now=second * SECOND)
        assert list(timeline.view().points) == [5 * SECOND, 6 * SECOND]

    @pytest.mark.parametrize(("each", "width", "points"), [(3, 8, 57), (2, 16, 29)])
    def test_a_view_is_a_bounded_copy(self, each: int, width: int, points: int) -> None:
        """At most 100; and at most 12 while they are worth less than 20 decisions of the baseline each."""
        timeline, baseline = Timeline(SECOND, 500, is_sliding=False), totals_of(shown(0, 0.5, 1.0))
        for second in range(450):
            for _ in range(each):
                timeline.add(second * SECOND, baseline)
        view = timeline.view()
        timeline.add(0, baseline)
        assert (view.width, len(view.points)) == (width * SECOND, points)
        assert view.total.decisions == sum(totals.decisions for totals in view.points.values()) == 450 * each

    def test_distant_buckets_are_not_joined(self) -> None:
        timeline = Timeline(SECOND, 500, is_sliding=False)
        for day in range(12):
            timeline.add(day * 86400 * SECOND, totals_of(passed()))
        assert len(timeline.view().points) == 12


def played(loop: Loop, store: Any, clock: Clock, rounds: int, first: int = 0) -> None:
    """Decisions whose first action is right in a fifth of all cases, and another one in four fifths."""
    rng = np.random.default_rng(3)
    for number in range(first, first + rounds):
        made = ask(loop, f"event-{number}", "noon")
        value = float(rng.random() < (0.2 if made.shown == 0 else 0.8))
        store.append_blocking(
            [made, Reward(loop=loop.name, event_id=made.event_id, timestamp=clock() + 2 * SECOND, value=value)]
        )
        clock.wait(3)
        if number % 50 == 49:
            loop.learn()
    clock.wait(11)
    loop.learn()


def test_learned_decisions_are_counted(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), exploration=0.3)
    played(loop, store, clock, 600)
    whole = loop.statistics.view(Window.HOUR).total
    assert (whole.decisions, whole.missing) == (600, 0)
    assert whole.baseline is not None
    assert abs(whole.baseline.value - 0.2) < 4 * whole.baseline.error  # fails once in 16,000 times
    assert loop.learned_at == clock.now - 1 or loop.learned_at == clock.now


def test_after_a_start_the_log_is_counted_again(tmp_path: Path) -> None:
    """Half of it was learned by the model that was kept, half is learned after the start."""
    loop, store = small_loop(tmp_path, clock := Clock())
    played(loop, store, clock, 100)
    loop.close()
    for number in range(30):
        store.append_blocking([ask(loop, f"later-{number}", "noon")])
    clock.wait(11)
    again = Loop("default", store, clock)
    assert again.statistics.view(Window.ALL).total.decisions == 0  # nothing is read before it learns
    again.learn()
    loop.learn()
    assert again.learn() == 0
    for window in Window:
        assert again.statistics.view(window).total.decisions == 130
    mine, other = again.statistics.view(Window.ALL), loop.statistics.view(Window.ALL)
    for one, expected in ((mine.total.reward, other.total.reward), (mine.total.baseline, other.total.baseline)):
        assert one is not None
        assert expected is not None
        assert astuple(one) == pytest.approx(astuple(expected))
    assert (mine.total.delays, mine.total.actions) == (other.total.delays, other.total.actions)


def test_learning_comes_before_counting_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    played(loop, store, clock, 50)
    loop.close()
    store.append_blocking([ask(loop, "later", "noon")])
    clock.wait(11)
    again, learned, search = Loop("default", store, clock), list[int](), store.search

    def watched(*arguments: Any) -> Any:
        learned.append(again.published.learned_through)
        return search(*arguments)

    monkeypatch.setattr(store, "search", watched)
    assert again.learn() == 1
    assert set(learned) == {store.last_sequence("default")}
    assert again.statistics.view(Window.ALL).total.decisions == 51


def test_counting_history_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    played(loop, store, clock, 60)
    monkeypatch.setattr("glbandits.service.runtime.loops.loop_statistics.MAX_HISTORY", 45)
    monkeypatch.setattr("glbandits.service.runtime.loops.loop_statistics.PAGE", 10)
    again = Loop("default", store, clock)
    again.learn()
    assert again.statistics.view(Window.ALL).total.decisions == 45


def test_a_restart_reads_only_what_came_after_the_saved_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    played(loop, store, clock, 60)
    loop.close()
    killed = Loop("default", store, clock)
    played(killed, store, clock, 20, first=60)  # they are learned, and not saved
    monkeypatch.setattr("glbandits.service.runtime.loops.loop_statistics.PAGE", 10)
    again, pages, search = Loop("default", store, clock), list[int](), store.search

    def counted(*arguments: Any) -> Any:
        found = search(*arguments)
        pages.append(len(found))
        return found

    monkeypatch.setattr(store, "search", counted)
    again.learn()
    assert sum(pages) <= 30
    for window in Window:
        mine, other = again.statistics.view(window), killed.statistics.view(window)
        assert (mine.width, mine.points.keys()) == (other.width, other.points.keys())
        assert (mine.total.decisions, mine.total.actions) == (80, other.total.actions)
        assert mine.total.r == pytest.approx(other.total.r)


@pytest.mark.parametrize("body", [b"", b"\x93\x01\x02\x80", None])
def test_statistics_that_cannot_be_used_are_counted_again(tmp_path: Path, body: bytes | None) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    played(loop, store, clock, 20)
    loop.close()
    if body is None:  # of a model that has learned more, before a database went back
        saved = SavedStatistics(store.last_sequence("default") + 1, 1, {})
        body = msgspec.msgpack.encode(saved)
    store.save_document("default", STATISTICS, clock(), body)
    again = Loop("default", store, clock)
    again.learn()
    assert again.statistics.view(Window.ALL).total.decisions == 20


def test_counting_history_continues_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    played(loop, store, clock, 60)
    monkeypatch.setattr("glbandits.service.runtime.loops.loop_statistics.PAGE", 20)
    search, calls = store.search, []

    def failing(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise StoreError("the disk is slow")
        return search(*arguments)

    monkeypatch.setattr(store, "search", failing)
    statistics = LoopStatistics(store, "default", loop.published.learned_through)
    with pytest.raises(StoreError, match="slow"):
        statistics.count_history(clock())
    statistics.count_history(clock())
    assert statistics.view(Window.ALL).total.decisions == 60


def test_decisions_learned_elsewhere_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    monkeypatch.setattr("glbandits.service.runtime.loops.loop_statistics.PAGE", 20)
    other = Loop("default", store, clock)
    played(loop, store, clock, 55)
    store.append_blocking([ask(loop, "waits", "noon")])
    other.refresh()
    assert other.statistics.view(Window.ALL).total == loop.statistics.view(Window.ALL).total
    assert other.statistics.view(Window.ALL).total.decisions == 55
    assert other.learned_at is not None


def test_decisions_learned_twice_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one resets the model while this one has learned decisions, and has not kept that yet."""
    loop, store = small_loop(tmp_path, clock := Clock())
    other = Loop("default", SqliteStore(tmp_path / "events.sqlite"), clock)
    store.append_blocking([ask(loop, f"event-{number}", "noon") for number in range(30)])
    clock.wait(11)
    save, resets = store.save_model, iter([partial(other.configure, other.configuration, reset_model=True)])

    def overtaken(*args: Any, **settings: Any) -> None:
        for reset in resets:
            reset()
        save(*args, **settings)

    monkeypatch.setattr(store, "save_model", overtaken)
    assert loop.learn() == 30
    assert loop.learn() == 30  # by the model of the epoch that the other began
    other.refresh()
    for one in (loop, other):
        assert one.statistics.view(Window.ALL).total.decisions == 30


class TestAfterTheLogWasDeleted:
    """The process that deletes, and another one."""

    @pytest.fixture(params=["mine", "another's"])
    def loops(self, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Loop, Loop, SqliteStore, Clock]:
        """A loop with 100 decisions, three seconds apart, whose log will be deleted; and the loop to check."""
        loop, store = small_loop(tmp_path, clock := Clock())
        other = Loop("default", SqliteStore(tmp_path / "events.sqlite"), clock)
        played(loop, store, clock, 100)
        other.refresh()
        return loop, loop if request.param == "mine" else other, store, clock

    def test_a_deleted_log_has_no_statistics(self, loops: tuple[Loop, Loop, SqliteStore, Clock]) -> None:
        deleting, seen, store, clock = loops
        assert deleting.delete_log(clock()) == 100
        seen.refresh()
        for window in Window:
            assert seen.statistics.view(window).total == DecisionTotals()
        store.append_blocking([ask(deleting, f"later-{number}", "noon") for number in range(7)])
        clock.wait(11)
        deleting.learn()
        seen.refresh()
        for window in Window:
            assert seen.statistics.view(window).total.decisions == 7

    def test_remaining_decisions_stay_counted(self, loops: tuple[Loop, Loop, SqliteStore, Clock]) -> None:
        """Except in the bucket in which the log was cut: 15 seconds, or five minutes, which may contain all 100."""
        deleting, seen, store, clock = loops
        deleted = deleting.delete_log(store.search("default", "event-60", 1)[0].decision.timestamp)
        assert 40 <= deleted < 60  # the model of event-60 had not learned the decisions just before it
        seen.refresh()
        hour = seen.statistics.view(Window.HOUR)
        assert 95 <= deleted + hour.total.decisions <= 100
        assert min(hour.points) >= store.search("default", f"event-{deleted}", 1)[0].decision.timestamp
        for window in Window:
            assert seen.statistics.view(window).total.decisions <= 100 - deleted
        before = hour.total.decisions
        store.append_blocking([ask(deleting, "later", "noon")])
        clock.wait(11)
        deleting.learn()
        seen.refresh()
        assert seen.statistics.view(Window.HOUR).total.decisions == before + 1

    def test_another_model_for_the_same_log_changes_nothing(self, loops: tuple[Loop, Loop, SqliteStore, Clock]) -> None:
        deleting, seen, *_ = loops
        deleting.configure(deleting.configuration, reset_model=True)
        seen.refresh()
        assert {seen.statistics.view(window).total.decisions for window in Window} == {100}
