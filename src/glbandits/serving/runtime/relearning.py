"""Learn models again from the log: the model of a decision is a function of the log up to its version."""

from collections.abc import Iterator

from glbandits.bandit import Bandit
from glbandits.serving.domain.events import Decision, SettledDecision
from glbandits.serving.domain.model_snapshots import Snapshot, decode_snapshot
from glbandits.serving.domain.request_map import RequestEncoder, encoder_of
from glbandits.serving.domain.reward_aggregation import LearningOutcome, learn
from glbandits.serving.runtime.learning_loop import BATCH
from glbandits.serving.runtime.loop_documents import BASE
from glbandits.serving.runtime.loop_statistics import END_OF_TIME
from glbandits.serving.storage.event_store import EventStore

EVENTS_PER_DECISION = 10
"""Events in the store, of all loops, for each decision of a loop. Above that a model is not learned again: the number
of decisions between two sequence numbers is only known when they have been read."""


def settled_batches(store: EventStore, loop_name: str, after: int, last: int) -> Iterator[list[SettledDecision]]:
    """Yield the decisions after a sequence number up to another one, in order."""
    while after < last and (page := store.settled(loop_name, after, END_OF_TIME, BATCH)):
        yield [settled for settled in page if settled.sequence <= last]
        after = page[-1].sequence


def relearn(
    store: EventStore, loop_name: str, model: Bandit, encoder: RequestEncoder, after: int, last: int
) -> Iterator[LearningOutcome]:
    """Let the model learn the decisions after a sequence number up to another one, and yield each outcome."""
    for batch in settled_batches(store, loop_name, after, last):
        for settled in batch:
            yield learn(model, settled, encoder)


def model_that_decided(store: EventStore, decision: Decision, most: int) -> Bandit | None:
    """Return the model that made a decision, from a saved model or the base of its epoch.

    Reads the store and learns: 10,000 decisions of 20 actions take 1.2 s to 1.7 s. Returns None if more than `most`
    decisions would have to be learned, or if the log that the model was learned from was deleted.
    """
    start = _start(store, decision)
    if start is None or decision.model - start.sequence > EVENTS_PER_DECISION * most:
        return None
    model = Bandit.from_bytes(start.bandit)
    outcomes = relearn(store, decision.loop, model, encoder_of(model), start.sequence, decision.model)
    if any(count > most for count, _ in enumerate(outcomes, 1)):
        return None
    # The base of an epoch is deleted before the first decision after it. If it is still there, none was missing.
    return model if _base(store, decision) is not None else None


def latest_base(store: EventStore, loop_name: str) -> Bandit | None:
    """Return the model with which the present epoch of a loop began; None if the loop is not in the store."""
    base = store.latest_document(loop_name, BASE)
    return None if base is None else Bandit.from_bytes(decode_snapshot(base.body).bandit)


def _start(store: EventStore, decision: Decision) -> Snapshot | None:
    """The newest model of the decision's epoch in the store that is not newer than the one that decided."""
    saved, base = store.model_at_most(decision.loop, decision.model), _base(store, decision)
    snapshot = None if saved is None else decode_snapshot(saved.body)
    return snapshot if snapshot is not None and snapshot.epoch == decision.epoch else base


def _base(store: EventStore, decision: Decision) -> Snapshot | None:
    bases = (decode_snapshot(document.body) for document in store.documents(decision.loop, BASE))
    return next((base for base in bases if base.epoch == decision.epoch), None)
