"""The steps of a policy comparison: the gate, learning and evaluation. Each may run in another process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from glbandits.bandit import Bandit
from glbandits.common.display.progress_lines import WorkCount
from glbandits.common.errors import InvalidInput, lookup
from glbandits.common.parallel import is_one_process
from glbandits.evaluation.comparison_result import ComparisonProgress, ComparisonSettings, EvaluatedPolicy
from glbandits.evaluation.estimators.frozen_agent import frozen
from glbandits.evaluation.estimators.point_estimators import ESTIMATORS
from glbandits.evaluation.estimators.results import Evaluation
from glbandits.evaluation.estimators.seen_rows import first_new_row
from glbandits.evaluation.estimators.targets import ExploringTarget, GivenTarget, Target, TargetLike, as_target
from glbandits.evaluation.evaluate import evaluate
from glbandits.evaluation.learning.learning_curve import LearningCurve
from glbandits.evaluation.learning.log_player import block_rows, check_duration, play_policies
from glbandits.evaluation.learning.train import train_all
from glbandits.evaluation.logs.checks.log_doubts import LEAST_ROWS
from glbandits.evaluation.logs.doubts import DoubtKind, Withheld
from glbandits.evaluation.logs.log_slice import LogSlice, split, with_reward
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.promotion import promotion
from glbandits.evaluation.promotion_result import Promotion
from glbandits.policies.agents import PlayingAgent, PolicyLike, PolicyOrAgent, learner_of

Candidate: TypeAlias = PolicyOrAgent | Bandit | Target
"""A policy or an agent, which learns from the log; a Bandit, which has learned elsewhere; or a target, which does not
learn."""

CandidateLike: TypeAlias = PolicyLike | TargetLike
"""A candidate, the class of an agent, a function of `dim` that makes agents, or anything that `evaluate` accepts as a
target, such as "uniform" and "arm:b"."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of a comparison, by their labels, with the label of the reference."""

    by_label: Mapping[str, Candidate]
    learners: Mapping[str, PolicyOrAgent]
    """Those of the candidates that learn."""
    reference: str

    @classmethod
    def of(cls, given: Mapping[str, CandidateLike], log: Log, reference: str | None) -> "Candidates":
        """Check candidates of a user. Without a reference, it is the first."""
        if not given:
            raise InvalidInput("name at least one policy to evaluate")
        reference = next(iter(given)) if reference is None else reference
        lookup("reference", reference, given)
        learners = {label: learner for label, each in given.items() if (learner := learner_of(each)) is not None}
        by_label = {label: learners.get(label) or _unlearned(each, log, label) for label, each in given.items()}
        return cls(by_label, learners, reference)

    @property
    def evaluated_together(self) -> list[tuple[str, ...]]:
        """Labels of the candidates that are evaluated on the same rows: saved models on all, others on a part."""
        saved = tuple(label for label, each in self.by_label.items() if isinstance(each, Bandit))
        others = tuple(label for label in self.by_label if label not in saved)
        return [group for group in (others, saved) if group]


def _unlearned(candidate: Any, log: Log, label: str) -> Bandit | Target:
    return candidate if isinstance(candidate, Bandit) else as_target(candidate, log, f"candidate {label!r}")


class Learned(NamedTuple):
    """A policy after it has learned."""

    curve: LearningCurve | None
    """Its reward while it learns the whole log; None for a reward that it does not learn."""
    bandit: Bandit | PlayingAgent
    """It has learned the first part of the log."""


class Workers(NamedTuple):
    """Where steps run, and who hears of them."""

    jobs: int
    engine: str
    resume: Path | None
    """A folder for the finished parts of evaluations."""
    report: ComparisonProgress

    @property
    def are_one_process(self) -> bool:
        """Whether all steps run in this process."""
        return is_one_process(self.jobs, self.engine)


