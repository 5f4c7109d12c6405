"""PolicyComparison: the result of `compare_policies`, and its settings."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import polars as pl

from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import Displayed, percent
from glbandits.common.errors import InvalidInput, check_bool, check_float, check_int
from glbandits.evaluation.estimators.estimator import DEFAULT_LEVEL, UNKNOWN_INTERVAL
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate
from glbandits.evaluation.estimators.results import Evaluation
from glbandits.evaluation.estimators.support import MIN_SAMPLE_SIZE, NO_EVIDENCE
from glbandits.evaluation.learning.learning_curve import Learn, LearningCurve
from glbandits.evaluation.learning.players import PlaySettings
from glbandits.evaluation.logs.schema import Dates, period
from glbandits.evaluation.policy_verdicts import Compared, PolicyVerdict, policy_verdicts
from glbandits.evaluation.promotion_result import Promotion
from glbandits.evaluation.verdict_sentences import verdict_sentences

LOG = "the log itself"
CURVE_POINTS = 500
"""Points of a learning curve: more than a screen shows."""
OTHER_ROWS = "the reference learned some of the rows; choose a saved model as the reference"
"""Why a saved model, which is evaluated on all rows, has no difference from a policy that learned."""


ComparisonProgress: TypeAlias = Callable[[str, float, float], None]
"""Called with a label, the work done and the total work."""


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
        train: the share of rows, from the first on, that policies learn before they are evaluated on the rest. If the
            clusters of the log interleave: the share of clusters.
        level: confidence level of the intervals.
        reward_range: lowest and highest possible reward; None takes the range of the link.
        payoff_range: lowest and highest possible payoff; None takes those of a table of payoffs. Without
            one, there are no intervals at every n, and no gate.
        other_ranges: lowest and highest possible value of other rewards, by their names; without one, that of the link.
        reference: label of the candidate that all others are compared with; None takes the first.
        learn: which rows a policy learns while its learning curve is computed, as in `play_log`.
        exploration: the share of decisions that will be random, whichever policy or model runs.
        explore: whether policies and models explore by their own rule when they decide; see `Bandit.choose`.
        gate: settings of the promotion gate; None skips it.
        seed: of all random numbers.
    """

    estimators: tuple[str, ...] = ("snips", "dr")
    train: float = 0.5
    level: float = DEFAULT_LEVEL
    reward_range: tuple[float, float] | None = None
    payoff_range: tuple[float, float] | None = None
    other_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    reference: str | None = None
    learn: Learn = "matched"
    exploration: float = 0.0
    explore: bool = True
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
        check_bool("explore", self.explore)
        self.learning_curve_rules()

    def learning_curve_rules(self) -> PlaySettings:
        """Return the rules by which learning curves are computed."""
        return PlaySettings(learn=self.learn, points=CURVE_POINTS)


