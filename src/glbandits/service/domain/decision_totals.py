"""Sums over decisions: rewards, exploration, shares of actions, reward delays.

The baseline is the action to show without a model (`baseline_of`). Its mean reward is estimated by self-normalised
inverse propensity weights: a decision that showed the baseline has the weight 1 / probability, others have 0. Standard
errors are those of the delta method. Means of rewards are those of the loop: decisions of the control group and repeats
of sticky units do not count for them.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field, fields
from itertools import accumulate

import msgspec

from glbandits.service.domain.events import Decision, SettledDecision
from glbandits.service.domain.reward_aggregation import reward_of

MAX_NAMES = 64
"""Actions that are counted by name. With more than twice as many, the rarest are no longer counted."""
STEPS_PER_DOUBLING = 8
"""Resolution of the logarithmic scale of delays: a quantile is within 5 % of the exact one."""


class MeanWithError(msgspec.Struct, frozen=True):
    """A mean and its standard error."""

    value: float
    error: float


def baseline_of(decision: Decision) -> int:
    """Return the index of the action to show without a model.

    That is the baseline of the request, or else the first allowed action.
    """
    if decision.baseline is not None:
        return decision.baseline
    return next(index for index in range(len(decision.actions)) if index not in decision.excluded)


@dataclass(slots=True)
class DecisionTotals:
    """Sums over decisions. The totals of two time buckets can be added."""

    decisions: int = 0
    explored: int = 0
    """Decisions in which the drawn action was not the most likely one. Repeats and decisions of the control group
    do not count."""
    agreed: int = 0
    """Decisions in which the drawn action was the baseline."""
    with_values: int = 0
    """Decisions whose actions have values, so that the model decides by payoff."""
    learned: int = 0
    missing: int = 0
    """Learned decisions that got the default reward, because no reward came in time."""
    compared: int = 0
    """Learned decisions that count for the means of rewards."""
    baseline_shown: int = 0
    """Compared decisions that showed the baseline."""
    r: float = 0.0
    rr: float = 0.0
    w: float = 0.0
    wr: float = 0.0
    ww: float = 0.0
    wwr: float = 0.0
    wwrr: float = 0.0
    """Sums over compared decisions of products of the reward r and the weight w: `wwr` is the sum of w^2 r. The weight
    is 1 / probability if the baseline was shown, else 0."""
    actions: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Decisions by the id of the shown action."""
    delays: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Decisions by the delay of their first reward, on a logarithmic scale."""

    def add(self, other: "DecisionTotals") -> None:
        """Add other totals to these."""
        for name in SUMS:
            if value := getattr(other, name):
                setattr(self, name, getattr(self, name) + value)
        for action, count in other.actions.items():
            self.actions[action] += count
        for step, count in other.delays.items():
            self.delays[step] += count
        if len(self.actions) > 2 * MAX_NAMES:
            for name, _ in self.frequent()[MAX_NAMES:]:
                del self.actions[name]

    def frequent(self) -> list[tuple[str, int]]:
        """Return the actions counted by name and their counts, the most frequent first."""
        return sorted(self.actions.items(), key=lambda item: (-item[1], item[0]))

    @property
    def reward(self) -> MeanWithError | None:
        """The mean reward of the compared decisions."""
        if not self.compared:
            return None
        mean = self.r / self.compared
        return MeanWithError(mean, _root(self.rr - self.r * mean) / self.compared)

    @property
    def baseline(self) -> MeanWithError | None:
        """The estimated mean reward of the baseline; None if it was never shown."""
        if not self.baseline_shown:
            return None
        mean = self.wr / self.w
        spread = self.wwrr - mean * (2.0 * self.wwr - mean * self.ww)  # the sum of w^2 (r - mean)^2
        return MeanWithError(mean, _root(spread) / self.w)

    @property
    def baseline_sample_size(self) -> float:
        """The effective sample size of the baseline's mean: (sum of w)^2 / (sum of w^2).

        If it is small, the standard error is unreliable, because a single large weight dominates the mean.
        """
        return self.w * self.w / self.ww if self.ww else 0.0

    def delay(self, share: float) -> float | None:
        """Return a quantile of the delay of first rewards, in microseconds; None without rewards."""
        steps = sorted(self.delays)
        for step, below in zip(steps, accumulate(self.delays[step] for step in steps), strict=True):
            if below >= share * sum(self.delays.values()):
                return math.exp2(step / STEPS_PER_DOUBLING) - 1.0
        return None


SUMS = tuple(field.name for field in fields(DecisionTotals) if field.name not in ("actions", "delays"))


def totals_of(settled: SettledDecision) -> DecisionTotals:
    """Return the totals of one settled decision, learned or not."""
    decision, baseline = settled.decision, baseline_of(settled.decision)
    is_compared = decision.is_drawn or decision.is_stopped
    totals = DecisionTotals(
        decisions=1,
        explored=is_compared and decision.probabilities[decision.chosen] < max(decision.probabilities),
        agreed=decision.chosen == baseline,
        with_values=decision.values is not None,
    )
    totals.actions[decision.actions[decision.shown]] = 1
    if settled.rewards:
        delay = max(0, min(settled.rewards)[0] - decision.timestamp)
        totals.delays[round(STEPS_PER_DOUBLING * math.log2(1 + delay))] = 1
    r = reward_of(settled)
    if r is None:
        return totals
    totals.learned, totals.missing = 1, int(not settled.rewards)
    if not is_compared:
        return totals
    totals.compared, totals.r, totals.rr = 1, r, r * r
    if decision.shown == baseline:
        w = 1.0 / decision.probability
        wr = w * r
        totals.baseline_shown = 1
        totals.w, totals.wr, totals.ww, totals.wwr, totals.wwrr = w, wr, w * w, w * wr, wr * wr
    return totals


def _root(square: float) -> float:
    """Return the square root; 0 for a negative number, because rounding may make a sum slightly negative."""
    return math.sqrt(max(0.0, square))
