"""The guardrails of a loop: units are counted from the log, and the loop falls back if a metric gets worse.

The process that learns counts units, and saves the result before anybody sees it. A crash before that changes nothing:
the units are counted again, with the same result. Other processes read what it saves.
"""

import logging
import time
from collections.abc import Callable, Sequence
from threading import Event, Lock

import msgspec
from msgspec.structs import replace

from glbandits.common.display.text_format import join_words
from glbandits.common.errors import InvalidInput
from glbandits.maths.online_statistics.group_difference import GroupDifference
from glbandits.service.domain.events import as_datetime
from glbandits.service.domain.groups.experiment import GuardrailAction, MetricSettings
from glbandits.service.domain.groups.guardrail_report import Guardrails, MetricReport, SampleRatio
from glbandits.service.domain.groups.metric_comparison import Alarm, MetricComparison, time_text
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.runtime.loops.loop_documents import CONFIGURATION
from glbandits.service.runtime.loops.unit_counter import UnitCounter
from glbandits.service.storage.event_store import EventStore

log = logging.getLogger(__name__)

GUARDRAILS = "guardrails"
"""The kind of the document. Only its latest version is kept."""
WAITING_DECISIONS = 20_000
"""Decisions among which waiting units are counted."""
MOST_NAMES = 3
"""Metrics with an alarm that are named in a sentence."""
WRONG_RATIO = (
    "The groups do not have the sizes that were declared: events of one group are missing, so the comparison cannot be "
    "trusted."
)


class Fallback(msgspec.Struct, frozen=True):
    """Since when and why a loop shows its baseline."""

    since: int
    metric: str
    sentence: str


class GuardrailState(msgspec.Struct, frozen=True):
    """The document of the guardrails."""

    metrics: dict[str, MetricComparison] = {}
    fallback: Fallback | None = None
    assigned_since: int = 0
    """See `SavedLoop.assigned_since`. All comparisons start again when it changes."""
    resumed: int = 0
    """The last decision before a person ended a fallback; 0 if nobody has. Later units have new groups."""

    @property
    def wrong_ratio(self) -> bool:
        """Whether the groups do not have the declared sizes."""
        return any(own.wrong_ratio for own in self.metrics.values())

    def incomplete(self) -> list[str]:
        """Return the names of metrics whose numbers are missing more often in one group, and that had no alarm."""
        return [name for name, own in self.metrics.items() if own.is_incomplete and own.alarm is None]

    def alarms(self) -> dict[str, Alarm]:
        """Return the alarms of metrics by name."""
        return {name: own.alarm for name, own in self.metrics.items() if own.alarm is not None}

    def largest(self) -> GroupDifference:
        """Return the comparison with the most units: that of the metric with the shortest window."""
        differences = [own.difference() for own in self.metrics.values()]
        return max(differences, key=lambda difference: difference.units, default=GroupDifference())


