"""TargetSums: all estimates of one target, accumulated over the blocks of a log."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.estimators.estimator import Estimator, EstimatorInputs, normal_interval
from glbandits.evaluation.estimators.grouped_moments import Moments, MomentSums
from glbandits.evaluation.estimators.headline import HeadlineSums, Levels, agreement_doubts
from glbandits.evaluation.estimators.log_rows import RUNNING_POINTS, LogRows, LogSums
from glbandits.evaluation.estimators.results import Estimate, Evaluation
from glbandits.evaluation.estimators.support import Support, SupportSums
from glbandits.evaluation.estimators.targets import ExploringTarget, OfferedArmTarget, Target
from glbandits.evaluation.logs.checks.changes import BLOCKS, last_change
from glbandits.evaluation.logs.checks.log_doubts import LEAST_ROWS, change_doubts
from glbandits.evaluation.logs.doubts import Doubt
from glbandits.evaluation.logs.schema import LogSchema
from glbandits.maths.online_statistics.mergeable import Mergeable, added, merged
from glbandits.maths.online_statistics.running_sums import RunningSums

FEW_GROUPS = 40
"""Number of clusters below which there is a note that intervals are unreliable."""


class TargetSums(Mergeable):
    """Accumulates the estimates of a target.

    Args:
        estimators: the requested estimators.
        headline: accumulates the doubly robust estimates; None without a reward model.
        seed: of the draws of `matched`.
        first_row: index of the first row that is added.
        schema: of the log.
    """

    rules: ClassVar = dict.fromkeys(
        ("_headline", "_sums", "_running", "_weights", "_differences", "_support", "_gains"), merged
    ) | added("_rows_without_arm")

    def __init__(
        self,
        estimators: Sequence[Estimator],
        headline: HeadlineSums | None,
        seed: int,
        first_row: int,
        schema: LogSchema,
    ) -> None:
        self._estimators, self._headline = estimators, headline
        numbers = np.random.PCG64(seed)
        numbers.advance(first_row)  # one number for each row
        self._rng = np.random.Generator(numbers)
        example = EstimatorInputs(*np.zeros((len(EstimatorInputs._fields), 1)))
        widths = [estimator.terms(example).shape[1] for estimator in estimators]
        self._sums = [MomentSums(width) for width in widths]
        self._running = [RunningSums(width, RUNNING_POINTS, first_row) for width in widths]
        self._weights, self._differences = MomentSums(1), MomentSums(2)
        self._gains = RunningSums(1, BLOCKS, first_row)
        self._support = SupportSums(schema.max_arms if schema.same_arms else None)
        self._are_estimated, self._unit = schema.estimated, schema.unit
        self._is_link_inferred = schema.link_inferred and schema.link == "logistic"
        self._rows_without_arm, self._draws_arms = 0, any(estimator.name == "matched" for estimator in estimators)

    def add(self, rows: LogRows, target: Target, probabilities: Floats, reference: Floats | None) -> None:
        """Add the next rows.

        Args:
            rows: the rows.
            target: the target.
            probabilities: the target's probabilities of the arms, (rows, max_arms).
            reference: those of the reference; in all blocks, or in none.
        """
        block = rows.block
        weights = rows.of_chosen(probabilities) / rows.propensities
        expected, predicted = np.zeros((2, len(block)))
        if rows.predicted is not None:
            assert self._headline is not None
            expected = np.einsum("ak,ak->a", rows.predicted, probabilities)
            predicted = rows.of_chosen(rows.predicted)
            self._headline.add(rows, probabilities, reference)
            rows.add_to(self._differences, expected - weights * predicted, weights)
            self._gains.add((expected + weights * (block.payoffs - predicted) - block.payoffs)[np.newaxis])
        matched = self._draw_matches(probabilities, block.chosen) if self._draws_arms else np.zeros(len(block), bool)
        inputs = EstimatorInputs(weights, block.payoffs, matched, expected, predicted)
        for estimator, sums, running in zip(self._estimators, self._sums, self._running, strict=True):
            terms = estimator.terms(inputs)
            rows.add_to(sums, *terms.T)
            running.add(terms.T)
        rows.add_to(self._weights, weights)
        self._support.add(block, probabilities, weights)
        target = target.target if isinstance(target, ExploringTarget) else target
        if isinstance(target, OfferedArmTarget):
            self._rows_without_arm += int((target.indices(block) < 0).sum())

    def _draw_matches(self, probabilities: Floats, chosen: Ints) -> Bools:
        """Whether an arm that is drawn from the target equals the chosen arm."""
        below = np.cumsum(probabilities, axis=1)
        drawn = (self._rng.random(len(chosen))[:, np.newaxis] * below[:, -1:] >= below).sum(axis=1)
        matched: Bools = drawn == chosen
        return matched

    def evaluation(
        self,
        target: Target,
        log: LogSums,
        levels: Levels,
        least_propensity: float | None,
        arm_names: tuple[str, ...] | None,
    ) -> Evaluation:
        """Return the estimates of all rows so far.

        Args:
            target: the target.
            log: what is kept of the log.
            levels: confidence levels of the intervals.
            least_propensity: lower bound on the probabilities of the logging policy, if known.
            arm_names: of the log.
        """
        if self._draws_arms and not log.chose_uniformly:
            raise InvalidInput(
                "matched needs a log that chose all arms of a row with the same probability, 1/K; got other "
                "propensities. Use ips, snips or dr"
            )
        support = self._support.support(self._weights.moments().standard_error(np.ones(1)), least_propensity)
        estimates = [
            _estimate(estimator, sums.moments(), running.table(), support, levels.each)
            for estimator, sums, running in zip(self._estimators, self._sums, self._running, strict=True)
        ]
        logged, headline, doubts = log.payoffs.moments(), None, list[Doubt]()
        notes, reason = self._notes(target, estimates, support, logged), support.no_evidence()
        if self._is_link_inferred:
            bounds = " and their range 0 to 1" if log.payoff_range == (0.0, 1.0) else ""
            notes.append(f"rewards are 0 or 1, so the link is logistic{bounds}. Change it by --link, in Python link")
        if self._headline is not None and not self._are_estimated and log.possible_values != log.payoff_range:
            low, high = log.possible_values
            notes.append(
                f"the {self._unit}s of these rows are {low:.6g} to {high:.6g}. If you know the lowest and the highest "
                "possible reward, set them (--reward-range, in Python reward_range): then there are intervals at "
                "every n"
            )
        if self._headline is not None:
            headline = self._headline.headline(levels)
            if headline.value.fixed_n is not None:
                fixed_n = headline.value.fixed_n.within(*log.payoff_range)
                headline = replace(headline, value=replace(headline.value, fixed_n=fixed_n))
            reason = support.no_evidence_for(headline.value.value, headline.value.standard_error, log.possible_values)
            doubts = [*log.doubts.doubts()]
            if not reason:
                doubts += self._change_of_gain(doubts, support.rows)
                doubts += agreement_doubts(self._differences.moments(), headline, support)
        if headline is not None and reason:
            headline = headline.without_evidence(reason)
        return Evaluation(
            estimates=tuple(
                _shown(replace(each, normal=each.normal.within(*log.payoff_range)), log.possible_values)
                for each in estimates
            ),
            logged=float(logged.mean[0]),
            logged_error=logged.standard_error(np.ones(1)),
            headline=headline,
            support=support,
            level=levels.each,
            notes=(*notes, *map(str, doubts)),
            doubts=tuple(doubts),
            at_rows=self._running[0].table()[0].astype(np.int64),
            logged_running=log.running.table()[1] / log.running.table()[0],
            arm_names=arm_names,
            no_evidence=reason,
            unit=self._unit,
        )

    def _change_of_gain(self, known: Sequence[Doubt], rows: int) -> list[Doubt]:
        """The doubt that the gain over the logging policy changed, unless a doubt about all targets explains it."""
        if known or rows < LEAST_ROWS:
            return []
        return change_doubts(last_change(self._gains), rows, "the gain over the logging policy")

    def _notes(self, target: Target, estimates: Sequence[Estimate], support: Support, logged: Moments) -> list[str]:
        notes = support.warnings()
        target = target.target if isinstance(target, ExploringTarget) else target
        if isinstance(target, OfferedArmTarget) and self._rows_without_arm:
            notes.append(
                f"{self._rows_without_arm:,} of {support.rows:,} rows do not offer {target}: "
                "there the target decides as the logging policy did"
            )
        if self._are_estimated:
            notes.append(
                "propensities were estimated from the log: all estimates are biased if the logging policy used more "
                "than the context"
            )
        if logged.grouped:
            few = ", too few for reliable intervals" if logged.groups < FEW_GROUPS else ""
            notes.append(f"rows of a cluster are not independent: {logged.groups} independent groups of rows{few}")
        biased = [estimator.name for estimator in self._estimators if estimator.biased]
        if biased:
            notes.append(
                f"intervals do not cover the bias of {', '.join(biased)}, which comes from the model or from reduced "
                "weights"
            )
        flat = [estimate.name for estimate in estimates if estimate.standard_error == 0.0]
        if flat and support.unused < 1.0:
            notes.append(
                f"all rows with a weight have the same {self._unit}, so that the standard error of {', '.join(flat)} "
                "is unknown"
            )
        if support.unused == 1.0:
            notes.append("the target never chooses a logged arm: the log has no evidence on it")
        return notes


def _shown(estimate: Estimate, possible: tuple[float, float]) -> Estimate:
    """The estimate, without its numbers if there is not enough evidence for it."""
    reason = estimate.support.no_evidence_for(estimate.value, estimate.standard_error, possible)
    return estimate.without_evidence(reason) if reason else estimate


def _estimate(estimator: Estimator, moments: Moments, table: Floats, support: Support, level: float) -> Estimate:
    """The estimate from moments of the terms. `table` has the running sums of rows and terms."""
    used = estimator.select_terms(moments)
    selected = moments.only(used)
    error = selected.standard_error(estimator.gradient(selected.mean)) if estimator.has_standard_error else math.nan
    return Estimate(
        estimator=estimator,
        value=float(estimator.combine(selected.mean)),
        standard_error=error,
        normal=normal_interval(estimator, selected, level),
        running=estimator.combine((table[1:][used] / table[0]).T),
        support=support,
    )
