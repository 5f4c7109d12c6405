"""A loop: its decisions, its model, and learning from the log."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Lock

import msgspec

from glbandits.bandit import Bandit
from glbandits.common.errors import InvalidInput
from glbandits.features import Hashing
from glbandits.maths.links import find_link
from glbandits.service.domain.decision_learning import LearningOutcome, learn_batch
from glbandits.service.domain.decision_making import DecisionMaker, LoopTerms
from glbandits.service.domain.errors import LeaseLost, StoreError
from glbandits.service.domain.events import Decision, DecisionRequest, SettledDecision
from glbandits.service.domain.loop_config import SECOND, LoopConfig
from glbandits.service.domain.model_snapshots import FirstModel, PublishedModel, Snapshot, fits
from glbandits.service.domain.request_features import encoder_of
from glbandits.service.runtime.loops.guardrails import LoopGuardrails
from glbandits.service.runtime.loops.learning_log import log_outliers, log_set_aside
from glbandits.service.runtime.loops.log_deletion import base_of_kept
from glbandits.service.runtime.loops.log_watermarks import LogWatermarks
from glbandits.service.runtime.loops.loop_documents import (
    BASE,
    CONFIGURATION,
    INVALIDATING,
    Invalidating,
    LoopDocuments,
    read_invalidating,
)
from glbandits.service.runtime.loops.loop_statistics import LoopStatistics
from glbandits.service.runtime.loops.model_replacement import (
    MORE_THAN_LOG,
    Replacement,
    model_for,
    started,
)
from glbandits.service.runtime.loops.unreadable_models import UnreadableModels
from glbandits.service.runtime.replay.relearning import relearn
from glbandits.service.storage.document_store import MAX_SEQUENCE
from glbandits.service.storage.event_store import EventStore

log = logging.getLogger(__name__)

LEARNED_AT_ONCE = 250
"""Decisions between two looks at the clock."""


class Loop:
    """An independently configured learner.

    Decides from memory; learns from the log when `learn` is called. All methods may be called from any thread. Those
    that learn or replace the configuration or the model hold a lock; `decide` needs no lock.

    Args:
        name: the name of the loop in the store.
        store: has the decisions, rewards, models and configurations.
        clock: microseconds since 1970.
        monotonic: seconds of a clock that never steps.
        first_configuration: the configuration of a loop that is new in the store; None for the defaults.
        first_model: the model of a loop that is new in the store; None for one that has learned nothing.
        stop: when it is set, `learn` and `delete_log` return after the present batch.
    """

    def __init__(
        self,
        name: str,
        store: EventStore,
        clock: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
        first_configuration: LoopConfig | None = None,
        first_model: FirstModel | None = None,
        stop: Event | None = None,
    ) -> None:
        self.name, self._store, self._clock = name, store, clock
        self._monotonic, self._watermarks = monotonic, LogWatermarks(monotonic)
        self._documents = LoopDocuments(name, store, clock, first_configuration, first_model)
        self._lock, self._stop, self._hashings = Lock(), stop or Event(), dict[int, Hashing]()
        self._window_since = 0
        self._unreadable = UnreadableModels(name)
        self._replacement = Replacement(name, store, self._documents, monotonic)
        self.guardrails = LoopGuardrails(name, store, clock, monotonic, self._stop)
        self.salt = self._documents.salt()
        self.history = store.read_history()
        """See `DocumentStore.history`. A loop is opened again when the store has another one."""
        self.created = self._documents.created
        """Differs if the loop is deleted and created again."""
        self._compared: tuple[Bandit | None, LoopConfig | None, bool] = (None, None, True)
        """A model, a configuration, and whether they fit."""
        self._read(None)
        self._maker = DecisionMaker(self.published)
        self.learned_at: int | None = None
        """Timestamp of the last update of the model; None if there was none since the start."""
        self.statistics = LoopStatistics(store, name, self.published.learned_through, monotonic)
        self.is_behind = False
        """Whether the last update has left decisions that can be learned or counted, so that the next one should come
        soon."""
        self._learns, self._seen_through = False, 0
        """Whether the last update was `learn`, and the last decision of the log then."""

    def _read(self, present: tuple[int, int] | None) -> bool:
        """Use the saved configuration, and the saved model if it is newer than `present`; return whether it is."""
        saved = self._documents.read(present)
        self.configuration = saved.configuration
        if saved.window_since != self._window_since:
            self._watermarks.clear()
        self._window_since, self._assigned_since = saved.window_since, saved.assigned_since
        if saved.model is not None:
            self._adopt(*saved.model)
        if saved.unreadable is not None:
            self._unreadable.note(saved.unreadable, self.published.learned_through)
        self._unreadable.check_caught_up(self.published.learned_through)
        return saved.model is not None

    def _adopt(self, snapshot: Snapshot, bandit: Bandit) -> None:
        self.published = PublishedModel.of_snapshot(snapshot, bandit, encoder_of(bandit, self._hashings))
        self._saved_through = snapshot.learned_through
        self._invalidating = read_invalidating(self._store, self.name, snapshot.epoch)

    def warnings(self) -> list[str]:
        """Return a sentence for each problem that the operator should know and that does not stop decisions."""
        return [*self._unreadable.warnings(self.published), *self.guardrails.warnings()]

    def public_warnings(self) -> list[str]:
        """Return the warnings without numbers and names of the business."""
        has_found = bool(self.guardrails.warnings())
        found = f"loop {self.name}: its guardrails have found something; GET /v1/loops/{self.name}/guardrails says what"
        return self._unreadable.warnings(self.published) + ([found] if has_found else [])

    @property
    def is_idle(self) -> bool:
        """Whether another update does nothing as long as `EventStore.marks` of the loop stays the same."""
        is_done = self.published.learned_through >= self._seen_through and not self.is_behind and not self.is_relearning
        return is_done and self.guardrails.is_idle and not self.guardrails.is_behind

    def refresh(self, seconds: float = math.inf) -> None:
        """Adopt a newer configuration, model or fallback that another process has saved.

        Ends soon after so many seconds, see `is_behind`.
        """
        self.guardrails.refresh()
        with self._lock:
            end, self._learns = self._monotonic() + seconds, False
            self._refresh()
            self.is_behind = not self.statistics.count_history(self._clock(), end)

    def has_newer_configuration(self) -> bool:
        """Whether another process has saved a configuration since the last one was read. Reads no model."""
        return self._documents.has_newer_configuration()

    def _refresh(self) -> None:
        if self._store.history != self.history:
            raise LeaseLost(f"another server of the database has taken over; loop {self.name} is opened again")
        if self._read((self.published.epoch, self.published.learned_through)):
            self.learned_at = self._clock()
        learned_through = self.published.learned_through
        self._seen_through = self._store.last_sequence(self.name)
        self._watermarks.update(self._seen_through, learned_through, self.configuration.reward_wait)
        self.statistics.catch_up(learned_through, self._clock())

    def decide(self, request: DecisionRequest) -> Decision:
        """Choose an action. Does not write the decision: the caller must append it to the store.

        The decision has a hash of the unit. Whether the unit gets an earlier action again is up to the caller.
        """
        maker = self._maker
        if maker.model is not self.published:
            self._maker = maker = DecisionMaker(self.published)
        return maker.make(request, self.configuration, self._terms(), self._clock(), fallback=self.guardrails.fallback)

    def _terms(self) -> LoopTerms:
        # After a change of the control group, and after a fallback, known units are new ones, with new groups.
        rule = f"{self._assigned_since}.{self.guardrails.state.resumed}"
        return LoopTerms(self.name, self.salt, rule, self.history)

    def hashed_unit(self, unit: str, rule: str | None = None) -> str:
        """Return the hash of a unit as decisions with this `unit_rule` have it; None for that of new decisions."""
        terms = self._terms()
        return (terms if rule is None else terms._replace(unit_rule=rule)).hashed_unit(unit)

    def learn(self, seconds: float = math.inf) -> int:
        """Learn settled decisions, save the model and look at the guardrails. Returns the number of decisions.

        Ends soon after so many seconds, so that other loops do not wait, see `is_behind`.
        """
        with self._lock:
            end, learned, is_late, self._learns = self._monotonic() + seconds, 0, False, True
            self._refresh()
            now = self._clock()
            while not (is_late or self._stop.is_set()) and (batch := self._next_settled(now)):
                self._learn_batch(batch)
                learned += len(batch)
                self.statistics.add(batch, now)
                is_late = self._monotonic() >= end
            if learned:
                self.learned_at = now
                self._save_model()  # for other processes and for the next start
                self._unreadable.check_caught_up(self.published.learned_through)
            self.look_at_guardrails()
            self.is_behind = not self.statistics.count_history(now, end) or is_late
            if learned and not self.is_behind:
                self.statistics.save(now)
            return learned

    def look_at_guardrails(self) -> None:
        """Count units and check the guardrails, see `LoopGuardrails.look`."""
        self.guardrails.look(self.configuration, self._assigned_since, self.published.learned_through)

    def _next_settled(self, now: int) -> list[SettledDecision]:
        """Seal the next decisions whose reward window has closed, and read them.

        If the window was made shorter, that applies to open decisions too: they are settled when the new window has
        passed since the decision and since the change. Otherwise one decision with a long window would delay all later
        ones. For the same reason a decision that has been in the log for the whole window is settled even if its
        timestamp lies in the future, because the clock stepped back.
        """
        earliest = now - self.configuration.reward_window
        made_before = earliest if earliest > self._window_since else 0
        logged = self._watermarks.logged_for(self.configuration.reward_wait)
        after = self.published.learned_through
        limits = {"made_before": made_before, "logged_through": logged}
        sealed_through = self._store.seal(self.name, after, now, LEARNED_AT_ONCE, **limits)
        batch = self._store.settled(self.name, after, now, LEARNED_AT_ONCE) if sealed_through else []
        return [settled for settled in batch if settled.sequence <= sealed_through]

    def _learn_batch(self, batch: Sequence[SettledDecision]) -> None:
        """Learn a batch and publish the model: all of the batch, or nothing if an error is raised.

        Count decisions that cannot be learned.
        """
        model = self.published
        bandit, outcomes = learn_batch(model.bandit, batch, model.encoder, self._invalidating)
        self._save_invalidating(
            [
                settled.sequence
                for settled, outcome in zip(batch, outcomes, strict=True)
                if outcome is LearningOutcome.INVALIDATING and settled.sequence not in self._invalidating
            ]
        )
        link = find_link(bandit.policy.link)
        evidence = model.evidence.extended_by(batch, (link.lowest_reward, link.highest_reward))
        self.published = model.after(bandit, outcomes)._replace(learned_through=batch[-1].sequence, evidence=evidence)
        log_set_aside(self.name, batch, outcomes)
        log_outliers(self.name, model.bandit, bandit)

    def _save_invalidating(self, sequences: Sequence[int]) -> None:
        """Store these decisions before the next model is published, so that replay sets aside the same ones."""
        if sequences:
            body = msgspec.json.encode(Invalidating(self.published.epoch, tuple(sequences)))
            self._store.save_document(self.name, INVALIDATING, self._clock(), body)
            self._invalidating = self._invalidating.union(sequences)  # for a retry of the batch

    def learning_lag(self) -> float:
        """Return for how many seconds the oldest settled decision has not been learned; 0 if all are learned.

        Reads the store. Of two durations the larger counts: by the wall clock, and by the time that the decision has
        been in the log (`LogWatermarks`).
        """
        learned, now = self.published.learned_through, self._clock()
        settled = self._store.settled(self.name, learned, now, 1)
        by_clock = (
            (now - settled[0].decision.timestamp - settled[0].decision.reward_window) / SECOND if settled else 0.0
        )
        return max(0.0, by_clock, self._watermarks.age_after(learned) - self.configuration.reward_wait)

    def _save_model(self) -> None:
        model = self.published
        self._store.save_model(self.name, model.learned_through, self._clock(), model.encoded(), keep=2)
        self._saved_through = model.learned_through

    def configure(self, configuration: LoopConfig, *, reset_model: bool = False) -> None:
        """Replace the configuration, see `reconfigure`."""
        self.reconfigure(lambda _: configuration, reset_model=reset_model)

    def reconfigure(self, change: Callable[[LoopConfig], LoopConfig], *, reset_model: bool = False) -> LoopConfig:
        """Replace the configuration by `change` of the one in the store, and return the new one.

        If another process changes the configuration at the same time, `change` is called again, so no change is lost.
        If the present model does not fit the new configuration, it decides until `relearn` has replaced it. Raises
        InvalidInput if the log cannot be learned again. With `reset_model`, a model that has learned nothing replaces
        it at once.
        """
        with self._lock:
            while True:
                self._refresh()
                changed = change(self.configuration)
                aggregation = self.configuration.aggregation
                model = model_for(changed, self.published, self._store, self.name, aggregation, reset_model=reset_model)
                present = self.configuration.assignment
                if self._commit(model, configuration=changed):
                    if changed.assignment != present:
                        self._assigned_since = self._documents.next_configuration if changed.assignment else 0
                    return changed

    @property
    def is_relearning(self) -> bool:
        """Whether another model is to replace the present one, which does not fit the configuration."""
        bandit, configuration = self.published.bandit, self.configuration
        compared = self._compared
        if compared[0] is not bandit or compared[1] is not configuration:  # the learner asks often
            self._compared = compared = bandit, configuration, fits(bandit, configuration)
        return self.published.relearn_after is not None and not compared[2]

    def relearning_progress(self) -> tuple[int, int] | None:
        """Return which decisions of how many the new model has learned, as sequence numbers; None without relearning.

        Reads the store.
        """
        return (self._documents.progress(), self.published.learned_through) if self.is_relearning else None

    def relearn(self) -> None:
        """Let the model of a changed configuration learn a batch of the log, and adopt it when it has learned all.

        For the process that learns, which calls this until `is_relearning` is False. After a restart, or another change
        of the configuration, relearning begins again.
        """
        with self._lock:
            if not self.is_relearning:
                return
            present = self.published
            new = self._replacement.step(present, self.configuration)
            if new.learned_through < present.learned_through:
                return
            if self._commit(new._replace(evidence=present.evidence)):
                log.info(
                    "Loop %s has learned its log again up to decision %d (%d decisions set aside). Epoch %d starts.",
                    *(self.name, new.learned_through, new.set_aside, self.published.epoch),
                )
                self._replacement.model = None
            else:  # another process has changed the configuration or the model
                self._refresh()

    def relearn_whole_log(self, *, reset_model: bool, progress: Callable[[int], object]) -> None:
        """Start a new epoch with a model that has learned all decisions of the log again. Blocks until it has.

        A server may use the store meanwhile, and adopts the epoch. Raises InvalidInput if the present model has learned
        more than the log has, unless `reset_model`. `progress` is called with the sequence number of the last decision.
        """
        with self._lock:
            while True:
                self._refresh()
                if self.published.relearn_after is None and not reset_model:
                    raise InvalidInput(
                        f"the model of loop {self.name} cannot be learned again: {MORE_THAN_LOG}. Set reset_model to "
                        "learn what is left of the log",
                        field="reset_model",
                    )
                new = fresh = started(self.published, self.configuration, after=0)
                for new, _ in relearn(self._store, self.name, fresh, self.published.learned_through):
                    progress(new.learned_through)
                if self._commit(new._replace(evidence=self.published.evidence)):
                    return

    def import_model(self, content: bytes) -> None:
        """Replace the model by one from a model file.

        Raises InvalidInput if the loop is configured for another one.
        """
        bandit = Bandit.from_bytes(content)
        with self._lock:
            while True:
                self._refresh()
                if not fits(bandit, self.configuration):
                    present = self.published.bandit
                    raise InvalidInput(
                        f"the model must be like that of the loop, {present}; got {bandit}. Configure the loop first"
                    )
                if self._commit(self.published._replace(bandit=bandit, relearn_after=None)):
                    return

    def _commit(
        self,
        model: PublishedModel | None,
        *,
        configuration: LoopConfig | None = None,
        oldest: Snapshot | None = None,
        drops_older_bases: bool = False,
    ) -> bool:
        """Save and adopt a model that starts a new epoch, or a configuration, or both.

        Uses one transaction. Returns False and saves nothing if another process has changed either since they were
        read. Two processes must not start the same epoch, because then the epoch would not say which model made a
        decision.

        Args:
            model: the published model with the changes that start a new epoch, except the number of the epoch; None to
                stay in the present epoch.
            configuration: the new configuration; None to keep the present one.
            oldest: replaces the model that started its epoch. The models that started older epochs are deleted.
            drops_older_bases: whether the models that started all older epochs are deleted.
        """
        bodies = dict[str, bytes]()
        if model is not None:
            if model.bandit is not self.published.bandit:
                encoder = encoder_of(model.bandit, self._hashings)
                model = model._replace(encoder=encoder, evidence=model.evidence.for_new_model())
            model = model._replace(epoch=self._documents.next_epoch)
            bodies[BASE] = model.encoded()
        if configuration is not None:
            bodies[CONFIGURATION] = msgspec.json.encode(configuration)
        if model is not None and drops_older_bases:
            bodies[INVALIDATING] = msgspec.json.encode(Invalidating(model.epoch))
        dropped = (BASE, INVALIDATING) if drops_older_bases else ()
        if not self._documents.save(bodies, latest_only=dropped, oldest=oldest):
            return False
        self.configuration = configuration or self.configuration
        if model is not None:
            self.published, self._saved_through, self._invalidating = model, model.learned_through, frozenset()
        return True

    def delete_log(self, before: int, up_to: int = MAX_SEQUENCE) -> int:
        """Delete the learned decisions made before a time, with their rewards. Returns their number.

        Decisions after the sequence number `up_to` stay. The model stays, as the base of a new epoch, because it cannot
        be computed from the rest of the log. Decisions that are needed to repeat later ones stay too, see
        `base_of_kept`. Nothing is deleted while a new model learns the log again.
        """
        with self._lock:
            self._refresh()
            while not (self._stop.is_set() or self.is_relearning):
                last, base = self._deletable(before, up_to)
                if not last:
                    break
                model = self.published
                if model.relearn_after is not None and model.relearn_after < last:
                    model = model._replace(relearn_after=None)
                # The epoch first: wherever the deletion stops, the log since the oldest base is complete.
                if self._commit(model, oldest=base, drops_older_bases=base is None):
                    deleted = self._store.delete_log(self.name, last, before=before, stop=self._stop.is_set)
                    self.statistics.catch_up(self.published.learned_through, self._clock())
                    return deleted
                self._refresh()
            return 0

    def _deletable(self, before: int, up_to: int) -> tuple[int, Snapshot | None]:
        """Return the last decision that may be deleted, 0 if there is none, and `base_of_kept`."""
        last = min(up_to, self.published.learned_through)
        last = self._store.last_sequence(self.name, before=before, up_to=last)
        base = base_of_kept(self._store, self.name, last) if last else None
        if base is not None:
            last = self._store.last_sequence(self.name, before=before, up_to=min(last, base.learned_through))
        return last, base

    def export_model(self) -> bytes:
        """Return the present model as a model file."""
        return self.published.bandit.to_bytes()

    def close(self) -> None:
        """Save the model, so that the next start need not learn it again."""
        with self._lock, suppress(LeaseLost):  # then another process has the model
            if self.published.learned_through > self._saved_through:
                self._save_model()
        with self._lock, suppress(StoreError):
            if self._learns and not self.is_behind:
                self.statistics.save(self._clock(), every=0.0)
