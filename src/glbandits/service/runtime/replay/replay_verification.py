"""Verify a log: repeat every decision, learn every model again, and compare all bits."""

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from glbandits.bandit import Bandit
from glbandits.common.errors import ModelFileError
from glbandits.features import Hashing
from glbandits.service.domain.decision_learning import LearningOutcome
from glbandits.service.domain.decision_making import DecisionMaker, Terms
from glbandits.service.domain.events import Decision, SettledDecision
from glbandits.service.domain.model_snapshots import Identity, PublishedModel, load_snapshot, loadable_snapshot
from glbandits.service.domain.request_features import encoder_of
from glbandits.service.domain.sticky_units import can_repeat, repeat_of
from glbandits.service.runtime.loops.loop_documents import BASE, read_invalidating
from glbandits.service.runtime.loops.loop_statistics import END_OF_TIME
from glbandits.service.runtime.replay.relearning import relearn, settled_batches
from glbandits.service.storage.document_store import Document, SavedModel
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.loop_store import IDENTITY

CACHED_MODELS = 64
"""Models that are cached, for decisions of a process whose model was not the newest."""
COMPARED = {
    "seed": "the seed",
    "group": "the group",
    "probabilities": "probabilities",
    "chosen": "the drawn action",
    "shown": "the shown action",
    "probability": "its probability",
    "predicted": "the predicted rewards",
}
"""The fields of decisions that are compared, with their names in messages."""
MAX_MESSAGES = 20
"""Differences that are reported in words; the others are only counted."""


class VerificationResult(msgspec.Struct, kw_only=True):
    """The result of a verification."""

    decisions: int = 0
    """Decisions that were repeated."""
    unchecked: int = 0
    """Decisions that could not be repeated, because a part of the log was deleted or lost by the database, or a base
    cannot be loaded. Also sticky ones whose draw is not in the log."""
    learned: int = 0
    """Decisions that were learned again."""
    set_aside: int = 0
    """Decisions that cannot be learned, because their rewards or features are unusable."""
    models: int = 0
    """Models that were computed again."""
    different: int = 0
    """Decisions and models with another result than in the log."""
    messages: tuple[str, ...] = ()
    """The first differences, at most `MAX_MESSAGES`."""

    @property
    def sound(self) -> bool:
        """Whether no difference was found."""
        return self.different == 0

    def add_differences(self, messages: Sequence[str]) -> None:
        """Add a message for each difference."""
        self.different += len(messages)
        self.messages = (*self.messages, *messages)[:MAX_MESSAGES]


def verify(store: EventStore, loop_name: str, progress: Callable[[int], None] | None = None) -> VerificationResult:
    """Repeat every decision of a loop that is in the log at the start, from the log alone.

    If a part of the log is deleted meanwhile, the decisions that were not repeated by then are left unchecked.

    Args:
        store: has the log; a server may use it at the same time.
        loop_name: the name of the loop.
        progress: called with the number of decisions repeated so far.
    """
    # In this order, so that the bases of all these decisions and of the saved model are read, unless they were deleted.
    saved, last = store.latest_model(loop_name), store.last_sequence(loop_name)
    identity, bases = store.documents(loop_name, IDENTITY), store.documents(loop_name, BASE)
    result = VerificationResult()
    if not identity or not bases:  # there is no decision yet
        return result
    salt = msgspec.json.decode(identity[0].body, type=Identity).salt
    models, complete = _Models(store, loop_name, bases, result), True
    for batch in settled_batches(store, loop_name, 0, last):
        checked, differences = list[SettledDecision](), list[str]()
        for settled in batch if complete else ():
            draw = _repeated_draw(store, settled.decision)
            if models.can_decide(settled.decision) and (draw is None) != bool(settled.decision.repeats):
                checked.append(settled)
                differences += filter(None, [_difference(settled, models, salt, draw)])
        complete = complete and models.log_is_complete()
        if not complete:  # the models may lack decisions that were deleted
            checked, differences = [], []
        result.decisions += len(checked)
        result.unchecked += len(batch) - len(checked)
        result.add_differences(differences)
        if progress is not None:
            progress(result.decisions)
    if complete and saved is not None and (message := models.difference_to(saved)) and models.log_is_complete():
        result.add_differences([message])
    return result


def _repeated_draw(store: EventStore, decision: Decision) -> Decision | None:
    """Return the draw that a decision repeats. None if it repeats none, or if the log no longer has it."""
    logged = store.decision(decision.loop, decision.repeats, decision.slot) if decision.repeats else None
    return None if logged is None else logged.decision


