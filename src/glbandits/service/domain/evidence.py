"""Evidence on whether a loop earns more than its baseline, and more than random choice: confidence sequences.

Each decision has a doubly robust term for each comparison (`contrasts`), and the mean of the terms has a sequence.

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
from glbandits.maths.online_statistics.confidence_sequence import BetGrid, ConfidenceSequence
from glbandits.service.domain.contrasts import against_baseline, against_uniform
from glbandits.service.domain.events import Mode, SettledDecision
from glbandits.service.domain.reward_aggregation import reward_of

Limits: TypeAlias = tuple[float, float]
LOWEST_DIFFERENCE = -1.0
"""The smallest difference of two rewards between 0 and 1."""
FIRST_SPLIT = 512
"""Decisions after which the first segment starts. The others start after 2, 4, 8, ... times as many."""
MEMORY = 1000.0
"""The predicted rewards are running means over about so many decisions."""
_BETS: Floats = np.ldexp(0.25, -np.arange(12))
_SHARES = np.exp(-np.square(np.log2(32.0 * _BETS)) / 3.0) + 0.02
GRID = BetGrid(_BETS, np.log(_SHARES / _SHARES.sum()), largest_loss=0.9)
"""Most of the capital is on bets around 1 / 32: verdicts after 1,000 to 20,000 decisions. With a largest loss of 0.5,
loops whose baseline is rare need more decisions, because the predictions are clipped more."""
VERSION = 2
"""Add 1 with every change of `GRID` or of the fields of `LoopEvidence`: evidence of another version is dropped."""
BASELINE, UNIFORM = range(2)
"""Indices of the comparisons: with the baseline, and with a uniformly random choice."""


class Row(NamedTuple):
    """A decision as evidence in one comparison. Its reward is scaled to 0..1 by its limits."""

    timestamp: float
    rewarded: float
    """1 if a reward came in time; 0 if the decision got the default reward."""
    reward: float
    scale: float
    """The largest reward minus the smallest one."""
    gain: float
    reach: float
    weight: float
    """These three are those of `Contrast`."""
    lower_predicted: float
    upper_predicted: float
    """The predictions q- and q+."""


class PastRewards(msgspec.Struct, frozen=True):
    """Mean rewards of earlier decisions that showed an action of negative weight, and of the others."""

    means: tuple[float, float] = (0.0, 0.0)
    counts: tuple[int, int] = (0, 0)

    def predicted(self) -> tuple[float, float]:
        """Return the predictions q- and q+.

        Each is a mean of past rewards, shrunk to the mean of both. The mean of both has the weight of one decision, and
        starts at 0.5.
        """
        lower, upper = self.means[0] * self.counts[0], self.means[1] * self.counts[1]
        both = (0.5 + lower + upper) / (1 + sum(self.counts))
        return (lower + both) / (self.counts[0] + 1), (upper + both) / (self.counts[1] + 1)

    def with_row(self, row: Row) -> "PastRewards":
        """Return the means with one more reward."""
        (lower, upper), (below, above) = self.means, self.counts
        if row.weight < 0.0:
            below += 1
            lower += (row.reward - lower) / min(below, MEMORY)
        else:
            above += 1
            upper += (row.reward - upper) / min(above, MEMORY)
        return PastRewards((lower, upper), (below, above))


class Segment(msgspec.Struct, frozen=True):
    """Sums over consecutive decisions, and the confidence sequence of their mean difference."""

    index: int = 0
    """The number of segments of the present model that started earlier."""
    first: int = 0
    last: int = 0
    """Timestamps of the first and the last decision."""
    decisions: int = 0
    rewarded: int = 0
    unsupported: int = 0
    """Decisions in which an action of the other choice had probability 0. For them the bounds assume the worst."""
    reward_sum: float = 0.0
    square_sum: float = 0.0
    scale_sum: float = 0.0
    """Sum of `Row.scale`. Differences are shown on the mean scale, which is exact if the limits have never changed."""
    state: tuple[float, ...] = ()
    """The state of the confidence sequence."""

    def extended_by(self, rows: Floats) -> "Segment":
        """Return the segment with at least one more row: an array (decisions, fields of `Row`)."""
        timestamps, rewarded, rewards, scale, gain, reach, weights = rows.T[:7]
        sequence = self.sequence()
        sequence.add(
            measure=np.column_stack([-gain, gain]),
            reach=np.column_stack([reach, np.ones_like(reach)]),
            chosen=np.where(weights < 0.0, 0, 1),
            weights=weights,
            rewards=rewards,
            predicted=rows[:, 7:],
        )
        return replace(
            self,
            first=self.first if self.decisions else int(timestamps[0]),
            last=int(timestamps[-1]),
            decisions=self.decisions + len(rows),
            rewarded=self.rewarded + int(rewarded.sum()),
            unsupported=self.unsupported + int(np.isinf(reach).sum()),
            reward_sum=self.reward_sum + float(rewards.sum()),
            square_sum=self.square_sum + float(np.square(rewards).sum()),
            scale_sum=self.scale_sum + float(scale.sum()),
            state=sequence.state(),
        )

    def sequence(self) -> ConfidenceSequence:
        """Return the confidence sequence of the mean difference, on the scale of 0..1."""
        return ConfidenceSequence.from_state(LOWEST_DIFFERENCE, self.state, GRID)


class LoopEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence of a loop.

    Old decisions say little about the present model. So new segments start after 512, 1024, 2048, ... decisions since
    the model was last replaced. The present segment is the newest one with at least as many decisions as came before
    it.
    """

    version: int = VERSION
    past: Segment = Segment()
    """All decisions against the baseline, also those of the present segment."""
    uniform: Segment = Segment()
    """All decisions against a uniformly random choice."""
    present: Segment | None = None
    upcoming: Segment | None = None
    """The newest segment. It becomes the present one when the next segment starts."""
    segments: int = 0
    """The number of segments that have started."""
    decisions_of_model: int = 0
    """Decisions since the model was last replaced."""
    rewards: tuple[PastRewards, PastRewards] = (PastRewards(), PastRewards())
    """Of the comparisons `BASELINE` and `UNIFORM`."""
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
        evidence, rows = self, list[tuple[Row, Row]]()
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
                rows.append(evidence._rows(settled, reward, limits))
                before, now = evidence.rewards, rows[-1]
                rewards = before[BASELINE].with_row(now[BASELINE]), before[UNIFORM].with_row(now[UNIFORM])
                evidence = replace(evidence, rewards=rewards)
        return evidence._with_rows(np.array(rows)) if rows else evidence

    def _rows(self, settled: SettledDecision, reward: float, limits: Limits) -> tuple[Row, Row]:
        """Return a decision as a row of each comparison."""
        decision, scale = settled.decision, limits[1] - limits[0]
        scaled = min(max((reward - limits[0]) / scale, 0.0), 1.0)  # a sum of rewards may be beyond the limits
        both = decision.timestamp, bool(settled.rewards), scaled, scale
        return (
            Row(*both, *against_baseline(decision), *self.rewards[BASELINE].predicted()),
            Row(*both, *against_uniform(decision), *self.rewards[UNIFORM].predicted()),
        )

    def _with_rows(self, rows: Floats) -> "LoopEvidence":
        """Add rows, (decisions, comparisons, fields of `Row`)."""
        evidence, start = self, 0
        while start < len(rows):
            split = FIRST_SPLIT << (evidence.decisions_of_model // FIRST_SPLIT).bit_length()
            stop = start + split - evidence.decisions_of_model
            evidence = evidence._extended(rows[start:stop], starts_segment=stop <= len(rows))
            start = stop
        return evidence

    def _extended(self, rows: Floats, *, starts_segment: bool) -> "LoopEvidence":
        """Add decisions to all segments. Then start a new segment if `starts_segment`."""
        uniform, rows = self.uniform.extended_by(rows[:, UNIFORM]), rows[:, BASELINE]
        past, segments = self.past.extended_by(rows), self.segments
        present, upcoming = (segment and segment.extended_by(rows) for segment in (self.present, self.upcoming))
        if starts_segment:
            present, upcoming, segments = upcoming, Segment(index=segments), segments + 1
        total = self.decisions_of_model + len(rows)
        return replace(
            self,
            past=past,
            uniform=uniform,
            present=present,
            upcoming=upcoming,
            segments=segments,
            decisions_of_model=total,
        )
