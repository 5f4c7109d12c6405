"""evaluate: what a target would have earned, with intervals and what they rest on."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from glbandits.errors import InvalidInput, check_float, check_int, lookup
from glbandits.evaluation.estimators.anytime import AnytimeIntervals, why_none
from glbandits.evaluation.estimators.embeddings import AnyEmbeddings, Embeddings, as_embeddings
from glbandits.evaluation.estimators.estimator import Estimator, Rows
from glbandits.evaluation.estimators.grouped_moments import Moments, MomentSums, Units
from glbandits.evaluation.estimators.headline import HeadlineSums
from glbandits.evaluation.estimators.intervals import UNKNOWN, normal_interval
from glbandits.evaluation.estimators.point_estimators import ESTIMATORS
from glbandits.evaluation.estimators.results import Estimate, Evaluation
from glbandits.evaluation.estimators.support import Support, SupportSums
from glbandits.evaluation.estimators.targets import AnyTarget, GivenTarget, Target, as_target, checked_probabilities
from glbandits.evaluation.logs.arm_features import FixedArms
from glbandits.evaluation.logs.log_slice import fold_of
from glbandits.evaluation.logs.logged_data import BLOCK, Log, LoggedData
from glbandits.evaluation.models.reward_models import CrossFitted, GlmReward, RewardModel
from glbandits.maths.links import find_link
from glbandits.maths.online_statistics.running_sums import RunningSums
from glbandits.records import Floats, Ints

POINTS = 500
"""Places at which running estimates are kept."""
NUMBERS = 8_000_000
"""Features that are held at a time: 64 MB."""
FEW_GROUPS = 40
"""Below so many groups of rows that were decided together, an interval is called too short."""
EQUAL = 1e-6
"""How far p K may be from 1 in a log that chose with equal probabilities."""


def evaluate(
    log: Log,
    target: AnyTarget,
    estimators: str | Sequence[str | Estimator] = ("dr", "ips", "snips"),
    *,
    model: RewardModel | None = None,
    embeddings: AnyEmbeddings | None = None,
    level: float = 0.95,
    reward_range: tuple[float, float] | None = None,
    least_propensity: float | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Estimate the mean reward of a decision, had the target decided instead of the log's own policy.

    Args:
        log: `LoggedData`, or a log that is read from a file.
        target: a `Bandit`, which is not changed; an array of probabilities (rows, arms); a function of a block of the
            log that gives such an array; "uniform"; or the name of an arm, which is then always played.
        estimators: names from `ESTIMATORS`, or estimators with settings of their own.
        model: of the reward, for those that need one; a GLM with the log's link by default.
        embeddings: for `mips` and `offcem`: a category, or a tuple of several, for each arm by its name; or an array
            (arms,) or (arms, dimensions), with an axis of rows before them where each row has arms of its own.
        level: of the intervals.
        reward_range: lowest and highest reward that there can be, for anytime-valid intervals; by default what the link
            says.
        least_propensity: the least probability that the log's policy gave to an arm that the target may choose. Give it
            if you know it and the log does not have the probabilities of all arms: anytime-valid intervals get
            narrower, and you are warned if the largest weights have hardly been seen.
        seed: of the draws of `replay`.
        progress: called with rows done and rows to do.

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
    named = [estimators] if isinstance(estimators, str) else list(estimators)
    if not named:
        raise InvalidInput(f"name at least one estimator: {', '.join(ESTIMATORS)}")
    chosen = [lookup("estimator", one, ESTIMATORS)() if isinstance(one, str) else one for one in named]
    level, seed = check_float("level", level, above=0, at_most=1 - 1e-9), check_int("seed", seed, at_least=0)
    head = _first_rows(log)
    play, size = as_target(target, log.arm_names), _block_rows(head)
    if isinstance(play, GivenTarget) and len(play.given) != len(log):
        raise InvalidInput(f"target must have a row for each row of the log, {len(log)}; got shape {play.given.shape}")
    link = find_link(head.link)
    bounds = _reward_bounds(reward_range) or (link.lowest_reward, link.highest_reward)
    marginal = as_embeddings(embeddings, head, len(log)) if any(one.needs_embeddings for one in chosen) else None
    passes = 2 if any(one.needs_model for one in chosen) else 1
    report = _Progress(progress, passes * len(log))
    fitted = _fit(log, model or GlmReward(link=head.link), size, report) if passes == 2 else None
    least = None if least_propensity is None else check_float("least_propensity", least_propensity, above=0, at_most=1)
    anytime = why_none(head, bounds) or AnytimeIntervals(log.dim, link, bounds, least, sparse=log.sparse)
    headline = HeadlineSums(anytime, bounds)
    work = _Pass(chosen, head, play, fitted, headline, bounds, np.random.default_rng(seed), marginal)
    for block in log.blocks(size):
        work.add(block)
        report.add(len(block))
    support = work.support.support(work.weights.moments().standard_error(np.ones(1)), least)
    return _evaluation(work, support, level, head, log.arm_names)


def _first_rows(log: Log) -> LoggedData:
    """A few rows, by which the whole log is known; an error if it cannot be used."""
    if not isinstance(log, Log):
        raise InvalidInput(f"log must be LoggedData or a log read from a file; got {type(log).__name__}")
    head = next(iter(log.blocks(1)), None)
    if head is None:
        raise InvalidInput("the log has no rows")
    if head.propensities is None:
        raise InvalidInput(
            "the log has no propensities, the probabilities of its chosen arms, and no estimator can do without; "
            "estimate_propensities(log) estimates it, with a warning"
        )
    return head


def _block_rows(head: LoggedData) -> int:
    """Rows that are looked at together: fewer where a row has many features of its own."""
    if isinstance(head.arms, FixedArms) or head.sparse:  # a log with sparse rows makes short blocks itself
        return BLOCK
    return max(1, min(BLOCK, NUMBERS // max(head.arms.most * head.dim, 1)))


def _reward_bounds(given: tuple[float, float] | None) -> tuple[float, float] | None:
    if given is None:
        return None
    lowest, highest = (check_float("reward_range", bound) for bound in given)
    if not lowest < highest:
        raise InvalidInput(f"reward_range must be the lowest and then the highest reward; got {given}")
    return lowest, highest


class _Progress:
    def __init__(self, report: Callable[[int, int], None] | None, total: int) -> None:
        self._report, self._done, self._total = report, 0, total

    def add(self, rows: int) -> None:
        self._done += rows
        if self._report is not None:
            self._report(self._done, self._total)


class _Dealt:
    """Numbers rows and clusters as they come."""

    def __init__(self) -> None:
        self._units, self._rows = Units(), 0

    def of(self, block: LoggedData) -> tuple[Ints | None, Ints]:
        """The clusters of these rows, if there are any, and what decides their fold."""
        units = self._units.of(block.clusters)
        own = np.arange(self._rows, self._rows + len(block)) if units is None else units
        self._rows += len(block)
        return units, own


def _fit(log: Log, model: RewardModel, size: int, report: _Progress) -> tuple[RewardModel, CrossFitted]:
    fitted, dealt, first_row = model.begin(log.dim), _Dealt(), 0
    every = -(-len(log) // model.most_rows)
    for block in log.blocks(size):
        rows = slice(-first_row % every, None, every)
        fitted.learn(block[rows], fold_of(dealt.of(block)[1], model.folds)[rows])
        first_row += len(block)
        report.add(len(block))
    fitted.finish()
    return model, fitted


class _Pass:
    """One pass over a log: all estimators at once."""

    def __init__(
        self,
        estimators: Iterable[Estimator],
        head: LoggedData,
        target: Target,
        fitted: tuple[RewardModel, CrossFitted] | None,
        headline: HeadlineSums,
        bounds: tuple[float, float],
        rng: np.random.Generator,
        embeddings: Embeddings | None,
    ) -> None:
        one = Rows(*np.zeros((len(Rows._fields), 1)))
        self.estimators = list(estimators)
        self.sums = [MomentSums(estimator.terms(one).shape[1]) for estimator in self.estimators]
        self.running = [RunningSums(estimator.terms(one).shape[1], POINTS) for estimator in self.estimators]
        self.logged, self.weights = MomentSums(1), MomentSums(1)
        self.support = SupportSums(head.arms.most if head.arms.same_arms else None)
        self.equal_probabilities = True
        self.headline = headline if fitted is not None else None
        self._target, self._fitted, self._bounds, self._rng = target, fitted, bounds, rng
        self._embeddings = embeddings
        self._dealt, self._rows = _Dealt(), 0

    def add(self, block: LoggedData) -> None:
        """The next rows."""
        propensities = block.propensities
        if propensities is None:
            raise InvalidInput("some rows of the log have a propensity and others have none")
        self._check_rewards(block)
        units, own = self._dealt.of(block)
        probabilities = checked_probabilities(self._target, block, self._rows)
        place = np.arange(len(block)), block.chosen
        weights = probabilities[place] / propensities
        expected, predicted, marginal = np.zeros((3, len(block)))
        if self._fitted is not None:
            model, fitted = self._fitted
            rewards = np.clip(fitted.expect(block, fold_of(own, model.folds)), *self._bounds)
            expected = np.einsum("ak,ak->a", np.where(block.there, rewards, 0.0), probabilities)
            predicted = rewards[place]
            assert self.headline is not None
            self.headline.add(block, probabilities, rewards, weights, units)
        if self._embeddings is not None:
            marginal = self._embeddings.weights(block, probabilities, self._rows)
        matched = self._matched(probabilities, block.chosen)
        rows = Rows(weights, block.rewards, matched, expected, predicted, marginal)
        for estimator, sums, running in zip(self.estimators, self.sums, self.running, strict=True):
            terms = estimator.terms(rows)
            sums.add(terms, units)
            running.add(terms.T)
        self.logged.add(block.rewards[:, np.newaxis], units)
        self.weights.add(weights[:, np.newaxis], units)
        self.support.add(block, probabilities, weights)
        self.equal_probabilities &= bool((np.abs(propensities * block.arms.counts - 1.0) <= EQUAL).all())
        self._rows += len(block)

    def _check_rewards(self, block: LoggedData) -> None:
        outside = (block.rewards < self._bounds[0]) | (block.rewards > self._bounds[1])
        if outside.any():
            row = int(np.argmax(outside))
            raise InvalidInput(
                f"reward_range is {self._bounds}, and the reward of row {self._rows + row} is {block.rewards[row]}"
            )

    def _matched(self, probabilities: Floats, chosen: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        below = np.cumsum(probabilities, axis=1)
        drawn = (self._rng.random(len(chosen))[:, np.newaxis] * below[:, -1:] >= below).sum(axis=1)
        matched: np.ndarray[tuple[int], np.dtype[np.bool_]] = drawn == chosen
        return matched


def _evaluation(
    work: _Pass,
    support: Support,
    level: float,
    head: LoggedData,
    arm_names: tuple[str, ...] | None,
) -> Evaluation:
    if not work.equal_probabilities and any(one.name == "replay" for one in work.estimators):
        raise InvalidInput(
            "replay needs a log that chose all arms of a row with the same probability, 1/K; this one did not. "
            "Use ips, snips or dr"
        )
    estimates = []
    for estimator, sums, running in zip(work.estimators, work.sums, work.running, strict=True):
        moments, table = sums.moments(), running.table()
        used = estimator.used(moments)
        kept = moments.only(used)
        certain = estimator.spread_known
        estimates.append(
            Estimate(
                estimator=estimator,
                value=float(estimator.combine(kept.mean)),
                standard_error=kept.standard_error(estimator.gradient(kept.mean)) if certain else math.nan,
                normal=normal_interval(estimator, kept, level) if certain else UNKNOWN,
                running=estimator.combine((table[1:][used] / table[0]).T),
                support=support,
                moments=kept,
            )
        )
    logged = work.logged.moments()
    return Evaluation(
        estimates=tuple(estimates),
        logged=float(logged.mean[0]),
        logged_error=logged.standard_error(np.ones(1)),
        headline=None if work.headline is None else work.headline.headline(level, support.effective_sample_size),
        support=support,
        level=level,
        notes=tuple(_notes(work, estimates, support, head, logged)),
        at_rows=work.running[0].table()[0].astype(np.int64),
        arm_names=arm_names,
    )


def _notes(
    work: _Pass, estimates: Sequence[Estimate], support: Support, head: LoggedData, logged: Moments
) -> list[str]:
    notes = support.warnings()
    if head.estimated:
        notes.append(
            "propensities were estimated from the log: if decisions hung on what is not in it, every estimate is biased"
        )
    if logged.grouped:
        few = ", too few for intervals to be trusted" if logged.groups < FEW_GROUPS else ""
        notes.append(f"rows that were decided together count as one: {logged.groups} independent groups{few}")
    biased = [one.name for one in work.estimators if one.biased]
    if biased:
        notes.append(
            f"no interval shows the bias that {', '.join(biased)} may have, from a model, from smaller "
            "weights or from embeddings"
        )
    flat = [one.estimator.name for one in estimates if one.standard_error == 0.0]
    if flat and support.unused < 1.0:
        notes.append(
            f"all rows that count have the same reward, so that {', '.join(flat)} cannot tell how far it is off"
        )
    if support.unused == 1.0:
        notes.append("the target never does what the log did: there is nothing to go by")
    return notes
