"""Evaluate several policies on one log, with the same estimators and on the same rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import comb
from typing import Any, Literal, NamedTuple, TypeAlias

from glbandits.bandit import Bandit
from glbandits.bandit.entry_points import learn_batch_recipe
from glbandits.common.display.displayed import Displayed
from glbandits.common.errors import InvalidInput, check_float, check_int, lookup
from glbandits.common.parallel import check_engine, is_one_process, run_parallel
from glbandits.compilation.recipe import Job
from glbandits.evaluation.estimators.estimator import DEFAULT_LEVEL
from glbandits.evaluation.estimators.frozen_target import FrozenTarget, frozen_recipe
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate
from glbandits.evaluation.estimators.point_estimators import ESTIMATORS
from glbandits.evaluation.estimators.results import Evaluation
from glbandits.evaluation.estimators.support import MIN_SAMPLE_SIZE
from glbandits.evaluation.estimators.targets import GivenTarget, Target, TargetLike, as_target
from glbandits.evaluation.evaluate import evaluate
from glbandits.evaluation.logs.log_slice import ClusterSlice, LogSlice, split
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.promotion import Promotion, promotion
from glbandits.evaluation.replay.learning_curve import Learn, LearningCurve
from glbandits.evaluation.replay.log_player import (
    ReplaySettings,
    block_rows,
    check_duration,
    compile_slow,
    play_policies,
)
from glbandits.evaluation.replay.train import train_all
from glbandits.evaluation.select_estimator import choose_estimator, with_validator
from glbandits.maths.links import find_link
from glbandits.policies import Policy

Candidate: TypeAlias = Policy | Bandit | Target
"""A policy, which learns from the log; a Bandit, which has learned elsewhere; or a target, which does not learn."""

CandidateLike: TypeAlias = Policy | TargetLike
"""A candidate, or anything that `evaluate` accepts as a target, such as "uniform" and "arm:b"."""

Progress: TypeAlias = Callable[[str, float, float], None]
"""Called with a label, the work done and the total work."""

CURVE_POINTS = 500
"""Points of a learning curve: more than a screen shows."""
OTHER_ROWS = "the reference learned some of the rows; choose a saved model as the reference"
"""Why a saved model, which is evaluated on all rows, has no difference from a policy that learned."""


@dataclass(frozen=True, kw_only=True)
class GateSettings:
    """Settings of the promotion gate. `promotion` documents them."""

    alpha: float = 0.05
    """Bound on the probability that the gate ever promotes a worse candidate."""
    margin: float = 0.0
    """A gain that is too small to wait for: the verdict is "keep" if no gain exceeds it."""


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings:
    """Settings of a policy comparison.

    Args:
        estimators: names from `ESTIMATORS`.
        select: whether cross-validation also selects one of them. A note of each evaluation names the selected one.
        train: the share of rows, from the first on, that policies learn before they are evaluated on the rest. If the
            clusters of the log interleave: the share of clusters.
        level: confidence level of the intervals.
        reward_range: lowest and highest possible reward; None takes the range of the link.
        reference: label of the candidate that all others are compared with; None takes the first.
        learn: which rows a policy learns while its learning curve is computed, as in `play_log`.
        exploration: the share of decisions that will be random, whichever policy or model runs.
        gate: settings of the promotion gate; None skips it.
        seed: of all random numbers.
    """

    estimators: tuple[str, ...] = ("snips", "dr")
    select: bool = False
    train: float = 0.5
    level: float = DEFAULT_LEVEL
    reward_range: tuple[float, float] | None = None
    reference: str | None = None
    learn: Learn = "matched"
    exploration: float = 0.0
    gate: GateSettings | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.estimators or len(set(self.estimators)) < len(self.estimators):
            raise InvalidInput(
                f"name at least one estimator, and each once; got {', '.join(self.estimators) or 'none'}"
            )
        check_float("train", self.train, above=0, at_most=1)
        check_int("seed", self.seed, at_least=0)
        check_float("exploration", self.exploration, at_least=0, at_most=1)
        self.learning_curve_rules()

    def learning_curve_rules(self) -> ReplaySettings:
        """Return the rules by which learning curves are computed."""
        return ReplaySettings(learn=self.learn, points=CURVE_POINTS)


@dataclass(frozen=True, eq=False, kw_only=True)
class EvaluatedPolicy:
    """One candidate and its evaluation on the log."""

    label: str
    evaluation: Evaluation
    """Of the candidate after learning, on rows that it did not learn."""
    left_out_rows: int
    """Number of rows of the log that the evaluation does not use: those that policies learned, or 0."""
    learning_curve: LearningCurve | None
    """Reward while learning, over the whole log; None for a candidate that does not learn."""

    @property
    def learned_rows(self) -> int | None:
        """Number of rows that it learned before; None if it did not learn from this log."""
        return None if self.learning_curve is None else self.left_out_rows

    def learning_curve_note(self) -> str | None:
        """Return a warning if the learning curve rests on too few rows, else None."""
        if self.learning_curve is None or self.learning_curve.effective_sample_size >= MIN_SAMPLE_SIZE:
            return None
        rows = f"{self.learning_curve.effective_sample_size:.3g} of {self.learning_curve.events} rows"
        return f"the effective sample size of the learning curve is only {rows}: it is unreliable"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PolicyComparison(Displayed):
    """The evaluations of several candidates on one log."""

    source: str
    """Name of the log."""
    rows: int
    dim: int
    arm_names: tuple[str, ...] | None
    """None if arms differ from row to row."""
    settings: ComparisonSettings
    policies: tuple[EvaluatedPolicy, ...]
    reference: str
    """Label of the candidate that all others are compared with."""
    by_cluster: bool = False
    """Whether clusters interleave, so that policies learned from some clusters and were evaluated on the others."""
    promotion: Promotion | None = None
    """Verdict of the promotion gate, if it was enabled."""
    notes: tuple[str, ...] = ()
    """Remarks about the log itself."""

    @property
    def differences(self) -> dict[str, DoublyRobustEstimate | None]:
        """The value of each candidate minus that of the reference; None if it is unknown (`OTHER_ROWS` says why).

        All intervals of one kind hold at once with probability `settings.level`, whichever candidate is the reference.
        """
        return {
            policy.label: policy.evaluation.headline.difference
            for policy in self.policies
            if policy.label != self.reference and policy.evaluation.headline is not None
        }

    @property
    def evaluation_by_left_out_rows(self) -> dict[int, Evaluation]:
        """One evaluation for each set of evaluated rows, by `left_out_rows`.

        Each has the logged mean of its rows.
        """
        return {policy.left_out_rows: policy.evaluation for policy in reversed(self.policies)}

    def describe_rows(self, left_out: int) -> str:
        """Return a description of the rows of an evaluation that leaves out this number of rows."""
        if not left_out:
            return f"all {self.rows:,} rows"
        if self.by_cluster:
            return f"the {self.rows - left_out:,} rows of other clusters"
        return f"rows {left_out + 1:,} to {self.rows:,}"

    def _values(self) -> dict[str, object]:
        policies = ", ".join(policy.label for policy in self.policies)
        values = {"log": self.source, "rows": self.rows, "features": self.dim, "policies": policies}
        for label, difference in self.differences.items():
            values[f"{label} minus {self.reference}"] = difference or OTHER_ROWS
        return values


def compare_policies(
    log: Log,
    candidates: Mapping[str, CandidateLike],
    settings: ComparisonSettings,
    *,
    source: str = "log",
    notes: Sequence[str] = (),
    embeddings: Mapping[str, Any] | None = None,
    jobs: int = 1,
    engine: str = "local",
    progress: Progress | None = None,
) -> PolicyComparison:
    """Estimate the mean reward that each candidate would have earned on a log.

    A policy learns the logged rewards of the first rows (of some clusters, if clusters interleave). It is then frozen
    and evaluated on the rest. If any candidate learns, targets are evaluated on the same rest. A Bandit, which has
    learned elsewhere, is evaluated on all rows. A policy also gets a learning curve over the whole log. All
    candidates are compared with a reference, on the same rows (`PolicyComparison.differences`).

    Args:
        log: with propensities.
        candidates: by their labels in tables and charts. A policy with its settings, a Bandit, or any other target of
            `evaluate`, such as "uniform" or "arm:b" (always the arm b).
        settings: estimators, split, intervals and gate.
        source: name of the log in reports.
        notes: remarks about the log for its reader.
        embeddings: the category of each arm, by its name, for estimators that need it.
        jobs: number of worker processes, -1 for one per core. The results do not depend on it.
        engine: "local" for the cores of this machine, "ray" for a Ray cluster; see `common.parallel`.
        progress: called with a label, the work done and the total work. One process counts rows; several processes
            count steps: the gate, a learning curve, an evaluation.
    """
    check_engine(engine, jobs)
    if not candidates:
        raise InvalidInput("name at least one policy to evaluate")
    reference = next(iter(candidates)) if settings.reference is None else settings.reference
    lookup("reference", reference, candidates)
    prepared: dict[str, Candidate] = {
        label: candidate
        if isinstance(candidate, Policy | Bandit)
        else as_target(candidate, log, f"candidate {label!r}")
        for label, candidate in candidates.items()
    }
    learners = [label for label, candidate in prepared.items() if isinstance(candidate, Policy)]
    parts = split(log, settings.train) if learners else None
    report, one_process = progress or _no_progress, is_one_process(jobs, engine)
    work = _Work(log, parts, prepared, reference, settings, embeddings, report if one_process else _no_progress)
    steps: list[_Step] = [] if settings.gate is None else [("gate", ())]
    # One process reads the log once for all policies that learn.
    steps += [("learn", tuple(learners))] if one_process and learners else [("learn", (label,)) for label in learners]
    saved = tuple(label for label, candidate in prepared.items() if isinstance(candidate, Bandit))
    others = tuple(label for label in prepared if label not in saved)
    evaluations: list[_Step] = [("evaluate", group) for group in (others, saved) if group]
    done, total = 0, len(steps) + len(evaluations)

    def run(some: Sequence[_Step]) -> list[Any]:
        nonlocal done
        results: list[Any] = [None] * len(some)
        for index, result in run_parallel(work.run, some, jobs=jobs, engine=engine):
            results[index], done = result, done + 1
            if not one_process:
                report(f"{done} of {total} steps done", done, total)
        return results

    if learners:
        report("learning curves", 0, 1)
        policies_that_learn = [each for each in prepared.values() if isinstance(each, Policy)]
        jobs_of = partial(_jobs_after_the_curve, dim=log.dim)
        compile_slow(policies_that_learn, log, settings.learning_curve_rules(), other_jobs=jobs_of)
    first = run(steps)
    for step, result in zip(steps, first, strict=True):
        if step[0] == "learn":
            work.learned |= result
    policies = {policy.label: policy for group in run(evaluations) for policy in group}
    return PolicyComparison(
        source=source,
        rows=len(log),
        dim=log.dim,
        arm_names=log.arm_names,
        settings=settings,
        policies=tuple(policies[label] for label in candidates),
        reference=reference,
        by_cluster=parts is not None and isinstance(parts[0], ClusterSlice),
        promotion=None if settings.gate is None else first[0],
        notes=tuple(notes),
    )


def _jobs_after_the_curve(form: Policy, dim: int) -> list[Job]:
    """Return the entry points that train a policy and evaluate it."""
    key = form.implementation(dim), find_link(form.link)
    return [(learn_batch_recipe, *key), (frozen_recipe, *key)]


def _no_progress(_label: str, _done: float, _total: float) -> None:
    pass


_Step: TypeAlias = tuple[Literal["gate", "learn", "evaluate"], tuple[str, ...]]
"""What to do, and the candidates of it. A step depends on earlier kinds of steps only."""


class _Learned(NamedTuple):
    """A policy after it has learned."""

    curve: LearningCurve
    """Its reward while it learns the whole log."""
    bandit: Bandit
    """It has learned the first part of the log."""


class _Work:
    """The inputs of all steps. It is pickled for worker processes."""

    def __init__(
        self,
        log: Log,
        parts: tuple[LogSlice, LogSlice] | tuple[ClusterSlice, ClusterSlice] | None,
        candidates: Mapping[str, Candidate],
        reference: str,
        settings: ComparisonSettings,
        embeddings: Mapping[str, Any] | None,
        progress: Progress,
    ) -> None:
        self._log, self._parts, self._settings, self._progress = log, parts, settings, progress
        self._candidates, self._reference, self._embeddings = candidates, reference, embeddings
        self.learned: dict[str, _Learned] = {}

    def run(self, step: _Step) -> Promotion | dict[str, _Learned] | list[EvaluatedPolicy]:
        """Run one step, in this process or in a worker."""
        kind, labels = step
        if kind == "gate":
            return self._promotion()
        return self._learn(labels) if kind == "learn" else self._evaluate(labels)

    def _promotion(self) -> Promotion:
        settings = self._settings
        assert settings.gate is not None
        return promotion(
            self._log,
            self._candidates,
            alpha=settings.gate.alpha,
            margin=settings.gate.margin,
            exploration=settings.exploration,
            reward_range=settings.reward_range,
            seed=settings.seed,
            progress=lambda done, total: self._progress("promotion gate", done, total),
        )

    def _learn(self, labels: Sequence[str]) -> dict[str, _Learned]:
        """Compute learning curves in one pass over the log, and train in one pass over its first part."""
        assert self._parts is not None
        learners = {label: each for label, each in self._candidates.items() if isinstance(each, Policy)}
        size = block_rows(learners.values())
        learners = {label: learners[label] for label in labels}
        # `play_policies` checks the duration of the curves. This checks that of training, before the curves take time.
        check_duration(learners.values(), self._log, len(self._parts[0]), "all")
        total, done = len(self._log) * len(learners), 0

        def report(rows: int) -> None:
            nonlocal done
            done += rows
            self._progress("learning curves", done, total)

        curves = play_policies(
            list(learners.values()),
            self._log,
            [self._settings.seed],
            self._settings.learning_curve_rules(),
            report,
            size=size,
        )
        trained = train_all(
            self._parts[0],
            learners,
            seed=self._settings.seed,
            progress=lambda done, total: self._progress(f"training {', '.join(labels)}", done, total),
        )
        return {label: _Learned(curve, trained[label]) for label, [curve] in zip(learners, curves, strict=True)}

    def _evaluate(self, labels: Sequence[str]) -> list[EvaluatedPolicy]:
        """Evaluate candidates on the same rows, in one pass: saved models on all rows, others on the second part."""
        settings = self._settings
        test_part = LogSlice(self._log, 0, len(self._log)) if self._parts is None else self._parts[1]
        rows = self._log if isinstance(self._candidates[labels[0]], Bandit) else test_part
        has_headline = settings.select or any(
            lookup("estimator", name, ESTIMATORS)().needs_model for name in settings.estimators
        )
        targets = {label: self._target(label, rows) for label in labels}
        compared = None
        if has_headline and (rows is test_part or not isinstance(self._candidates[self._reference], Policy)):
            own = self._reference in targets
            compared = targets[self._reference] if own else self._target(self._reference, rows)
        label = f"evaluating {', '.join(labels)}"
        self._progress(label, 0, len(rows))
        evaluations = evaluate(
            rows,
            targets,
            with_validator(settings.estimators) if settings.select else settings.estimators,
            embeddings=self._embeddings,
            level=settings.level,
            reward_range=settings.reward_range,
            reference=compared,
            comparisons=max(comb(len(self._candidates), 2), 1),
            seed=settings.seed,
            progress=lambda done, total: self._progress(label, done, total),
        )
        if settings.select:
            evaluations = {
                label: choose_estimator(each, settings.estimators, seed=settings.seed).evaluation
                for label, each in evaluations.items()
            }
        return [
            EvaluatedPolicy(
                label=label,
                evaluation=evaluation,
                left_out_rows=len(self._log) - len(rows),
                learning_curve=self.learned[label].curve if label in self.learned else None,
            )
            for label, evaluation in evaluations.items()
        ]

    def _target(self, label: str, rows: Log) -> Target:
        """The candidate, after it has learned, as a target for these rows."""
        candidate = self.learned[label].bandit if label in self.learned else self._candidates[label]
        assert not isinstance(candidate, Policy)
        if isinstance(candidate, Bandit):
            return FrozenTarget(candidate, self._settings.seed, self._settings.exploration)
        if isinstance(candidate, GivenTarget) and rows is not self._log:
            assert isinstance(rows, LogSlice | ClusterSlice)
            return candidate.of_part(rows)
        return candidate
