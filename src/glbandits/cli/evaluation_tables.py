"""The tables and lines that `glb evaluate` prints: estimates, and the support that they have in the log.

`reports.evaluation_report.tables` has those of the HTML page.
"""

from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table

from glbandits.common.display.displayed import percent
from glbandits.evaluation.policy_comparison import EvaluatedPolicy, PolicyComparison
from glbandits.evaluation.report.estimate_rows import (
    DIFFERENCE_COLUMNS,
    INTERVAL_LEGEND,
    difference_legend,
    difference_rows,
    estimate_rows,
    format_interval,
    format_value,
    has_headline,
    logged_interval,
)


def estimates_table(comparison: PolicyComparison) -> Table:
    """Return all estimates with their intervals, and the mean reward of the log itself."""
    table = Table(title=f"Mean reward per decision: {escape(comparison.source)}", title_justify="left")
    if has_headline(comparison):
        table.caption, table.caption_justify = INTERVAL_LEGEND, "left"
    level = f"{percent(comparison.settings.level)} interval"
    for column in ("policy", "estimator"):
        table.add_column(column, overflow="fold")
    for column in ("mean reward", level, "gain over the log"):
        table.add_column(column, justify="right", overflow="fold")
    for policy in comparison.policies:
        for row in estimate_rows(policy.evaluation):
            interval = format_interval(row.interval)
            table.add_row(escape(policy.label), row.name, format_value(row.value), interval, row.gain)
        table.add_section()
    for first, part in comparison.evaluation_by_first_row.items():
        where = "" if len(comparison.evaluation_by_first_row) == 1 else f", {comparison.describe_rows(first)}"
        table.add_row(
            f"the log itself{where}", "", format_value(part.logged), format_interval(logged_interval(part)), ""
        )
    return table


def differences_table(comparison: PolicyComparison) -> Table:
    """Return the difference of each candidate from the reference, with its intervals."""
    title = f"Difference in mean reward: policy minus {escape(comparison.reference)}"
    table = Table(title=title, title_justify="left", caption=difference_legend(comparison), caption_justify="left")
    for column in DIFFERENCE_COLUMNS:
        table.add_column(column, justify="left" if column == "policy" else "right", overflow="fold")
    for row in difference_rows(comparison):
        table.add_row(*map(escape, row))
    return table


def support_lines(comparison: PolicyComparison) -> Iterator[str]:
    """Yield the support of each candidate in the log, and all notes."""
    for policy in comparison.policies:
        yield f"{policy.label}: {_support(comparison, policy)}"
        yield from (f"  Note: {note}" for note in policy.evaluation.notes)
        if policy.learning_curve_note() is not None:
            yield f"  Note: {policy.learning_curve_note()}"
    yield from (f"Note: {note}" for note in comparison.notes)


def _support(comparison: PolicyComparison, policy: EvaluatedPolicy) -> str:
    support = policy.evaluation.support
    learned = "" if policy.learned_rows is None else f"learned {policy.learned_rows:,} rows; "
    return (
        f"{learned}evaluated on {comparison.describe_rows(policy.first_row)}, {support.in_words()}; "
        f"weights: mean {support.mean_weight:.3f}, largest {support.largest_weight:.3g}; "
        f"{support.unused:.1%} of rows unused; {support.unsupported:.1%} "
        "of decisions without support"
    )


def learning_table(comparison: PolicyComparison) -> Table | None:
    """Return the mean rewards of policies while they learn; None if no candidate learns."""
    table = Table(title="Mean reward while learning, from the first row on", title_justify="left")
    for column in ("policy", "mean reward", "standard error", "rows used"):
        table.add_column(column, justify="left" if column == "policy" else "right", overflow="fold")
    for policy in comparison.policies:
        if policy.learning_curve is not None:
            used_rows = f"{policy.learning_curve.kept:,} of {policy.learning_curve.events:,}"
            table.add_row(
                escape(policy.label),
                format_value(policy.learning_curve.value),
                format_value(policy.learning_curve.standard_error),
                used_rows,
            )
    return table if table.row_count else None
