"""Verify: make every decision of a log again, learn every model again, and see that all is the same, bit for bit."""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from glbandits.bandit import Bandit
from glbandits.features import Hashing
from glbandits.serving.domain.action_selection import allowed_indices, arms_of, decide, seed_of
from glbandits.serving.domain.events import Decision, Mode, SettledDecision
from glbandits.serving.domain.model_snapshots import Identity, decode_snapshot
from glbandits.serving.domain.request_map import RequestEncoder, encoder_of
from glbandits.serving.domain.reward_aggregates import baseline_of
from glbandits.serving.domain.reward_aggregation import LearningOutcome
from glbandits.serving.runtime.catalogue_replay import CatalogueReplay
from glbandits.serving.runtime.loop_documents import BASE, IDENTITY
from glbandits.serving.runtime.relearning import relearn, settled_batches
from glbandits.serving.storage.event_store import Document, EventStore, SavedModel

REMEMBERED = 64
"""Models that are kept at hand, for decisions of a process that was a little behind."""
MOST_SAID = 20
"""Differences that are told one by one."""


class Verified(msgspec.Struct, kw_only=True):
    """The result of a verification."""

    decisions: int = 0
    """Decisions that were made again."""
    unchecked: int = 0
    """Decisions of models or catalogues that cannot be had again, because a part of the log or retired arms were
    deleted."""
    learned: int = 0
    """Decisions that were learned again."""
    set_aside: int = 0
    """Decisions that cannot be learned: their rewards or features are unusable. The loop set aside the same ones."""
    models: int = 0
    """Models that decided."""
    different: int = 0
    """Decisions that came out otherwise."""
    sentences: tuple[str, ...] = ()
    """What was different, the first few."""

    @property
    def sound(self) -> bool:
        """Whether all is as the log says."""
        return self.different == 0

    def add_differences(self, sentences: Sequence[str]) -> None:
        """Count differences."""
        self.different += len(sentences)
        self.sentences = (*self.sentences, *sentences)[:MOST_SAID]


def verify(store: EventStore, loop: str, progress: Callable[[int], None] | None = None) -> Verified:
    """Make every decision of a loop again, from its log alone: those that are there when it begins.

    If a part of the log is deleted meanwhile, the decisions that were not made again by then are left unchecked.

    Args:
        store: of the loop; a server may be running on it.
        loop: its name.
        progress: called with the number of decisions made again so far.
    """
    # In this order: whatever is saved or decided by now is of an epoch whose base is read afterwards, or was deleted.
    saved, last = store.latest_model(loop), store.last_sequence(loop)
    identity, bases = store.documents(loop, IDENTITY), store.documents(loop, BASE)
    result = Verified()
    if not identity or not bases:  # nothing was decided yet
        return result
    salt = msgspec.json.decode(identity[0].body, type=Identity).salt
    models, whole = _Models(store, loop, bases, result), True
    for batch in settled_batches(store, loop, 0, last):
        checked = [settled for settled in batch if models.can_decide(settled.decision)] if whole else []
        differences = [sentence for settled in checked if (sentence := _difference(settled, models, salt))]
        whole = whole and models.log_is_whole()
        if not whole:  # what they were made from may have been deleted
            checked, differences = [], []
        result.decisions += len(checked)
        result.unchecked += len(batch) - len(checked)
        result.add_differences(differences)
        if progress is not None:
            progress(result.decisions)
    if whole and saved is not None and (sentence := models.difference_to(saved)) and models.log_is_whole():
        result.add_differences([sentence])
    return result


def _difference(settled: SettledDecision, models: "_Models", salt: str) -> str:
    """A sentence that says what is not as it was; empty if all is."""
    decision, bandit = settled.decision, models.at(settled.decision.epoch, settled.decision.model)
    seed = seed_of(salt, decision.event_id, decision.slot)
    if seed != decision.seed:
        difference = f"the seed is {seed}, and was {decision.seed}"
    elif decision.catalogue is not None:
        difference = models.catalogue.difference(decision, bandit)
    else:
        difference = _difference_of(decision, bandit, models.encoder(bandit))
    return f"decision {settled.sequence} ({decision.event_id}): {difference}" if difference else ""


