"""The reward of a settled decision: its rewards combined, or the default reward."""

import math
from statistics import median

from glbandits.common.errors import MAX_ABS
from glbandits.service.domain.events import Aggregation, Mode, SettledDecision


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
    if decision.mode is Mode.LOGGING or (decision.deferred and not settled.activated) or not settled.observed:
        return None
    return aggregate(settled.rewards, decision.aggregation) if settled.rewards else decision.default_reward


def is_usable(reward: float) -> bool:
    """Return whether a policy can learn a reward of this size."""
    return abs(reward) <= MAX_ABS


def reward_of(settled: SettledDecision) -> float | None:
    """Return the reward that the model learns for a decision; None if it learns none."""
    reward = aggregated_reward(settled)
    return None if reward is None or not is_usable(reward) else reward
