"""Which decisions of a log may be deleted, so that those that are kept can still be repeated."""

import sys

from glbandits.service.domain.model_snapshots import Snapshot
from glbandits.service.runtime.loops.loop_statistics import END_OF_TIME
from glbandits.service.runtime.replay.relearning import BATCH, model_that_decided
from glbandits.service.storage.event_store import EventStore


def base_of_kept(store: EventStore, loop_name: str, up_to: int) -> Snapshot | None:
    """Return the model from which the decisions after a sequence number can be repeated.

    It is the oldest model that made one of them. So decisions that this model has not learned must be kept too: those
    whose reward windows were open. Returns None if there is no later decision, or if the model cannot be computed.
    """
    kept = [settled.decision for settled in store.settled(loop_name, up_to, END_OF_TIME, BATCH)]
    first = min(
        (decision for decision in kept if not decision.lost_model),
        key=lambda decision: (decision.epoch, decision.learned_through),
        default=None,
    )
    bandit = None if first is None else model_that_decided(store, first, sys.maxsize)
    return None if first is None or bandit is None else Snapshot(first.epoch, first.learned_through, bandit.to_bytes())
