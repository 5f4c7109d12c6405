"""What a decision teaches: the rewards that came in time, as one number, for the action that was shown."""

import math
from statistics import median

from glbandits.bandit import Bandit
from glbandits.features import Hashing
from glbandits.maths.links import find_link
from glbandits.serving.domain.events import Aggregation, Decision, Mode, SettledDecision
from glbandits.serving.domain.request_features import decision_arms


def aggregate(rewards: tuple[tuple[int, float], ...], how: Aggregation) -> float:
    """Several rewards as one. It does not depend on the order in which they are listed."""
    values = [value for _, value in rewards]
    if how is Aggregation.EARLIEST:
        return min(rewards)[1]
    if how is Aggregation.SUM:
        return math.fsum(values)  # exact, so that no order gives another last digit
    if how is Aggregation.AVERAGE:
        return math.fsum(values) / len(values)
    if how is Aggregation.MEDIAN:
        return float(median(values))
    return min(values) if how is Aggregation.MIN else max(values)


def reward_of(ripe: SettledDecision) -> float | None:
    """The reward that a decision is learned with; None if it is not learned."""
    decision = ripe.decision
    if decision.mode is Mode.LOGGING or (decision.deferred and not ripe.activated):
        return None
    return aggregate(ripe.rewards, decision.aggregation) if ripe.rewards else decision.default_reward


def learn(model: Bandit, ripe: SettledDecision, hashing: Hashing) -> bool:
    """Let the model learn a decision; says whether there was anything to learn.

    A sum of rewards may leave the range of the policy's link, and is then taken as its end.
    """
    reward = reward_of(ripe)
    if reward is None or not fits(model, ripe.decision, hashing):
        return False
    link = find_link(model.policy.link)
    arms = decision_arms(ripe.decision, hashing)
    model.learn(arms[ripe.decision.shown], min(max(reward, link.lowest_reward), link.highest_reward))
    return True


def fits(model: Bandit, decision: Decision, hashing: Hashing) -> bool:
    """Whether a decision has as many features as the model: one from before another width was set has not."""
    if decision.encoding == "dense":
        return len(decision.request) == 8 * len(decision.actions) * model.dim
    return hashing.width == model.dim
