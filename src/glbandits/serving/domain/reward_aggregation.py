"""What a settled decision teaches: its rewards as one number, for the action that was shown."""

import math
from enum import StrEnum
from statistics import median

import msgspec

from glbandits.bandit import Bandit
from glbandits.errors import MAX_ABS
from glbandits.maths.links import find_link
from glbandits.maths.sparse_rows import SparseRows
from glbandits.serving.domain.action_selection import arms_of, width_of
from glbandits.serving.domain.arm_rows import row_of
from glbandits.serving.domain.events import Aggregation, Decision, Mode, SettledDecision
from glbandits.serving.domain.loop_config import LARGEST_SPARSE_MODEL
from glbandits.serving.domain.request_map import RequestEncoder

UNLEARNABLE = (ValueError, ArithmeticError, LookupError, msgspec.MsgspecError)
"""Errors that learning the same decision raises every time. InvalidInput is a ValueError."""


class LearningOutcome(StrEnum):
    """What became of a settled decision."""

    LEARNED = "learned"
    SKIPPED = "skipped"
    """Nothing to learn: the loop only logged, the decision was never activated, or it has the features of another
    width."""
    SET_ASIDE = "set aside"
    """The decision cannot be learned, now or later: its rewards aggregate to no usable number, or the model refuses
    its features."""


def aggregate(rewards: tuple[tuple[int, float], ...], how: Aggregation) -> float:
    """Combine the rewards of a decision, whatever their order. NaN if the result is too large for a float."""
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
    """Combine the rewards of a decision; None if it is not learned. The result may be too large to be learned."""
    decision = settled.decision
    if decision.mode is Mode.LOGGING or (decision.deferred and not settled.activated):
        return None
    return aggregate(settled.rewards, decision.aggregation) if settled.rewards else decision.default_reward


def is_usable(reward: float) -> bool:
    """Whether a policy can learn a reward of this size."""
    return abs(reward) <= MAX_ABS


def reward_of(settled: SettledDecision) -> float | None:
    """The reward that a decision is learned with; None if it is not learned."""
    reward = aggregated_reward(settled)
    return None if reward is None or not is_usable(reward) else reward


def learn(model: Bandit, settled: SettledDecision, encoder: RequestEncoder) -> LearningOutcome:
    """Let the model learn a decision. The same model and decision always have the same outcome.

    A sum of rewards outside the range of the policy's link is learned as the nearest end of the range. A sparse model
    that is as large as it may be learns no features that are new to it.
    """
    try:
        reward = aggregated_reward(settled)
        if reward is None or not fits(model, settled.decision, encoder):
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


def fits(model: Bandit, decision: Decision, encoder: RequestEncoder) -> bool:
    """Whether a decision has as many features as the model. Decisions from before a change of the width have not."""
    return width_of(decision, encoder) == model.dim
