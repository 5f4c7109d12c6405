"""A log and several policies: what each would have earned, asked in the same way of all, on the same rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from glbandits.bandit import Bandit
from glbandits.errors import InvalidInput, check_float, check_int
from glbandits.evaluation import Evaluation, Log, Promotion, Target, evaluate, promotion, select_estimator, train
from glbandits.evaluation.learning_curve import Learn, LearningCurve
from glbandits.evaluation.log_part import ClusterPart, LogPart, split
from glbandits.evaluation.log_player import Rules, block_rows, check_duration, play_together
from glbandits.evaluation.progressive import ENOUGH
from glbandits.evaluation.targets import FrozenTarget, GivenTarget
from glbandits.experiments.progress import Progress, no_progress
from glbandits.parallel import check_engine, is_one_process, run_parallel
from glbandits.policies import Policy

Candidate: TypeAlias = Policy | Bandit | Target

CURVE_POINTS = 500
"""Places at which learning curves are kept: more than a screen shows."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """How `promotion` decides whether a candidate replaces the policy that wrote the log."""

    alpha: float = 0.05
    """The probability that the gate ever promotes a candidate that is worse."""
    margin: float = 0.0
    """The gain that makes a promotion worth the trouble."""
    exploration: float = 0.0
    """The share of decisions that will be random, whichever candidate runs."""


@dataclass(frozen=True, kw_only=True)
class Questions:
    """How a log is asked.

    Args:
        estimators: names from `ESTIMATORS`.
        select: whether cross-validation chooses one of them, beside them all; a note of each evaluation tells it.
        train: the share of the rows, from the first on, that policies learn before they are evaluated on the rest. Of
            a log whose clusters interleave, the share of clusters.
        level: of the intervals.
        reward_range: lowest and highest reward that there can be; what the link says if None.
        learn: which rows a policy learns while its learning curve is drawn, as in `play_log`.
        gate: whether to promote a candidate; not asked if None.
        seed: of all that is drawn.
    """

    estimators: tuple[str, ...] = ("snips", "dr")
    select: bool = False
    train: float = 0.5
    level: float = 0.95
    reward_range: tuple[float, float] | None = None
    learn: Learn = "matched"
    gate: Gate | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.estimators or len(set(self.estimators)) < len(self.estimators):
            raise InvalidInput(
                f"name at least one estimator, and each once; got {', '.join(self.estimators) or 'none'}"
            )
        check_float("train", self.train, above=0, at_most=1)
        check_int("seed", self.seed, at_least=0)
        self.rules()

    def rules(self) -> Rules:
        """How learning curves are played."""
        return Rules(learn=self.learn, points=CURVE_POINTS)


@dataclass(frozen=True, eq=False, kw_only=True)
class Judged:
    """What a log says about one policy."""

    label: str
    evaluation: Evaluation
    """Of the policy as it stood after the rows that it learned."""
    first_row: int
    """Of those that it was evaluated on. If clusters interleave: how many rows it was not evaluated on."""
    learned: int | None
    """Rows that it had learned before; None if it came as it is."""
    curve: LearningCurve | None
    """What it would have earned while learning, over the whole log: another question. None if it does not learn."""

    def curve_note(self) -> str | None:
        """Why the learning curve should not be trusted, if so."""
        if self.curve is None or self.curve.effective_sample_size >= ENOUGH:
            return None
        worth = f"{self.curve.effective_sample_size:.3g} of {self.curve.events} rows"
        return f"the learning curve rests on {worth}, which says little"


@dataclass(frozen=True, eq=False, kw_only=True)
class LogStudy:
    """What a log says about several policies."""

    source: str
    """What the log is called."""
    rows: int
    dim: int
    arm_names: tuple[str, ...] | None
    """Where all rows have the same arms."""
    questions: Questions
    judged: tuple[Judged, ...]
    by_cluster: bool = False
    """Whether clusters interleave, so that policies learned from some clusters and were evaluated on the others."""
    promotion: Promotion | None = None
    """What the gate says, if it was asked."""
    notes: tuple[str, ...] = ()
    """What a reader must know about the log itself."""

    @property
    def parts(self) -> dict[int, Evaluation]:
        """An evaluation for each set of rows that there is, by the first of them: they agree on the log's own mean."""
        return {one.first_row: one.evaluation for one in reversed(self.judged)}

    def rows_in_words(self, first_row: int) -> str:
        """Which rows those are, from this one on; of clusters that interleave, how many."""
        if first_row and self.by_cluster:
            return f"the {self.rows - first_row:,} rows of other clusters"
        return f"rows {first_row + 1:,} to {self.rows:,}" if first_row else f"all {self.rows:,} rows"


