"""Evidence on whether a loop earns more than its baseline: confidence sequences.

The difference of a decision is the expected reward of the shown action minus that of the baseline. Its doubly robust
estimate weights the reward by 1 if another action was shown, and by -(1 - p) / p if the baseline was shown, where p is
the logged probability of the baseline. All other actions have the same weight, so they count as one.

The sequences (`confidence_sequence`) hold at every decision at once. They assume that each draw follows the
logged probabilities, given all that came before. They do not assume that rewards are independent, or that models and
visitors stay the same.

The learner extends the evidence with each batch, in the order of the log, and saves it with the model. So the evidence
survives restarts, a change of the learning process, and the deletion of old decisions.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from glbandits.common.arrays import Floats
from glbandits.maths.online_statistics.confidence_sequence import GRID_VERSION, ConfidenceSequence
from glbandits.service.domain.decision_totals import baseline_of
from glbandits.service.domain.events import Mode, SettledDecision
from glbandits.service.domain.reward_aggregation import reward_of

Limits: TypeAlias = tuple[float, float]
LOWEST_DIFFERENCE = -1.0
"""The smallest difference of two rewards between 0 and 1."""
FIRST_SPLIT = 512
"""Decisions after which the first segment starts. The others start after 2, 4, 8, ... times as many."""
MEMORY = 1000.0
"""The predicted rewards are running means over about so many decisions."""


class Row(NamedTuple):
    """A decision that counts as evidence. Its reward is scaled to 0..1 by its limits."""

    timestamp: float
    baseline: float
    """Probability of the baseline."""
    showed_baseline: float
    """1 or 0."""
    rewarded: float
    """1 if a reward came in time; 0 if the decision got the default reward."""
    reward: float
    scale: float
    """The largest reward minus the smallest one."""
    baseline_predicted: float
    others_predicted: float
    """The mean rewards of earlier decisions that showed the baseline, and of those that showed another action."""


class Segment(msgspec.Struct, frozen=True):
    """Sums over consecutive decisions, and the confidence sequence of their mean difference."""

    index: int = 0
    """The number of segments that started earlier. `LoopEvidence.past` does not count."""
    first: int = 0
    last: int = 0
    """Timestamps of the first and the last decision."""
    decisions: int = 0
    rewarded: int = 0
    unsupported: int = 0
    """Decisions in which the baseline had probability 0. For them the bounds assume the worst."""
    reward_sum: float = 0.0
    square_sum: float = 0.0
    scale_sum: float = 0.0
    """Sum of `Row.scale`. Differences are shown on the mean scale, which is exact if the limits have never changed."""
    state: tuple[float, ...] = ()
    """The state of the confidence sequence."""

    def extended_by(self, rows: Floats) -> "Segment":
        """Return the segment with at least one more row: an array (decisions, fields of `Row`)."""
        timestamps, baseline, showed_baseline, rewarded, rewards, scale = rows.T[:6]
        others = np.maximum(1.0 - baseline, 0.0)
        weight = np.divide(others, baseline, out=np.full_like(others, np.inf), where=baseline > 0.0)
        sequence = self.sequence()
        sequence.add(
            measure=np.column_stack([-others, others]),
            reach=np.column_stack([weight, np.ones_like(others)]),
            chosen=np.where(showed_baseline, 0, 1),
            weights=np.where(showed_baseline, -weight, 1.0),
            rewards=rewards,
            predicted=rows[:, 6:],
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
            scale_sum=self.scale_sum + float(scale.sum()),
            state=sequence.state(),
        )

    def sequence(self) -> ConfidenceSequence:
        """Return the confidence sequence of the mean difference, on the scale of 0..1."""
        return ConfidenceSequence.from_state(LOWEST_DIFFERENCE, self.state)


class LoopEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence of a loop.

    Old decisions say little about the present model. So new segments start after 512, 1024, 2048, ... decisions since
    the model was last replaced. The present segment is the newest one with at least as many decisions as came before
    it.
    """

    version: int = GRID_VERSION
    past: Segment = Segment()
    """The segment of all decisions, also those of the present segment."""
    present: Segment | None = None
    upcoming: Segment | None = None
    """The newest segment. It becomes the present one when the next segment starts."""
    segments: int = 0
    """The number of segments that have started."""
    decisions_of_model: int = 0
    """Decisions since the model was last replaced."""
    means: tuple[float, float] = (0.0, 0.0)
    """Running mean rewards of decisions that showed the baseline, and of the others."""
    counts: tuple[int, int] = (0, 0)
    """The number of decisions that showed the baseline, and of the others."""
    unlimited: int = 0
    """Decisions that do not count as evidence, because their rewards have no limits."""
    apprentice: int = 0
    """Decisions that do not count as evidence, because their mode is Apprentice."""

    def for_new_model(self) -> "LoopEvidence":
        """Return the evidence for another model: the present segment starts again."""
        return replace(self, present=None, upcoming=None, decisions_of_model=0)

    def extended_by(self, batch: Iterable[SettledDecision], link_limits: Limits) -> "LoopEvidence":
        """Return the evidence with a batch of further decisions.

        Decisions that are not learned do not count, and neither do those whose action was not drawn: of the control
        group, in fallback, and repeats.

        Args:
            batch: the next decisions in the order of the log.
            link_limits: the limits of rewards for decisions without limits of their own.
        """
        evidence, rows = self, list[Row]()
        for settled in batch:
            decision, reward = settled.decision, reward_of(settled)
            limits = decision.reward_range or link_limits
            if reward is None or decision.probability <= 0.0:  # a draw never shows an action of probability 0
                continue
            if decision.mode is not Mode.ONLINE:
                evidence = replace(evidence, apprentice=evidence.apprentice + 1)
            elif not decision.is_drawn:
                continue
            elif not math.isfinite(limits[1] - limits[0]):
                evidence = replace(evidence, unlimited=evidence.unlimited + 1)
            else:
                rows.append(evidence._row(settled, reward, limits))
                evidence = evidence._with_reward(rows[-1])
        return evidence._with_rows(np.array(rows)) if rows else evidence

    def _row(self, settled: SettledDecision, reward: float, limits: Limits) -> Row:
        decision, baseline = settled.decision, baseline_of(settled.decision)
        scale = limits[1] - limits[0]
        scaled = (reward - limits[0]) / scale
        return Row(
            decision.timestamp,
            decision.probabilities[baseline],
            decision.shown == baseline,
            bool(settled.rewards),
            min(max(scaled, 0.0), 1.0),  # a sum of rewards may be beyond the limits
            scale,
            *self._predicted(),
        )

    def _predicted(self) -> tuple[float, float]:
        """Return the predicted rewards of the baseline and of other actions.

        Each is a mean of past rewards, shrunk to the mean of both. The mean of both has the weight of one decision, and
        starts at 0.5.
        """
        baseline, others = self.means[0] * self.counts[0], self.means[1] * self.counts[1]
        both = (0.5 + baseline + others) / (1 + sum(self.counts))
        return (baseline + both) / (self.counts[0] + 1), (others + both) / (self.counts[1] + 1)

    def _with_reward(self, row: Row) -> "LoopEvidence":
        """Return the evidence with a reward added to the means."""
        (baseline, others), (shown, not_shown) = self.means, self.counts
        if row.showed_baseline:
            shown += 1
            baseline += (row.reward - baseline) / min(shown, MEMORY)
        else:
            not_shown += 1
            others += (row.reward - others) / min(not_shown, MEMORY)
        return replace(self, means=(baseline, others), counts=(shown, not_shown))

    def _with_rows(self, rows: Floats) -> "LoopEvidence":
        evidence, start = self, 0
        while start < len(rows):
            split = FIRST_SPLIT << (evidence.decisions_of_model // FIRST_SPLIT).bit_length()
            stop = start + split - evidence.decisions_of_model
            evidence = evidence._extended(rows[start:stop], starts_segment=stop <= len(rows))
            start = stop
        return evidence

    def _extended(self, rows: Floats, *, starts_segment: bool) -> "LoopEvidence":
        """Add decisions to all segments. Then start a new segment if `starts_segment`."""
        past, segments = self.past.extended_by(rows), self.segments
        present, upcoming = (segment and segment.extended_by(rows) for segment in (self.present, self.upcoming))
        if starts_segment:
            present, upcoming, segments = upcoming, Segment(index=segments), segments + 1
        total = self.decisions_of_model + len(rows)
        return replace(self, past=past, present=present, upcoming=upcoming, segments=segments, decisions_of_model=total)
