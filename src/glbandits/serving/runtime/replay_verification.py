"""Verify: make every decision of a log again, learn every model again, and see that all is the same, bit for bit."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from glbandits.bandit import Bandit
from glbandits.features import Hashing
from glbandits.serving.domain.action_selection import allowed_indices, decide, decision_arms, seed_of
from glbandits.serving.domain.events import Decision, Mode, SettledDecision
from glbandits.serving.domain.model_snapshots import Identity, decode_snapshot
from glbandits.serving.domain.reward_aggregates import baseline_of
from glbandits.serving.domain.reward_aggregation import LearningOutcome
from glbandits.serving.runtime.learning_loop import BASE, IDENTITY
from glbandits.serving.runtime.relearning import relearn, settled_batches
from glbandits.serving.storage.event_store import Document, EventStore, SavedModel

REMEMBERED = 64
"""Models that are kept at hand, for decisions of a process that was a little behind."""
MOST_SAID = 20
"""Differences that are told one by one."""


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    decisions: int
    """That were made again."""
    unchecked: int
    """Decisions of models that the log cannot give again, because a part of it was deleted."""
    learned: int
    """Decisions that were learned again."""
    set_aside: int
    """Decisions that cannot be learned: their rewards or features are unusable. The loop set aside the same ones."""
    models: int
    """Models that decided."""
    different: int
    """Decisions that came out otherwise."""
    sentences: tuple[str, ...]
    """What was different, the first few."""

    @property
    def sound(self) -> bool:
        """Whether all is as the log says."""
        return self.different == 0


def verify(store: EventStore, loop: str, progress: Callable[[int], None] | None = None) -> Verified:
    """Make every decision of a loop again, from its log alone: those that are there when it begins.

    If a part of the log is deleted meanwhile, the decisions that were not made again by then are left unchecked.

    Args:
        store: of the loop; a server may be running on it.
        loop: its name.
        progress: called with the number of decisions made again so far.
    """
    # In this order: whatever is kept or decided by now is of an epoch whose base is read afterwards, or was deleted.
    kept, last = store.latest_model(loop), store.last_sequence(loop)
    identity, bases = store.documents(loop, IDENTITY), store.documents(loop, BASE)
    if not identity or not bases:  # nothing was decided yet
        return Verified(decisions=0, unchecked=0, learned=0, set_aside=0, models=0, different=0, sentences=())
    salt = msgspec.json.decode(identity[0].body, type=Identity).salt
    models, whole, decisions, unchecked = _Models(store, loop, bases), True, 0, 0
    different, sentences = 0, list[str]()
    for batch in settled_batches(store, loop, 0, last):
        made = [settled for settled in batch if settled.decision.epoch >= models.since] if whole else []
        found = [sentence for settled in made if (sentence := _difference(settled, models, salt))]
        whole = whole and models.log_is_whole()
        if not whole:  # what they were made from may have been deleted
            made, found = [], []
        decisions, unchecked = decisions + len(made), unchecked + len(batch) - len(made)
        different, sentences = different + len(found), [*sentences, *found][:MOST_SAID]
        if progress is not None:
            progress(decisions)
    wrong = models.difference_to(kept) if whole and kept is not None else ""
    if wrong and models.log_is_whole():
        different, sentences = different + 1, [*sentences, wrong]
    return Verified(
        decisions=decisions,
        unchecked=unchecked,
        learned=models.learned,
        set_aside=models.set_aside,
        models=models.count,
        different=different,
        sentences=tuple(sentences),
    )


def _difference(settled: SettledDecision, models: "_Models", salt: str) -> str:
    """What is not as it was, as a sentence; nothing if all is."""
    decision, bandit = settled.decision, models.at(settled.decision.epoch, settled.decision.model)
    found = _difference_of(decision, bandit, models.hashing(bandit.dim), salt)
    return f"decision {settled.sequence} ({decision.event_id}): {found}" if found else ""


def _difference_of(decision: Decision, bandit: Bandit, hashing: Hashing, salt: str) -> str:
    seed = seed_of(salt, decision.event_id, decision.slot)
    if seed != decision.seed:
        return f"the seed is {seed}, and was {decision.seed}"
    allowed = allowed_indices(len(decision.actions), decision.excluded)
    choice = decide(bandit, decision_arms(decision, hashing), allowed, decision.exploration, seed)
    if tuple(choice.probabilities.tolist()) != decision.probabilities:
        return f"the chances are {choice.probabilities.tolist()}, and were {list(decision.probabilities)}"
    if choice.chosen != decision.chosen:
        return f"action {choice.chosen} is drawn, and {decision.chosen} was"
    online = decision.mode is Mode.ONLINE
    shown = choice.chosen if online else baseline_of(decision)
    chance = float(choice.probabilities[shown]) if online else 1.0
    if (shown, chance) != (decision.shown, decision.probability):
        return f"{shown} is shown with chance {chance}, and {decision.shown} was with {decision.probability}"
    return ""


class _Models:
    """Models of a loop at any number, learned again from the beginning of their epoch."""

    def __init__(self, store: EventStore, loop: str, bases: Sequence[Document]) -> None:
        self._store, self._loop, self._oldest = store, loop, bases[0].version
        snapshots = (decode_snapshot(one.body) for one in bases)
        self._bases = {base.epoch: base for base in snapshots}
        self._recent: OrderedDict[tuple[int, int], Bandit] = OrderedDict()
        self._hashings: dict[int, Hashing] = {}
        self.since = min(self._bases)
        """The oldest epoch since which the log is whole."""
        self._begin(self.since)
        self.learned, self.set_aside, self.count = 0, 0, 0

    def _begin(self, epoch: int) -> None:
        base = self._bases[epoch]
        self._epoch, self._number, self._bandit = epoch, base.sequence, Bandit.from_bytes(base.bandit)

    def log_is_whole(self) -> bool:
        """Whether nothing was deleted of the log since the oldest epoch: its base would have gone before."""
        return self._store.documents(self._loop, BASE)[0].version == self._oldest

    def hashing(self, width: int) -> Hashing:
        """For models of this width; it remembers what it has hashed."""
        return self._hashings.setdefault(width, Hashing(width=width))

    def at(self, epoch: int, sequence: int) -> Bandit:
        """The model that had passed this decision."""
        found = self._recent.get((epoch, sequence))
        if found is not None:
            return found
        if epoch != self._epoch or sequence < self._number:
            self._begin(epoch)
        self._advance(sequence)
        self.count += 1
        self._recent[epoch, sequence] = self._bandit.copy()
        if len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)
        return self._recent[epoch, sequence]

    def _advance(self, sequence: int) -> None:
        if self._number >= sequence:
            return
        hashing = self.hashing(self._bandit.dim)
        for outcome in relearn(self._store, self._loop, self._bandit, hashing, self._number, sequence):
            self.learned += outcome is LearningOutcome.LEARNED
            self.set_aside += outcome is LearningOutcome.SET_ASIDE
        self._number = sequence

    def difference_to(self, kept: SavedModel) -> str:
        """What is not as it was in a model that the loop has kept."""
        snapshot = decode_snapshot(kept.body)
        if snapshot.epoch < self.since:
            return ""
        again, was = self.at(snapshot.epoch, snapshot.sequence), Bandit.from_bytes(snapshot.bandit)
        return (
            "" if np.array_equal(again.state, was.state) else f"the kept model {snapshot.sequence} comes out otherwise"
        )
