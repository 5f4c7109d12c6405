"""LogDescription: a first look at a log, before it is evaluated."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import polars as pl

from glbandits.common.arrays import Floats, Ints
from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import one_line
from glbandits.common.display.text_format import significant
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.arm_notes import arm_notes
from glbandits.evaluation.logs.doubts import Doubt
from glbandits.evaluation.logs.overlap import Overlap, OverlapSums

MAX_LISTED = 30
"""Arms and columns that a table shows."""
MOST_ARMS = 100_000
"""The largest number of arms that are described."""
MIN_ROWS = 100
"""Rows below which intervals are unreliable."""
PROPENSITY_EDGES = 10.0 ** (np.arange(-40, 1) / 10)
"""Edges of the histogram of propensities: 0.0001 to 1, ten bins per power of ten."""
NO_PROPENSITIES = (
    "the log has no propensities, the probabilities of the chosen arms. Log them; or estimate them, which is correct "
    "only if the context has all that the logging policy used"
)
WRONG_INVERSE_ERRORS = 4.0
"""Standard errors by which the mean of 1 / propensity must deviate from the number of arms for a note."""


@dataclass(frozen=True, kw_only=True)
class ArmSummary:
    """An arm of a log."""

    name: str
    rows: int
    mean_reward: float
    """NaN if no row has a reward."""
    standard_error: float
    """Of the mean reward; NaN with fewer than two rewards."""
    least_propensity: float
    """NaN if the log has no propensities."""
    mean_weight: float
    """Mean over all rows of the weight of a target that always chooses this arm. Expected to be 1 if the propensities
    are correct and the logging policy could choose the arm in all rows; NaN if the log has no propensities."""


@dataclass(frozen=True, kw_only=True)
class ColumnSummary:
    """A column of features."""

    name: str
    kind: str
    """The kind that a feature map gives to the column; empty if it has none."""
    missing: float
    """Share of missing values."""
    values: str
    """The range of numbers, or the number of distinct values."""
    check: str = ""
    """What to check, in a few words."""
    notes: tuple[str, ...] = ()
    """The same in sentences, with advice."""
    declared: str | None = None
    """The kind to declare, if the inferred one is doubtful."""
    usable: bool = True
    """Whether the column can be context, if its kind is declared."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LogDescription:
    """What a log contains, what cannot be evaluated and why, and the options that its evaluation needs."""

    source: str
    rows: int
    arms: tuple[ArmSummary, ...]
    """The arms by their number of rows, and those that were never chosen."""
    mean_reward: float
    lowest_reward: float
    highest_reward: float
    overlap: Overlap | None
    """Statistics of the propensities; None if the log has none."""
    propensity_counts: Ints
    """Number of rows with a propensity in each bin of `PROPENSITY_EDGES`, and below and above all edges, (42,)."""
    columns: tuple[ColumnSummary, ...]
    problems: tuple[str, ...]
    """What cannot be evaluated, and why."""
    notes: tuple[str, ...]
    """What may be wrong."""
    options: tuple[tuple[str, ...], ...]
    """Options of `glb evaluate` that this log needs, with their values."""
    is_refused: bool
    """Whether `glb evaluate` refuses the log before some values are corrected."""
    doubts: tuple[Doubt, ...] = ()
    """Why verdicts on the log may be wrong. They are shown before the notes."""

    @property
    def command(self) -> str:
        """The next command."""
        return shlex.join(["glb", "evaluate" if self.arms else "describe", self.source, *chain(*self.options)])

    def summary_table(self) -> DataTable:
        """Rows, arms, rewards and propensities."""
        rows = [("rows", f"{self.rows:,}"), ("arms", f"{len(self.arms):,}")]
        rows.append(("mean reward", significant(self.mean_reward)))
        rows.append(("rewards", f"{_number(self.lowest_reward)} to {_number(self.highest_reward)}"))
        if self.overlap is not None:
            kind = "estimated" if self.overlap.estimated else "logged"
            rows += [
                ("propensities", f"{kind}, smallest {self.overlap.least:.3g}"),
                ("rows with a propensity below 0.01", f"{self.overlap.below:.1%}"),
                ("mean of 1 / propensity", significant(self.overlap.mean_inverse)),
            ]
        else:
            rows.append(("propensities", "none"))
        if not self.arms:
            rows = rows[:1]
        return DataTable(("log", "value"), rows, ("value",), title=f"Log: {self.source}")

    def arms_table(self) -> DataTable:
        """Rows, rewards and propensities of each arm."""
        columns = ("arm", "rows", "share", "mean reward", "smallest propensity", "mean weight")
        rows = [
            (
                one_line(arm.name),
                f"{arm.rows:,}",
                f"{arm.rows / max(1, self.rows):.1%}",
                significant(arm.mean_reward),
                _number(arm.least_propensity),
                significant(arm.mean_weight),
            )
            for arm in self.arms[:MAX_LISTED]
        ]
        notes = [f"The first {MAX_LISTED} of {len(self.arms):,} arms."] if len(self.arms) > MAX_LISTED else []
        if self.overlap is not None:
            notes.append("The mean weight is about 1 if the propensities are correct and every row could have the arm.")
        return DataTable(columns, rows, title="Arms", notes=notes)

    def columns_table(self) -> DataTable:
        """The columns of the context, and their kinds."""
        columns = ("column", "kind", "missing", "values", "check")
        rows = [
            (one_line(column.name), column.kind, f"{column.missing:.1%}", one_line(column.values), column.check)
            for column in self.columns[:MAX_LISTED]
        ]
        more = [f"The first {MAX_LISTED} of {len(self.columns):,} columns."] if len(self.columns) > MAX_LISTED else []
        return DataTable(columns, rows, ("kind", "values", "check"), title="Columns", notes=more)

    def tables(self) -> list[DataTable]:
        """All tables that have rows."""
        return [table for table in (self.summary_table(), self.arms_table(), self.columns_table()) if table.rows]

    def sentences(self) -> list[str]:
        """What cannot be evaluated, what may be wrong, and the next command."""
        after = ", if the propensities may be estimated" if self.problems else ""
        after = ", after the corrections" if self.is_refused else after
        return [
            *(f"Cannot be evaluated: {problem}" for problem in self.problems),
            *(f"Note: {note}" for note in (*self.doubts, *self.notes)),
            f"Next{after}: {self.command}",
        ]

    def __str__(self) -> str:
        return "\n".join([*(table.to_text() for table in self.tables()), *self.sentences()])


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4g}"


