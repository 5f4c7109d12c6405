"""What `glb evaluate` prints: estimates, and with them what they rest on."""

from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table

from glbandits.experiments.evaluation_report.numbers import answers, between, logged_interval, shown
from glbandits.experiments.log_study import Judged, LogStudy


def estimates_table(study: LogStudy) -> Table:
    """Every estimate with its interval, and what the log itself earned."""
    table = Table(title=f"Mean reward of a decision: {escape(study.source)}", title_justify="left")
    level = f"{study.questions.level:.0%} interval"
    for column in ("policy", "estimator"):
        table.add_column(column, overflow="fold")
    for column in ("mean reward", level, "more than the log"):
        table.add_column(column, justify="right", overflow="fold")
    for one in study.judged:
        for answer in answers(one.evaluation):
            interval = between(answer.interval)
            table.add_row(escape(one.label), answer.name, shown(answer.value), interval, answer.gain)
        table.add_section()
    for first, part in study.parts.items():
        where = "" if len(study.parts) == 1 else f", {study.rows_in_words(first)}"
        table.add_row(f"the log itself{where}", "", shown(part.logged), between(logged_interval(part)), "")
    return table


def support_lines(study: LogStudy) -> Iterator[str]:
    """What each estimate rests on, and all that a reader must know; never a number without."""
    for one in study.judged:
        yield f"{one.label}: {_support(study, one)}"
        yield from (f"  Note: {note}" for note in one.evaluation.notes)
        if one.curve_note() is not None:
            yield f"  Note: {one.curve_note()}"
    yield from (f"Note: {note}" for note in study.notes)


def _support(study: LogStudy, one: Judged) -> str:
    support = one.evaluation.support
    learned = "" if one.learned is None else f"learned {one.learned:,} rows; "
    return (
        f"{learned}evaluated on {study.rows_in_words(one.first_row)}, {support.in_words()}; "
        f"weights: mean {support.mean_weight:.3f}, largest {support.largest_weight:.3g}; "
        f"{support.unused:.1%} of rows unused; {support.unsupported:.1%} "
        "of decisions without support"
    )


def learning_table(study: LogStudy) -> Table | None:
    """What policies would have earned on the way; None if nobody learns."""
    table = Table(title="Another question: while learning, from the first row on", title_justify="left")
    for column in ("policy", "mean reward", "standard error", "rows that count"):
        table.add_column(column, justify="left" if column == "policy" else "right", overflow="fold")
    for one in study.judged:
        if one.curve is not None:
            rows = f"{one.curve.kept:,} of {one.curve.events:,}"
            table.add_row(escape(one.label), shown(one.curve.value), shown(one.curve.standard_error), rows)
    return table if table.row_count else None