@dataclass(frozen=True, eq=False, kw_only=True)
class EvaluatedPolicy:
    """One candidate and its evaluation on the log."""

    label: str
    evaluation: Evaluation
    """Of the candidate after learning, on rows that it did not learn."""
    left_out_rows: int
    """Number of rows of the log that the evaluation does not use: those that policies learned, and outdated ones."""
    learning_curve: LearningCurve | None
    """Reward while learning, over the whole log; None for a candidate that does not learn."""
    outdated_rows: int = 0
    """Those of `left_out_rows` that no policy learned: the log changed after them."""

    @property
    def learned_rows(self) -> int | None:
        """Number of rows that it learned before; None if it did not learn from this log."""
        return None if self.learning_curve is None else self.left_out_rows - self.outdated_rows

    def learning_curve_note(self) -> str | None:
        """Return a warning if the learning curve rests on too few rows, else None."""
        if self.learning_curve is None or self.learning_curve.effective_sample_size >= MIN_SAMPLE_SIZE:
            return None
        rows = f"{self.learning_curve.effective_sample_size:.3g} of {self.learning_curve.events} rows"
        return f"the effective sample size of the learning curve is only {rows}: it is unreliable"


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupComparison:
    """Treatment against control, in the log of a loop with a control group."""

    table: DataTable
    sentences: tuple[str, ...]
    """The verdict by each metric."""
    record: tuple[dict[str, Any], ...]
    """The same as the service reports it, for each metric."""


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
    dates: Dates = ()
    """Those of the rows of the log, if known."""
    reward: str | None = None
    """Name of the reward; None if there is only one."""
    other_rewards: tuple["PolicyComparison", ...] = ()
    """The same candidates, which learned the first reward, evaluated by other rewards."""
    groups: GroupComparison | None = None
    """None if the log has no control group."""

    @property
    def unit(self) -> str:
        """What all values are means of: "reward", or "payoff" if the log has values."""
        return self.policies[0].evaluation.unit

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

    @property
    def verdict(self) -> tuple[str, ...]:
        """Sentences: what is better than the logging policy, what is best, how sure, or how many rows are missing.

        Sentences about the other rewards follow.
        """
        sentences = verdict_sentences(self._compared())
        named = (sentence if self.reward is None else f"By {self.reward}: {sentence}" for sentence in sentences)
        return (*named, *(sentence for other in self.other_rewards for sentence in other.verdict))

    @property
    def verdicts(self) -> tuple[PolicyVerdict, ...]:
        """The verdicts by the first reward as records, from which `verdict` is written. The gate is not among them."""
        return policy_verdicts(self._compared())

    def _compared(self) -> Compared:
        return Compared(
            {policy.label: policy.evaluation for policy in self.policies},
            self.differences,
            self.reference,
            self.rows,
            self.settings.level,
            gate="" if self.promotion is None else self.promotion.headline,
            unit=self.unit,
            evaluated_rows={policy.label: self.describe_rows(policy.left_out_rows) for policy in self.policies},
            since_change=frozenset(policy.label for policy in self.policies if policy.outdated_rows),
        )

    def plot(self, styles: Mapping[str, Any] | None = None) -> Any:
        """Return an Altair chart of each estimate with its interval, by policy. The dotted line is the mean of the log.

        `styles` are those of `common.display.charts.styles_in_order`, to use the same colours in several charts.
        """
        from glbandits.common.display.charts import IntervalRow, finish, intervals_chart, styles_in_order
        from glbandits.common.display.palette import GREY

        parts = self.evaluation_by_left_out_rows
        rows = [
            IntervalRow(
                LOG, "mean" if len(parts) == 1 else self.describe_rows(left_out), part.logged, *part.logged_interval
            )
            for left_out, part in parts.items()
        ]
        for policy in self.policies:
            for row in policy.evaluation.rows():
                why = NO_EVIDENCE if math.isnan(row.value) else "no interval" if row.interval is None else ""
                name = f"{row.name}: {why}" if why else row.name
                rows.append(IntervalRow(policy.label, name, row.value, *(row.interval or UNKNOWN_INTERVAL)))
        styles = styles_in_order(policy.label for policy in self.policies) if styles is None else styles
        colours = {LOG: GREY} | {label: style.colour for label, style in styles.items()}
        title, references = f"mean {self.unit} of a decision", [part.logged for part in parts.values()]
        chart = intervals_chart(rows, title, references=references, colours=colours)
        return finish(chart, f"M{title[1:]}", f"{percent(self.settings.level)} intervals")

    def to_frame(self) -> pl.DataFrame:
        """All estimates as a data frame, with the columns of `Evaluation.to_frame`, policy and, if named, reward."""
        frames = []
        for comparison in (self, *self.other_rewards):
            for policy in comparison.policies:
                frame = policy.evaluation.to_frame().insert_column(0, pl.lit(policy.label).alias("policy"))
                if comparison.reward is not None:
                    frame = frame.insert_column(0, pl.lit(comparison.reward).alias("reward"))
                frames.append(frame)
        return pl.concat(frames)

    def describe_rows(self, left_out: int) -> str:
        """Return a description of the rows of an evaluation that leaves out this number of rows."""
        if self.by_cluster and left_out:
            return f"the {self.rows - left_out:,} rows of other clusters"
        rows = f"rows {left_out + 1:,} to {self.rows:,}" if left_out else f"all {self.rows:,} rows"
        return ", ".join(filter(None, (rows, period(self.dates, left_out, self.rows))))

    def _values(self) -> dict[str, object]:
        policies = ", ".join(policy.label for policy in self.policies)
        values = {"log": self.source, "rows": self.rows, "features": self.dim, "policies": policies}
        for label, difference in self.differences.items():
            values[f"{label} minus {self.reference}"] = difference or OTHER_ROWS
        return values
