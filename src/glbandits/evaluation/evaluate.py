"""evaluate: estimate the value of a target from a log, with intervals."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.display.progress_lines import shown_progress
from glbandits.common.errors import InvalidInput, check_float, check_int, lookup
from glbandits.evaluation.estimators.agreement import agreement_notes
from glbandits.evaluation.estimators.anytime import AnytimeIntervals, why_no_anytime_interval
from glbandits.evaluation.estimators.embeddings import Embeddings, EmbeddingsLike, as_embeddings
from glbandits.evaluation.estimators.estimator import Estimator, EstimatorInputs
from glbandits.evaluation.estimators.grouped_moments import ClusterNumbering, Moments, MomentSums
from glbandits.evaluation.estimators.headline import HeadlineSums
from glbandits.evaluation.estimators.intervals import DEFAULT_LEVEL, UNKNOWN, normal_interval
from glbandits.evaluation.estimators.point_estimators import ESTIMATORS
from glbandits.evaluation.estimators.results import Estimate, Evaluation
from glbandits.evaluation.estimators.support import Support, SupportSums
from glbandits.evaluation.estimators.targets import (
    OfferedArmTarget,
    Target,
    TargetLike,
    as_target,
    target_probabilities,
)
from glbandits.evaluation.logs.arm_features import FixedArms
from glbandits.evaluation.logs.log_slice import fold_of
from glbandits.evaluation.logs.logged_data import BLOCK, Log, LoggedData
from glbandits.evaluation.logs.reward_checks import check_reward_range
from glbandits.evaluation.models.reward_models import CrossFitted, GlmReward, RewardModel
from glbandits.maths.links import find_link
from glbandits.maths.online_statistics.running_sums import RunningSums

RUNNING_POINTS = 500
"""Number of points of running estimates."""
MAX_BLOCK_NUMBERS = 8_000_000
"""Maximum number of features of a block: 64 MB."""
FEW_GROUPS = 40
"""Number of clusters below which there is a note that intervals are unreliable."""
UNIFORM_TOLERANCE = 1e-6
"""Maximum deviation of p K from 1 in a log that chose uniformly."""


def evaluate(
    log: Log,
    target: TargetLike,
    estimators: str | Sequence[str | Estimator] = ("dr", "ips", "snips"),
    *,
    model: RewardModel | None = None,
    embeddings: EmbeddingsLike | None = None,
    level: float = DEFAULT_LEVEL,
    reward_range: tuple[float, float] | None = None,
    least_propensity: float | None = None,
    reference: TargetLike | None = None,
    comparisons: int = 1,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Estimate the value of a target: its mean reward per decision on the rows of a log.

    Args:
        log: `LoggedData`, or a log that is read from a file.
        target: a `Bandit`, which is not changed; an array of probabilities (rows, arms); a function that maps a block
            of the log to such an array; "uniform"; or the name of an arm that is always chosen, such as "b" or "arm:b".
            In rows that do not offer this arm, the target decides as the logging policy did. A note counts these rows.
        estimators: names from `ESTIMATORS`, or instances with other settings.
        model: the reward model, for estimators that need one; by default a GLM with the link of the log.
        embeddings: for `mips` and `offcem`: a category, or a tuple of categories, for each arm by its name; or an array
            (arms,) or (arms, dimensions), with a leading axis of rows if rows have different arms.
        level: confidence level of the intervals.
        reward_range: lowest and highest possible reward, for anytime-valid intervals; by default those of the link.
        least_propensity: lower bound on the probabilities that the logging policy gave to arms that the target may
            choose. Set it if it is known and the log does not have the probabilities of all arms: anytime-valid
            intervals become narrower, and there is a note if the largest weights are rarely observed.
        reference: another target. `Headline.difference` is then the value of the target minus that of the reference,
            with intervals from the differences of the same rows. Needs an estimator with a reward model, such as `dr`.
        comparisons: number of differences that share the error probability 1 - level (Bonferroni). Then all their
            intervals hold at once with probability `level`, whichever of them is looked at.
        seed: seed of the draws of `replay`.
        progress: called with the number of rows done, and of all rows to do. By default it prints lines as in `train`.

    >>> import numpy as np
    >>> from glbandits.evaluation import FixedArms, LoggedData, evaluate
    >>> rng = np.random.default_rng(0)
    >>> chosen = rng.integers(0, 2, 1000)
    >>> log = LoggedData(
    ...     chosen=chosen, rewards=rng.random(1000) < 0.2 + 0.5 * chosen, propensities=np.full(1000, 0.5),
    ...     arms=FixedArms(np.eye(2), rows=1000), link="logistic", arm_names=("old", "new"),
    ... )
    >>> round(evaluate(log, "new")["snips"].value, 2)
    0.71
    """
    requested = [estimators] if isinstance(estimators, str) else list(estimators)
    if not requested:
        raise InvalidInput(f"estimators must have at least one of {', '.join(ESTIMATORS)}; got none")
    instances = [lookup("estimator", item, ESTIMATORS)() if isinstance(item, str) else item for item in requested]
    level, seed = check_float("level", level, above=0, at_most=1 - 1e-9), check_int("seed", seed, at_least=0)
    head = _first_row(log)
    evaluated, size = as_target(target, log), _block_rows(head)
    compared = None if reference is None else as_target(reference, log, "reference")
    difference_level = 1.0 - (1.0 - level) / check_int("comparisons", comparisons, at_least=1)
    link = find_link(head.link)
    bounds = check_reward_range(reward_range, link)
    needs_embeddings = any(estimator.needs_embeddings for estimator in instances)
    categories = as_embeddings(embeddings, head, len(log)) if needs_embeddings else None
    passes = 2 if any(estimator.needs_model for estimator in instances) else 1
    if compared is not None and passes == 1:
        raise InvalidInput("reference needs an estimator with a reward model. Add dr to the estimators")
    least = None if least_propensity is None else check_float("least_propensity", least_propensity, above=0, at_most=1)
    anytime = why_no_anytime_interval(head, bounds) or AnytimeIntervals(log.dim, link, bounds, least, sparse=log.sparse)
    headline = HeadlineSums(anytime, bounds)
    with shown_progress(progress, "Evaluation") as shown:
        report = _Progress(shown, passes * len(log))
        fitted = _fit(log, model or GlmReward(link=head.link), size, report) if passes == 2 else None
        log_pass = _EvaluationPass(
            instances, head, evaluated, compared, fitted, headline, bounds, np.random.default_rng(seed), categories
        )
        for block in log.blocks(size):
            log_pass.add(block)
            report.add(len(block))
    support = log_pass.support.support(log_pass.weights.moments().standard_error(np.ones(1)), least)
    return _evaluation(log_pass, support, level, difference_level, head, log.arm_names)