class LoopGuardrails:
    """The comparison of treatment with control in a loop, and its fallback.

    All methods may be called from any thread. `look` is for the process that learns.

    Args:
        loop_name: the name of the loop.
        store: has the log and the document.
        clock: microseconds since 1970.
        monotonic: seconds of a clock that never steps.
        stop: when it is set, a look ends soon.
    """

    def __init__(
        self,
        loop_name: str,
        store: EventStore,
        clock: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
        stop: Event | None = None,
    ) -> None:
        self._name, self._store, self._clock = loop_name, store, clock
        self._counter = UnitCounter(loop_name, store, monotonic, stop or Event())
        self._lock, self._version = Lock(), 0
        self.state = GuardrailState()
        """The saved state."""
        self.is_behind = False
        """Whether the last look has left units that can be counted, so that the next one should come soon."""
        self.is_idle = False
        """Whether the next look finds nothing as long as the log has no other units, and the settings stay."""
        self.refresh()

    @property
    def fallback(self) -> bool:
        """Whether the loop shows its baseline, because a guardrail has stopped it."""
        return self.state.fallback is not None

    def refresh(self) -> None:
        """Read the state that another process has saved. For processes that do not learn."""
        with self._lock:
            self._refresh()
            self.is_behind, self.is_idle = False, True

    def _refresh(self) -> None:
        if self._store.newest_version(self._name, GUARDRAILS) == self._version:
            return
        document = self._store.latest_document(self._name, GUARDRAILS)
        self._version = 0 if document is None else document.version
        state = GuardrailState()
        try:
            if document is not None:
                state = msgspec.msgpack.decode(document.body, type=GuardrailState)
            for name, comparison in state.metrics.items():
                comparison.settings.check(name)
                comparison.difference()
        except (msgspec.MsgspecError, ValueError) as error:
            log.error("Loop %s: its guardrails cannot be read (%s). They count the log again.", self._name, error)
            state = replace(state, metrics={})  # a fallback stays
        self.state = state

    def look(self, configuration: LoopConfig, assigned_since: int, learned_through: int) -> None:
        """Count units whose windows have closed, check the guardrails, and save the result.

        Ends after about `LONGEST_LOOK`. `assigned_since` is that of the configuration, `learned_through` the last
        decision that the model has learned.
        """
        if configuration.control is None and not self._version:
            self.is_idle = True
            return
        with self._lock:
            self._refresh()
            if configuration.control is None:
                self.is_behind, self.is_idle = False, True
                return
            metrics = self._begun(configuration, assigned_since)
            self.is_behind = self._counter.count(metrics, self._clock(), learned_through)
            self.is_idle = self._counter.has_counted_all
            self._save(self._checked(metrics, assigned_since))

    def _begun(self, configuration: LoopConfig, assigned_since: int) -> dict[str, MetricComparison]:
        """Return the comparisons for the metrics of a configuration. Metrics that count otherwise start again."""
        begun, state = {}, self.state
        for name, settings in configuration.compared().items():
            comparison = state.metrics.get(name) if state.assigned_since == assigned_since else None
            if comparison is None or not comparison.counts_like(settings):
                comparison = MetricComparison(
                    settings=settings, after=self._declared_after(name, settings, assigned_since)
                )
            elif comparison.settings != settings:
                comparison = replace(comparison, settings=settings, alarm=None).checked(name, self._clock())
            begun[name] = comparison
        return begun

    def _declared_after(self, name: str, settings: MetricSettings, assigned_since: int) -> int:
        """Return the sequence number of the last decision before a metric was declared with its settings."""
        fresh, since = MetricComparison(settings=settings, after=0), 0
        for document in reversed(self._store.documents(self._name, CONFIGURATION)):
            configuration = msgspec.json.decode(document.body, type=LoopConfig)
            declared = configuration.compared().get(name)
            if document.version < assigned_since or declared is None or not fresh.counts_like(declared):
                break
            since = document.timestamp
        return max(self._store.last_sequence(self._name, before=since), self.state.resumed)

    def _checked(self, metrics: dict[str, MetricComparison], assigned_since: int) -> GuardrailState:
        """Return the state with new comparisons, and with the consequences of their alarms."""
        state = replace(self.state, metrics=metrics, assigned_since=assigned_since)
        for name, alarm in state.alarms().items():
            if state.fallback is None and metrics[name].settings.action is GuardrailAction.FALLBACK:
                state = replace(state, fallback=Fallback(alarm.at, name, alarm.sentence))
        return state

    def _save(self, state: GuardrailState) -> bool:
        """Save a changed state, then show and log it. Returns False if another process has saved one."""
        if state == self.state:
            return True
        expected = {GUARDRAILS: self._version}
        bodies = {GUARDRAILS: msgspec.msgpack.encode(state)}
        if not self._store.save_documents(
            self._name, self._clock(), bodies, expected_versions=expected, latest_only=[GUARDRAILS]
        ):
            return False
        before, self.state, self._version = self.state, state, self._version + 1
        for name, alarm in state.alarms().items():
            if before.alarms().get(name) != alarm:
                log.error("Loop %s: the guardrail of %s acts. %s", self._name, name, alarm.sentence)
        if state.wrong_ratio and not before.wrong_ratio:
            log.error("Loop %s: %s", self._name, WRONG_RATIO)
        if state.incomplete() != before.incomplete() and state.incomplete():
            log.error("Loop %s: %s", self._name, _missing_sentence(state.incomplete()))
        if state.fallback is not None and before.fallback is None:
            log.error("Loop %s shows its baseline from now on, until a person resumes it.", self._name)
        return True

    def resume(self) -> None:
        """End the fallback. All comparisons start again, with new groups. Raises InvalidInput."""
        with self._lock:
            while True:
                self._refresh()
                if self.state.fallback is None:
                    raise InvalidInput(f"loop {self._name} is not in fallback, so there is nothing to resume")
                after = self._store.last_sequence(self._name)
                metrics = {
                    name: MetricComparison(settings=own.settings, after=after)
                    for name, own in self.state.metrics.items()
                }
                resumed = replace(self.state, metrics=metrics, fallback=None, resumed=after)
                if self._save(resumed):
                    log.warning("Loop %s was resumed: it decides again.", self._name)
                    return

    def warnings(self) -> list[str]:
        """Return what the guardrails have found: the sentence of the report, if something is wrong."""
        problem = _problem(self.state)
        return [f"loop {self._name}: {problem.removesuffix('.')}"] if problem else []

    def report(self, configuration: LoopConfig) -> Guardrails:
        """Return the saved state as it is sent. Reads the store."""
        state, control = self.state, configuration.control
        compared = configuration.compared() if control is not None else {}
        metrics = {
            name: state.metrics.get(name, MetricComparison(settings=settings, after=0))
            for name, settings in compared.items()
        }
        waiting = {
            after: self._store.count_units(self._name, after, WAITING_DECISIONS)
            for after in {own.after for own in metrics.values()}
        }
        reports = [own.report(name, waiting=waiting[own.after] + len(own.open_block)) for name, own in metrics.items()]
        return Guardrails(
            loop=self._name,
            control=control,
            state="fallback" if state.fallback else "off" if control is None else "running",
            sentence=_verdict(state, reports, is_off=control is None),
            fallback_since=as_datetime(state.fallback.since) if state.fallback else None,
            sample_ratio=None if control is None else _sample_ratio(state, control.share),
            metrics=reports,
        )


