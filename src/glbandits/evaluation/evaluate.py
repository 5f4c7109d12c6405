"""evaluate: estimate the values of targets from a log, with intervals, in one pass for all of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import comb
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, Unpack, overload

from glbandits.common.display.progress_lines import shown_progress
from glbandits.common.errors import InvalidInput, check_float, check_int, lookup
from glbandits.common.parallel import check_engine
from glbandits.evaluation.estimators.anytime import why_no_anytime_interval
from glbandits.evaluation.estimators.estimator import DEFAULT_LEVEL, Estimator
from glbandits.evaluation.estimators.headline import HeadlineSums, Levels
from glbandits.evaluation.estimators.point_estimators import ESTIMATORS
from glbandits.evaluation.estimators.results import Evaluation
from glbandits.evaluation.estimators.seen_rows import check_not_learned
from glbandits.evaluation.estimators.targets import Target, TargetLike, as_target, may_read
from glbandits.evaluation.evaluation_parts import EvaluationWork
from glbandits.evaluation.logs.doubts import DoubtKind, Withheld
from glbandits.evaluation.logs.hidden_features import HiddenFeatures
from glbandits.evaluation.logs.logged_data import BLOCK, Log, block_size
from glbandits.evaluation.logs.payoffs import payoff_range as possible_payoffs
from glbandits.evaluation.logs.reward_checks import check_reward_range
from glbandits.evaluation.logs.schema import LogSchema
from glbandits.evaluation.models.reward_models import GlmReward, RewardModel
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
    payoff_range: tuple[float, float] | None
    least_propensity: float | None
    reference: TargetLike | None
    comparisons: int | None
    gains: int | None
    seed: int
    progress: Callable[[int, int], None] | None
    jobs: int
    engine: str
    resume: str | PathLike[str] | None


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
    payoff_range: tuple[float, float] | None = None,
    least_propensity: float | None = None,
    reference: TargetLike | None = None,
    comparisons: int | None = None,
    gains: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    jobs: int = 1,
    engine: str = "local",
    resume: str | PathLike[str] | None = None,
) -> Evaluation | dict[str, Evaluation]:
    """Estimate the value of a target, or of several: the mean reward per decision on the rows of a log.

    If the log has values (`LoggedData.values`), all results are payoffs: value * reward - cost. Bandits then maximise
    them.

    Several targets cost little more than one: they share one reward model and one pass over the log.

    Args:
        log: `LoggedData`, or a log that is read from a file.
        target: a `Bandit`, which is not changed and must not have learned these rows; an array of probabilities
            (rows, arms); a function that maps a block of the log to such an array; "uniform"; or the name of an arm
            that is always chosen, such as "b" or "arm:b". In rows that do not offer this arm, the target decides as
            the logging policy did. A note counts these rows.
            Or a dict of such targets by name: the result is then a dict of evaluations.
        estimators: names from `ESTIMATORS`, or instances with other settings.
        model: the reward model, for estimators that need one; by default a GLM with the link of the log.
        level: confidence level of the intervals.
        reward_range: lowest and highest possible reward, for anytime-valid intervals; by default those of the link. The
            range of payoffs follows from it, and from the values and costs of the log.
        payoff_range: lowest and highest possible payoff, for anytime-valid intervals. A table of payoffs says it; of
            a log with values and costs in its rows, only those of these rows are known.
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
        seed: seed of the draws of `matched`.
        progress: called with the number of rows done, and of all rows to do. By default it prints lines as in `train`.
        jobs: number of worker processes that read parts of the log, -1 for one per core. The result is the same to the
            last bit. One process reads a log of sparse rows that has anytime-valid intervals.
        engine: "local" for the cores of this machine, "ray" for a Ray cluster; see `common.parallel`.
        resume: a folder for the sums of finished parts. If the same evaluation was interrupted, it continues, unless
            a file of the log has changed; what is at an address must stay. Targets must be picklable.

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
    schema = _checked_schema(log)
    targets = _targets(target, log)
    check_not_learned(log, target if isinstance(target, Mapping) else {"": target})
    compared = None if reference is None else _reference(reference, targets, log)
    pairs = max(comb(len(targets), 2), 1) if isinstance(target, Mapping) else 1
    pairs = pairs if comparisons is None else check_int("comparisons", comparisons, at_least=1)
    gains = len(targets) if gains is None else check_int("gains", gains, at_least=1)
    link = find_link(schema.link)
    bounds = check_reward_range(reward_range, link)
    payoff_bounds = possible_payoffs(log, bounds, payoff_range)
    check_engine(engine, jobs)
    needs_model = any(estimator.needs_model for estimator in instances)
    if compared is not None and not needs_model:
        raise InvalidInput("reference needs an estimator with a reward model. Add dr to the estimators")
    no_anytime = why_no_anytime_interval(schema, bounds, payoff_range)

    is_target = any(each is compared for each in targets.values())
    others = {} if compared is None or is_target else {_REFERENCE: compared}
    work = EvaluationWork(
        log=log,
        targets=targets | others,
        reference=compared,
        estimators=tuple(instances),
        headline=partial(HeadlineSums, payoff_bounds, least, no_anytime=no_anytime) if needs_model else None,
        model=(model or GlmReward(link=schema.link)) if needs_model else None,
        has_sequence=needs_model and not no_anytime,
        reward_range=bounds,
        payoff_range=payoff_bounds,
        seed=seed,
        size=_block_rows(schema),
    )
    levels = Levels(level, 1.0 - (1.0 - level) / gains, 1.0 - (1.0 - level) / pairs)
    with shown_progress(progress, "Evaluation") as shown:
        run = partial(
            _results_of,
            levels=levels,
            least=least,
            jobs=jobs,
            engine=engine,
            progress=shown,
            resume=None if resume is None else Path(resume),
        )
        results = run(work)
        doubts = [doubt for each in results.values() for doubt in each.doubts]
        hidden = HiddenFeatures.of(log, doubts)
        if hidden is not None:
            results |= _without_leaks(work, hidden, results, run)
    if compared is not None:
        reason = next(results[name].no_evidence for name, each in work.targets.items() if each is compared)
        results = {name: _with_reference(results[name], reason) for name in targets}
    return results if isinstance(target, Mapping) else next(iter(results.values()))


