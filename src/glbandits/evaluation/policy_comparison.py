"""Evaluate several policies on one log, with the same estimators and on the same rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glbandits.bandit.entry_points import learn_batch_recipe
from glbandits.common.errors import InvalidInput
from glbandits.common.parallel import check_engine, run_parallel
from glbandits.compilation.recipe import Job
from glbandits.evaluation.comparison_result import (
    ComparisonProgress,
    ComparisonSettings,
    EvaluatedPolicy,
    GateSettings,
    PolicyComparison,
)
from glbandits.evaluation.comparison_steps import Candidate, CandidateLike, Candidates, ComparisonSteps, Step, Workers
from glbandits.evaluation.estimators.frozen_target import frozen_recipe
from glbandits.evaluation.learning.log_player import compile_slow
from glbandits.evaluation.logs.log_slice import SelectedRows
from glbandits.evaluation.logs.logged_data import Log
from glbandits.maths.links import own_link
from glbandits.policies.contract import Policy

__all__ = [
    "Candidate",
    "CandidateLike",
    "ComparisonSettings",
    "EvaluatedPolicy",
    "GateSettings",
    "PolicyComparison",
    "compare_policies",
]


def compare_policies(
    log: Log,
    candidates: Mapping[str, CandidateLike],
    settings: ComparisonSettings,
    *,
    source: str = "log",
    reward: str | None = None,
    other_rewards: Sequence[str] = (),
    jobs: int = 1,
    engine: str = "local",
    resume: Path | None = None,
    progress: ComparisonProgress | None = None,
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
        reward: name of the reward of the log, if there are other rewards.
        other_rewards: names of other rewards of the log (`Columns.other_rewards`). Candidates learn the reward of the
            log, and are then evaluated by the others too, without the gate, on the rows that have them.
        jobs: number of worker processes, -1 for one per core. The results do not depend on it.
        engine: "local" for the cores of this machine, "ray" for a Ray cluster; see `common.parallel`.
        resume: a folder for the finished parts of evaluations; see `evaluate`.
        progress: called with a label, the work done and the total work. One process counts rows; several processes
            count steps: the gate and a learning curve. Evaluations count rows.
    """
    check_engine(engine, jobs)
    prepared = Candidates.of(candidates, log, settings.reference)
    if other_rewards and log.schema.payoffs:
        raise InvalidInput(
            f"a log with payoffs has one reward; got also {other_rewards[0]!r}. Evaluate the other rewards alone"
        )
    workers = Workers(jobs, engine, resume, progress or _no_progress)
    own_progress = workers.report if workers.are_one_process else _no_progress
    work = ComparisonSteps.of(log, prepared, settings, own_progress)
    if prepared.learners:
        workers.report("learning curves", 0, 1)
        _compile(work)
    results = _run(work, _steps_before_evaluation(work, workers), workers)
    gate = results.pop(Step("gate"), None)
    work = replace(work, learned={label: each for found in results.values() for label, each in found.items()})
    by_others = [
        replace(_compared(work.by_reward(name), workers), source=f"{source}, {name}", reward=name)
        for name in other_rewards
    ]
    return replace(
        _compared(work, workers),
        source=source if reward is None else f"{source}, {reward}",
        promotion=gate,
        reward=reward,
        other_rewards=tuple(by_others),
    )


def _no_progress(_label: str, _done: float, _total: float) -> None:
    pass


def _compile(work: ComparisonSteps) -> None:
    """Compile policies that learn, with what later steps need of them."""
    schema = work.log.schema

    def jobs_after_the_curve(form: Policy) -> list[Job]:
        key = form.implementation(schema.dim), own_link(form.link)
        return [(learn_batch_recipe, *key), (frozen_recipe, *key, schema.payoffs)]

    learners, rules = list(work.candidates.learners.values()), work.settings.learning_curve_rules()
    compile_slow(learners, work.log, rules, other_jobs=jobs_after_the_curve)


def _steps_before_evaluation(work: ComparisonSteps, workers: Workers) -> list[Step]:
    """List the gate and learning. One process reads the log once for all policies that learn."""
    gate, learners = [] if work.settings.gate is None else [Step("gate")], tuple(work.candidates.learners)
    if workers.are_one_process:
        return [*gate, Step("learn", learners)] if learners else gate
    return [*gate, *(Step("learn", (label,)) for label in learners)]


def _run(work: ComparisonSteps, steps: Sequence[Step], workers: Workers) -> dict[Step, Any]:
    """Return the results of steps, in their order."""
    results = dict[Step, Any](dict.fromkeys(steps))
    finished = run_parallel(work.run, steps, jobs=workers.jobs, engine=workers.engine)
    for done, (index, result) in enumerate(finished, 1):
        results[steps[index]] = result
        if not workers.are_one_process:
            workers.report(f"{done} of {len(steps)} steps done", done, len(steps))
    return results


def _compared(work: ComparisonSteps, workers: Workers) -> PolicyComparison:
    """Evaluate all candidates, after they have learned."""
    groups = work.candidates.evaluated_together
    policies = {policy.label: policy for group in groups for policy in work.evaluate(group, workers)}
    return PolicyComparison(
        source="",
        rows=len(work.whole),
        dim=work.log.dim,
        arm_names=work.log.arm_names,
        settings=work.settings,
        policies=tuple(policies[label] for label in work.candidates.by_label),
        reference=work.candidates.reference,
        dates=work.whole.schema.dates if work.log is work.whole else (),
        by_cluster=work.parts is not None and isinstance(work.parts[0], SelectedRows),
    )
