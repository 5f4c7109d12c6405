"""Compute earlier models of a loop again from the log."""

from collections.abc import Iterator

from glbandits.bandit import Bandit
from glbandits.serving.domain.decision_learning import LearningOutcome, learn
from glbandits.serving.domain.events import Decision, SettledDecision
from glbandits.serving.domain.model_snapshots import Snapshot, decode_snapshot
from glbandits.serving.domain.request_features import RequestEncoder, encoder_of
from glbandits.serving.runtime.loops.learning_loop import BATCH
from glbandits.serving.runtime.loops.loop_documents import BASE
from glbandits.serving.runtime.loops.loop_statistics import END_OF_TIME
from glbandits.serving.storage.event_store import EventStore

EVENTS_PER_DECISION = 10
"""Sequence numbers from one decision of a loop to the next, at most, by assumption: rewards and other loops use numbers
too. If the log would have too many decisions by this estimate, `model_that_decided` does not read it."""


def settled_batches(store: EventStore, loop_name: str, after: int, last: int) -> Iterator[list[SettledDecision]]:
    """Yield the decisions after a sequence number, up to and including `last`, in batches."""
    while after < last and (page := store.settled(loop_name, after, END_OF_TIME, BATCH)):
        yield [settled for settled in page if settled.sequence <= last]
        after = page[-1].sequence


def relearn(
    store: EventStore, loop_name: str, model: Bandit, encoder: RequestEncoder, after: int, last: int
) -> Iterator[LearningOutcome]:
    """Let the model learn the decisions after a sequence number, up to and including `last`.

    Yields each outcome.
    """
    for batch in settled_batches(store, loop_name, after, last):
        for settled in batch:
            yield learn(model, settled, encoder)


def model_that_decided(store: EventStore, decision: Decision, max_decisions: int) -> Bandit | None:
    """Return the model that made a decision, computed from a saved model or a base.

    Reads the store and learns: 10,000 decisions of 20 actions take 1.2 s to 1.7 s. Returns None if more than
    `max_decisions` would have to be learned, or if a needed part of the log was deleted.
    """
    start = _start(store, decision)
    if start is None or decision.learned_through - start.learned_through > EVENTS_PER_DECISION * max_decisions:
        return None
    model = Bandit.from_bytes(start.bandit)
    outcomes = relearn(store, decision.loop, model, encoder_of(model), start.learned_through, decision.learned_through)
    if any(count > max_decisions for count, _ in enumerate(outcomes, 1)):
        return None
    # The base of an epoch is deleted before decisions of the epoch. If it is still there, no decision was missing.
    return model if _base(store, decision) is not None else None


def latest_base(store: EventStore, loop_name: str) -> Bandit | None:
    """Return the model that started the present epoch of a loop; None for a new loop."""
    base = store.latest_document(loop_name, BASE)
    return None if base is None else Bandit.from_bytes(decode_snapshot(base.body).bandit)


def _start(store: EventStore, decision: Decision) -> Snapshot | None:
    """Return the newest stored model of the decision's epoch, up to the one that decided."""
    saved, base = store.model_at_most(decision.loop, decision.learned_through), _base(store, decision)
    snapshot = None if saved is None else decode_snapshot(saved.body)
    return snapshot if snapshot is not None and snapshot.epoch == decision.epoch else base


def _base(store: EventStore, decision: Decision) -> Snapshot | None:
    bases = (decode_snapshot(document.body) for document in store.documents(decision.loop, BASE))
    return next((base for base in bases if base.epoch == decision.epoch), None)
