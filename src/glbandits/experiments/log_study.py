"""A log and several policies: what each would have earned, asked in the same way of all, on the same rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from glbandits.bandit import Bandit
from glbandits.errors import InvalidInput, number, whole
from glbandits.evaluation import Evaluation, Log, Promotion, Target, evaluate, promotion, select_estimator, train
from glbandits.evaluation.learning_curve import Learn, LearningCurve
from glbandits.evaluation.log_part import ClusterPart, LogPart, split
from glbandits.evaluation.log_player import Rules, check_duration, play_together
from glbandits.evaluation.progressive import ENOUGH
from glbandits.evaluation.targets import FrozenTarget, GivenTarget
from glbandits.policies import Policy

Candidate: TypeAlias = Policy | Bandit | Target
Progress: TypeAlias = Callable[[str, float, float], None]

CURVE_POINTS = 500
"""Places at which learning curves are kept: more than a screen shows."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """How `promotion` decides whether a candidate replaces the policy that wrote the log."""

    alpha: float = 0.05
    """The probability that the gate ever promotes a candidate that is worse."""
    margin: float = 0.0
    """The gain that makes a promotion worth the trouble."""


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
        number("train", self.train, above=0, at_most=1)
        whole("seed", self.seed, at_least=0)
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
        progress: called with what is being done, how much of it is done, and how much there is.
    """
    if not candidates:
        raise InvalidInput("name at least one policy to evaluate")
    learners = {label: one for label, one in candidates.items() if isinstance(one, Policy)}
    parts = split(log, questions.train) if learners else None
    work = _Study(log, parts, questions, embeddings, progress or _say_nothing)
    gated = work.promotion(candidates)
    curves = work.curves(learners)
    judged = [work.judge(label, candidate, curves.get(label)) for label, candidate in candidates.items()]
    return LogStudy(
        source=source,
        rows=len(log),
        dim=log.dim,
        arm_names=log.arm_names,
        questions=questions,
        judged=tuple(judged),
        by_cluster=parts is not None and isinstance(parts[0], ClusterPart),
        promotion=gated,
        notes=tuple(notes),
    )


def _say_nothing(what: str, done: float, total: float) -> None:
    pass


class _Study:
    """What the steps of a study share."""

    def __init__(
        self,
        log: Log,
        parts: tuple[LogPart, LogPart] | tuple[ClusterPart, ClusterPart] | None,
        questions: Questions,
        embeddings: Mapping[str, Any] | None,
        progress: Progress,
    ) -> None:
        self._log, self._parts, self._questions, self._progress = log, parts, questions, progress
        self._embeddings = embeddings

    def curves(self, learners: Mapping[str, Policy]) -> dict[str, LearningCurve]:
        """All learning curves, in one reading of the log."""
        if not learners:
            return {}
        check_duration(learners.values(), self._log, len(self._log if self._parts is None else self._parts[0]), "all")
        done, total = 0, len(self._log) * len(learners)

        def report(rows: int) -> None:
            nonlocal done
            done += rows
            self._progress("learning curves", done, total)

        self._progress("learning curves (compiling, if this is the first run)", 0, total)
        played = play_together(
            list(learners.values()), self._log, [self._questions.seed], self._questions.rules(), report
        )
        return {label: curve for label, [curve] in zip(learners, played, strict=True)}

    def judge(self, label: str, candidate: Candidate, curve: LearningCurve | None) -> Judged:
        """One candidate, on the rows that are meant for it."""
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
            curve=curve,
        )

    def promotion(self, candidates: Mapping[str, Candidate]) -> Promotion | None:
        """What the gate says, if it is asked."""
        asked = self._questions
        if asked.gate is None:
            return None
        return promotion(
            self._log,
            candidates,
            alpha=asked.gate.alpha,
            margin=asked.gate.margin,
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
