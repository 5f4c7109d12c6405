"""The tables of an evaluation, for the page and the command line."""

import math
from collections.abc import Iterator, Mapping

from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import percent
from glbandits.common.display.spelling import on_command_line
from glbandits.common.display.text_format import (
    NO_VALUE,
    UNKNOWN,
    format_interval,
    format_value,
    join_words,
    significant,
)
from glbandits.evaluation.comparison_result import OTHER_ROWS, PolicyComparison
from glbandits.evaluation.estimators.results import rows_of_both_intervals
from glbandits.evaluation.estimators.support import ArmSupport
from glbandits.evaluation.policy_verdicts import VerdictKind, interval_of

MAX_ROWS = 200
"""Arms that a table shows. The JSON file has all arms."""
INTERVAL_LEGEND = (
    'An interval "at every n" holds at every number of rows, so you may look repeatedly. One "at this n only" holds if '
    "you look once. The other estimators are checks of dr."
)
"""Explains the names of the rows, if the comparison has a headline."""


def verdict_table(comparison: PolicyComparison) -> DataTable:
    """Return what is said about each candidate, by each reward: better or worse than the log, with the gain."""
    comparisons = (comparison, *comparison.other_rewards)
    cells = [_verdict_cells(each) for each in comparisons]
    rewards = tuple(each.reward or f"against the log, by {each.unit}" for each in comparisons)
    rows = [
        (policy.label, *(by_label.get(policy.label, UNKNOWN) for by_label in cells)) for policy in comparison.policies
    ]
    return DataTable(("policy", *rewards), rows, ("policy", *rewards), title="Verdicts")


def _verdict_cells(comparison: PolicyComparison) -> dict[str, str]:
    """The verdict on each candidate against the logging policy, by its label."""
    cells = dict[str, str]()
    for verdict in comparison.verdicts:
        if verdict.rivals or verdict.kind in (VerdictKind.BEST, VerdictKind.HIGHEST):
            continue
        about = [verdict.candidate] if verdict.candidate else [policy.label for policy in comparison.policies]
        gain = ""
        if verdict.estimate is not None and verdict.kind is not VerdictKind.SAME:
            interval = format_interval(interval_of(verdict.estimate), sign=True)
            gain = f" ({format_value(verdict.estimate.value, sign=True)}, {interval})"
        cells |= {label: f"{verdict.kind}{gain}" for label in about if label not in cells}
    return cells


def estimates_table(comparison: PolicyComparison) -> DataTable:
    """Return every estimate with its intervals, and the mean reward of the log itself."""
    level = percent(comparison.settings.level)
    columns = ("policy", "estimator", f"mean {comparison.unit}", f"{level} interval", "gain over the log")
    rows = list[tuple[str, ...]]()
    for policy in comparison.policies:
        headline, estimates = policy.evaluation.headline, policy.evaluation.rows()
        gains = [""] * len(estimates)
        if headline is not None and not policy.evaluation.no_evidence:
            gains[:2] = [row.interval_text for row in rows_of_both_intervals("gain", headline.gain, signed=True)]
        for row, gain in zip(estimates, gains, strict=True):
            rows.append((policy.label, row.name, row.value_text, row.interval_text, gain))
    parts = comparison.evaluation_by_left_out_rows
    for left_out, part in parts.items():
        where = "" if len(parts) == 1 else f", {comparison.describe_rows(left_out)}"
        rows.append(
            (f"the log itself{where}", "", format_value(part.logged), format_interval(part.logged_interval), "")
        )
    has_headline = any(policy.evaluation.headline is not None for policy in comparison.policies)
    return DataTable(
        columns,
        rows,
        ("estimator",),
        title=f"Mean {comparison.unit} per decision: {comparison.source}",
        notes=(INTERVAL_LEGEND,) if has_headline else (),
    )


