"""What `glb evaluate` prints: estimates, and with them what they rest on."""

from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table

from glbandits.evaluation.policy_comparison import EvaluatedPolicy, PolicyComparison
from glbandits.reports.evaluation_report.estimate_rows import (
    estimate_rows,
    format_interval,
    format_value,
    logged_interval,
)


def estimates_table(study: PolicyComparison) -> Table:
    """Every estimate with its interval, and what the log itself earned."""
    table = Table(title=f"Mean reward of a decision: {escape(study.source)}", title_justify="left")
    level = f"{study.settings.level:.0%} interval"
    for column in ("policy", "estimator"):
        table.add_column(column, overflow="fold")
    for column in ("mean reward", level, "more than the log"):
        table.add_column(column, justify="right", overflow="fold")
    for one in study.policies:
        for answer in estimate_rows(one.evaluation):
            interval = format_interval(answer.interval)
            table.add_row(escape(one.label), answer.name, format_value(answer.value), interval, answer.gain)
        table.add_section()
    for first, part in study.evaluation_by_first_row.items():
        where = "" if len(study.evaluation_by_first_row) == 1 else f", {study.describe_rows(first)}"
        table.add_row(
            f"the log itself{where}", "", format_value(part.logged), format_interval(logged_interval(part)), ""
        )
    return table


def support_lines(study: PolicyComparison) -> Iterator[str]:
    """What each estimate rests on, and all that a reader must know; never a number without."""
    for one in study.policies:
        yield f"{one.label}: {_support(study, one)}"
        yield from (f"  Note: {note}" for note in one.evaluation.notes)
        if one.learning_curve_note() is not None:
            yield f"  Note: {one.learning_curve_note()}"
    yield from (f"Note: {note}" for note in study.notes)


def _support(study: PolicyComparison, one: EvaluatedPolicy) -> str:
    support = one.evaluation.support
    learned = "" if one.learned_rows is None else f"learned {one.learned_rows:,} rows; "
    return (
        f"{learned}evaluated on {study.describe_rows(one.first_row)}, {support.in_words()}; "
        f"weights: mean {support.mean_weight:.3f}, largest {support.largest_weight:.3g}; "
        f"{support.unused:.1%} of rows unused; {support.unsupported:.1%} "
        "of decisions without support"
    )


def learning_table(study: PolicyComparison) -> Table | None:
    """What policies would have earned on the way; None if nobody learns."""
    table = Table(title="Another question: while learning, from the first row on", title_justify="left")
    for column in ("policy", "mean reward", "standard error", "rows that count"):
        table.add_column(column, justify="left" if column == "policy" else "right", overflow="fold")
    for one in study.policies:
        if one.learning_curve is not None:
            rows = f"{one.learning_curve.kept:,} of {one.learning_curve.events:,}"
            table.add_row(
                escape(one.label),
                format_value(one.learning_curve.value),
                format_value(one.learning_curve.standard_error),
                rows,
            )
    return table if table.row_count else None