class Step(NamedTuple):
    """A step that may run in another process, and the candidates of it."""

    kind: Literal["gate", "learn"]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ComparisonSteps:
    """The inputs of all steps. It is pickled for worker processes."""

    log: Log
    whole: Log
    """The log whose rows arrays of probabilities have: it has also the rows without this reward."""
    parts: tuple[Log, Log] | None
    """The rows that policies learn, and those that they are evaluated on; None if no candidate learns."""
    candidates: Candidates
    settings: ComparisonSettings
    progress: ComparisonProgress
    first_new: int = 0
    """The first row that no saved model has learned: they are evaluated from it on."""
    learned: Mapping[str, Learned] = field(default_factory=dict)
    """The policies that have learned."""

    @classmethod
    def of(
        cls, log: Log, candidates: Candidates, settings: ComparisonSettings, progress: ComparisonProgress
    ) -> "ComparisonSteps":
        """Return the steps of a log, before a policy has learned."""
        first_new = first_new_row(log, candidates.by_label)
        parts = split(log, settings.train) if candidates.learners else None
        return cls(log, log, parts, candidates, settings, progress, first_new)

    def by_reward(self, name: str) -> "ComparisonSteps":
        """Return the steps with another reward of the log, which candidates do not learn."""
        return replace(
            self,
            log=with_reward(self.log, name),
            parts=None if self.parts is None else (with_reward(self.parts[0], name), with_reward(self.parts[1], name)),
            settings=replace(self.settings, gate=None, reward_range=self.settings.other_ranges.get(name)),
            learned={label: each._replace(curve=None) for label, each in self.learned.items()},
        )

    def run(self, step: Step) -> Promotion | dict[str, Learned]:
        """Run the gate, or let candidates learn."""
        return self._decide() if step.kind == "gate" else self._learn(step.labels)

    def _decide(self) -> Promotion:
        """Run the promotion gate."""
        settings, explore = self.settings, self.settings.explore
        assert settings.gate is not None
        rows = self._new_rows()
        return promotion(
            rows,
            {
                label: frozen(each, explore=explore) if isinstance(each, Bandit) else self._on(rows, each)
                for label, each in self.candidates.by_label.items()
            },
            alpha=settings.gate.alpha,
            margin=settings.gate.margin,
            exploration=settings.exploration,
            explore=explore,
            reward_range=settings.reward_range,
            payoff_range=settings.payoff_range,
            seed=settings.seed,
            progress=lambda done, total: self.progress("promotion gate", done, total),
        )

    def _learn(self, labels: Sequence[str]) -> dict[str, Learned]:
        """Compute learning curves in one pass over the log, and train in one pass over its first part."""
        assert self.parts is not None
        size = block_rows(self.candidates.learners.values())
        learners = {label: self.candidates.learners[label] for label in labels}
        # `play_policies` checks the duration of the curves. This checks that of training, before the curves take time.
        check_duration(learners.values(), self.log, len(self.parts[0]), "all")
        count = WorkCount(
            lambda done, total: self.progress("learning curves", done, total), len(self.log) * len(labels)
        )
        rules, seed = self.settings.learning_curve_rules(), self.settings.seed
        curves = play_policies(list(learners.values()), self.log, [seed], rules, count.add, size=size)
        trained = train_all(
            self.parts[0],
            learners,
            seed=seed,
            progress=lambda done, total: self.progress(f"training {', '.join(labels)}", done, total),
        )
        return {label: Learned(curve, trained[label]) for label, [curve] in zip(learners, curves, strict=True)}

    def evaluate(self, labels: Sequence[str], workers: Workers) -> list[EvaluatedPolicy]:
        """Evaluate candidates on the same rows: saved models on new ones, others on the second part.

        If the log changed, they are evaluated on the rows since its last change.
        """
        new_rows = self._new_rows()
        test_part = new_rows if self.parts is None else self.parts[1]
        rows = new_rows if isinstance(self.candidates.by_label[labels[0]], Bandit) else test_part
        evaluations, outdated = self._evaluations(labels, rows, test_part, workers), 0
        doubts = [doubt for each in evaluations.values() for doubt in each.doubts]
        changes = [doubt for doubt in doubts if doubt.kind is DoubtKind.CHANGED]
        leaks = {doubt.text: replace(doubt, withholds=Withheld.ALL) for doubt in doubts if doubt.kind is DoubtKind.LEAK}
        since = max((doubt.since or 0 for doubt in changes), default=0)
        if since and len(rows) - since >= LEAST_ROWS:
            outdated, recent = since, LogSlice(rows, since, len(rows), (*leaks.values(),))
            test_part = recent if rows is test_part else test_part
            evaluations = self._evaluations(labels, recent, test_part, workers)
            note = (
                f"{changes[0].short}, so that only the rows since its last change are evaluated: {len(recent):,} of "
                f"{len(rows):,}. If rewards arrive late, leave out the newest rows, which lack some of theirs"
            )
            evaluations = {label: replace(each, notes=(*each.notes, note)) for label, each in evaluations.items()}
        return [
            EvaluatedPolicy(
                label=label,
                evaluation=evaluation,
                left_out_rows=len(self.log) - len(rows) + outdated,
                learning_curve=self.learned[label].curve if label in self.learned else None,
                outdated_rows=outdated,
            )
            for label, evaluation in evaluations.items()
        ]

    def _evaluations(self, labels: Sequence[str], rows: Log, test_part: Log, workers: Workers) -> dict[str, Evaluation]:
        """Evaluate candidates on these rows, in one pass."""
        settings, count = self.settings, len(self.candidates.by_label)
        targets = {label: self._target(label, rows) for label in labels}
        title = f"evaluating {', '.join(labels)}"
        workers.report(title, 0, len(rows))
        return evaluate(
            rows,
            targets,
            settings.estimators,
            level=settings.level,
            reward_range=settings.reward_range,
            payoff_range=settings.payoff_range,
            reference=self._reference(targets, rows, rows is test_part),
            comparisons=max(comb(count, 2), 1),
            gains=count,
            seed=settings.seed,
            progress=lambda done, total: workers.report(title, done, total),
            jobs=workers.jobs,
            engine=workers.engine,
            resume=workers.resume,
        )

    def _new_rows(self) -> Log:
        """The rows that no saved model has learned."""
        return LogSlice(self.log, self.first_new, len(self.log))

    def _reference(self, targets: Mapping[str, Target], rows: Log, is_test_part: bool) -> Target | None:
        """The reference, if there are differences from it: not on rows that it has learned."""
        label = self.candidates.reference
        if not any(lookup("estimator", name, ESTIMATORS)().needs_model for name in self.settings.estimators):
            return None
        if not is_test_part and label in self.candidates.learners:
            return None
        return targets[label] if label in targets else self._target(label, rows)

    def _target(self, label: str, rows: Log) -> Target:
        """The candidate, after it has learned, as a target for these rows."""
        candidate: Any = self.learned[label].bandit if label in self.learned else self.candidates.by_label[label]
        if isinstance(candidate, Bandit | PlayingAgent):
            candidate = frozen(candidate, self.settings.seed, explore=self.settings.explore)
        return ExploringTarget.of(self._on(rows, candidate), self.settings.exploration)

    def _on(self, rows: Log, candidate: Any) -> Any:
        """The candidate for a part of the rows."""
        if isinstance(candidate, GivenTarget) and rows is not self.whole:
            return candidate.of_part(rows, self.whole)
        return candidate
