"""A loop: one stream of decisions, the model that makes them, and the learning from what came of them."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import msgspec

from glbandits.bandit import Bandit
from glbandits.errors import InvalidInput
from glbandits.features import Hashing
from glbandits.maths.links import find_link
from glbandits.serving.domain.action_selection import allowed_indices, arms_of, decide, seed_of, width_of
from glbandits.serving.domain.catalogue_arms import CatalogueRequest
from glbandits.serving.domain.events import Decision, DecisionRequest, Mode, SettledDecision
from glbandits.serving.domain.evidence import Evidence
from glbandits.serving.domain.loop_config import SECOND, LoopConfig
from glbandits.serving.domain.model_snapshots import FirstModel, Snapshot, check_exact, fresh_model
from glbandits.serving.domain.optimisation import check_optimisable
from glbandits.serving.domain.request_map import encoder_of
from glbandits.serving.domain.reward_aggregation import LearningOutcome, learn
from glbandits.serving.runtime.log_marks import LogMarks
from glbandits.serving.runtime.loop_catalogue import LoopCatalogue
from glbandits.serving.runtime.loop_documents import BASE, CONFIGURATION, LoopDocuments
from glbandits.serving.runtime.loop_statistics import LoopStatistics
from glbandits.serving.runtime.published_model import Published
from glbandits.serving.storage.event_store import EventStore

log = logging.getLogger(__name__)

BATCH = 1000
"""Decisions that are read from the store at a time to be learned."""


class Loop:
    """Decides at once, from what it holds in memory; learns when told to, in the order of the log.

    `decide` may be called from any thread while another one learns. Learning, and replacing the configuration or the
    model, is for one thread at a time, which the lock sees to.

    Args:
        name: of the loop in the store.
        store: where decisions, rewards, models and configurations are kept.
        clock: microseconds since 1970.
        monotonic: seconds by a clock that never steps.
        first_configuration: if the loop is new in the store; None for the defaults.
        first_model: with which the loop begins, if it is new in the store; None for one that knows nothing.
    """

    def __init__(
        self,
        name: str,
        store: EventStore,
        clock: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
        first_configuration: LoopConfig | None = None,
        first_model: FirstModel | None = None,
    ) -> None:
        self.name, self._store, self._clock = name, store, clock
        self._marks = LogMarks(monotonic)
        self._documents = LoopDocuments(name, store, clock, first_configuration, first_model)
        self._lock, self._hashings = Lock(), dict[int, Hashing]()
        self._wait_since = 0
        self.salt = self._documents.salt()
        self._adopt(self._read())
        self.learned_at: int | None = None
        """When the model last learned decisions; None since the start."""
        self.statistics = LoopStatistics(store, name, self.published.sequence)
        self.catalogue = LoopCatalogue(name, store, clock, lambda: self.published.bandit)
        self.catalogue.refresh()

    def _read(self) -> Snapshot:
        """Take the saved configuration, and return the saved model."""
        self.configuration, since, snapshot = self._documents.read()
        if since != self._wait_since:
            self._marks.clear()
        self._wait_since = since
        return snapshot

    def _adopt(self, snapshot: Snapshot) -> None:
        bandit = Bandit.from_bytes(snapshot.bandit)
        self.published = self._model(snapshot.epoch, snapshot.sequence, bandit, snapshot.set_aside, snapshot.evidence)
        self._saved_through = snapshot.sequence

    def _model(self, epoch: int, sequence: int, bandit: Bandit, set_aside: int, evidence: Evidence) -> Published:
        return Published(epoch, sequence, bandit, encoder_of(bandit, self._hashings), set_aside, evidence)

    def refresh(self) -> None:
        """Go on with the configuration and the model that another process has kept, if they are newer."""
        with self._lock:
            self._refresh()
            self.statistics.look_back()

    def _refresh(self) -> None:
        snapshot = self._read()
        if (snapshot.epoch, snapshot.sequence) > (self.published.epoch, self.published.sequence):
            self._adopt(snapshot)
            self.learned_at = self._clock()
        learned_through = self.published.sequence
        self._marks.update(self._store.last_sequence(self.name), learned_through, self.configuration.reward_wait)
        self.statistics.follow(learned_through, self._clock())

    def decide(self, question: DecisionRequest) -> Decision:
        """Choose an action. Nothing is kept yet: the decision holds only when the store has it."""
        configuration, model = self.configuration, self.published
        request, actions, excluded = question.request, question.actions, question.excluded
        width = width_of(question, model.encoder)
        if width != model.bandit.dim:
            raise InvalidInput(
                f"the loop takes {model.bandit.dim} features for each action; got {width:g}. Send as many, or "
                "configure the loop for another width"
            )
        arms = arms_of(question, model.encoder)
        allowed = allowed_indices(len(actions), excluded)
        event_id, slot = question.event_id, question.slot
        seed = seed_of(self.salt, event_id, slot)
        choice = decide(model.bandit, arms, allowed, configuration.exploration, seed)
        return self._decision(
            (configuration, model),
            event_id=event_id,
            slot=slot,
            request=request,
            encoding=question.encoding,
            actions=actions,
            excluded=excluded,
            chosen=choice.chosen,
            shown=int(allowed[0]) if question.baseline is None else question.baseline,
            baseline=question.baseline,
            probabilities=tuple(choice.probabilities.tolist()),
            deferred=question.deferred,
            seed=seed,
            reward_range=configuration.reward_range or question.reward_range,
        )

    def decide_from_catalogue(self, question: CatalogueRequest) -> Decision:
        """Choose an arm of the catalogue. It takes milliseconds if there are many. Nothing is kept yet."""
        configuration, model, baseline = self.configuration, self.published, question.question.baseline
        if baseline is None and configuration.mode is not Mode.ONLINE:
            raise InvalidInput(f"the mode {configuration.mode} shows the baseline; name an arm of the catalogue as it")
        seed = seed_of(self.salt, question.event_id, "")
        choice = self.catalogue.draw(model.bandit, question.question, configuration.exploration, seed)
        return self._decision(
            (configuration, model),
            event_id=question.event_id,
            request=choice.request,
            encoding=choice.encoding,
            actions=choice.actions,
            chosen=choice.chosen,
            shown=0,
            baseline=None if baseline is None else 0,
            probabilities=choice.probabilities,
            deferred=question.deferred,
            seed=seed,
            reward_range=configuration.reward_range,
            catalogue=choice.record,
        )

    def _decision(
        self,
        made_by: tuple[LoopConfig, Published],
        *,
        chosen: int,
        shown: int,
        probabilities: tuple[float, ...],
        **more: Any,
    ) -> Decision:
        """A decision as it is logged. `shown` is the baseline, which modes other than Online show."""
        configuration, model = made_by
        online = configuration.mode is Mode.ONLINE
        return Decision(
            loop=self.name,
            timestamp=self._clock(),
            chosen=chosen,
            shown=chosen if online else shown,
            probability=probabilities[chosen] if online else 1.0,
            probabilities=probabilities,
            epoch=model.epoch,
            model=model.sequence,
            mode=configuration.mode,
            reward_window=round(configuration.reward_wait * SECOND),
            default_reward=configuration.default_reward,
            aggregation=configuration.aggregation,
            exploration=configuration.exploration,
            **more,
        )

    def learn(self) -> int:
        """Learn every decision whose reward window is over, and publish the model. Returns how many decisions."""
        with self._lock:
            self._refresh()
            now, learned = self._clock(), 0
            while batch := self._sealed(now):
                self._learn_batch(batch)
                self.learned_at = now
                learned += len(batch)
                self.statistics.add(batch)
                self._save_model()  # for the other processes, and for the next start
            self.statistics.look_back()  # last, because after a start it takes long
            return learned

    def _sealed(self, now: int) -> list[SettledDecision]:
        """The next decisions whose reward window is over. They are closed before they are read.

        No window is longer than the configuration says now, from when it said so. Else one decision that was made with
        a long window would hold up all later ones. For the same reason, a decision that has been in the log for the
        whole window is settled even if its timestamp lies in the future, because the clock stepped back.
        """
        earliest = now - self.configuration.reward_window
        made_before = earliest if earliest > self._wait_since else 0
        logged = self._marks.logged_for(self.configuration.reward_wait)
        after = self.published.sequence
        up_to = self._store.seal(self.name, after, now, BATCH, made_before=made_before, logged_through=logged)
        batch = self._store.settled(self.name, after, now, BATCH) if up_to else []
        return [settled for settled in batch if settled.sequence <= up_to]

    def _learn_batch(self, batch: Sequence[SettledDecision]) -> None:
        """Learn a batch and publish the model: all of it, or nothing. Set aside what cannot be learned."""
        model = self.published
        bandit = model.bandit.copy()
        outcomes = [learn(bandit, settled, model.encoder) for settled in batch]
        set_aside = outcomes.count(LearningOutcome.SET_ASIDE)
        link = find_link(bandit.policy.link)
        evidence = model.evidence.after(batch, (link.lowest_reward, link.highest_reward))
        self.published = self._model(model.epoch, batch[-1].sequence, bandit, model.set_aside + set_aside, evidence)
        if set_aside:
            log.warning(
                "loop %s: %d decisions cannot be learned and are set aside, the first is event %r",
                self.name,
                set_aside,
                batch[outcomes.index(LearningOutcome.SET_ASIDE)].decision.event_id,
            )

    def learning_lag(self) -> float:
        """Seconds since the oldest decision that is not learned could be learned; 0 if there is none. Reads the store.

        By the wall clock, or by the time that the decision has been in the log, whichever is longer.
        """
        learned, now = self.published.sequence, self._clock()
        settled = self._store.settled(self.name, learned, now, 1)
        by_clock = (
            (now - settled[0].decision.timestamp - settled[0].decision.reward_window) / SECOND if settled else 0.0
        )
        return max(0.0, by_clock, self._marks.age_after(learned) - self.configuration.reward_wait)

    def _save_model(self) -> None:
        model = self.published
        self._store.save_model(self.name, model.sequence, self._clock(), model.encoded(), keep=2)
        self._saved_through = model.sequence

    def configure(self, configuration: LoopConfig) -> None:
        """Replace the configuration. Another policy or width, or sparse instead of dense, begins a new model."""
        self.reconfigure(lambda _: configuration)

    def reconfigure(self, change: Callable[[LoopConfig], LoopConfig]) -> LoopConfig:
        """Replace the configuration by one that is made of the one in the store, and return it.

        If another process changes the configuration at the same time, `change` is called again: no change is lost.
        """
        with self._lock:
            while True:
                self._refresh()
                changed = change(self.configuration)
                check_optimisable(changed)
                if self._commit(self._model_for(changed), configuration=changed):
                    return changed

    def _model_for(self, configuration: LoopConfig) -> Bandit | None:
        """A new model; None if the present one can go on."""
        bandit = self.published.bandit
        same = bandit.dim == configuration.width and bandit.sparse == configuration.is_sparse
        if same and bandit.policy == configuration.policy_settings():
            return None
        check_exact(configuration)
        return fresh_model(configuration, bandit.features)

    def promote(
        self,
        configuration: LoopConfig,
        trained: Callable[[int], Bandit],
        documents: Mapping[str, bytes],
        *,
        before: LoopConfig,
    ) -> bool:
        """Run another policy with a model that has learned already, and save documents, all in one transaction.

        Args:
            configuration: with the other policy.
            trained: returns the model that has learned the decisions up to a sequence number.
            documents: by kind.
            before: the configuration that is replaced. If the loop has another one, nothing happens, and the answer is
                False.
        """
        with self._lock:
            self._refresh()
            if self.configuration != before:
                return False
            model = trained(self.published.sequence)
            return self._commit(model, configuration=configuration, documents=documents)

    def reset(self) -> None:
        """Forget all that was learned. The feature map stays."""
        self._replace(lambda: fresh_model(self.configuration, self.published.bandit.features))

    def import_model(self, content: bytes) -> None:
        """Go on with a model that another loop has learned."""
        bandit = Bandit.from_bytes(content)

        def check_fit() -> Bandit:
            present = self.published.bandit
            same = bandit.dim == present.dim and bandit.sparse == present.sparse
            if not same or bandit.policy != present.policy:
                raise InvalidInput(f"the loop runs {present}; the model is {bandit}. Configure the loop for it first")
            return bandit

        self._replace(check_fit)

    def _replace(self, make: Callable[[], Bandit]) -> None:
        with self._lock:
            self._refresh()
            while not self._commit(make()):
                self._refresh()

    def _commit(
        self,
        bandit: Bandit | None,
        *,
        configuration: LoopConfig | None = None,
        documents: Mapping[str, bytes] | None = None,
        learned_through: int = 0,
        forgets: bool = False,
        anew: bool = False,
    ) -> bool:
        """Save a model that begins a new epoch, or a configuration, or both at once; and go on with them.

        If another process has changed either since they were read, nothing is saved, and the answer is False: if two
        processes began the same epoch, nobody would know which model made a decision.

        Args:
            bandit: begins the epoch.
            configuration: replaces the present one.
            documents: others that are saved in the same transaction, by kind.
            learned_through: the decision after which the epoch goes on, if it is later than the last one learned.
            forgets: whether the models with which older epochs began are deleted.
            anew: whether decisions that are set aside are counted from 0 again, and the evidence begins again.
        """
        bodies, model = dict(documents or {}), self.published
        if bandit is not None:
            sequence, set_aside = max(model.sequence, learned_through), 0 if anew else model.set_aside
            evidence = model.evidence if forgets else model.evidence.for_new_model()
            model = self._model(model.epoch + 1, sequence, bandit, set_aside, Evidence() if anew else evidence)
            bodies[BASE] = model.encoded()
        if configuration is not None:
            bodies[CONFIGURATION] = msgspec.json.encode(configuration)
        older = [BASE] if forgets else []
        if not self._documents.save(bodies, alone=older):
            return False
        self.configuration = configuration or self.configuration
        if bandit is not None:
            self.published, self._saved_through = model, model.sequence
        return True

    def forget(self, before: int | None = None) -> int:
        """Delete decisions made before a time, with what came of them; or all. Returns how many.

        Of those before a time, decisions that the model has not learned stay. The model itself stays, as the base of a
        new epoch: the log cannot give it again. Arms that were retired before the time go too.
        """
        with self._lock:
            self._refresh()
            self._store.prune_catalogue(self.name, self._clock(), before=before)
            while up_to := self._forgettable(before):
                # First the epoch, then the deletion: wherever it ends, the log since the oldest epoch is whole.
                if self._commit(self.published.bandit, learned_through=up_to, forgets=True, anew=before is None):
                    deleted = self._store.delete_log(self.name, up_to, anew=before is None)
                    self.statistics.follow(self.published.sequence, self._clock())
                    return deleted
                self._refresh()
            return 0

    def _forgettable(self, before: int | None) -> int:
        """The sequence number of the last decision to be forgotten; 0 if there is none."""
        if before is None:
            return self._store.last_sequence(self.name)
        return self._store.last_sequence(self.name, before=before, up_to=self.published.sequence)

    def export_model(self) -> bytes:
        """The model that decides now, as `Bandit.load` reads it."""
        return self.published.bandit.to_bytes()

    def close(self) -> None:
        """Save the model, so that the next start has nothing to learn again."""
        with self._lock:
            if self.published.sequence > self._saved_through:
                self._save_model()