def _results_of(work: EvaluationWork, *, levels: Levels, least: float | None, **options: Any) -> dict[str, Evaluation]:
    """Evaluate all targets. `options` are those of `EvaluationWork.run`."""
    sums = work.run(**options)
    return {
        name: each.evaluation(work.targets[name], sums.log, levels, least, work.log.arm_names)
        for name, each in sums.targets.items()
    }


def _without_leaks(
    work: EvaluationWork,
    hidden: HiddenFeatures,
    results: Mapping[str, Evaluation],
    run: Callable[[EvaluationWork], dict[str, Evaluation]],
) -> dict[str, Evaluation]:
    """Evaluate again the targets that do not read the leaked columns, with a reward model that does not either."""
    depends = {name: may_read(target, hidden) for name, target in work.targets.items()}
    apart = {name: target for name, target in work.targets.items() if not depends[name]}
    reference = next((name for name, target in work.targets.items() if target is work.reference), "")
    known = work.reference if reference in apart else None
    again = run(replace(work, log=hidden, targets=apart, reference=known)) if apart else {}
    return {name: _joined(results[name], each, has_reference=known is not None) for name, each in again.items()}


def _joined(with_leak: Evaluation, without: Evaluation, *, has_reference: bool) -> Evaluation:
    """Return the evaluation without leaked columns, with the doubts about the rows that leaks do not explain."""
    kept = [doubt for doubt in with_leak.doubts if doubt.kind in (DoubtKind.ORDER, DoubtKind.COPIES)]
    kept = [doubt for doubt in kept if doubt not in without.doubts]
    leaks = [doubt for doubt in with_leak.doubts if doubt.kind is DoubtKind.LEAK]
    notes = [*map(str, kept), *(f"{doubt}. The reward model does not use it, nor does this target" for doubt in leaks)]
    headline, before = without.headline, with_leak.headline
    if not has_reference and headline is not None and before is not None and before.difference is not None:
        reason = f"{leaks[0].short} (the reference)"
        headline = replace(headline, difference=before.difference.without_evidence(reason))
    doubts = (*without.doubts, *kept, *(replace(doubt, withholds=Withheld.NOTHING) for doubt in leaks))
    return replace(without, headline=headline, notes=(*without.notes, *notes), doubts=doubts)


def _checked_schema(log: Log) -> LogSchema:
    """The schema of a log. Raises InvalidInput if it has no rows or no propensities."""
    if not isinstance(log, Log):
        raise InvalidInput(f"log must be LoggedData or a log read from a file; got {type(log).__name__}")
    log.schema.check_propensities()
    if not log.schema.rows:
        raise InvalidInput("the log has no rows")
    return log.schema


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


def _block_rows(schema: LogSchema) -> int:
    """Number of rows of a block: fewer if rows have many features."""
    if schema.sparse:  # a log with sparse rows limits its blocks itself
        return BLOCK
    if schema.same_features:
        return block_size(BLOCK, schema.max_arms, schema.dim)
    return max(1, min(BLOCK, MAX_FEATURES // max(schema.max_arms * schema.dim, 1)))
