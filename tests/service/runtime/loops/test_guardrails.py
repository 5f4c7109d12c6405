"""What guardrails count, when they act, and what survives a crash."""

import logging
import random
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import EventStatus, Group, Mode
from glbandits.service.domain.groups.experiment import REWARD, Control, GuardrailAction, MetricSettings, UnitCombination
from glbandits.service.domain.groups.metric_comparison import MAX_POINTS
from glbandits.service.domain.loop_config import SECOND
from glbandits.service.runtime.loops import unit_counter
from glbandits.service.runtime.loops.guardrails import GUARDRAILS, GuardrailState, LoopGuardrails
from glbandits.service.runtime.loops.unit_counter import GRACE, read_units
from glbandits.service.runtime.service import REWARD_TIMEOUT
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import decision, metric, statuses
from tests.service.runtime.loops.guarded_loops import LEARNED, LOOP, RETURNED, REWARDS, SHARE, WINDOW, GuardedLoop

UNITS = 400
"""Units after which `write_harm` has raised the alarm."""


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "store.db")


@pytest.fixture
def guarded(store: SqliteStore) -> GuardedLoop:
    return GuardedLoop(store)


@pytest.fixture
def stopped(guarded: GuardedLoop) -> GuardedLoop:
    """A loop that a guardrail has stopped."""
    guarded.write_harm(UNITS)
    guarded.wait()
    guarded.look()
    assert guarded.is_stopped()
    return guarded


def test_a_loop_without_control_costs_nothing(store: SqliteStore) -> None:
    guarded = GuardedLoop(store, control=None)
    guarded.write([1.0] * 64, group=None, control_share=0.0)
    guarded.wait()
    store.close()  # a query would raise
    guarded.guardrails.look(guarded.configuration, 1, LEARNED)
    report = guarded.guardrails.report(guarded.configuration)
    assert (report.state, report.metrics, report.sample_ratio) == ("off", [], None)
    assert report.sentence == "The loop has no control group, so nothing is compared."


def test_no_write_is_pending_when_a_unit_counts() -> None:
    assert GRACE >= REWARD_TIMEOUT


def test_a_unit_counts_once_when_its_window_has_closed(guarded: GuardedLoop) -> None:
    guarded.write([0.0] * 40)
    guarded.clock.wait(WINDOW + GRACE - 1.0)
    guarded.write([1.0] * 40)
    guarded.look()
    assert guarded.units_counted() == 0
    guarded.clock.wait(2.0)
    guarded.look()
    guarded.look()
    assert guarded.units_counted() == 40
    assert guarded.guardrails.report(guarded.configuration).metrics[1].waiting == 40 + 8
    guarded.wait()
    guarded.look()
    assert guarded.units_counted() == 80
    difference = guarded.guardrails.state.metrics["returned"].difference()
    assert (difference.units, difference.treatment.mean, difference.control.units) == (64, 19 / 51, 13)


def test_a_number_that_is_written_after_its_unit_counted_is_late(guarded: GuardedLoop) -> None:
    stalled = [  # their numbers come in time, and wait for a store that stalls
        metric(made.event_id, "returned", 1.0, made.timestamp + 1, loop=LOOP, window=round(WINDOW * SECOND))
        for made in guarded.write([None] * 64)
    ]
    guarded.wait()
    guarded.look()
    counted = guarded.guardrails.state.metrics["returned"]
    assert set(statuses(guarded.store, *stalled)) == {EventStatus.LATE}
    recounted = replace(counted, numbers=(), open_block=(), points=(), after=0)
    units = read_units(guarded.store, guarded.store.units_after(LOOP, 0, 100)).values()
    outcomes = ((unit.start, unit.outcome("returned", counted.settings)) for unit in units)
    assert recounted.with_units("returned", outcomes, guarded.clock.now) == counted
    assert counted.difference().units == 64


