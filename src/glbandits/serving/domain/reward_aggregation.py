"""Aggregate the rewards of a settled decision, and let a model learn the result."""

import math
from enum import StrEnum
from statistics import median

import msgspec

from glbandits.bandit import Bandit
from glbandits.errors import MAX_ABS
from glbandits.maths.links import find_link
from glbandits.maths.sparse_rows import SparseRows
from glbandits.serving.domain.events import Aggregation, Decision, Mode, SettledDecision
from glbandits.serving.domain.loop_config import LARGEST_SPARSE_MODEL
from glbandits.serving.domain.request_features import RequestEncoder, arms_of, row_of, width_of

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


def aggregate(rewards: tuple[tuple[int, float], ...], how: Aggregation) -> float:
    """Combine the rewards of a decision. NaN if the result is too large for a float.

    The result does not depend on the order of the rewards.
    """
    values = [value for _, value in rewards]
    if how is Aggregation.EARLIEST:
        return min(rewards)[1]
    if how is Aggregation.MEDIAN:
        return float(median(values))
    if how is Aggregation.MIN or how is Aggregation.MAX:
        return min(values) if how is Aggregation.MIN else max(values)
    try:
        total = math.fsum(values)  # exact, so that no order gives another last digit
    except OverflowError:
        return math.nan
    return total if how is Aggregation.SUM else total / len(values)


def aggregated_reward(settled: SettledDecision) -> float | None:
    """Return the aggregated reward of a decision; None if the decision is not to be learned.

    The reward may be too large to be learned, see `is_usable`.
    """
    decision = settled.decision
    if decision.mode is Mode.LOGGING or (decision.deferred and not settled.activated):
        return None
    return aggregate(settled.rewards, decision.aggregation) if settled.rewards else decision.default_reward


def is_usable(reward: float) -> bool:
    """Return whether a policy can learn a reward of this size."""
    return abs(reward) <= MAX_ABS


def reward_of(settled: SettledDecision) -> float | None:
    """Return the reward that the model learns for a decision; None if it learns none."""
    reward = aggregated_reward(settled)
    return None if reward is None or not is_usable(reward) else reward


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
    """Return whether a decision has as many features as the model.

    Older ones differ after a change of the width.
    """
    return width_of(decision, encoder) == model.dim
