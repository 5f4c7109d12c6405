"""The tables of the evaluation page. `cli.evaluation_tables` has those of the terminal."""

from collections.abc import Mapping

from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import percent
from glbandits.common.display.text_format import NO_VALUE, significant
from glbandits.evaluation import ArmSupport, Promotion
from glbandits.evaluation.policy_comparison import PolicyComparison
from glbandits.evaluation.report.estimate_rows import (
    DIFFERENCE_COLUMNS,
    difference_rows,
    estimate_rows,
    format_interval,
    format_value,
    logged_interval,
)

MAX_ROWS = 200
"""Arms that a table shows. The JSON file has all arms."""


def estimates_table(comparison: PolicyComparison) -> str:
    """Return every estimate with its intervals, and the logged mean reward."""
    level = comparison.settings.level
    columns = ("policy", "estimator", "mean reward", f"{percent(level)} interval", "gain over the log")
    rows = [
        [policy.label, row.name, format_value(row.value), format_interval(row.interval), row.gain or NO_VALUE]
        for policy in comparison.policies
        for row in estimate_rows(policy.evaluation)
    ]
    for first_row, evaluation in comparison.evaluation_by_first_row.items():
        interval = format_interval(logged_interval(evaluation))
        where = comparison.describe_rows(first_row)
        rows.append(["the log itself", where, format_value(evaluation.logged), interval, NO_VALUE])
    return DataTable(columns, rows).to_html()


def differences_table(comparison: PolicyComparison) -> str:
    """Return the difference of each candidate from the reference, with its intervals."""
    return DataTable(DIFFERENCE_COLUMNS, difference_rows(comparison)).to_html()


def gains_table(promotion: Promotion) -> str:
    """Return the gain of each candidate over the policy that wrote the log."""
    rows = [
        [label, format_value(gain.value, sign=True), format_interval(gain.interval)]
        for label, gain in promotion.gains.items()
    ]
    return DataTable(("policy", "gain over the running policy", "interval at every n"), rows).to_html()


def support_table(comparison: PolicyComparison) -> str:
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
        rows.append(
            [
                policy.label,
                NO_VALUE if policy.learned_rows is None else f"{policy.learned_rows:,} rows",
                comparison.describe_rows(policy.first_row),
                f"{support.effective_sample_size:,.0f} ({'expected' if support.expected else 'realised'})",
                significant(support.largest_weight),
                f"{support.mean_weight:.3f}",
                f"{support.unused:.1%}",
                f"{support.unsupported:.1%}",
            ]
        )
    return DataTable(columns, rows).to_html()


def learning_table(comparison: PolicyComparison) -> str:
    """Return the mean reward of each policy while it learned."""
    columns = ("policy", "mean reward while learning", "standard error", "rows that count", "of", "largest weight")
    rows = [
        [
            policy.label,
            format_value(curve.value),
            format_value(curve.standard_error),
            f"{curve.kept:,}",
            f"{curve.events:,}",
            significant(curve.largest_weight),
        ]
        for policy in comparison.policies
        for curve in ([] if policy.learning_curve is None else [policy.learning_curve])
    ]
    return DataTable(columns, rows).to_html()


def arms_table(comparison: PolicyComparison, supports: Mapping[str, ArmSupport]) -> str:
    """Return the share and mean reward of each arm in the log, and its share per policy."""
    log_support = next(iter(supports.values()))
    total = log_support.logged.sum()
    columns = ("arm", "chosen in the log", "share", "mean reward", *(f"share under {label}" for label in supports))
    rows = [
        [
            name,
            f"{log_support.logged[index]:,}",
            f"{log_support.logged[index] / total:.2%}",
            format_value(float(log_support.rewards[index])),
            *(f"{support.wanted[index] / support.wanted.sum():.2%}" for support in supports.values()),
        ]
        for index, name in enumerate(comparison.arm_names or ())
    ]
    return DataTable(columns, rows[:MAX_ROWS]).to_html()