def differences_table(comparison: PolicyComparison) -> DataTable:
    """Return the difference of each candidate from the reference, with its intervals."""
    rows = []
    for label, difference in comparison.differences.items():
        if difference is None:
            rows.append((label, UNKNOWN, OTHER_ROWS, OTHER_ROWS))
        else:
            every_n, this_n = rows_of_both_intervals("", difference, signed=True)
            why = "" if this_n.interval is None and math.isnan(this_n.value) else this_n.interval_text
            rows.append((label, every_n.value_text, every_n.interval_text, why))
    legend = (
        f"Both policies on the same rows. With probability {percent(comparison.settings.level)}, all intervals of a "
        "column hold at once, whichever policy is the reference: you may choose it after you have seen the results."
    )
    return DataTable(
        ("policy", "difference", "interval at every n", "interval at this n only"),
        rows,
        title=f"Difference in mean {comparison.unit}: policy minus {comparison.reference}",
        notes=(legend,),
    )


def learning_table(comparison: PolicyComparison) -> DataTable:
    """Return the mean reward of each policy while it learned. It has no rows if no policy learns."""
    rows = [
        (
            policy.label,
            format_value(curve.value),
            format_value(curve.standard_error),
            f"{curve.kept:,} of {curve.events:,}",
        )
        for policy in comparison.policies
        if (curve := policy.learning_curve) is not None
    ]
    columns = ("policy", f"mean {comparison.unit}", "standard error", "rows used")
    return DataTable(columns, rows, title=f"Mean {comparison.unit} while learning, from the first row on")


def support_table(comparison: PolicyComparison) -> DataTable:
    """Return how much data support the estimates of each policy."""
    columns = (
        "policy",
        "learned from",
        "evaluated on",
        "effective sample size",
        "largest weight",
        "mean weight",
        "rows unused",
        "decisions without support",
    )
    rows = []
    for policy in comparison.policies:
        support = policy.evaluation.support
        row = (
            policy.label,
            NO_VALUE if policy.learned_rows is None else f"{policy.learned_rows:,} rows",
            comparison.describe_rows(policy.left_out_rows),
            f"{support.effective_sample_size:,.0f} ({'expected' if support.expected else 'realised'})",
            significant(support.largest_weight),
            f"{support.mean_weight:.3f}",
            f"{support.unused:.1%}",
            f"{support.unsupported:.1%}",
        )
        rows.append(row)
    return DataTable(columns, rows)


def support_lines(comparison: PolicyComparison) -> Iterator[str]:
    """Yield the support of each policy as a sentence for the command line, and all notes."""
    for policy in comparison.policies:
        learned = "" if policy.learned_rows is None else f"learned {policy.learned_rows:,} rows; "
        evaluated = f"evaluated on {comparison.describe_rows(policy.left_out_rows)}"
        yield f"{policy.label}: {learned}{evaluated}, {policy.evaluation.support.in_full()}"
        if policy.learning_curve_note() is not None:
            yield f"  Note: {policy.learning_curve_note()}"
    for note, labels in policies_by_note(comparison).items():
        about = "" if len(labels) == len(comparison.policies) else f" on {join_words(labels)}"
        yield on_command_line(f"Note{about}: {note}")
    yield from (f"Note: {note}" for note in comparison.notes)


def policies_by_note(comparison: PolicyComparison) -> dict[str, list[str]]:
    """Return each note on evaluations once, with the labels of all policies that it concerns."""
    found: dict[str, list[str]] = {}
    for policy in comparison.policies:
        for note in policy.evaluation.notes:
            found.setdefault(note, []).append(policy.label)
    return found


def arms_table(comparison: PolicyComparison, supports: Mapping[str, ArmSupport]) -> DataTable:
    """Return the share and mean reward of each arm in the log, and its share per policy."""
    log_support, names = next(iter(supports.values())), comparison.arm_names or ()
    total = log_support.logged.sum()
    wanted = (f"share under {label}" for label in supports)
    columns = ("arm", "chosen in the log", "share", f"mean {comparison.unit}", *wanted)
    rows = [
        (
            name,
            f"{log_support.logged[index]:,}",
            f"{log_support.logged[index] / total:.2%}",
            format_value(float(log_support.rewards[index])),
            *(f"{support.wanted[index] / support.wanted.sum():.2%}" for support in supports.values()),
        )
        for index, name in enumerate(names[:MAX_ROWS])
    ]
    notes = (f"The first {MAX_ROWS} arms; the JSON file has all.",) if len(names) > MAX_ROWS else ()
    return DataTable(columns, rows, notes=notes)
