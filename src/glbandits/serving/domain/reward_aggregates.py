"""Decisions as sums, and what the sums say: rewards, the baseline's, shares, exploration and delays.

The baseline is what would be shown without a model: see `baseline_of`. What it would earn is estimated by
self-normalised inverse propensities: decisions that showed it count 1 / probability, the others nothing. Standard
errors are those of the delta method.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from glbandits.serving.domain.events import Decision, Mode, SettledDecision
from glbandits.serving.domain.reward_aggregation import aggregated_reward, is_usable

NAMES = 64
"""Actions that a tally tells apart. It holds twice as many before it forgets the names of the rarest."""
STEPS = 8
"""Steps of the delay's scale for each doubling: a quantile is within 5 % of the truth."""
ENOUGH, ENOUGH_OF_BASELINE = 100, 30
"""Decisions, and how many of the baseline they are worth, below which it is too early to say anything."""
MOST_UNSUPPORTED = 0.1
"""The share of decisions without any chance of the baseline, above which the rest does not speak for all."""
Z95 = 1.96
"""Standard errors of a 95 % interval to each side."""


class Estimate(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float


class Verdict(StrEnum):
    """Is it learning? By the 95 % interval of the difference to the baseline."""

    EARLY = "early"
    """Too few decisions, or too few that say something of the baseline."""
    SILENT = "silent"
    """No reward came in time: every decision counts the default."""
    APPRENTICE = "apprentice"
    """The baseline was always shown, so there is nothing to compare."""
    BLIND = "blind"
    """In too many decisions the baseline had no chance: they say nothing of it."""
    BETTER = "better"
    SAME = "same"
    """The interval has 0 in it."""
    WORSE = "worse"


def baseline_of(decision: Decision) -> int:
    """Return the index of the action to show without a model: the one that a slot names, or the first allowed one.

    In a mode that shows it, that is the shown one, whether or not the log has it.
    """
    if decision.baseline is not None:
        return decision.baseline
    if decision.mode is not Mode.ONLINE:
        return decision.shown
    return next(index for index in range(len(decision.actions)) if index not in decision.excluded)


@dataclass(slots=True)
class Tally:
    """Sums over decisions. Two of them can be added, so that times can be joined."""

    decisions: int = 0
    explored: int = 0
    """The draw was not the model's most likely action."""
    agreed: int = 0
    """The draw was the baseline."""
    online: int = 0
    """Learned, and shown by the draw."""
    learned: int = 0
    set_aside: int = 0
    """Not learned, because the rewards aggregate to no usable number."""
    missing: int = 0
    """Learned with the default, for want of a reward."""
    baseline_shown: int = 0
    """Learned, and the baseline was shown."""
    unsupported: int = 0
    """Learned, though the baseline had no chance: the estimate of its reward says nothing of these."""
    r: float = 0.0
    rr: float = 0.0
    w: float = 0.0
    wr: float = 0.0
    wrr: float = 0.0
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

    @property
    def difference(self) -> Estimate | None:
        """How much more was earned than the baseline would have. The two are estimated from the same decisions."""
        reward, baseline = self.reward, self.baseline
        if reward is None or baseline is None:
            return None
        R, B, n = reward.value, baseline.value, self.learned
        together = self.wrr - (R + B) * self.wr + R * B * self.w
        variance = reward.error**2 + baseline.error**2 - 2.0 * together / (n * self.w)
        return Estimate(R - B, _root(variance))

    @property
    def verdict(self) -> Verdict:
        """What the sums say."""
        difference = self.difference
        if self.learned < ENOUGH:
            return Verdict.EARLY
        if self.missing == self.learned:
            return Verdict.SILENT
        if not self.online:
            return Verdict.APPRENTICE
        if self.unsupported > MOST_UNSUPPORTED * self.learned:
            return Verdict.BLIND
        if difference is None or self.baseline_worth < ENOUGH_OF_BASELINE:
            return Verdict.EARLY
        if abs(difference.value) <= Z95 * difference.error:
            return Verdict.SAME
        return Verdict.BETTER if difference.value > 0 else Verdict.WORSE

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
    probabilities, online = decision.probabilities, decision.mode is Mode.ONLINE
    tally = Tally(
        decisions=1,
        explored=probabilities[decision.chosen] < max(probabilities),
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
    tally.learned, tally.online, tally.missing = 1, int(online), int(not settled.rewards)
    tally.unsupported = int(online and probabilities[baseline] == 0.0)
    tally.r, tally.rr = r, r * r
    if decision.shown == baseline:
        w = 1.0 / decision.probability
        wr = w * r
        tally.baseline_shown = 1
        tally.w, tally.wr, tally.wrr, tally.ww, tally.wwr, tally.wwrr = w, wr, wr * r, w * w, w * wr, wr * wr
    return tally


def _root(square: float) -> float:
    """Sums that should cancel may come out a little below 0."""
    return math.sqrt(max(0.0, square))
