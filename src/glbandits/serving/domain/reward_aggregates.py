"""Decisions as sums, and what the sums say: rewards, the baseline's, shares, exploration and delays.

The baseline is what would be shown without a model: see `baseline_of`. What it would earn is estimated by
self-normalised inverse propensities: decisions that showed it count 1 / probability, the others nothing. Standard
errors are those of the delta method.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import NamedTuple

from glbandits.serving.domain.events import Decision, Mode, SettledDecision
from glbandits.serving.domain.reward_aggregation import aggregated_reward, is_usable

NAMES = 64
"""Actions that a tally tells apart. It holds twice as many before it forgets the names of the rarest."""
STEPS = 8
"""Steps of the delay's scale for each doubling: a quantile is within 5 % of the truth."""


class Estimate(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float


def baseline_of(decision: Decision) -> int | None:
    """Return the index of the action to show without a model: the one that a slot names, or the first allowed one.

    In a mode that shows it, that is the shown one, whether or not the log has it. A decision from a catalogue has none
    unless the request named it.
    """
    if decision.baseline is not None:
        return decision.baseline
    if decision.mode is not Mode.ONLINE:
        return decision.shown
    if decision.catalogue is not None:
        return None
    return next(index for index in range(len(decision.actions)) if index not in decision.excluded)


@dataclass(slots=True)
class Tally:
    """Sums over decisions. Two of them can be added, so that times can be joined."""

    decisions: int = 0
    explored: int = 0
    """The draw was not the model's most likely action."""
    agreed: int = 0
    """The draw was the baseline."""
    learned: int = 0
    set_aside: int = 0
    """Not learned, because the rewards aggregate to no usable number."""
    missing: int = 0
    """Learned with the default, for want of a reward."""
    baseline_shown: int = 0
    """Learned, and the baseline was shown."""
    r: float = 0.0
    rr: float = 0.0
    w: float = 0.0
    wr: float = 0.0
    ww: float = 0.0
    wwr: float = 0.0
    wwrr: float = 0.0
    """Sums of products of the reward r and the weight w = 1{the baseline was shown} / probability."""
    others: int = 0
    """Decisions that showed actions whose names were forgotten."""
    actions: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    delays: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Decisions by the delay of their first reward, on a logarithmic scale."""

    def add(self, other: "Tally") -> None:
        """Count what the other has counted as well."""
        for name in SUMS:
            if value := getattr(other, name):
                setattr(self, name, getattr(self, name) + value)
        for action, count in other.actions.items():
            self.actions[action] += count
        for step, count in other.delays.items():
            self.delays[step] += count
        if len(self.actions) > 2 * NAMES:
            for name, count in self.frequent()[NAMES:]:
                self.others += count
                del self.actions[name]

    def frequent(self) -> list[tuple[str, int]]:
        """Actions and how often each was shown, the most frequent first."""
        return sorted(self.actions.items(), key=lambda item: (-item[1], item[0]))

    @property
    def reward(self) -> Estimate | None:
        """The mean reward of what was shown."""
        if not self.learned:
            return None
        mean = self.r / self.learned
        return Estimate(mean, _root(self.rr - self.r * mean) / self.learned)

    @property
    def baseline(self) -> Estimate | None:
        """The mean reward that the baseline would have."""
        if not self.baseline_shown:
            return None
        mean = self.wr / self.w
        return Estimate(mean, _root(self._baseline_spread(mean)) / self.w)

    @property
    def baseline_worth(self) -> float:
        """How many decisions of equal weight would tell as much of the baseline: (sum of w)^2 / (sum of w^2).

        With few of them the standard error is a guess: one great weight makes the mean its own reward.
        """
        return self.w * self.w / self.ww if self.ww else 0.0

    def _baseline_spread(self, mean: float) -> float:
        """The sum of w^2 (r - mean)^2."""
        return self.wwrr - mean * (2.0 * self.wwr - mean * self.ww)

    def delay(self, share: float) -> float | None:
        """Microseconds within which this share of the first rewards came; None if none has come."""
        steps = sorted(self.delays)
        for step, below in zip(steps, accumulate(self.delays[step] for step in steps), strict=True):
            if below >= share * sum(self.delays.values()):
                return math.exp2(step / STEPS) - 1.0
        return None


SUMS = tuple(each.name for each in fields(Tally) if each.name not in ("actions", "delays"))


def tally_of(settled: SettledDecision) -> Tally:
    """The tally of one decision that the model has learned, or passed over."""
    decision, baseline = settled.decision, baseline_of(settled.decision)
    tally = Tally(
        decisions=1,
        explored=decision.probabilities[decision.chosen] < decision.highest_probability,
        agreed=decision.chosen == baseline,
    )
    tally.actions[decision.actions[decision.shown]] = 1
    if settled.rewards:
        delay = max(0, min(settled.rewards)[0] - decision.timestamp)
        tally.delays[round(STEPS * math.log2(1 + delay))] = 1
    r = aggregated_reward(settled)
    if r is None or not is_usable(r):
        tally.set_aside = int(r is not None)
        return tally
    tally.learned, tally.missing = 1, int(not settled.rewards)
    tally.r, tally.rr = r, r * r
    if decision.shown == baseline:
        w = 1.0 / decision.probability
        wr = w * r
        tally.baseline_shown = 1
        tally.w, tally.wr, tally.ww, tally.wwr, tally.wwrr = w, wr, w * w, w * wr, wr * wr
    return tally


def _root(square: float) -> float:
    """Sums that should cancel may come out a little below 0."""
    return math.sqrt(max(0.0, square))
