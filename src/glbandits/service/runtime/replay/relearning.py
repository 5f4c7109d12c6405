"""Compute earlier models of a loop again from the log."""

from collections.abc import Container, Iterator

from glbandits.bandit import Bandit
from glbandits.service.domain.decision_learning import LearningOutcome, learn_batch, repeat_batch
from glbandits.service.domain.events import Decision, SettledDecision
from glbandits.service.domain.model_snapshots import PublishedModel, Snapshot, loadable_snapshot
from glbandits.service.domain.request_features import encoder_of
from glbandits.service.runtime.loops.loop_documents import BASE, read_invalidating
from glbandits.service.runtime.loops.loop_statistics import END_OF_TIME
from glbandits.service.storage.event_store import EventStore

BATCH = 1000
"""Decisions that are read from the store and learned at a time."""
EVENTS_PER_DECISION = 10
"""Sequence numbers from one decision of a loop to the next, at most, by assumption: rewards and other loops use numbers
too. If the log would have too many decisions by this estimate, `model_that_decided` does not read it."""


def settled_batches(store: EventStore, loop_name: str, after: int, last: int) -> Iterator[list[SettledDecision]]:
    """Yield the decisions after a sequence number, up to and including `last`, in batches."""
    while after < last and (page := store.settled(loop_name, after, END_OF_TIME, BATCH)):
        if batch := [settled for settled in page if settled.sequence <= last]:
            yield batch
        after = page[-1].sequence


def relearn(
    store: EventStore, loop_name: str, model: PublishedModel, last: int, invalidating: Container[int] | None = None
) -> Iterator[tuple[PublishedModel, list[LearningOutcome]]]:
    """Let a model learn the log after what it has learned, up to and including `last`.

    Yields the model after each batch, and the outcomes of the batch. `invalidating` are the decisions that the loop set
    aside in the epoch, see `read_invalidating`. None if the model is a new one, which finds those that it must set
    aside.
    """
    for batch in settled_batches(store, loop_name, model.learned_through, last):
        if invalidating is None:
            bandit, outcomes = learn_batch(model.bandit, batch, model.encoder)
        else:
            bandit, outcomes = repeat_batch(model.bandit, batch, model.encoder, invalidating)
        model = model.after(bandit, outcomes)._replace(learned_through=batch[-1].sequence)
        yield model, outcomes
    if model.learned_through < last:
        yield model._replace(learned_through=last), []


def model_that_decided(store: EventStore, decision: Decision, max_decisions: int) -> Bandit | None:
    """Return the model that made a decision, computed from a saved model or a base.

    Reads the store and learns: 10,000 decisions of 20 actions take 1.2 s to 1.7 s. Returns None if more than
    `max_decisions` would have to be learned, or if a needed part of the log was deleted.
    """
    base = _base(store, decision)
    if base is None:
        return None
    start = _start(store, decision, base)
    if decision.learned_through - start.learned_through > EVENTS_PER_DECISION * max_decisions:
        return None
    bandit, count = Bandit.from_bytes(start.bandit), 0
    model = PublishedModel.of_snapshot(start, bandit, encoder_of(bandit))
    skipped = read_invalidating(store, decision.loop, decision.epoch)
    for learned, outcomes in relearn(store, decision.loop, model, decision.learned_through, skipped):
        model, count = learned, count + len(outcomes)
        if count > max_decisions:
            return None
    # The base of an epoch is deleted or replaced before decisions of the epoch. If it is still there, none was missing.
    return model.bandit if _base(store, decision) == base else None


def _start(store: EventStore, decision: Decision, base: Snapshot) -> Snapshot:
    """Return the newest stored model of the decision's epoch that can be loaded, up to the one that decided."""
    saved = store.model_at_most(decision.loop, decision.learned_through)
    snapshot = None if saved is None else loadable_snapshot(saved.body)
    if snapshot is None or snapshot.epoch != base.epoch or snapshot.learned_through < base.learned_through:
        return base
    return snapshot


def _base(store: EventStore, decision: Decision) -> Snapshot | None:
    """Return the base of the decision's epoch, if the model that decided had learned as much."""
    bases = (loadable_snapshot(document.body) for document in store.documents(decision.loop, BASE))
    own = next((base for base in bases if base is not None and base.epoch == decision.epoch), None)
    return own if own is not None and own.learned_through <= decision.learned_through else None
