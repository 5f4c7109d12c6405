"""Let a model learn a settled decision."""

from enum import StrEnum

import msgspec

from glbandits.bandit import Bandit
from glbandits.maths.links import find_link
from glbandits.maths.sparse_rows import SparseRows
from glbandits.serving.domain.events import Decision, SettledDecision
from glbandits.serving.domain.loop_config import LARGEST_SPARSE_MODEL
from glbandits.serving.domain.request_features import RequestEncoder, arms_of, row_of, width_of
from glbandits.serving.domain.reward_aggregation import aggregated_reward, is_usable

UNLEARNABLE = (ValueError, ArithmeticError, LookupError, msgspec.MsgspecError)
"""Errors that learning the same decision raises every time, so there is no use in a retry."""


class LearningOutcome(StrEnum):
    """What a model did with a settled decision."""

    LEARNED = "learned"
    SKIPPED = "skipped"
    """There is nothing to learn: the mode is LoggingOnly, a deferred decision was not activated, or the decision has
    another number of features than the model."""
    SET_ASIDE = "set aside"
    """The decision can never be learned: its aggregated reward is too large, or the model refuses its features."""


def learn(model: Bandit, settled: SettledDecision, encoder: RequestEncoder) -> LearningOutcome:
    """Let the model learn a decision.

    The same model and decision always have the same outcome. A sum of rewards outside the range of the policy's link is
    learned as the nearest bound. A sparse model of the largest size learns no new features.
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
        model.learn(row, min(max(reward, link.lowest_reward), link.highest_reward))
    except UNLEARNABLE:
        return LearningOutcome.SET_ASIDE
    return LearningOutcome.LEARNED


def has_width_of_model(decision: Decision, model: Bandit, encoder: RequestEncoder) -> bool:
    """Return whether a decision has as many features as the model. Older ones differ if the width was changed."""
    return width_of(decision, encoder) == model.dim