def _difference_of(decision: Decision, bandit: Bandit, encoder: RequestEncoder) -> str:
    allowed = allowed_indices(len(decision.actions), decision.excluded)
    choice = decide(bandit, arms_of(decision, encoder), allowed, decision.exploration, decision.seed)
    if tuple(choice.probabilities.tolist()) != decision.probabilities:
        return f"the chances are {choice.probabilities.tolist()}, and were {list(decision.probabilities)}"
    if choice.chosen != decision.chosen:
        return f"action {choice.chosen} is drawn, and {decision.chosen} was"
    online = decision.mode is Mode.ONLINE
    baseline = baseline_of(decision)
    shown = choice.chosen if online or baseline is None else baseline
    chance = float(choice.probabilities[shown]) if online else 1.0
    if (shown, chance) != (decision.shown, decision.probability):
        return f"{shown} is shown with chance {chance}, and {decision.shown} was with {decision.probability}"
    return ""


class _Models:
    """Models of a loop at any sequence number, learned again from the beginning of their epoch."""

    def __init__(self, store: EventStore, loop: str, bases: Sequence[Document], result: Verified) -> None:
        self._store, self._loop, self._oldest, self._result = store, loop, bases[0].version, result
        self._bases = {base.epoch: base for base in (decode_snapshot(document.body) for document in bases)}
        self._recent: dict[tuple[int, int], Bandit] = {}
        self._hashings: dict[int, Hashing] = {}
        self.since = min(self._bases)
        """The oldest epoch since which the log is whole."""
        self.catalogue = CatalogueReplay(store, loop)
        self._begin(self.since)

    def _begin(self, epoch: int) -> None:
        base = self._bases[epoch]
        self._epoch, self._sequence, self._bandit = epoch, base.sequence, Bandit.from_bytes(base.bandit)

    def log_is_whole(self) -> bool:
        """Whether nothing was deleted of the log since the oldest epoch: its base would have gone before."""
        return self._store.documents(self._loop, BASE)[0].version == self._oldest

    def can_decide(self, decision: Decision) -> bool:
        """Whether the log and the store have all that the decision was made from."""
        return decision.epoch >= self.since and self.catalogue.has(decision)

    def encoder(self, model: Bandit) -> RequestEncoder:
        """What makes features of requests; it remembers what it has hashed."""
        return encoder_of(model, self._hashings)

    def at(self, epoch: int, sequence: int) -> Bandit:
        """The model that had learned the decisions up to this one."""
        if (epoch, sequence) in self._recent:
            return self._recent[epoch, sequence]
        if epoch != self._epoch or sequence < self._sequence:
            self._begin(epoch)
        encoder = self.encoder(self._bandit)
        for outcome in relearn(self._store, self._loop, self._bandit, encoder, self._sequence, sequence):
            self._result.learned += outcome is LearningOutcome.LEARNED
            self._result.set_aside += outcome is LearningOutcome.SET_ASIDE
        self._sequence = max(self._sequence, sequence)
        self._result.models += 1
        if len(self._recent) == REMEMBERED:
            del self._recent[next(iter(self._recent))]
        return self._recent.setdefault((epoch, sequence), self._bandit.copy())

    def difference_to(self, saved: SavedModel) -> str:
        """A sentence that says whether a saved model comes out otherwise; empty if not."""
        snapshot = decode_snapshot(saved.body)
        if snapshot.epoch < self.since:
            return ""
        again, was = self.at(snapshot.epoch, snapshot.sequence), Bandit.from_bytes(snapshot.bandit)
        same = np.array_equal(again.state, was.state)
        return "" if same else f"the kept model {snapshot.sequence} comes out otherwise"