def test_a_unit_that_comes_back_counts_once(guarded: GuardedLoop) -> None:
    guarded.write([0.0] * 32)
    for number in range(50):
        again = decision(f"again {number}", guarded.clock(), loop=LOOP, unit="unit 3", group=Group.TREATMENT)
        guarded.store.append_blocking([again])
    guarded.wait()
    guarded.look()
    assert guarded.units_counted() == 32


@pytest.mark.parametrize("seed", range(4))
def test_looks_and_restarts_at_any_time_give_the_same_state(
    guarded: GuardedLoop, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    metrics = {"returned": RETURNED, "slow": replace(RETURNED, window=3 * WINDOW, combine=UnitCombination.SUM)}
    guarded.configure(metrics=metrics)
    for _ in range(30):
        guarded.write_harm(rng.randrange(25), seed=rng.randrange(100))
        guarded.clock.wait(rng.uniform(0.0, 20.0))
        if rng.random() < 0.5:
            with monkeypatch.context() as patch:
                patch.setattr(unit_counter, "LONGEST_LOOK", -1.0)
                patch.setattr(unit_counter, "PAGE", rng.randrange(1, 40))
                guarded.guardrails.look(guarded.configuration, 1, LEARNED)
        if rng.random() < 0.3:
            guarded.guardrails = guarded.opened()
    guarded.clock.wait(5 * WINDOW)
    guarded.look()
    pieces = guarded.guardrails.state
    guarded.store.save_document(LOOP, GUARDRAILS, guarded.clock(), b"")  # all is counted again
    guarded.guardrails = guarded.opened()
    guarded.look()
    whole = guarded.guardrails.state
    assert guarded.units_counted("slow") == guarded.units_counted() == guarded.units
    for name, own in whole.metrics.items():
        assert replace(own, alarm=None) == replace(pieces.metrics[name], alarm=None)
        assert (own.alarm is None) == (pieces.metrics[name].alarm is None)


def test_an_alarm_stops_the_loop_and_says_why(guarded: GuardedLoop, caplog: pytest.LogCaptureFixture) -> None:
    guarded.write_harm(UNITS)
    guarded.wait()
    guarded.look()
    assert guarded.is_stopped()
    assert "Loop shop: the guardrail of returned acts. returned was 0." in caplog.text
    assert "Loop shop shows its baseline from now on" in caplog.text
    report = guarded.guardrails.report(guarded.configuration)
    returned = report.metrics[1]
    assert (report.state, returned.state, returned.waiting) == ("fallback", "alarm", UNITS % 32)
    assert report.fallback_since is not None
    assert report.fallback_since == returned.alarmed_at
    since = f"{report.fallback_since:%Y-%m-%d %H:%M} UTC"
    assert report.sentence.startswith(f"The guardrail of returned stopped the loop at {since}.")
    assert "At the alarm, returned was 0." in report.sentence
    assert "higher, worse than the margin of 0." in returned.sentence
    assert returned.sentence.endswith(f"The guardrail acted at {since}.")
    assert returned.low is not None
    assert returned.low > 0.0
    assert guarded.guardrails.warnings() == [f"loop shop: {report.sentence.removesuffix('.')}"]


def test_the_alarm_survives_a_restart_and_reaches_other_processes(stopped: GuardedLoop) -> None:
    other = LoopGuardrails(LOOP, stopped.store, stopped.clock)
    assert other.state == stopped.guardrails.state
    stopped.guardrails.resume()
    assert other.fallback
    other.refresh()
    assert not other.fallback


def test_nothing_is_shown_before_it_is_saved(guarded: GuardedLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded.write_harm(UNITS)
    guarded.wait()

    def fail(*_: object, **__: object) -> bool:
        raise StoreError("no disk")

    with monkeypatch.context() as patch:
        patch.setattr(guarded.store, "save_documents", fail)
        with pytest.raises(StoreError):
            guarded.look()
    assert not guarded.is_stopped()
    assert guarded.opened().state == guarded.guardrails.state
    guarded.look()
    assert guarded.is_stopped()
    assert guarded.units_counted() == UNITS


def test_two_learners_cannot_both_save(guarded: GuardedLoop) -> None:
    other = guarded.opened()
    guarded.write_harm(UNITS)
    guarded.wait()
    guarded.look()
    save, saved = guarded.store.save_documents, list[bool]()
    refresh = other._refresh
    other._refresh = lambda: None  # type: ignore[method-assign]  # it has read the store before the first one saved

    def record(*arguments: Any, **options: Any) -> bool:
        saved.append(save(*arguments, **options))
        return saved[-1]

    guarded.store.save_documents = record  # type: ignore[method-assign]
    other.look(guarded.configuration, 1, LEARNED)
    other._refresh = refresh  # type: ignore[method-assign]
    assert saved == [False]
    assert not other.state.metrics
    other.look(guarded.configuration, 1, LEARNED)
    assert saved == [False]
    assert other.state == guarded.guardrails.state


def test_units_before_a_resumption_do_not_count_again(stopped: GuardedLoop) -> None:
    stopped.write([1.0] * 40)  # their windows are open
    stopped.guardrails.resume()
    stopped.wait()
    stopped.look()
    assert not stopped.is_stopped()
    assert stopped.units_counted() == 0
    stopped.write([0.0] * 33)
    stopped.wait()
    stopped.look()
    assert stopped.units_counted() == 33
    with pytest.raises(InvalidInput, match="nothing to resume"):
        stopped.guardrails.resume()


def test_a_learner_continues_after_another_process_has_resumed(stopped: GuardedLoop) -> None:
    stopped.opened().resume()
    stopped.write([0.0] * 40)
    stopped.wait()
    stopped.look()
    assert not stopped.is_stopped()
    assert stopped.units_counted() == 40


@pytest.mark.parametrize("changed", [{"fallback": True}, {"group": None}, {"mode": Mode.APPRENTICE}])
def test_units_whose_first_decision_was_not_compared_are_passed(guarded: GuardedLoop, changed: dict[str, Any]) -> None:
    guarded.write([0.0] * 10)
    guarded.write([1.0] * 100, **changed)
    guarded.write([0.0] * 10)
    guarded.wait()
    guarded.look()
    assert guarded.units_counted() == 20


def test_an_alert_does_not_stop_the_loop(store: SqliteStore, caplog: pytest.LogCaptureFixture) -> None:
    guarded = GuardedLoop(store, metrics={"returned": replace(RETURNED, action=GuardrailAction.ALERT)})
    guarded.write_harm(UNITS)
    guarded.wait()
    guarded.look()
    assert not guarded.is_stopped()
    report = guarded.guardrails.report(guarded.configuration)
    assert (report.state, report.metrics[1].state) == ("running", "alarm")
    assert report.sentence == "In treatment returned got worse by more than the margin."
    assert "The guardrail acted at" in report.metrics[1].sentence
    assert "shows its baseline" not in caplog.text
    # The same evidence is enough for another action, and not for a large margin.
    guarded.configure(metrics={"returned": replace(RETURNED, margin=0.9)})
    guarded.look()
    assert not guarded.guardrails.state.alarms()
    guarded.configure()
    guarded.look()
    assert guarded.is_stopped()
    assert guarded.units_counted() == UNITS


def test_a_metric_that_only_compares_raises_no_alarm(store: SqliteStore) -> None:
    guarded = GuardedLoop(store, metrics={"returned": replace(RETURNED, action=GuardrailAction.NONE)})
    guarded.write_harm(UNITS)
    guarded.wait()
    guarded.look()
    report = guarded.guardrails.report(guarded.configuration)
    assert report.metrics[1].state == "ok"
    assert report.metrics[1].sentence.endswith("higher, which is worse.")
    assert report.sentence == f"No guardrail has acted. {report.metrics[0].sentence}"
    assert "margin" not in report.sentence


@pytest.mark.parametrize(
    "changed",
    [{"range": (0.0, 2.0)}, {"combine": UnitCombination.LAST}, {"window": 2 * WINDOW}, {"default": 1.0}],
)
def test_a_metric_that_counts_otherwise_starts_again(stopped: GuardedLoop, changed: dict[str, Any]) -> None:
    stopped.configure(metrics={"returned": replace(RETURNED, **changed)})
    stopped.write([0.0] * 40)
    stopped.clock.wait(3 * WINDOW)
    stopped.look()
    assert stopped.units_counted() == 40
    assert stopped.units_counted(REWARD) == UNITS + 40
    assert stopped.is_stopped(), "only a person ends it"


@pytest.mark.parametrize("changed", [{"by": "event"}, {"show": "uniform"}])
def test_another_rule_of_control_starts_all_comparisons_again(guarded: GuardedLoop, changed: dict[str, Any]) -> None:
    guarded.write([0.0] * 40)
    guarded.wait()
    guarded.look()
    guarded.configure(control=Control(share=0.3))
    guarded.write([0.0] * 10, control_share=0.3)
    guarded.wait()
    guarded.look()
    assert guarded.units_counted() == 50, "another share continues"
    guarded.configure(control=Control(share=0.3, **changed))
    guarded.write([0.0] * 20)
    guarded.configure(control=Control(share=0.2, **changed))
    guarded.wait()
    guarded.look()
    for name in ("returned", REWARD):
        assert guarded.units_counted(name) == 20
    guarded.configure()
    guarded.look()
    assert guarded.units_counted() == 0


def test_a_metric_that_is_declared_again_starts_again(guarded: GuardedLoop) -> None:
    guarded.write([0.0] * 40)
    guarded.wait()
    guarded.look()
    guarded.configure(metrics={})
    guarded.look()
    assert list(guarded.guardrails.state.metrics) == [REWARD]
    guarded.write([0.0] * 40)
    guarded.configure()
    guarded.write([0.0] * 40)
    guarded.wait()
    guarded.look()
    assert guarded.units_counted() == 40
    assert guarded.units_counted(REWARD) == 120


def test_control_may_be_switched_off_and_on(guarded: GuardedLoop) -> None:
    guarded.write([0.0] * 20)
    guarded.wait()
    guarded.look()
    guarded.configure(control=None)
    guarded.write([0.0] * 100, group=None, control_share=0.0)
    guarded.look()
    assert guarded.guardrails.report(guarded.configuration).state == "off"
    guarded.configure(control=Control(share=0.5))
    guarded.write([0.0] * 20, control_share=0.5)
    guarded.wait()
    guarded.look()
    assert guarded.units_counted() == 20  # with new groups


def test_control_that_is_switched_on_late_skips_the_log_before(store: SqliteStore) -> None:
    guarded = GuardedLoop(store, control=None)
    guarded.write([0.0] * 500, group=None, control_share=0.0)
    guarded.clock.wait(1.0)
    guarded.configure()
    read = list[int]()
    decisions_of_units = store.decisions_of_units
    store.decisions_of_units = lambda firsts, limit: read.extend(firsts) or decisions_of_units(firsts, limit)  # type: ignore[method-assign, func-returns-value]
    guarded.write([0.0] * 5)
    guarded.wait()
    guarded.look()
    assert len(read) == 5
    assert guarded.units_counted() == 5


def test_a_damaged_document_is_counted_again(stopped: GuardedLoop, caplog: pytest.LogCaptureFixture) -> None:
    before = stopped.guardrails.state
    stopped.store.save_document(LOOP, GUARDRAILS, stopped.clock(), b"\xc1 damaged")
    stopped.look()
    assert "its guardrails cannot be read" in caplog.text
    assert stopped.is_stopped()
    assert stopped.guardrails.state.metrics["returned"].numbers == before.metrics["returned"].numbers


def save_another_version(guarded: GuardedLoop) -> None:
    state = guarded.guardrails.state
    metrics = {name: replace(own, numbers=(0.0, *own.numbers[1:])) for name, own in state.metrics.items()}
    body = msgspec.msgpack.encode(replace(state, metrics=metrics))
    guarded.store.save_document(LOOP, GUARDRAILS, guarded.clock(), body)
    guarded.guardrails = guarded.opened()


def test_a_fallback_outlives_statistics_of_another_version(stopped: GuardedLoop) -> None:
    before = stopped.guardrails.state
    save_another_version(stopped)
    assert stopped.guardrails.state == replace(before, metrics={})
    stopped.look()
    assert stopped.guardrails.state.metrics["returned"].numbers == before.metrics["returned"].numbers
    assert stopped.guardrails.state.fallback == before.fallback


def test_units_before_a_resume_are_not_counted_again(stopped: GuardedLoop) -> None:
    stopped.guardrails.resume()
    stopped.write([0.0] * 40)
    stopped.wait()
    stopped.look()
    save_another_version(stopped)
    stopped.look()
    assert stopped.units_counted() == 40
    assert not stopped.is_stopped()


def test_settings_that_are_damaged_are_counted_again(stopped: GuardedLoop, caplog: pytest.LogCaptureFixture) -> None:
    metrics = stopped.guardrails.state.metrics
    damaged = replace(metrics["returned"], settings=replace(RETURNED, window="soon"))
    stopped.guardrails._save(replace(stopped.guardrails.state, metrics=metrics | {"returned": damaged}))
    stopped.guardrails = stopped.opened()
    assert "its guardrails cannot be read" in caplog.text
    stopped.look()
    assert stopped.is_stopped()


def test_the_reward_waits_until_its_decisions_are_learned(guarded: GuardedLoop) -> None:
    guarded.write([1.0] * 40)
    last = guarded.store.last_sequence(LOOP)
    guarded.store.append_blocking([decision("again", guarded.clock(), loop=LOOP, unit="unit 20")])
    guarded.wait()
    guarded.look(learned_through=last)
    assert guarded.units_counted() == 40
    assert guarded.units_counted(REWARD) == 20
    guarded.look(learned_through=guarded.store.last_sequence(LOOP))
    assert guarded.units_counted(REWARD) == 40


def test_a_unit_whose_first_decision_was_deleted_does_not_count(guarded: GuardedLoop) -> None:
    first = guarded.write([0.0] * 5)[-1]
    guarded.store.append_blocking([decision("again", guarded.clock(), loop=LOOP, unit="unit 2", group=Group.TREATMENT)])
    guarded.store.delete_log(LOOP, before=first.timestamp)
    guarded.write([0.0] * 5)
    guarded.wait()
    guarded.look()
    assert guarded.units_counted() == 6


def test_a_deleted_loop_starts_from_nothing(stopped: GuardedLoop) -> None:
    stopped.store.delete_loop(LOOP)
    stopped.guardrails.refresh()
    assert not stopped.is_stopped()
    assert not stopped.guardrails.state.metrics


def test_a_look_is_bounded_and_continues(guarded: GuardedLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded.write([0.0] * 200)
    guarded.wait()
    monkeypatch.setattr(unit_counter, "LONGEST_LOOK", -1.0)
    counted = list[int]()
    while not counted or guarded.guardrails.is_behind:
        guarded.guardrails.look(guarded.configuration, 1, LEARNED)
        counted.append(guarded.units_counted())
    assert counted == [32, 64, 96, 128, 160, 192, 200]
    guarded.guardrails.is_behind = True
    guarded.guardrails.refresh()
    assert not guarded.guardrails.is_behind


def test_a_look_ends_when_the_server_stops(guarded: GuardedLoop) -> None:
    stop = Event()
    stop.set()
    guarded.write([0.0] * 64)
    guarded.wait()
    guarded.guardrails = LoopGuardrails(LOOP, guarded.store, guarded.clock, stop=stop)
    guarded.guardrails.look(guarded.configuration, 1, LEARNED)
    assert guarded.units_counted() == 0


def test_only_the_first_decisions_of_a_unit_are_read(guarded: GuardedLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_counter, "UNIT_DECISIONS", 3)
    guarded.write([None] * 31)
    window = round(WINDOW * 1e6)
    for number in range(8):
        now = guarded.clock()
        again = decision(f"again {number}", now, loop=LOOP, unit="unit 0")
        guarded.store.append_blocking(
            [again, metric(f"again {number}", "returned", 0.25, now, loop=LOOP, window=window)]
        )
    guarded.write([None])
    guarded.configure(metrics={"returned": replace(RETURNED, combine=UnitCombination.SUM)})
    guarded.guardrails._declared_after = lambda *_: 0  # type: ignore[method-assign]
    guarded.wait()
    guarded.look()
    assert guarded.guardrails.state.metrics["returned"].difference().control.mean == pytest.approx(0.5 / 7)


def test_a_waiting_unit_is_not_looked_up_at_every_look(guarded: GuardedLoop) -> None:
    guarded.write([0.0] * 5)
    guarded.look()
    guarded.store.units_after = None  # type: ignore[assignment, method-assign]
    guarded.look()


def test_a_clock_that_has_stepped_back_does_not_stop_counting(store: SqliteStore) -> None:
    guarded, seconds = GuardedLoop(store), [0.0]
    guarded.guardrails = LoopGuardrails(LOOP, store, guarded.clock, lambda: seconds[0])
    guarded.clock.wait(86_400.0)
    guarded.write([0.0] * 5)
    guarded.clock.wait(-86_400.0)
    guarded.write([0.0] * 5)
    guarded.look()
    seconds[0] = WINDOW + GRACE + 1.0
    guarded.clock.wait(seconds[0])
    guarded.look()
    assert guarded.units_counted() == 10


def test_a_wrong_sample_ratio_is_an_alarm(guarded: GuardedLoop, caplog: pytest.LogCaptureFixture) -> None:
    guarded.write([0.0] * 200)
    guarded.wait()
    guarded.look()
    ratio = guarded.guardrails.report(guarded.configuration).sample_ratio
    assert ratio is not None
    assert not ratio.alarm
    assert ratio.sentence == "20.3% of 192 units are in control; 20.0% were expected."
    guarded.write([0.0] * 400, treated=True)
    guarded.wait()
    guarded.look()
    report = guarded.guardrails.report(guarded.configuration)
    assert report.sample_ratio is not None
    assert report.sample_ratio.alarm
    assert report.sample_ratio.expected_share == SHARE
    assert "cannot be trusted" in report.sentence
    assert "The groups do not have the sizes that were declared" in caplog.text
    assert "cannot be trusted" in guarded.guardrails.warnings()[0]


def test_missing_numbers_of_one_group_are_named(guarded: GuardedLoop, caplog: pytest.LogCaptureFixture) -> None:
    guarded.write([1.0, 0.0, 1.0, 1.0, 1.0] * 20)
    guarded.write([1.0] * 40, treated=False)
    guarded.write([None, 1.0] * 160, treated=True)
    guarded.write([1.0] * 40, treated=False)
    guarded.wait()
    guarded.look()
    report = guarded.guardrails.report(guarded.configuration)
    assert (report.state, report.metrics[1].state) == ("running", "incomplete")
    assert "Numbers of returned are missing more often in one group" in report.sentence
    assert "Numbers of returned are missing more often in one group" in caplog.text
    assert "missing more often" in guarded.guardrails.warnings()[0]
    assert guarded.opened().state == guarded.guardrails.state


def test_a_changed_share_changes_the_expected_ratio(guarded: GuardedLoop) -> None:
    guarded.write([0.0] * 160)
    for unit in range(160):
        guarded.write([0.0], treated=unit % 2 > 0, control_share=0.5)
    guarded.wait()
    guarded.look()
    guarded.configuration = replace(guarded.configuration, control=Control(share=0.1))
    ratio = guarded.guardrails.report(guarded.configuration).sample_ratio
    assert ratio is not None
    assert not ratio.alarm
    assert ratio.expected_share == 0.35
    assert ratio.sentence == "35.0% of 320 units are in control; 35.0% were expected."


def test_a_comparison_is_too_early_at_first(guarded: GuardedLoop) -> None:
    guarded.write([0.0] * 31)
    guarded.wait()
    guarded.look()
    report = guarded.guardrails.report(guarded.configuration)
    assert report.sentence == "It is too early to compare treatment with control."
    returned = report.metrics[1]
    assert (returned.state, returned.difference, returned.treatment.mean, returned.waiting) == ("early", None, None, 31)
    assert returned.sentence == "returned: too early to say. 0 units are counted."
    guarded.write([0.0])
    guarded.wait()
    guarded.look()
    returned = guarded.guardrails.report(guarded.configuration).metrics[1]
    assert returned.sentence == "returned: too early to say. 32 units are counted."
    assert (returned.difference, returned.low, returned.high, returned.points) == (None, None, None, ())
    guarded.write([0.0] * 32)
    guarded.wait()
    guarded.look()
    returned = guarded.guardrails.report(guarded.configuration).metrics[1]
    assert (returned.difference, [point.units for point in returned.points]) == (0.0, [64])


def test_many_alarms_are_summed_up(store: SqliteStore) -> None:
    alert = replace(RETURNED, action=GuardrailAction.ALERT)
    guarded = GuardedLoop(store, metrics={"returned": alert})
    guarded.write_harm(UNITS)
    guarded.wait()
    guarded.look()
    own = guarded.guardrails.state.metrics["returned"]
    for count, words in ((2, "a and b"), (3, "a, b and c"), (5, "a, b, c and 2 more")):
        guarded.guardrails.state = GuardrailState(dict.fromkeys(["a", "b", "c", "d", "e"][:count], own))
        sentence = f"In treatment {words} got worse by more than the margin."
        assert guarded.guardrails.report(guarded.configuration).sentence == sentence
        assert guarded.guardrails.warnings() == [f"loop shop: {sentence.removesuffix('.')}"]


def test_numbers_are_in_the_unit_of_the_metric(store: SqliteStore) -> None:
    latency = MetricSettings(range=(100.0, 300.0), good="lower", window=WINDOW, default=100.0, margin=10.0)
    guarded = GuardedLoop(store, metrics={"returned": latency, REWARD: replace(REWARDS, range=(0.0, 300.0))})
    for _ in range(320):
        guarded.write([120.0, 150.0, 151.0, 149.0, 150.0])
    guarded.wait()
    guarded.look()
    reward, returned = guarded.guardrails.report(guarded.configuration).metrics
    assert returned.treatment.mean == pytest.approx(150.0)
    assert returned.control.mean == pytest.approx(120.0)
    assert reward.control.mean == pytest.approx(120.0)
    assert returned.difference == pytest.approx(30.0, abs=3.0)
    assert returned.low is not None
    assert 10.0 < returned.low < 30.0
    assert returned.points[-1].low == returned.low
    assert "returned is 150 in treatment and 120 in control" in returned.sentence
    assert "worse than the margin of 10" in returned.sentence


def test_the_history_is_bounded(guarded: GuardedLoop) -> None:
    comparison = None
    for _ in range(16):
        guarded.write([0.0] * 500)
        guarded.wait()
        guarded.look()
        comparison = guarded.guardrails.state.metrics["returned"]
        assert len(comparison.points) <= MAX_POINTS
    assert comparison is not None
    assert comparison.spacing == 2
    assert [point.units for point in comparison.points] == list(range(64, 8_000 + 1, 64))


def test_levels_of_log_lines(stopped: GuardedLoop, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        stopped.guardrails.resume()
    assert "Loop shop was resumed" in caplog.text