def _difference(settled: SettledDecision, models: "_Models", salt: str, draw: Decision | None) -> str:
    """Return how a repeated decision differs from the log; empty if it does not. `draw` is what it `repeats`."""
    logged, which = settled.decision, f"decision {settled.sequence} ({settled.decision.event_id})"
    if draw is not None and not (draw.unit == logged.unit and can_repeat(draw, logged, END_OF_TIME)):
        return f"{which}: it repeats event {draw.event_id}, which has another unit, group or set of actions, or no draw"
    maker = models.at(logged.epoch, logged.learned_through)
    outcome = maker.decide(logged, logged.unit, Terms.of_decision(logged), salt)
    repeated = replace(logged, **outcome._asdict())
    if draw is not None:
        repeated = repeat_of(draw, repeated)
    if _are_close(repeated.predicted, logged.predicted):
        repeated = replace(repeated, predicted=logged.predicted)
    for name, what in COMPARED.items():
        if getattr(repeated, name) != getattr(logged, name):
            return f"{which}: replay has {what} {getattr(repeated, name)}, the log has {getattr(logged, name)}"
    return ""


def _are_close(ours: tuple[float, float] | None, logged: tuple[float, float] | None) -> bool:
    """Return whether predictions are equal except for rounding, which depends on the processor."""
    return ours is not None and logged is not None and bool(np.allclose(ours, logged, rtol=1e-9, atol=1e-12))


class _Models:
    """Models of a loop at any sequence number, learned again from the base of their epoch."""

    def __init__(
        self, store: EventStore, loop_name: str, bases: Sequence[Document], result: VerificationResult
    ) -> None:
        self._store, self._loop_name, self._oldest, self._result = store, loop_name, bases[0], result
        snapshots = (loadable_snapshot(document.body) for document in bases)
        self._bases = {base.epoch: base for base in snapshots if base is not None}
        self._recent: dict[tuple[int, int], DecisionMaker] = {}
        self._hashings: dict[int, Hashing] = {}
        self._model: PublishedModel | None = None
        self._invalidating: frozenset[int] = frozenset()

    def _start_epoch(self, epoch: int) -> PublishedModel:
        bandit = Bandit.from_bytes(self._bases[epoch].bandit)
        self._invalidating = read_invalidating(self._store, self._loop_name, epoch)
        return PublishedModel.of_snapshot(self._bases[epoch], bandit, encoder_of(bandit, self._hashings))

    def log_is_complete(self) -> bool:
        """Return whether no decision was deleted since the oldest epoch.

        Its base would have been deleted or replaced first.
        """
        return self._store.documents(self._loop_name, BASE)[0] == self._oldest

    def can_decide(self, decision: Decision) -> bool:
        """Return whether the store has all that is needed to repeat the decision."""
        base = self._bases.get(decision.epoch)
        return base is not None and base.learned_through <= decision.learned_through and not decision.lost_model

    def at(self, epoch: int, sequence: int) -> DecisionMaker:
        """Return the model of an epoch that has learned the decisions up to a sequence number."""
        if (epoch, sequence) in self._recent:
            return self._recent[epoch, sequence]
        model = self._model
        if model is None or epoch != model.epoch or sequence < model.learned_through:
            model = self._start_epoch(epoch)
        for learned, outcomes in relearn(self._store, self._loop_name, model, sequence, self._invalidating):
            model, counts = learned, Counter(outcomes)
            self._result.learned += counts[LearningOutcome.LEARNED]
            self._result.set_aside += counts[LearningOutcome.SET_ASIDE] + counts[LearningOutcome.INVALIDATING]
        self._model = model
        self._result.models += 1
        if len(self._recent) == CACHED_MODELS:
            del self._recent[next(iter(self._recent))]
        return self._recent.setdefault((epoch, sequence), DecisionMaker(model))

    def difference_to(self, saved: SavedModel) -> str:
        """Return how a saved model differs from the one learned again; empty if it does not."""
        try:
            snapshot, saved_bandit = load_snapshot(saved.body)
        except ModelFileError as error:
            return f"the saved model {saved.sequence} cannot be loaded: {error}"
        if snapshot.epoch not in self._bases:
            return ""
        relearned = self.at(snapshot.epoch, snapshot.learned_through).model.bandit
        if np.array_equal(relearned.state, saved_bandit.state):
            return ""
        return f"the saved model {snapshot.epoch}.{snapshot.learned_through} differs from the one learned again"
