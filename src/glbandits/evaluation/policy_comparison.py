"""Evaluate several policies on one log, with the same estimators and on the same rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import comb
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from glbandits.bandit import Bandit
from glbandits.bandit.entry_points import learn_batch_recipe
from glbandits.common.errors import InvalidInput, lookup
from glbandits.common.parallel import check_engine, is_one_process, run_parallel
from glbandits.compilation.recipe import Job
from glbandits.evaluation.comparison_result import (
    ComparisonSettings,
    EvaluatedPolicy,
    GateSettings,
    PolicyComparison,
)
from glbandits.evaluation.estimators.frozen_agent import frozen
from glbandits.evaluation.estimators.frozen_target import frozen_recipe
from glbandits.evaluation.estimators.point_estimators import ESTIMATORS
from glbandits.evaluation.estimators.targets import GivenTarget, Target, TargetLike, as_target
from glbandits.evaluation.evaluate import evaluate
from glbandits.evaluation.learning.learning_curve import LearningCurve
from glbandits.evaluation.learning.log_player import block_rows, check_duration, compile_slow, play_policies
from glbandits.evaluation.learning.train import train_all
from glbandits.evaluation.logs.log_slice import LogSlice, SelectedRows, split, with_reward
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.promotion import promotion
from glbandits.evaluation.promotion_result import Promotion
from glbandits.maths.links import own_link
from glbandits.policies.agents import PlayingAgent, PolicyLike, PolicyOrAgent, learner_of
from glbandits.policies.contract import Policy

__all__ = [
    "Candidate",
    "CandidateLike",
    "ComparisonSettings",
    "EvaluatedPolicy",
    "GateSettings",
    "PolicyComparison",
    "Progress",
    "compare_policies",
]

Candidate: TypeAlias = PolicyOrAgent | Bandit | Target
"""A policy or an agent, which learns from the log; a Bandit, which has learned elsewhere; or a target, which does not
learn."""

CandidateLike: TypeAlias = PolicyLike | TargetLike
"""A candidate, the class of an agent, a function of `dim` that makes agents, or anything that `evaluate` accepts as a
target, such as "uniform" and "arm:b"."""

Progress: TypeAlias = Callable[[str, float, float], None]
"""Called with a label, the work done and the total work."""


def compare_policies(
    log: Log,
    candidates: Mapping[str, CandidateLike],
    settings: ComparisonSettings,
    *,
    source: str = "log",
    notes: Sequence[str] = (),
    reward: str | None = None,
    other_rewards: Sequence[str] = (),
    other_ranges: Mapping[str, tuple[float, float]] | None = None,
    jobs: int = 1,
    engine: str = "local",
    resume: Path | None = None,
    progress: Progress | None = None,
) -> PolicyComparison:
    """Estimate the mean reward, or payoff if the log has values, that each candidate would have earned on a log.

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
        reward: name of the reward of the log, if there are other rewards.
        other_rewards: names of other rewards of the log (`Columns.other_rewards`). Candidates learn the reward of the
            log, and are then evaluated by the others too, without the gate, on the rows that have them.
        other_ranges: lowest and highest possible value of other rewards, by their names; by default those of the link.
        jobs: number of worker processes, -1 for one per core. The results do not depend on it.
        engine: "local" for the cores of this machine, "ray" for a Ray cluster; see `common.parallel`.
        resume: a folder for the finished parts of evaluations; see `evaluate`.
        progress: called with a label, the work done and the total work. One process counts rows; several processes
            count steps: the gate and a learning curve. Evaluations count rows.
    """
    check_engine(engine, jobs)
    if not candidates:
        raise InvalidInput("name at least one policy to evaluate")
    reference = next(iter(candidates)) if settings.reference is None else settings.reference
    lookup("reference", reference, candidates)
    learning = {label: learner for label, each in candidates.items() if (learner := learner_of(each)) is not None}
    prepared: dict[str, Candidate] = {
        label: learning.get(label) or _unlearned(candidate, log, label) for label, candidate in candidates.items()
    }
    learners = list(learning)
    if other_rewards and log.schema.payoffs:
        raise InvalidInput(
            f"a log with payoffs has one reward; got also {other_rewards[0]!r}. Evaluate the other rewards alone"
        )
    parts = split(log, settings.train) if learners else None
    report, one_process = progress or _no_progress, is_one_process(jobs, engine)
    rows_report = report if one_process else _no_progress
    work = _Work(log, parts, prepared, reference, settings, rows_report)
    steps: list[_Step] = [] if settings.gate is None else [("gate", ())]
    # One process reads the log once for all policies that learn.
    steps += [("learn", tuple(learners))] if one_process and learners else [("learn", (label,)) for label in learners]
    saved = tuple(label for label, candidate in prepared.items() if isinstance(candidate, Bandit))
    unsaved = tuple(label for label in prepared if label not in saved)
    evaluations: list[_Step] = [("evaluate", group) for group in (unsaved, saved) if group]
    done, total = 0, len(steps)

    def run(work: _Work, some: Sequence[_Step]) -> list[Any]:
        nonlocal done
        results: list[Any] = [None] * len(some)
        for index, result in run_parallel(work.run, some, jobs=jobs, engine=engine):
            results[index], done = result, done + 1
            if not one_process:
                report(f"{done} of {total} steps done", done, total)
        return results

    def compared(work: _Work, **about: Any) -> PolicyComparison:
        evaluate_group = partial(work.evaluate, jobs=jobs, engine=engine, resume=resume, progress=report)
        policies = {policy.label: policy for _, group in evaluations for policy in evaluate_group(group)}
        return PolicyComparison(
            rows=len(log),
            dim=log.dim,
            arm_names=log.arm_names,
            policies=tuple(policies[label] for label in candidates),
            reference=reference,
            by_cluster=parts is not None and isinstance(parts[0], SelectedRows),
            **about,
        )

    if learners:
        report("learning curves", 0, 1)
        jobs_of = partial(_jobs_after_the_curve, dim=log.dim, payoffs=log.schema.payoffs)
        compile_slow(list(learning.values()), log, settings.learning_curve_rules(), other_jobs=jobs_of)
    first = run(work, steps)
    for step, result in zip(steps, first, strict=True):
        if step[0] == "learn":
            work.learned |= result
    learned = {label: each._replace(curve=None) for label, each in work.learned.items()}
    others = []
    for name in other_rewards:
        own = replace(settings, gate=None, reward_range=(other_ranges or {}).get(name))
        own_parts = None if parts is None else (with_reward(parts[0], name), with_reward(parts[1], name))
        part = with_reward(log, name)
        own_work = _Work(part, own_parts, prepared, reference, own, rows_report, learned, log)
        others.append(compared(own_work, source=f"{source}, {name}", settings=own, reward=name))
    return compared(
        work,
        source=source if reward is None else f"{source}, {reward}",
        settings=settings,
        promotion=None if settings.gate is None else first[0],
        notes=tuple(notes),
        reward=reward,
        other_rewards=tuple(others),
    )


def _unlearned(candidate: Any, log: Log, label: str) -> Bandit | Target:
    return candidate if isinstance(candidate, Bandit) else as_target(candidate, log, f"candidate {label!r}")


def _jobs_after_the_curve(form: Policy, dim: int, payoffs: bool) -> list[Job]:
    """Return the entry points that train a policy and evaluate it."""
    key = form.implementation(dim), own_link(form.link)
    return [(learn_batch_recipe, *key), (frozen_recipe, *key, payoffs)]


def _no_progress(_label: str, _done: float, _total: float) -> None:
    pass


_Step: TypeAlias = tuple[Literal["gate", "learn", "evaluate"], tuple[str, ...]]
"""What to do, and the candidates of it. A step depends on earlier kinds of steps only."""


class _Learned(NamedTuple):
    """A policy after it has learned."""

    curve: LearningCurve | None
    """Its reward while it learns the whole log; None for a reward that it does not learn."""
    bandit: Bandit | PlayingAgent
    """It has learned the first part of the log."""


class _Work:
    """The inputs of all steps. It is pickled for worker processes."""

    def __init__(
        self,
        log: Log,
        parts: tuple[Log, Log] | None,
        candidates: Mapping[str, Candidate],
        reference: str,
        settings: ComparisonSettings,
        progress: Progress,
        learned: Mapping[str, _Learned] | None = None,
        whole: Log | None = None,
    ) -> None:
        self._whole = log if whole is None else whole  # whose rows arrays of probabilities have
        self._log, self._parts, self._settings, self._progress = log, parts, settings, progress
        self._candidates, self._reference = candidates, reference
        self.learned: dict[str, _Learned] = dict(learned or {})

    def run(self, step: _Step) -> Promotion | dict[str, _Learned]:
        """Run the gate, or let candidates learn, in this process or in a worker."""
        kind, labels = step
        return self._promotion() if kind == "gate" else self._learn(labels)

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
        candidates = self._candidates.items()
        learners = {label: learner for label, each in candidates if (learner := learner_of(each)) is not None}
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

    def evaluate(
        self, labels: Sequence[str], *, jobs: int, engine: str, resume: Path | None, progress: Progress
    ) -> list[EvaluatedPolicy]:
        """Evaluate candidates on the same rows, in one pass: saved models on all rows, others on the second part."""
        settings = self._settings
        test_part = LogSlice(self._log, 0, len(self._log)) if self._parts is None else self._parts[1]
        rows = self._log if isinstance(self._candidates[labels[0]], Bandit) else test_part
        has_headline = any(lookup("estimator", name, ESTIMATORS)().needs_model for name in settings.estimators)
        targets = {label: self._target(label, rows) for label in labels}
        compared = None
        if has_headline and (rows is test_part or learner_of(self._candidates[self._reference]) is None):
            own = self._reference in targets
            compared = targets[self._reference] if own else self._target(self._reference, rows)
        label = f"evaluating {', '.join(labels)}"
        progress(label, 0, len(rows))
        evaluations = evaluate(
            rows,
            targets,
            settings.estimators,
            level=settings.level,
            reward_range=settings.reward_range,
            reference=compared,
            comparisons=max(comb(len(self._candidates), 2), 1),
            gains=len(self._candidates),
            seed=settings.seed,
            progress=lambda done, total: progress(label, done, total),
            jobs=jobs,
            engine=engine,
            resume=resume,
        )
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
        candidate: Any = self.learned[label].bandit if label in self.learned else self._candidates[label]
        if isinstance(candidate, Bandit | PlayingAgent):
            return frozen(candidate, self._settings.seed, self._settings.exploration)
        if isinstance(candidate, GivenTarget) and rows is not self._whole:
            candidate = candidate.of_part(rows, self._whole)
        target: Target = candidate
        return target