def _problem(state: GuardrailState) -> str:
    """Return what is wrong, as text; empty if nothing is."""
    found, alarms = list[str](), list(state.alarms())
    if stop := state.fallback:
        found.append(f"The guardrail of {stop.metric} stopped the loop at {time_text(stop.since)}.")
        found.append(f"It shows the baseline until it is resumed. At the alarm, {stop.sentence}")
        alarms = [name for name in alarms if name != stop.metric]
    found += [WRONG_RATIO] if state.wrong_ratio else []
    found += [_missing_sentence(state.incomplete())] if state.incomplete() else []
    if alarms:
        found.append(f"In treatment {_names(alarms)} got worse by more than the margin.")
    return " ".join(found)


def _missing_sentence(metrics: Sequence[str]) -> str:
    return (
        f"Numbers of {_names(metrics)} are missing more often in one group, so the groups cannot be compared by them. "
        "Send them for all decisions, from code that does not know the group."
    )


def _names(metrics: Sequence[str]) -> str:
    more = len(metrics) - MOST_NAMES
    return join_words([*metrics[:MOST_NAMES], *([f"{more} more"] if more > 0 else [])])


def _verdict(state: GuardrailState, metrics: Sequence[MetricReport], *, is_off: bool) -> str:
    """Return the state of all guardrails in a sentence."""
    if is_off and state.fallback is None:
        return "The loop has no control group, so nothing is compared."
    if problem := _problem(state):
        return problem
    known = [metric.sentence for metric in metrics if metric.state != "early"]
    return f"No guardrail has acted. {known[0]}" if known else "It is too early to compare treatment with control."


def _sample_ratio(state: GuardrailState, share: float) -> SampleRatio:
    counted, sentence = state.largest(), "No units are counted yet."
    treatment, control = counted.assigned
    if units := counted.units:
        share = round(counted.expected_share, 6)
        sentence = f"{control / units:.1%} of {units:,} units are in control; {share:.1%} were expected."
    if state.wrong_ratio:
        sentence += f" {WRONG_RATIO}"
    return SampleRatio(
        treatment=treatment, control=control, expected_share=share, alarm=state.wrong_ratio, sentence=sentence
    )
