"""Decisions as sums, and what the sums say: rewards, the baseline's, shares, exploration and delays.

The baseline is what would be shown without a model: see `baseline_of`. What it would earn is estimated by
self-normalised inverse propensities: decisions that showed it count 1 / probability, the others nothing. Standard
errors are those of the delta method.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import NamedTuple, TypeVar

from glbandits.serving.domain.events import Decision, Mode, SettledDecision
from glbandits.serving.domain.reward_aggregation import has_unusable_rewards, reward_of

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

Name = TypeVar("Name", int, str)


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


class Observation(NamedTuple):
    """What is counted of a decision."""

    action: str
    """The one that was shown."""
    explored: bool
    agreed: bool
    reward: float | None
    """What was learned; None if it was not."""
    missing: bool
    online: bool
    weight: float
    """1 / probability if the baseline was shown, else 0."""
    supported: bool
    delay: int | None
    """The step of the scale; None if no reward came in time."""
    set_aside: bool = False
    """The rewards aggregate to no number that can be learned."""


def observation_of(settled: SettledDecision) -> Observation:
    """What is counted of a decision that the learner has passed."""
    decision, baseline = settled.decision, baseline_of(settled.decision)
    chances, online = decision.probabilities, decision.mode is Mode.ONLINE
    return Observation(
        action=decision.actions[decision.shown],
        explored=chances[decision.chosen] < max(chances),
        agreed=decision.chosen == baseline,
        reward=reward_of(settled),
        missing=not settled.rewards,
        online=online,
        weight=1.0 / decision.probability if decision.shown == baseline else 0.0,
        supported=not online or chances[baseline] > 0.0,
        delay=_step(min(settled.rewards)[0] - decision.timestamp) if settled.rewards else None,
        set_aside=has_unusable_rewards(settled),
    )


def _step(microseconds: int) -> int:
    return round(STEPS * math.log2(1 + max(0, microseconds)))


def baseline_of(decision: Decision) -> int:
    """The place of the action that would be shown without a model: the one that a slot names, or the first allowed one.

    In a mode that shows it, that is the shown one, whether or not the log has it.
    """
    if decision.baseline is not None:
        return decision.baseline
    if decision.mode is not Mode.ONLINE:
        return decision.shown
    return next(place for place in range(len(decision.actions)) if place not in decision.excluded)


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
    actions: dict[str, int] = field(default_factory=dict)
    delays: dict[int, int] = field(default_factory=dict)
    """Decisions by the delay of their first reward, on a logarithmic scale."""

    def add(self, one: Observation) -> None:
        """One more decision."""
        self.decisions += 1
        self.explored += one.explored
        self.agreed += one.agreed
        self.set_aside += one.set_aside
        self.actions[one.action] = self.actions.get(one.action, 0) + 1
        if len(self.actions) > 2 * NAMES:
            self._forget_rare_names()
        if one.delay is not None:
            self.delays[one.delay] = self.delays.get(one.delay, 0) + 1
        if one.reward is None:
            return
        self.learned += 1
        self.online += one.online
        self.missing += one.missing
        self.unsupported += not one.supported
        self.r += one.reward
        self.rr += one.reward * one.reward
        if one.weight:
            self._add_baseline(one.weight, one.reward)

    def _add_baseline(self, weight: float, reward: float) -> None:
        self.baseline_shown += 1
        weighted = weight * reward
        self.w += weight
        self.wr += weighted
        self.wrr += weighted * reward
        self.ww += weight * weight
        self.wwr += weight * weighted
        self.wwrr += weighted * weighted

    def join(self, other: "Tally") -> None:
        """Count what the other has counted as well."""
        for name in SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        _join_counts(self.actions, other.actions)
        _join_counts(self.delays, other.delays)
        if len(self.actions) > 2 * NAMES:
            self._forget_rare_names()

    def _forget_rare_names(self) -> None:
        rare = self.frequent()[NAMES:]
        self.others += sum(count for _, count in rare)
        for name, _ in rare:
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
        count = sum(self.delays.values())
        for step, below in _running(self.delays):
            if below >= share * count:
                return math.exp2(step / STEPS) - 1.0
        return None


SUMS = tuple(one.name for one in fields(Tally) if one.name not in ("actions", "delays"))


def _join_counts(mine: dict[Name, int], theirs: dict[Name, int]) -> None:
    for name, count in theirs.items():
        mine[name] = mine.get(name, 0) + count


def _running(counts: dict[int, int]) -> Iterator[tuple[int, int]]:
    below = 0
    for step in sorted(counts):
        below += counts[step]
        yield step, below


def _root(square: float) -> float:
    """Sums that should cancel may come out a little below 0."""
    return math.sqrt(max(0.0, square))
