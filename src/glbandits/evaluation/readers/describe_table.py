"""Describe a table before it is read as a log: also one that cannot be evaluated yet."""

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from glbandits.common.arrays import Floats
from glbandits.common.errors import MAX_ABS, InvalidInput
from glbandits.evaluation.logs.arm_notes import variants_note
from glbandits.evaluation.logs.description import ColumnSummary, DescriptionSums, LogDescription
from glbandits.evaluation.logs.logged_data import BLOCK
from glbandits.evaluation.readers.column_values import column_values, float_values, is_text, reward_values
from glbandits.evaluation.readers.columns import Columns, prepare_table
from glbandits.evaluation.readers.table_inspection import ARM_BLOCKS, LEARN_ROWS
from glbandits.features.kinds.categorical import CODE, Category
from glbandits.features.kinds.column_kind import MISSING_TEXTS, ColumnKind, is_missing
from glbandits.features.kinds.hashed_text import Text
from glbandits.features.kinds.kind_inference import (
    MOSTLY_DISTINCT,
    SKIP,
    Kinds,
    has_name_of_codes,
    learn_kind,
    missing_count,
)
from glbandits.features.kinds.near_duplicates import near_duplicates

OUTLIER_RANGES = 5.0
"""A number is an outlier if it is this many interquartile ranges away from the quartiles."""
MAX_COUNTED = 1000
"""The largest number of categories that are compared with each other."""


def describe_table(
    table: pl.LazyFrame,
    columns: Columns,
    source: str = "LOG",
    *,
    kinds: Kinds | None = None,
    offered: Sequence[str] = (),
    problems: Sequence[str] = (),
    progress: Callable[[int, int], None] = lambda *_: None,
) -> LogDescription:
    """Describe a table with one row for each decision, in one pass, and its columns from a sample of the rows.

    Missing and invalid values of rewards and propensities are counted and left out. Columns that have no role are
    described as context, if `columns.context` is empty.

    Args:
        table: the table.
        columns: the meaning of its columns. Columns that the table lacks are reported.
        source: the address of the log, for the next command.
        kinds: the kinds of columns that should not be inferred.
        offered: names of all arms, if they are known.
        problems: why the log cannot be evaluated, as far as that is known.
        progress: called with the number of rows read and of all rows.
    """
    names, sums, problems = table.collect_schema().names(), DescriptionSums(), list(problems)
    absent = [role for role in ("arm", "reward") if getattr(columns, role) not in names]
    renamed = ["propensity"] if columns.propensity not in (*names, Columns().propensity, None) else []
    for role in (*absent, *renamed):
        problems.append(f"the table has no column {getattr(columns, role)!r}. Name its column with --{role}")
    propensity = columns.propensity if columns.propensity in names else None
    sums.has_propensities = bool(propensity or renamed)
    bad: Counter[str] = Counter()
    total = int(table.select(pl.len()).collect(engine="streaming").item())
    if not absent:
        try:
            prepare_table(table, replace(columns, propensity=propensity, probabilities=None))
        except InvalidInput as problem:
            problems.append(str(problem))
        read = [columns.arm, columns.reward, *filter(None, [propensity])]
        for rows in table.select(read).collect_batches(chunk_size=BLOCK, maintain_order=True):
            _add(sums, rows, columns, propensity, bad)
            progress(sums.rows, total)
        problems += [f"{text} in {count:,} of {total:,} rows. {ADVICE[text]}" for text, count in bad.items()]
    else:
        sums.rows = total
    needs_arm_table = len(sums.arms) > ARM_BLOCKS and not offered and columns.arms is None
    if needs_arm_table:
        problems.append(f"{len(sums.arms):,} arms need features of arms, in a file that --arm-table names")
    found = [] if not sums.rows else describe_columns(table, columns, sums.rows, kinds or {})
    never = tuple(name for name in offered if name not in sums.arms)
    described = sums.description(
        source,
        columns=found,
        problems=problems,
        never_chosen=never,
        arm_column=columns.arm,
        suggest_context=not columns.context,
    )
    if not absent:
        return replace(described, options=(*described.options, *[("--arm-table", "FILE")] * needs_arm_table))
    return replace(described, options=tuple((f"--{role}", "COLUMN") for role in absent))


NO_ARM, NO_REWARD, NO_PROPENSITY = "the arm is missing", "the reward is missing", "the propensity is missing"
BAD_REWARD = f"the reward is no number between -{MAX_ABS:g} and {MAX_ABS:g}"
BAD_PROPENSITY = "the propensity is not above 0 and at most 1"
ADVICE = {
    NO_ARM: "Fill it in, or drop these rows",
    NO_REWARD: "Drop these rows, or write 0 if nothing happened",
    NO_PROPENSITY: "Fill it in, or drop these rows",
    BAD_REWARD: "Correct it, or drop these rows",
    BAD_PROPENSITY: "Correct it, such as 0.5 for 50%, or drop these rows",
}
"""What to do about rows that an evaluation refuses."""


def _add(
    sums: DescriptionSums, rows: pl.DataFrame, columns: Columns, propensity: str | None, bad: Counter[str]
) -> None:
    """Add rows of a table to the sums, and count those with missing and invalid values."""
    named = rows[columns.arm].is_not_null()
    bad += Counter({NO_ARM: int((~named).sum())})
    rows = rows.filter(named)
    rewards, absent, wrong = _numbers(rows[columns.reward], reward_values)
    bad += Counter({NO_REWARD: absent, BAD_REWARD: wrong})
    propensities = None
    if propensity is not None:
        propensities, absent, wrong = _numbers(rows[propensity], float_values)
        invalid = ~((propensities > 0.0) & (propensities <= 1.0)) & ~np.isnan(propensities)
        propensities[invalid] = np.nan
        bad += Counter({NO_PROPENSITY: absent, BAD_PROPENSITY: wrong + int(invalid.sum())})
        known = propensities[~np.isnan(propensities)]
        if len(known):
            sums.overlap.add(known)
    sums.add(rows[columns.arm].cast(pl.String), rewards, propensities)


