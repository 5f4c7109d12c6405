"""Verify: make every decision of a log again, learn every model again, and see that all is the same, bit for bit."""

from collections import OrderedDict
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from glbandits.bandit import Bandit
from glbandits.features import Hashing
from glbandits.serving.arms import decision_arms
from glbandits.serving.deciding import allowed_places, decide, seed_of
from glbandits.serving.events import Decision, Mode, Ripe
from glbandits.serving.learning import learn
from glbandits.serving.loop import BASE, IDENTITY
from glbandits.serving.models import Identity, decode_snapshot
from glbandits.serving.store import EventStore
from glbandits.serving.tally import baseline_of

BATCH = 1000
END_OF_TIME = 2**62
"""When the wait of every decision is over, in microseconds."""
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
    """Make every decision of a loop again, from its log alone.

    Args:
        store: of the loop; a server may be running on it.
        loop: its name.
        progress: called with the number of decisions made again so far.
    """
    identity = store.documents(loop, IDENTITY)
    if not identity or store.latest_document(loop, BASE) is None:  # nothing was decided yet
        return Verified(decisions=0, unchecked=0, learned=0, models=0, different=0, sentences=())
    salt = msgspec.json.decode(identity[0].body, type=Identity).salt
    models, sentences, decisions, unchecked, different = _Models(store, loop), list[str](), 0, 0, 0
    for ripe in _all(store, loop, 0):
        if ripe.decision.epoch < models.since:
            unchecked += 1
            continue
        decision, bandit = ripe.decision, models.at(ripe.decision.epoch, ripe.decision.model)
        found = _difference(decision, bandit, models.hashing(bandit.dim), salt)
        decisions += 1
        if found:
            different += 1
            sentences += [f"decision {ripe.number} ({decision.event_id}): {found}"] if different <= MOST_SAID else []
        if progress is not None and decisions % BATCH == 0:
            progress(decisions)
    wrong = models.difference_to_kept()
    return Verified(
        decisions=decisions,
        unchecked=unchecked,
        learned=models.learned,
        models=models.count,
        different=different + bool(wrong),
        sentences=(*sentences, *([wrong] if wrong else [])),
    )


def _all(store: EventStore, loop: str, after: int) -> Iterator[Ripe]:
    """Every decision after a number, in order."""
    while batch := store.ripe(loop, after, END_OF_TIME, BATCH):
        yield from batch
        after = batch[-1].number


def _difference(decision: Decision, bandit: Bandit, hashing: Hashing, salt: str) -> str:
    """What is not as it was; nothing if all is."""
    seed = seed_of(salt, decision.event_id, decision.slot)
    if seed != decision.seed:
        return f"the seed is {seed}, and was {decision.seed}"
    allowed = allowed_places(len(decision.actions), decision.excluded)
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

    def __init__(self, store: EventStore, loop: str) -> None:
        self._store, self._loop = store, loop
        bases = (decode_snapshot(one.body) for one in store.documents(loop, BASE))
        self._bases = {base.epoch: base for base in bases}
        self._recent: OrderedDict[tuple[int, int], Bandit] = OrderedDict()
        self._hashings: dict[int, Hashing] = {}
        self.since = min(self._bases)
        """The oldest epoch since which the log is whole."""
        self._begin(self.since)
        self.learned, self.count = 0, 0

    def _begin(self, epoch: int) -> None:
        base = self._bases[epoch]
        self._epoch, self._number, self._bandit = epoch, base.number, Bandit.from_bytes(base.bandit)

    def hashing(self, width: int) -> Hashing:
        """For models of this width; it remembers what it has hashed."""
        return self._hashings.setdefault(width, Hashing(width=width))

    def at(self, epoch: int, number: int) -> Bandit:
        """The model that had passed this decision."""
        found = self._recent.get((epoch, number))
        if found is not None:
            return found
        if epoch != self._epoch or number < self._number:
            self._begin(epoch)
        self._advance(number)
        self.count += 1
        self._recent[epoch, number] = self._bandit.copy()
        if len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)
        return self._recent[epoch, number]

    def _advance(self, number: int) -> None:
        if self._number >= number:
            return
        for ripe in _all(self._store, self._loop, self._number):
            if ripe.number > number:
                break
            self.learned += learn(self._bandit, ripe, self.hashing(self._bandit.dim))
        self._number = number

    def difference_to_kept(self) -> str:
        """What is not as it was in the last model that the loop has kept."""
        kept = self._store.latest_model(self._loop)
        if kept is None:
            return ""
        snapshot = decode_snapshot(kept.body)
        if snapshot.epoch < self.since:
            return ""
        again, was = self.at(snapshot.epoch, snapshot.number), Bandit.from_bytes(snapshot.bandit)
        return "" if np.array_equal(again.state, was.state) else f"the kept model {snapshot.number} comes out otherwise"
