"""evaluate: estimate the values of targets from a log, with intervals, in one pass for all of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import comb
from typing import TypeAlias, TypedDict, Unpack, overload

import numpy as np

from glbandits.common.display.progress_lines import shown_progress
from glbandits.common.errors import InvalidInput, check_float, check_int, lookup
from glbandits.evaluation.estimators.anytime import why_no_anytime_interval
from glbandits.evaluation.estimators.estimator import DEFAULT_LEVEL, Estimator
from glbandits.evaluation.estimators.headline import HeadlineSums, Levels
from glbandits.evaluation.estimators.log_rows import LogRows, RowReader, RowUnits
from glbandits.evaluation.estimators.point_estimators import ESTIMATORS
from glbandits.evaluation.estimators.results import Evaluation
from glbandits.evaluation.estimators.target_sums import TargetSums
from glbandits.evaluation.estimators.targets import Target, TargetLike, as_target, target_probabilities
from glbandits.evaluation.logs.arm_features import FixedArms
from glbandits.evaluation.logs.log_slice import fold_of
from glbandits.evaluation.logs.logged_data import BLOCK, Log, LoggedData, first_row_of
from glbandits.evaluation.logs.payoffs import payoff_range
from glbandits.evaluation.logs.reward_checks import check_reward_range
from glbandits.evaluation.models.reward_models import CrossFitted, GlmReward, RewardModel, SequentialGlm
from glbandits.maths.links import find_link

_REFERENCE = "\0reference"
"""Name of a reference that is not one of the targets."""
MAX_FEATURES = 8_000_000
"""Maximum number of features of a block: 64 MB."""


class EvaluationOptions(TypedDict, total=False):
    """The keyword arguments of `evaluate`, which documents them."""

    model: RewardModel | None
    level: float
    reward_range: tuple[float, float] | None
    least_propensity: float | None
    reference: TargetLike | None
    comparisons: int | None
    gains: int | None
    seed: int
    progress: Callable[[int, int], None] | None


Estimators: TypeAlias = str | Sequence[str | Estimator]


@overload
def evaluate(
    log: Log,
    target: Mapping[str, TargetLike],
    estimators: Estimators = ...,
    **options: Unpack[EvaluationOptions],
) -> dict[str, Evaluation]: ...


@overload
def evaluate(
    log: Log, target: TargetLike, estimators: Estimators = ..., **options: Unpack[EvaluationOptions]
) -> Evaluation: ...


def evaluate(
    log: Log,
    target: TargetLike | Mapping[str, TargetLike],
    estimators: Estimators = ("dr", "ips", "snips"),
    *,
    model: RewardModel | None = None,
    level: float = DEFAULT_LEVEL,
    reward_range: tuple[float, float] | None = None,
    least_propensity: float | None = None,
    reference: TargetLike | None = None,
    comparisons: int | None = None,
    gains: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation | dict[str, Evaluation]:
    """Estimate the value of a target, or of several: the mean reward per decision on the rows of a log.

    If the log has values (`LoggedData.values`), all results are payoffs: value * reward - cost. Bandits then maximise
    them.

    Several targets cost little more than one: they share one reward model and one pass over the log.

    Args:
        log: `LoggedData`, or a log that is read from a file.
        target: a `Bandit`, which is not changed; an array of probabilities (rows, arms); a function that maps a block
            of the log to such an array; "uniform"; or the name of an arm that is always chosen, such as "b" or "arm:b".
            In rows that do not offer this arm, the target decides as the logging policy did. A note counts these rows.
            Or a dict of such targets by name: the result is then a dict of evaluations.
        estimators: names from `ESTIMATORS`, or instances with other settings.
        model: the reward model, for estimators that need one; by default a GLM with the link of the log.
        level: confidence level of the intervals.
        reward_range: lowest and highest possible reward, for anytime-valid intervals; by default those of the link. The
            range of payoffs follows from it, and from the values and costs of the log.
        least_propensity: lower bound on the probabilities that the logging policy gave to arms that the target may
            choose. Set it if it is known and the log does not have the probabilities of all arms: anytime-valid
            intervals become narrower, and there is a note if the largest weights are rarely observed.
        reference: another target, or the name of one of the targets in the dict. `Headline.difference` is then the
            value of a target minus that of the reference, with intervals from the differences of the same rows. Needs
            an estimator with a reward model, such as `dr`.
        comparisons: number of differences that share the error probability 1 - level (Bonferroni). Then all their
            intervals hold at once with probability `level`, whichever of them is looked at. By default 1 for one
            target, and the number of pairs for a dict.
        gains: number of gains that share it in the same way, in `Headline.joint_gain`; by default that of the targets.
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
    >>> both = evaluate(log, {"new": "arm:new", "random": "uniform"}, reference="random")
    >>> round(both["new"].headline.difference.value, 2)
    0.26
    """
    requested = [estimators] if isinstance(estimators, str) else list(estimators)
    if not requested:
        raise InvalidInput(f"estimators must have at least one of {', '.join(ESTIMATORS)}; got none")
    instances = [lookup("estimator", item, ESTIMATORS)() if isinstance(item, str) else item for item in requested]
    level, seed = check_float("level", level, above=0, at_most=1 - 1e-9), check_int("seed", seed, at_least=0)
    least = None if least_propensity is None else check_float("least_propensity", least_propensity, above=0, at_most=1)
    head = _checked_first_row(log)
    targets = _targets(target, log)
    compared = None if reference is None else _reference(reference, targets, log)
    pairs = max(comb(len(targets), 2), 1) if isinstance(target, Mapping) else 1
    pairs = pairs if comparisons is None else check_int("comparisons", comparisons, at_least=1)
    gains = len(targets) if gains is None else check_int("gains", gains, at_least=1)
    link = find_link(head.link)
    bounds = check_reward_range(reward_range, link)
    payoff_bounds = payoff_range(log, bounds)
    needs_model = any(estimator.needs_model for estimator in instances)
    if compared is not None and not needs_model:
        raise InvalidInput("reference needs an estimator with a reward model. Add dr to the estimators")
    no_anytime = why_no_anytime_interval(head, bounds)

    def headline() -> HeadlineSums | None:
        return HeadlineSums(payoff_bounds, least, no_anytime=no_anytime) if needs_model else None

    is_target = any(each is compared for each in targets.values())
    others = {} if compared is None or is_target else {_REFERENCE: compared}
    sums = {
        name: TargetSums(each, instances, headline(), np.random.default_rng(seed), head)
        for name, each in (targets | others).items()
    }
    with shown_progress(progress, "Evaluation") as shown:
        size = _block_rows(head)
        report = _Progress(shown, (2 if needs_model else 1) * len(log))
        fitted = _fit(log, model or GlmReward(link=head.link), size, report) if needs_model else None
        sequential = SequentialGlm(link, log.dim, sparse=log.sparse) if needs_model and not no_anytime else None
        reader = RowReader(bounds, fitted, sequential, payoff_range=payoff_bounds)
        for block in log.blocks(size):
            _add(sums, reader.read(block), compared)
            report.add(len(block))
    levels = Levels(level, 1.0 - (1.0 - level) / gains, 1.0 - (1.0 - level) / pairs)
    results = {name: each.evaluation(reader, levels, least, log.arm_names) for name, each in sums.items()}
    if compared is not None:
        reason = next(results[name].no_evidence for name, each in sums.items() if each.target is compared)
        results = {name: _with_reference(results[name], reason) for name in targets}
    return results if isinstance(target, Mapping) else next(iter(results.values()))


def _checked_first_row(log: Log) -> LoggedData:
    """A block with the first row of a log. Raises InvalidInput if it has no rows or no propensities."""
    if not isinstance(log, Log):
        raise InvalidInput(f"log must be LoggedData or a log read from a file; got {type(log).__name__}")
    head = first_row_of(log)
    if head.propensities is None:
        raise InvalidInput(
            "log must have propensities, the probabilities of the chosen arms; got none. If they are unknown, call "
            "estimate_propensities(log)"
        )
    return head


def _targets(given: TargetLike | Mapping[str, TargetLike], log: Log) -> dict[str, Target]:
    if not isinstance(given, Mapping):
        return {"": as_target(given, log)}
    if not given:
        raise InvalidInput("name at least one target to evaluate; got none")
    return {name: as_target(target, log, f"target {name!r}") for name, target in given.items()}


def _reference(given: TargetLike, targets: Mapping[str, Target], log: Log) -> Target:
    """The target of this name, or another target."""
    if isinstance(given, str) and given in targets:
        return targets[given]
    return as_target(given, log, "reference")


def _with_reference(evaluation: Evaluation, reason: str) -> Evaluation:
    """The evaluation, without the difference if there is not enough evidence on the reference for this reason."""
    headline = evaluation.headline
    if not reason or headline is None or headline.difference is None or evaluation.no_evidence:
        return evaluation
    difference = headline.difference.without_evidence(f"{reason} (the reference)")
    return replace(evaluation, headline=replace(headline, difference=difference))


def _block_rows(head: LoggedData) -> int:
    """Number of rows of a block: fewer if rows have many features."""
    if isinstance(head.arms, FixedArms) or head.sparse:  # a log with sparse rows limits its blocks itself
        return BLOCK
    return max(1, min(BLOCK, MAX_FEATURES // max(head.arms.max_arms * head.dim, 1)))


class _Progress:
    def __init__(self, report: Callable[[int, int], None], total: int) -> None:
        self._report, self._done, self._total = report, 0, total

    def add(self, rows: int) -> None:
        self._done += rows
        self._report(self._done, self._total)


def _fit(log: Log, model: RewardModel, size: int, report: _Progress) -> tuple[RewardModel, CrossFitted]:
    fitted, row_units, first_row = model.begin(log), RowUnits(), 0
    every = -(-len(log) // model.max_rows)
    for block in log.blocks(size):
        rows = slice(-first_row % every, None, every)
        fitted.learn(block[rows], fold_of(row_units.assign(block)[1], model.folds)[rows])
        first_row += len(block)
        report.add(len(block))
    fitted.finish()
    return model, fitted


def _add(sums: Mapping[str, TargetSums], rows: LogRows, reference: Target | None) -> None:
    """Add rows to all targets. The probabilities of the reference are computed once."""
    compared = None if reference is None else target_probabilities(reference, rows.block, rows.first_row)
    for each in sums.values():
        if each.target is reference:
            assert compared is not None
            each.add(rows, compared, None)
        else:
            each.add(rows, target_probabilities(each.target, rows.block, rows.first_row), compared)