def study(
    log: Log,
    candidates: Mapping[str, Candidate],
    questions: Questions,
    *,
    source: str = "log",
    notes: Sequence[str] = (),
    embeddings: Mapping[str, Any] | None = None,
    jobs: int = 1,
    engine: str = "local",
    progress: Progress | None = None,
) -> LogStudy:
    """Ask a log what each candidate would have earned.

    A policy learns the logged rewards of the first rows (of some clusters, if clusters interleave) and is evaluated, as
    it then stands, on the rest. So is a
    target that needs no learning, on the same rows, if any other candidate learns. A Bandit, which has learned
    elsewhere, is evaluated on all rows. For a policy there is its learning curve over the whole log too.

    Args:
        log: with propensities.
        candidates: by the label that they have in tables and charts.
        questions: what is asked.
        source: what the log is called.
        notes: what a reader must know about the log.
        embeddings: the category of each arm, by its name, for estimators that need it.
        jobs: how many processes work at once, -1 for one per core. The numbers do not depend on it.
        engine: "local" for the cores of this machine, "ray" for a Ray cluster; see `glbandits.parallel.run_parallel`.
        progress: called with what is being done, how much of it is done, and how much there is. One process counts
            rows; several count steps: the gate, a learning curve, an evaluation.
    """
    check_engine(engine, jobs)
    if not candidates:
        raise InvalidInput("name at least one policy to evaluate")
    learners = {label: one for label, one in candidates.items() if isinstance(one, Policy)}
    parts = split(log, questions.train) if learners else None
    report = progress or no_progress
    here = is_one_process(jobs, engine)
    work = _Study(log, parts, candidates, questions, embeddings, report if here else no_progress)
    groups = [tuple(learners)] if here and learners else [(label,) for label in learners]  # of curves in one reading
    steps = [] if questions.gate is None else [GATE]
    steps += [_Step("curves", group) for group in groups] + [_Step("judge", (label,)) for label in candidates]
    results: dict[_Step, Any] = {}
    for index, result in run_parallel(work.do, steps, jobs=jobs, engine=engine):
        results[steps[index]] = result
        if not here:
            report(f"{len(results)} of {len(steps)} steps done", len(results), len(steps))
    curves = {
        label: curve for step, found in results.items() if step.name == "curves" for label, curve in found.items()
    }
    judged = [replace(results[_Step("judge", (label,))], curve=curves.get(label)) for label in candidates]
    return LogStudy(
        source=source,
        rows=len(log),
        dim=log.dim,
        arm_names=log.arm_names,
        questions=questions,
        judged=tuple(judged),
        by_cluster=parts is not None and isinstance(parts[0], ClusterPart),
        promotion=results.get(GATE),
        notes=tuple(notes),
    )


class _Step(NamedTuple):
    """A piece of work that needs no other."""

    name: Literal["gate", "curves", "judge"]
    labels: tuple[str, ...] = ()
    """Of the candidates that it is about."""


GATE = _Step("gate")


class _Study:
    """What the steps of a study share."""

    def __init__(
        self,
        log: Log,
        parts: tuple[LogPart, LogPart] | tuple[ClusterPart, ClusterPart] | None,
        candidates: Mapping[str, Candidate],
        questions: Questions,
        embeddings: Mapping[str, Any] | None,
        progress: Progress,
    ) -> None:
        self._log, self._parts, self._questions, self._progress = log, parts, questions, progress
        self._candidates, self._embeddings = candidates, embeddings

    def do(self, step: _Step) -> Promotion | dict[str, LearningCurve] | Judged:
        """Do a step, in whatever process this is."""
        if step.name == "gate":
            return self._promotion()
        if step.name == "curves":
            return self._curves(step.labels)
        return self._judge(*step.labels)

    def _curves(self, labels: Sequence[str]) -> dict[str, LearningCurve]:
        """Learning curves, in one reading of the log."""
        learners = {label: one for label, one in self._candidates.items() if isinstance(one, Policy)}
        size = block_rows(learners.values())
        learners = {label: learners[label] for label in labels}
        check_duration(learners.values(), self._log, len(self._log if self._parts is None else self._parts[0]), "all")
        done, total = 0, len(self._log) * len(learners)

        def report(rows: int) -> None:
            nonlocal done
            done += rows
            self._progress("learning curves", done, total)

        self._progress("learning curves (compiling, if this is the first run)", 0, total)
        played = play_together(
            list(learners.values()), self._log, [self._questions.seed], self._questions.rules(), report, size=size
        )
        return {label: curve for label, [curve] in zip(learners, played, strict=True)}

    def _judge(self, label: str) -> Judged:
        """One candidate, on the rows that are meant for it."""
        candidate = self._candidates[label]
        learn_from, rest = self._parts or (None, LogPart(self._log, 0, len(self._log)))
        part: Log = rest
        learned = None
        if isinstance(candidate, GivenTarget):  # whose rows are those of the whole log
            candidate = GivenTarget(rest.of(candidate.given))
        if isinstance(candidate, Bandit):
            part = self._log
        elif isinstance(candidate, Policy):
            assert learn_from is not None
            candidate, learned = self._learned(label, candidate, learn_from), len(learn_from)
        return Judged(
            label=label,
            evaluation=self._evaluated(label, candidate, part),
            first_row=len(self._log) - len(part),
            learned=learned,
            curve=None,
        )

    def _promotion(self) -> Promotion:
        """What the gate says."""
        asked = self._questions
        assert asked.gate is not None
        return promotion(
            self._log,
            self._candidates,
            alpha=asked.gate.alpha,
            margin=asked.gate.margin,
            exploration=asked.gate.exploration,
            reward_range=asked.reward_range,
            seed=asked.seed,
            progress=lambda done, total: self._progress("the gate", done, total),
        )

    def _learned(self, label: str, policy: Policy, part: Log) -> Bandit:
        """The policy with what these rows taught it."""
        seed = self._questions.seed
        return train(
            part, policy, seed=seed, progress=lambda done, total: self._progress(f"{label} learns", done, total)
        )

    def _evaluated(self, label: str, candidate: Bandit | Target, part: Log) -> Evaluation:
        """What these rows say about a candidate as it stands."""
        asked = self._questions
        target = FrozenTarget(candidate, asked.seed) if isinstance(candidate, Bandit) else candidate
        settings: dict[str, Any] = {
            "embeddings": self._embeddings,
            "level": asked.level,
            "reward_range": asked.reward_range,
            "seed": asked.seed,
            "progress": lambda done, total: self._progress(f"{label} is evaluated", done, total),
        }
        if asked.select:
            return select_estimator(part, target, asked.estimators, **settings).evaluation
        return evaluate(part, target, asked.estimators, **settings)
