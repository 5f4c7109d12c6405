"""Let a model learn settled decisions."""

import logging
from collections.abc import Container, Sequence
from enum import StrEnum

import msgspec

from glbandits.bandit import Bandit
from glbandits.common.errors import InvalidInput
from glbandits.maths.links import find_link
from glbandits.maths.sparse_rows import SparseRows
from glbandits.service.domain.events import Decision, SettledDecision
from glbandits.service.domain.loop_config import LARGEST_SPARSE_MODEL
from glbandits.service.domain.request_features import RequestEncoder, arms_of, row_of, width_of
from glbandits.service.domain.reward_aggregation import aggregated_reward, is_usable

log = logging.getLogger(__name__)

UNLEARNABLE = (ValueError, ArithmeticError, LookupError, msgspec.MsgspecError)
"""Errors that reading the same decision raises every time, so there is no use in a retry."""


class LearningOutcome(StrEnum):
    """What a model did with a settled decision."""

    LEARNED = "learned"
    SKIPPED = "skipped"
    """There is nothing to learn: the mode is LoggingOnly, a deferred decision was not activated, or the decision has
    another number of features than the model."""
    SET_ASIDE = "set aside"
    """The decision can never be learned: its aggregated reward is too large, or the model refuses its features."""
    INVALIDATING = "invalidating"
    """Set aside too: learning it raised an unexpected error, or gave a model that could not be loaded again."""


def learn_batch(
    model: Bandit, batch: Sequence[SettledDecision], encoder: RequestEncoder, invalidating: Container[int] = ()
) -> tuple[Bandit, list[LearningOutcome]]:
    """Return a model that has learned a batch in order, and the outcome of each decision. Does not change `model`.

    The returned model is valid if `model` is. A decision that makes the model invalid is set aside, and all others are
    learned. To find it, each half of the batch is learned alone. So a batch without such decisions is checked once,
    and k of n decisions cost about k log2(n) copies and checks, each as long as the state. To check the model after
    every decision would take 0.1 s a decision for large models.

    The result depends on how the log is cut into batches: a model may become invalid, and valid again by later
    decisions. So a loop stores which decisions these are before it publishes the model, and `repeat_batch`
    computes the same model in any batches.

    Args:
        model: a valid model.
        batch: the decisions.
        encoder: encodes requests for the model.
        invalidating: sequence numbers of decisions that are known to make the model invalid, and are not tried.

    Raises:
        MemoryError, OSError: after which the caller may try again: they do not come from a decision.
    """
    try:
        learned, outcomes = repeat_batch(model, batch, encoder, invalidating)
        if learned.is_valid():
            return learned, outcomes
    except (MemoryError, OSError):
        raise
    except Exception as error:
        log.debug("An error occurred in learning %d decisions", len(batch), exc_info=error)
    if len(batch) == 1:
        return model, [LearningOutcome.INVALIDATING]
    middle = len(batch) // 2
    first, first_outcomes = learn_batch(model, batch[:middle], encoder, invalidating)
    both, second_outcomes = learn_batch(first, batch[middle:], encoder, invalidating)
    return both, first_outcomes + second_outcomes


def repeat_batch(
    model: Bandit, batch: Sequence[SettledDecision], encoder: RequestEncoder, invalidating: Container[int]
) -> tuple[Bandit, list[LearningOutcome]]:
    """Return a model that has learned a batch without the decisions in `invalidating`. Does not check it."""
    learned = model.copy()
    learned.warns_of_outliers = False  # the loop logs them
    outcomes = [
        LearningOutcome.INVALIDATING if settled.sequence in invalidating else _learn(learned, settled, encoder)
        for settled in batch
    ]
    return learned, outcomes


def _learn(model: Bandit, settled: SettledDecision, encoder: RequestEncoder) -> LearningOutcome:
    """Let the model learn a decision, in place.

    The same model and decision always have the same outcome. A sum of rewards outside the range of the policy's link is
    learned as the nearest bound. A sparse model of the largest size learns no new features. If an error other than
    InvalidInput occurs in the policy, it is raised, because the model may have learned a part.
    """
    try:
        reward = aggregated_reward(settled)
        if reward is None or not has_width_of_model(settled.decision, model, encoder):
            return LearningOutcome.SKIPPED
        if not is_usable(reward):
            return LearningOutcome.SET_ASIDE
        link = find_link(model.policy.link)
        row = row_of(arms_of(settled.decision, encoder), settled.decision.shown)
        if isinstance(row, SparseRows):
            row = model.learnable(row, LARGEST_SPARSE_MODEL)
    except UNLEARNABLE:
        return LearningOutcome.SET_ASIDE
    try:
        model.learn(row, min(max(reward, link.lowest_reward), link.highest_reward))
    except InvalidInput:  # raised before the state changes
        return LearningOutcome.SET_ASIDE
    return LearningOutcome.LEARNED


def has_width_of_model(decision: Decision, model: Bandit, encoder: RequestEncoder) -> bool:
    """Return whether a decision has as many features as the model. Older ones differ if the width was changed."""
    return width_of(decision, encoder) == model.dim
