"""A model that learns the log again, to replace one that does not fit a changed configuration."""

import logging
import math
from collections.abc import Callable

from glbandits.common.errors import InvalidInput
from glbandits.maths.links import Link, find_link
from glbandits.service.domain.decision_learning import has_width_of_model
from glbandits.service.domain.events import Aggregation
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.model_snapshots import PublishedModel, check_exact, fits
from glbandits.service.runtime.loops.loop_documents import LoopDocuments
from glbandits.service.runtime.replay.relearning import relearn
from glbandits.service.storage.event_store import EventStore

log = logging.getLogger(__name__)

PROGRESS_SECONDS = 2.0
"""Seconds after which the progress of relearning is saved."""
CHECKED_DECISIONS = 20
"""The newest learned decisions, which a new model must be able to read too."""
MORE_THAN_LOG = "its log does not have all that it has learned (old decisions are deleted, or it comes from a file)"


class Replacement:
    """The model of a changed configuration, as far as it has learned the log.

    Args:
        loop_name: the name of the loop.
        store: has the log.
        documents: where the progress is saved.
        monotonic: seconds of a clock that never steps.
    """

    def __init__(
        self, loop_name: str, store: EventStore, documents: LoopDocuments, monotonic: Callable[[], float]
    ) -> None:
        self._loop_name, self._store, self._documents, self._monotonic = loop_name, store, documents, monotonic
        self.model: PublishedModel | None = None
        self._saved_at = -math.inf

    def step(self, present: PublishedModel, configuration: LoopConfig) -> PublishedModel:
        """Let the model learn a batch of what `present` has learned, and return it. Saves the progress sometimes."""
        new = self.model
        if new is None or new.epoch != present.epoch or not fits(new.bandit, configuration):
            log.info("Loop %s learns its log again, because its settings were changed.", self._loop_name)
            new, self._saved_at = started(present, configuration, after=present.relearn_after or 0), -math.inf
        new, _ = next(relearn(self._store, self._loop_name, new, present.learned_through), (new, []))
        is_complete = new.learned_through >= present.learned_through
        if not is_complete and self._monotonic() - self._saved_at > PROGRESS_SECONDS:
            self._documents.save_progress(new.learned_through)
            self._saved_at = self._monotonic()
        self.model = new
        return new


def started(present: PublishedModel, configuration: LoopConfig, after: int) -> PublishedModel:
    """Return a model of the configuration that has learned nothing, and is to learn the decisions after `after`."""
    new = present.restarted(configuration)
    return new._replace(learned_through=after, relearn_after=after, set_aside=0, invalidating=0)


def model_for(
    configuration: LoopConfig,
    present: PublishedModel,
    store: EventStore,
    loop_name: str,
    aggregation: Aggregation,
    *,
    reset_model: bool,
) -> PublishedModel | None:
    """Return the model with which a changed configuration starts; None if the present one goes on deciding.

    Raises InvalidInput if the log cannot be learned again. `aggregation` is that of the configuration before.
    """
    if not reset_model and fits(present.bandit, configuration):
        return None
    check_exact(configuration)
    restarted = present.restarted(configuration)
    if reset_model or present.learned_through == present.relearn_after:  # the present one has learned nothing
        return restarted
    _check_relearnable(store, loop_name, present, restarted, aggregation)
    return None


def _check_relearnable(
    store: EventStore, loop_name: str, present: PublishedModel, new: PublishedModel, aggregation: Aggregation
) -> None:
    """Raise InvalidInput if a model cannot learn what the present one has learned."""
    logged = store.search(loop_name, "", CHECKED_DECISIONS, before=present.learned_through + 1)
    lost = [
        each
        for each in logged
        if has_width_of_model(each.decision, present.bandit, present.encoder)
        and not has_width_of_model(each.decision, new.bandit, new.encoder)
    ]
    if present.relearn_after is None:
        why = MORE_THAN_LOG
    elif lost or (present.bandit.features is not None and new.bandit.features is None):
        why = f"its decisions have {present.bandit.dim} features, and these settings need {new.bandit.dim}"
    elif aggregation is Aggregation.SUM:  # a sum outside the range of the link is learned as the nearest bound
        return
    else:
        why = _rewards_outside(store.reward_bounds(loop_name), find_link(new.bandit.policy.link))
    if why:
        raise InvalidInput(
            f'the model of loop {loop_name} cannot be learned again: {why}. Send "resetModel": true to start a model '
            "that has learned nothing"
        )


def _rewards_outside(bounds: tuple[float, float] | None, link: Link) -> str:
    """Return how the rewards of the log leave the range of a link; empty if they do not."""
    if bounds is None or (link.lowest_reward <= bounds[0] and bounds[1] <= link.highest_reward):
        return ""
    learned = f"{link.lowest_reward:g} to {link.highest_reward:g}"
    return f"its rewards go from {bounds[0]:g} to {bounds[1]:g}, and the link {link.name} learns {learned}"
