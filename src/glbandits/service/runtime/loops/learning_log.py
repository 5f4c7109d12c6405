"""Log records of what a loop could not learn, or has limited."""

import logging
from collections.abc import Sequence

from glbandits.bandit import Bandit
from glbandits.service.domain.decision_learning import LearningOutcome
from glbandits.service.domain.events import SettledDecision

log = logging.getLogger(__name__)

MAX_LOGGED = 10
"""Events or features that a log record names at most."""
REASONS = {
    LearningOutcome.SET_ASIDE: "cannot be learned and are set aside",
    LearningOutcome.INVALIDATING: "are set aside, because learning them would have made the model invalid",
}


def log_set_aside(loop_name: str, batch: Sequence[SettledDecision], outcomes: Sequence[LearningOutcome]) -> None:
    """Log the decisions of a batch that were set aside."""
    for outcome, why in REASONS.items():
        events = [settled.decision.event_id for settled, own in zip(batch, outcomes, strict=True) if own is outcome]
        if events:
            first = ", ".join(map(repr, events[:MAX_LOGGED]))
            log.warning("Loop %s: %d decisions %s. The first: events %s.", loop_name, len(events), why, first)


def log_outliers(loop_name: str, before: Bandit, after: Bandit) -> None:
    """Log features, and rewards, that have outliers for the first time."""
    known, now = before.outliers, after.outliers
    if now.rewards and not known.rewards:
        log.warning("Loop %s: rewards far outside everything seen before are limited.", loop_name)
    features = [index for index in now.features if index not in known.features]
    if features:
        names = [str(index) if after.features is None else after.features.names[index] for index in features]
        log.warning(
            "Loop %s: values of %d features far outside everything seen before are limited. The first: %s.",
            loop_name,
            len(features),
            ", ".join(names[:MAX_LOGGED]),
        )