class DescriptionSums:
    """Accumulates what a description needs, over parts of the rows."""

    def __init__(self) -> None:
        self.rows = 0
        self.overlap = OverlapSums()
        self.propensity_counts = np.zeros(len(PROPENSITY_EDGES) + 1, dtype=np.int64)
        self.arms: dict[str, Floats] = {}
        """Of each arm: rows, rewards, their sum and sum of squares, least propensity, sum of 1 / propensity."""
        self.has_propensities = False
        """Whether the log has propensities, valid or not."""
        self.same_arms = True
        """Whether all rows have the same arms."""
        self._low, self._high, self._binary = np.inf, -np.inf, True

    def add(self, arms: pl.Series, rewards: Floats, propensities: Floats | None) -> None:
        """Add the next rows: the names of the chosen arms, and rewards and propensities, with NaN if missing."""
        known = np.isfinite(rewards)
        p = np.full(len(rewards), np.nan) if propensities is None else propensities
        frame = pl.DataFrame({"arm": arms, "known": known, "reward": np.where(known, rewards, 0.0), "p": p})
        chosen = pl.col("p").fill_nan(None)
        sums = frame.group_by("arm").agg(
            pl.len().cast(pl.Float64),
            pl.col("known").sum().cast(pl.Float64),
            pl.col("reward").sum(),
            (pl.col("reward") ** 2).sum().alias("squares"),
            chosen.min().fill_null(np.inf).alias("least"),
            (1.0 / chosen).sum().alias("inverse"),
        )
        for name, *values in sums.iter_rows():
            new = np.array(values)
            old = self.arms.get(name)
            if old is not None:
                least = min(old[4], new[4])
                new += old
                new[4] = least
            self.arms[name] = new
        if len(self.arms) > MOST_ARMS:
            raise InvalidInput(
                f"the log names more than {MOST_ARMS:,} different arms. Is it the right column?",
                field="Columns.arm",
            )
        self.rows += len(rewards)
        values_of_rewards = rewards[known]
        self._low = float(values_of_rewards.min(initial=self._low))
        self._high = float(values_of_rewards.max(initial=self._high))
        self._binary &= bool(((values_of_rewards == 0.0) | (values_of_rewards == 1.0)).all())
        if propensities is not None:
            self.has_propensities = True
            bins = np.searchsorted(PROPENSITY_EDGES, p[np.isfinite(p)], side="left")
            self.propensity_counts += np.bincount(bins, minlength=len(self.propensity_counts))

    def description(
        self,
        source: str,
        *,
        columns: Sequence[ColumnSummary] = (),
        problems: Sequence[str] = (),
        notes: Sequence[str] = (),
        never_chosen: tuple[str, ...] = (),
        arm_column: str = "arm",
        suggest_context: bool = False,
    ) -> LogDescription:
        """Return the description of all rows so far.

        Args:
            source: the address of the log.
            columns: of the context.
            problems: why the log is refused.
            notes: what may be wrong.
            never_chosen: arms without a row.
            arm_column: the column of the arms.
            suggest_context: whether the next command names the columns as context.
        """
        has_propensities = self.overlap.rows > 0
        overlap = self.overlap.overlap(never_chosen) if has_propensities else None
        arms = [_arm(name, values, self.rows, has_propensities) for name, values in self.arms.items()]
        arms.sort(key=lambda arm: (-arm.rows, arm.name))
        arms += [_arm(name, np.array([0, 0, 0, 0, np.inf, 0]), self.rows, has_propensities) for name in never_chosen]
        known, total = (sum(values[at] for values in self.arms.values()) for at in (1, 2))
        found, doubts, options = self._findings(overlap, int(known), arms)
        missing = [] if self.has_propensities or not self.arms else [NO_PROPENSITIES]
        options += [("--propensity", "estimate")] * len(missing)
        counts = {arm.name: arm.rows for arm in arms if arm.rows}
        return LogDescription(
            source=source,
            rows=self.rows,
            arms=tuple(arms),
            mean_reward=float(total / known) if known else np.nan,
            lowest_reward=self._low if known else np.nan,
            highest_reward=self._high if known else np.nan,
            overlap=overlap,
            propensity_counts=self.propensity_counts,
            columns=tuple(columns),
            problems=(*problems, *found, *missing),
            notes=(
                *notes,
                *doubts,
                *arm_notes(counts, arm_column),
                *self._overlap_notes(overlap, len(counts)),
                *self._range(),
                *(note for column in columns for note in column.notes),
            ),
            options=(*options, *_column_options(columns, suggest_context)),
            is_refused=bool(problems or found),
        )

    def _findings(
        self, overlap: Overlap | None, known: int, arms: Sequence[ArmSummary]
    ) -> tuple[list[str], list[str], list[tuple[str, ...]]]:
        """What cannot be evaluated, what is doubtful, and the options that the evaluation needs."""
        problems, doubts, options = list[str](), list[str](), list[tuple[str, ...]]()
        if not self.rows:
            return ["the log has no rows"], [], []
        if not arms:
            return [], [], []
        if self.rows < MIN_ROWS:
            doubts.append(f"the log has only {self.rows} rows, so intervals will be unreliable. Log more decisions")
        if known and self._low == self._high:
            problems.append(f"all rewards are {self._low:g}, so policies cannot differ. Name another column of rewards")
        elif known and self._binary:
            options.append(("--link", "logistic"))
        if overlap is not None and overlap.certain == 1.0:
            problems.append(
                "all propensities are 1: the logging policy could choose no other arm, so the log has no evidence on "
                "other policies. Log some random decisions"
            )
        elif overlap is not None and overlap.certain:
            doubts.append(
                f"{overlap.certain:.1%} of rows have propensity 1: other policies can be evaluated only where they "
                "decide as the log did"
            )
        if sum(arm.rows > 0 for arm in arms) == 1:
            problems.append(f"only the arm {arms[0].name!r} was chosen, so the log has no evidence on other arms")
        return problems, doubts, options

    def _overlap_notes(self, overlap: Overlap | None, arms: int) -> list[str]:
        if overlap is None or arms < 2:
            return [] if overlap is None else overlap.warnings()
        off = abs(overlap.mean_inverse - arms)
        wrong = off > 0.05 * arms and off > WRONG_INVERSE_ERRORS * overlap.mean_inverse_error and not overlap.certain
        mean = (
            f"the mean of 1 / propensity is {significant(overlap.mean_inverse)}, and {arms} arms were chosen. Both are "
            "about equal if every row could have every arm and the propensities are correct. If every row could, an "
            "arm has several names, or the propensities are wrong"
        )
        return [*overlap.warnings(), *([mean] if wrong and self.same_arms and not overlap.impossible else [])]

    def _range(self) -> list[str]:
        if self._binary or not self._low < self._high:
            return []
        return [
            f"intervals that hold at every number of rows need the range of possible rewards: --reward-range, which "
            f"must include {_number(self._low)} to {_number(self._high)}"
        ]


def _column_options(columns: Sequence[ColumnSummary], suggest_context: bool) -> list[tuple[str, ...]]:
    """The options that name the context and declare doubtful kinds."""
    usable = [column for column in columns if column.usable and column.name.strip()]
    names = [f'"{column.name}"' if "," in column.name else column.name for column in usable]
    context = [("--context", ",".join(names))] if names and suggest_context else []
    return [*context, *(("--kind", f"{column.name}={column.declared}") for column in usable if column.declared)]


def _arm(name: str, sums: Floats, all_rows: int, has_propensities: bool) -> ArmSummary:
    rows, known, total, squares, least, inverse = sums.tolist()
    mean = total / known if known else np.nan
    variance = max(0.0, squares / known - mean * mean) if known > 1 else np.nan
    return ArmSummary(
        name=name,
        rows=int(rows),
        mean_reward=mean,
        standard_error=(variance / max(1.0, known - 1.0)) ** 0.5,
        least_propensity=least if np.isfinite(least) else np.nan,
        mean_weight=inverse / max(1, all_rows) if has_propensities else np.nan,
    )
