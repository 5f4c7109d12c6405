"""Evidence on whether a loop earns more than its baseline: confidence sequences over its settled decisions.

The difference of a decision is the expected reward of what was shown, minus that of the baseline. With p the logged
probability of the baseline, a decision that showed another action has weight 1 in its doubly robust estimate, and one
that showed the baseline has -(1 - p) / p. All other actions have the same weight, so they count as one.

The sequences (`confidence_sequence`) hold at every decision at once. They assume that draws follow the logged
probabilities given all that came before: not that rewards are independent, nor that models or visitors stay the same.

The learner extends the evidence with each batch, in the order of the log, and saves it with the model. So it outlives
restarts, takeovers and the deletion of old decisions.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from glbandits.maths.online_statistics.confidence_sequence import GRID_VERSION, ConfidenceSequence
from glbandits.records import Floats
from glbandits.serving.domain.events import Mode, SettledDecision
from glbandits.serving.domain.reward_aggregates import baseline_of
from glbandits.serving.domain.reward_aggregation import reward_of

Limits: TypeAlias = tuple[float, float]
LOWEST_DIFFERENCE = -1.0
"""Of rewards between 0 and 1."""
FIRST_SPLIT = 512
"""Decisions after which the first segment begins. The others begin after 2, 4, 8, ... times as many."""
MEMORY = 1000.0
"""Decisions over which the predicted rewards are averaged."""


class Row(NamedTuple):
    """A decision that can be judged. Its reward is scaled to 0..1 by its limits."""

    timestamp: float
    baseline: float
    """Probability of the baseline."""
    showed_baseline: float
    """1 or 0."""
    rewarded: float
    """1 if a reward came in time; 0 if the default counts."""
    reward: float
    baseline_predicted: float
    others_predicted: float
    """Rewards that earlier decisions predict for the baseline, and for all others."""


class Segment(msgspec.Struct, frozen=True):
    """Consecutive decisions: a few sums, and the confidence sequence of their mean difference."""

    index: int = 0
    """How many segments began before, not counting the one of all decisions."""
    first: int = 0
    last: int = 0
    """Timestamps of its first and its last decision."""
    decisions: int = 0
    rewarded: int = 0
    unsupported: int = 0
    """Decisions in which the baseline had probability 0. For them the bounds assume the worst."""
    reward_sum: float = 0.0
    square_sum: float = 0.0
    state: tuple[float, ...] = ()

    def after(self, rows: Floats) -> "Segment":
        """Return the segment with more decisions, at least one: (decisions, fields of `Row`)."""
        timestamps, baseline, showed_baseline, rewarded, rewards = rows.T[:5]
        others = np.maximum(1.0 - baseline, 0.0)
        weight = np.divide(others, baseline, out=np.full_like(others, np.inf), where=baseline > 0.0)
        sequence = self.sequence()
        sequence.add(
            measure=np.column_stack([-others, others]),
            reach=np.column_stack([weight, np.ones_like(others)]),
            chosen=np.where(showed_baseline, 0, 1),
            weights=np.where(showed_baseline, -weight, 1.0),
            rewards=rewards,
            predicted=rows[:, 5:],
        )
        return replace(
            self,
            first=self.first if self.decisions else int(timestamps[0]),
            last=int(timestamps[-1]),
            decisions=self.decisions + len(rows),
            rewarded=self.rewarded + int(rewarded.sum()),
            unsupported=self.unsupported + int((baseline == 0.0).sum()),
            reward_sum=self.reward_sum + float(rewards.sum()),
            square_sum=self.square_sum + float(np.square(rewards).sum()),
            state=sequence.state(),
        )

    def sequence(self) -> ConfidenceSequence:
        """Return the confidence sequence of the mean difference, on the scale of 0..1."""
        return ConfidenceSequence.from_state(LOWEST_DIFFERENCE, self.state)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence of a loop.

    Old decisions say little of the present model, so segments begin after 512, 1024, 2048, ... decisions since the
    model was last replaced. The present one is the newest that has as many decisions as came before it.
    """

    version: int = GRID_VERSION
    past: Segment = Segment()
    """All decisions."""
    present: Segment | None = None
    upcoming: Segment | None = None
    """Becomes the present one when the next segment begins."""
    segments: int = 0
    """Segments that have begun."""
    of_model: int = 0
    """Decisions since the model was last replaced."""
    means: tuple[float, float] = (0.0, 0.0)
    """Mean rewards of decisions that showed the baseline, and of the others."""
    counts: tuple[int, int] = (0, 0)
    """How many of each there were."""
    limits: Limits | None = None
    """Of the rewards of the last decision."""
    unlimited: int = 0
    """Decisions that are not judged, because their rewards have no limits."""
    apprentice: int = 0
    """Decisions that are not judged, because their mode is Apprentice."""
    without_baseline: int = 0
    """Decisions that are not judged, because they are from a catalogue, and the request named no baseline."""

    def for_new_model(self) -> "Evidence":
        """Return the evidence when another model takes over: the present begins again."""
        return replace(self, present=None, upcoming=None, of_model=0)

    def after(self, batch: Iterable[SettledDecision], link_limits: Limits) -> "Evidence":
        """Return the evidence with more decisions, in the order of the log. Those that are not learned do not count.

        Args:
            batch: follows what was added before.
            link_limits: limits of the rewards of decisions that have none of their own.
        """
        evidence, rows = self, list[Row]()
        for settled in batch:
            decision, reward = settled.decision, reward_of(settled)
            limits = decision.reward_range or link_limits
            if reward is None or decision.probability <= 0.0:  # no draw shows an action of probability 0
                continue
            if decision.mode is not Mode.ONLINE:
                evidence = replace(evidence, apprentice=evidence.apprentice + 1)
            elif not math.isfinite(limits[1] - limits[0]):
                evidence = replace(evidence, unlimited=evidence.unlimited + 1)
            elif (baseline := baseline_of(decision)) is None:
                evidence = replace(evidence, without_baseline=evidence.without_baseline + 1)
            else:
                rows.append(evidence._row(settled, baseline, reward, limits))
                evidence = evidence._with_reward(rows[-1], limits)
        return evidence._with_rows(np.array(rows)) if rows else evidence

    def _row(self, settled: SettledDecision, baseline: int, reward: float, limits: Limits) -> Row:
        decision = settled.decision
        scaled = (reward - limits[0]) / (limits[1] - limits[0])
        return Row(
            decision.timestamp,
            decision.probabilities[baseline],
            decision.shown == baseline,
            bool(settled.rewards),
            min(max(scaled, 0.0), 1.0),  # a sum of rewards may be beyond the limits
            *self._predicted(),
        )

    def _predicted(self) -> tuple[float, float]:
        """Rewards of the baseline and of others: each mean, with one decision of the mean of both before it."""
        baseline, others = self.means[0] * self.counts[0], self.means[1] * self.counts[1]
        both = (0.5 + baseline + others) / (1 + sum(self.counts))
        return (baseline + both) / (self.counts[0] + 1), (others + both) / (self.counts[1] + 1)

    def _with_reward(self, row: Row, limits: Limits) -> "Evidence":
        """Return the evidence with a reward in the means."""
        (baseline, others), (shown, not_shown) = self.means, self.counts
        if row.showed_baseline:
            shown += 1
            baseline += (row.reward - baseline) / min(shown, MEMORY)
        else:
            not_shown += 1
            others += (row.reward - others) / min(not_shown, MEMORY)
        return replace(self, means=(baseline, others), counts=(shown, not_shown), limits=limits)

    def _with_rows(self, rows: Floats) -> "Evidence":
        evidence, start = self, 0
        while start < len(rows):
            split = FIRST_SPLIT << (evidence.of_model // FIRST_SPLIT).bit_length()
            stop = start + split - evidence.of_model
            evidence = evidence._extended(rows[start:stop], begins=stop <= len(rows))
            start = stop
        return evidence

    def _extended(self, rows: Floats, *, begins: bool) -> "Evidence":
        """Add decisions to all segments; then begin a new one, if `begins`."""
        past, segments = self.past.after(rows), self.segments
        present, upcoming = (old and old.after(rows) for old in (self.present, self.upcoming))
        if begins:
            present, upcoming, segments = upcoming, Segment(index=segments), segments + 1
        of_model = self.of_model + len(rows)
        return replace(self, past=past, present=present, upcoming=upcoming, segments=segments, of_model=of_model)