def _first_row(log: Log) -> LoggedData:
    """A block with the first row of a log. Raises InvalidInput if it has no rows or no propensities."""
    if not isinstance(log, Log):
        raise InvalidInput(f"log must be LoggedData or a log read from a file; got {type(log).__name__}")
    head = next(iter(log.blocks(1)), None)
    if head is None:
        raise InvalidInput("the log has no rows")
    if head.propensities is None:
        raise InvalidInput(
            "log must have propensities, the probabilities of the chosen arms; got none. If they are unknown, call "
            "estimate_propensities(log)"
        )
    return head


def _block_rows(head: LoggedData) -> int:
    """Number of rows of a block: fewer if rows have many features."""
    if isinstance(head.arms, FixedArms) or head.sparse:  # a log with sparse rows limits its blocks itself
        return BLOCK
    return max(1, min(BLOCK, MAX_BLOCK_NUMBERS // max(head.arms.max_arms * head.dim, 1)))


class _Progress:
    def __init__(self, report: Callable[[int, int], None], total: int) -> None:
        self._report, self._done, self._total = report, 0, total

    def add(self, rows: int) -> None:
        self._done += rows
        self._report(self._done, self._total)


class _RowUnits:
    """Numbers the clusters of a log, and the rows if it has no clusters, in their order."""

    def __init__(self) -> None:
        self._clusters, self._rows = ClusterNumbering(), 0

    def assign(self, block: LoggedData) -> tuple[Ints | None, Ints]:
        """Return the cluster number of each row (None without clusters), and the number that determines its fold."""
        clusters = self._clusters.assign(block.clusters)
        fold_keys = np.arange(self._rows, self._rows + len(block)) if clusters is None else clusters
        self._rows += len(block)
        return clusters, fold_keys


def _fit(log: Log, model: RewardModel, size: int, report: _Progress) -> tuple[RewardModel, CrossFitted]:
    fitted, row_units, first_row = model.begin(log.dim), _RowUnits(), 0
    every = -(-len(log) // model.max_rows)
    for block in log.blocks(size):
        rows = slice(-first_row % every, None, every)
        fitted.learn(block[rows], fold_of(row_units.assign(block)[1], model.folds)[rows])
        first_row += len(block)
        report.add(len(block))
    fitted.finish()
    return model, fitted


class _EvaluationPass:
    """Accumulates all estimators in one pass over a log."""

    def __init__(
        self,
        estimators: Iterable[Estimator],
        head: LoggedData,
        target: Target,
        reference: Target | None,
        fitted: tuple[RewardModel, CrossFitted] | None,
        headline: HeadlineSums,
        bounds: tuple[float, float],
        rng: np.random.Generator,
        embeddings: Embeddings | None,
    ) -> None:
        example = EstimatorInputs(*np.zeros((len(EstimatorInputs._fields), 1)))
        self.estimators = list(estimators)
        self.sums = [MomentSums(estimator.terms(example).shape[1]) for estimator in self.estimators]
        self.running = [RunningSums(estimator.terms(example).shape[1], RUNNING_POINTS) for estimator in self.estimators]
        self.logged, self.weights = MomentSums(1), MomentSums(1)
        self.differences = MomentSums(2)
        self.support = SupportSums(head.arms.max_arms if head.arms.same_arms else None)
        self.equal_probabilities, self.rows_without_arm = True, 0
        self.headline = headline if fitted is not None else None
        self.target, self._reference, self._fitted = target, reference, fitted
        self._bounds, self._rng, self._embeddings = bounds, rng, embeddings
        self._row_units, self._rows = _RowUnits(), 0

    def add(self, block: LoggedData) -> None:
        """Add the next rows."""
        propensities = block.propensities
        if propensities is None:
            raise InvalidInput("all rows of a log must have propensities, or none; got both")
        self._check_rewards(block)
        units, fold_keys = self._row_units.assign(block)
        probabilities = target_probabilities(self.target, block, self._rows)
        index = np.arange(len(block)), block.chosen
        weights = probabilities[index] / propensities
        expected, predicted, marginal = np.zeros((3, len(block)))
        if self._fitted is not None:
            model, fitted = self._fitted
            rewards = np.clip(fitted.predict(block, fold_of(fold_keys, model.folds)), *self._bounds)
            expected = np.einsum("ak,ak->a", np.where(block.arm_mask, rewards, 0.0), probabilities)
            predicted = rewards[index]
            assert self.headline is not None
            reference = self._reference
            compared = None if reference is None else target_probabilities(reference, block, self._rows)
            self.headline.add(block, probabilities, rewards, units, compared)
            self.differences.add(np.stack([expected - weights * predicted, weights], axis=1), units)
        if self._embeddings is not None:
            marginal = self._embeddings.weights(block, probabilities, self._rows)
        matched = self._draw_matches(probabilities, block.chosen)
        rows = EstimatorInputs(weights, block.rewards, matched, expected, predicted, marginal)
        for estimator, sums, running in zip(self.estimators, self.sums, self.running, strict=True):
            terms = estimator.terms(rows)
            sums.add(terms, units)
            running.add(terms.T)
        self.logged.add(block.rewards[:, np.newaxis], units)
        self.weights.add(weights[:, np.newaxis], units)
        self.support.add(block, probabilities, weights)
        if isinstance(self.target, OfferedArmTarget):
            self.rows_without_arm += int((self.target.indices(block) < 0).sum())
        self.equal_probabilities &= bool((np.abs(propensities * block.arms.counts - 1.0) <= UNIFORM_TOLERANCE).all())
        self._rows += len(block)

    def _check_rewards(self, block: LoggedData) -> None:
        outside = (block.rewards < self._bounds[0]) | (block.rewards > self._bounds[1])
        if outside.any():
            row = int(np.argmax(outside))
            raise InvalidInput(
                f"rewards must be within reward_range, {self._bounds}; got {block.rewards[row]} in row "
                f"{self._rows + row}. Set a wider reward_range"
            )

    def _draw_matches(self, probabilities: Floats, chosen: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        below = np.cumsum(probabilities, axis=1)
        drawn = (self._rng.random(len(chosen))[:, np.newaxis] * below[:, -1:] >= below).sum(axis=1)
        matched: np.ndarray[tuple[int], np.dtype[np.bool_]] = drawn == chosen
        return matched


def _evaluation(
    log_pass: _EvaluationPass,
    support: Support,
    level: float,
    difference_level: float,
    head: LoggedData,
    arm_names: tuple[str, ...] | None,
) -> Evaluation:
    if not log_pass.equal_probabilities and any(estimator.name == "replay" for estimator in log_pass.estimators):
        raise InvalidInput(
            "replay needs a log that chose all arms of a row with the same probability, 1/K; got other propensities. "
            "Use ips, snips or dr"
        )
    estimates = []
    for estimator, sums, running in zip(log_pass.estimators, log_pass.sums, log_pass.running, strict=True):
        moments, table = sums.moments(), running.table()
        terms_used = estimator.select_terms(moments)
        selected = moments.only(terms_used)
        has_error = estimator.has_standard_error
        estimates.append(
            Estimate(
                estimator=estimator,
                value=float(estimator.combine(selected.mean)),
                standard_error=selected.standard_error(estimator.gradient(selected.mean)) if has_error else math.nan,
                normal=normal_interval(estimator, selected, level) if has_error else UNKNOWN,
                running=estimator.combine((table[1:][terms_used] / table[0]).T),
                support=support,
                moments=selected,
            )
        )
    logged = log_pass.logged.moments()
    notes, headline = _notes(log_pass, estimates, support, head, logged), None
    if log_pass.headline is not None:
        headline = log_pass.headline.headline(level, difference_level)
        notes += agreement_notes(log_pass.differences.moments(), headline, support)
    return Evaluation(
        estimates=tuple(estimates),
        logged=float(logged.mean[0]),
        logged_error=logged.standard_error(np.ones(1)),
        headline=headline,
        support=support,
        level=level,
        notes=tuple(notes),
        at_rows=log_pass.running[0].table()[0].astype(np.int64),
        arm_names=arm_names,
    )


def _notes(
    log_pass: _EvaluationPass, estimates: Sequence[Estimate], support: Support, head: LoggedData, logged: Moments
) -> list[str]:
    notes = support.warnings()
    if isinstance(log_pass.target, OfferedArmTarget) and log_pass.rows_without_arm:
        notes.append(
            f"{log_pass.rows_without_arm:,} of {support.rows:,} rows do not offer the arm {log_pass.target.name!r}: "
            "there the target decides as the logging policy did"
        )
    if head.estimated:
        notes.append(
            "propensities were estimated from the log: all estimates are biased if the logging policy used more than "
            "the context"
        )
    if logged.grouped:
        few = ", too few for reliable intervals" if logged.groups < FEW_GROUPS else ""
        notes.append(f"rows of a cluster are not independent: {logged.groups} independent groups of rows{few}")
    biased = [estimator.name for estimator in log_pass.estimators if estimator.biased]
    if biased:
        notes.append(
            f"intervals do not cover the bias of {', '.join(biased)}, which comes from the model, from reduced weights "
            "or from embeddings"
        )
    flat = [estimate.name for estimate in estimates if estimate.standard_error == 0.0]
    if flat and support.unused < 1.0:
        notes.append(
            f"all rows with a weight have the same reward, so that the standard error of {', '.join(flat)} is unknown"
        )
    if support.unused == 1.0:
        notes.append("the target never chooses a logged arm: the log has no evidence on it")
    return notes