def _numbers(series: pl.Series, parse: Callable[[pl.Series], Floats]) -> tuple[Floats, int, int]:
    """The values as numbers, with NaN for others; and how many are missing and invalid."""
    absent = series.is_null()
    if is_text(series.dtype):
        absent |= series.cast(pl.String).str.strip_chars().is_in(list(MISSING_TEXTS)).fill_null(True)
    elif series.dtype.is_float():
        absent |= series.is_nan().fill_null(True)
    numbers, present = np.full(len(series), np.nan), ~absent.to_numpy()
    try:
        numbers[present] = parse(series.filter(~absent))
    except InvalidInput:
        values = series.cast(pl.String).cast(pl.Float64, strict=False).to_numpy()
        numbers = np.where(present & (np.abs(values) <= MAX_ABS), values, np.nan)
    return numbers, int(absent.sum()), int((present & np.isnan(numbers)).sum())


def describe_columns(table: pl.LazyFrame, columns: Columns, rows: int, kinds: Kinds) -> list[ColumnSummary]:
    """Describe the columns of the context, from at most `LEARN_ROWS` evenly spaced rows."""
    present = table.collect_schema().names()
    names = [name for name in columns.context if name in present]
    if not columns.context:
        names = [name for name in present if name not in columns.single and not columns.reads(name)]
    if not names:
        return []
    step = -(-rows // LEARN_ROWS)
    sample = table.select(names).gather_every(step).collect(engine="streaming")
    described = [_column(sample[name], kinds.get(name)) for name in names]
    outcomes = (Columns().arm, Columns().reward, Columns().propensity)  # not known before the decision
    return [replace(each, usable=each.usable and each.name not in outcomes) for each in described]


def _column(series: pl.Series, declared: str | ColumnKind | None) -> ColumnSummary:
    values, name, checks, notes = column_values(series), series.name, list[str](), list[str]()
    kind: ColumnKind | None = None
    advised: str | None = None
    if declared == SKIP:
        return ColumnSummary(name=name, kind=SKIP, missing=series.null_count() / len(series), values="", usable=False)
    if isinstance(declared, ColumnKind):
        kind = declared
    else:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                kind = learn_kind(name, values, declared, "indicator")
        except InvalidInput as problem:
            notes.append(str(problem))
            checks.append("declare its kind")
            advised = next((each for each in ("category", "number", "date") if _suits(name, values, each)), None)
        if caught:
            notes += [str(warning.message) for warning in caught]
            checks.append("code or quantity?")
            advised = "category" if len(np.unique(values)) <= MOSTLY_DISTINCT * len(values) else SKIP
    missing = missing_count(values, Text() if kind is None else kind)
    if isinstance(values, np.ndarray):
        shown, outliers = _range_and_outliers(values[~np.isnan(values)])
        checks += [outliers] if outliers else []
    else:
        counts: Mapping[str, int] = Counter(str(value) for value in values if not is_missing(value))
        groups = near_duplicates(counts) if len(counts) <= MAX_COUNTED and isinstance(kind, Category) else []
        most = ", ".join(f"{value[:20]} ({count:,})" for value, count in Counter(counts).most_common(3))
        shown = f"{len(counts):,} values: {most}"
        if groups:
            checks.append("similar values")
            notes.append(f"column {name!r}: {variants_note(groups, counts, 'categories', name)}")
    return ColumnSummary(
        name=name,
        kind="" if kind is None else kind.kind,
        missing=missing / max(1, len(series)),
        values=shown,
        check="; ".join(checks),
        notes=tuple(notes),
        declared=advised,
        usable=(kind is not None or advised is not None) and advised != SKIP,
    )


def _suits(name: str, values: Any, kind: str) -> bool:
    """Whether a kind is the one to declare for a column whose kind is doubtful."""
    if kind == "category":
        codes = any(isinstance(value, str) and CODE.fullmatch(value.strip()) for value in values)
        return codes or has_name_of_codes(name)
    try:
        learn_kind(name, values, kind, "indicator")
    except InvalidInput:
        return False
    return True


def _range_and_outliers(numbers: Floats) -> tuple[str, str]:
    if not len(numbers):
        return "", ""
    with np.errstate(over="ignore", invalid="ignore"):  # differences of numbers that a feature cannot have
        low, median, high = np.quantile(numbers, (0.25, 0.5, 0.75))
        away = OUTLIER_RANGES * (high - low)
        outliers = numbers[(numbers < low - away) | (numbers > high + away)] if away > 0.0 else numbers[:0]
    if numbers.min() >= 0.0 and numbers.max() <= 1.0:  # shares and propensities have bounds, and so no outliers
        outliers = numbers[:0]
    shown = f"{numbers.min():,.6g} to {numbers.max():,.6g}, median {median:,.6g}"
    if not len(outliers):
        return shown, ""
    largest = outliers[np.argmax(np.abs(outliers))]
    return shown, f"{len(outliers):,} outliers ({len(outliers) / len(numbers):.2%}), such as {largest:,.6g}"
