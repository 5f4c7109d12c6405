"""The tables of experiment reports, built from summaries."""

from collections.abc import Sequence

from glbandits.common.display.data_table import DataTable
from glbandits.common.display.text_format import NO_VALUE, format_bytes, significant, with_half_width
from glbandits.lab.experiments.outcomes import Outcome
from glbandits.lab.experiments.paired_differences import SIMULTANEOUS, Difference
from glbandits.lab.experiments.summary import EQUAL_GRID, ExperimentSummary, PolicySummary, ProtocolSummary
from glbandits.lab.paper.cost import CostTable
from glbandits.lab.paper.runtime import RuntimeRow, RuntimeTable

EXTRA = "\u2020"
EXTRA_NOTE = f"{EXTRA} not in the paper: on fresh seeds only."
BEST, REFERENCE_ROW = "the best", "the reference"
LEADERS, DEFAULT_POLICY = 3, "optimist"
"""The rows of a table of leaders: this many of the best policies, SGD-TS, and the default policy."""


def conclusion_table(summary: ExperimentSummary) -> DataTable:
    """Return the final regret under each protocol that was run, the best policy first, and differences if there are."""
    table = card_table(summary)
    if summary.fresh is None or not _has_differences(summary.fresh):
        return table
    differences = [_difference(policy, _decimals(summary)) for policy in summary.fresh.ordered]
    rows = [[*row, difference] for row, difference in zip(table.rows, differences, strict=True)]
    return DataTable([*table.columns, f"minus {summary.reference}"], rows)


def card_table(summary: ExperimentSummary, *, leaders_only: bool = False) -> DataTable:
    """Return the final regret under each protocol that was run, the best policy first.

    With `leaders_only`, for the paper: of the three best policies, the reference (SGD-TS) and the default policy.
    """
    protocols = [protocol for protocol in (summary.fresh, summary.paper) if protocol is not None]
    decimals = _decimals(summary)
    rows = []
    for index, policy in enumerate(protocols[0].ordered):
        if leaders_only and index >= LEADERS and policy.label not in (summary.reference, DEFAULT_POLICY):
            continue
        row = [marked(policy), str(policy.tried)]
        for protocol in (summary.paper, summary.fresh):
            if protocol is not None:
                row.append(_regret(protocol[policy.label], decimals) if policy.label in protocol else NO_VALUE)
        rows.append(row)
    titles = {"paper's protocol": summary.paper, "fresh seeds": summary.fresh}
    return DataTable(
        ["policy", "settings", *(title for title, protocol in titles.items() if protocol is not None)], rows
    )


def problems_table(summaries: Sequence[ExperimentSummary]) -> DataTable:
    """Return the final regret of each policy on each problem, the least mean rank first.

    On fresh seeds, or by the paper's protocol if no fresh seeds were run.
    """
    protocols = {each.name: protocol for each in summaries if (protocol := each.fresh or each.paper) is not None}
    decimals = {each.name: _decimals(each) for each in summaries}
    ranks: dict[str, list[int]] = {}
    for protocol in protocols.values():
        for rank, policy in enumerate(protocol.ordered, 1):
            ranks.setdefault(policy.label, []).append(rank)
    rows = [
        [
            label,
            f"{sum(own) / len(own):.1f}",
            *(
                _regret(protocol[label], decimals[name]) if label in protocol else NO_VALUE
                for name, protocol in protocols.items()
            ),
        ]
        for label, own in sorted(ranks.items(), key=lambda item: sum(item[1]) / len(item[1]))
    ]
    note = "The mean rank counts the problems that the policy played."
    title = "All problems: final regret and mean rank"
    return DataTable(["policy", "mean rank", *protocols], rows, title=title, notes=(note,))


def numbers_table(summary: ExperimentSummary, protocol: ProtocolSummary) -> DataTable:
    """Return all numbers of one protocol."""
    decimals, is_fresh = _decimals(summary), protocol is summary.fresh
    columns = ["policy", "settings", "final regret \u00b1 95\u00a0%"]
    columns.append("behind the best \u00b1 95\u00a0%" if is_fresh else f"regret if the grid had {EQUAL_GRID} settings")
    compares = is_fresh and _has_differences(protocol)
    columns += [f"minus {summary.reference} \u00b1 95\u00a0% (all at once)"] * compares
    columns += ["mean reward"] * (summary.measure == "reward")
    columns += ["pulls of the best arm"] * any(policy.best_arm_pulls is not None for policy in protocol.policies)
    columns += ["ms a run", "chosen setting"]
    rows = []
    for policy in protocol.ordered:
        row = [marked(policy), str(policy.tried), _regret(policy, decimals)]
        if is_fresh:
            is_best = policy is protocol.ordered[0]
            row.append(
                BEST if is_best else with_half_width(policy.behind, policy.behind_half_width, decimals, sign=True)
            )
        else:
            row.append(f"{policy.equal_grid_regret:.{decimals}f}")
        if compares:
            row.append(_difference(policy, decimals))
        row += [f"{policy.reward:.4f}"] if policy.reward is not None else []
        row += [f"{policy.best_arm_pulls:.0f}"] if policy.best_arm_pulls is not None else []
        rows.append([*row, significant(1e3 * policy.seconds), policy.chosen])
    return DataTable(columns, rows, ("chosen setting",), notes=(SIMULTANEOUS,) * compares)


def runtime_table(runtime: RuntimeTable) -> DataTable:
    """Return Table 1: our measurements beside the paper's."""
    columns = (
        "policy",
        "simulation, s",
        "in the paper, s",
        "times SGD-TS",
        "in the paper",
        "news, s",
        "in the paper, s",
        "times SGD-TS",
        "in the paper",
        "growth in T",
        "growth in d",
    )
    return DataTable(columns, [_runtime_row(runtime, row) for row in runtime.rows])


def cost_table(cost: CostTable) -> DataTable:
    """Return the fitted exponents and the largest size of each curve."""
    columns = (
        "policy",
        "against",
        "largest size",
        "CPU seconds there",
        "time grows as",
        "state there",
        "memory grows as",
    )
    rows = [
        [
            curve.policy,
            curve.axis,
            f"{curve.points[-1].size:,}",
            significant(curve.points[-1].seconds),
            f"{curve.axis}^{curve.time_slope:.2f}",
            format_bytes(curve.points[-1].state_bytes),
            f"{curve.axis}^{abs(curve.memory_slope):.2f}",
        ]
        for curve in cost.curves
    ]
    return DataTable(columns, rows, ("against",))


def marked(policy: PolicySummary | Outcome) -> str:
    """Return the name of a policy, with a mark if the policy is not in the paper."""
    return f"{policy.label} {EXTRA}" if policy.is_extra else policy.label


def _regret(policy: PolicySummary, decimals: int) -> str:
    return with_half_width(policy.regret, policy.half_width, decimals)


def _has_differences(protocol: ProtocolSummary) -> bool:
    return any(policy.simultaneous_half_width is not None for policy in protocol.policies)


def _difference(policy: PolicySummary, decimals: int) -> str:
    """Return the difference to the reference with its simultaneous interval and what it shows."""
    if policy.simultaneous_half_width is None or policy.difference is None:
        return REFERENCE_ROW
    return Difference(policy.difference, policy.simultaneous_half_width).text(decimals)


def _runtime_row(runtime: RuntimeTable, row: RuntimeRow) -> list[str]:
    cells = [row.label]
    for column in ("simulation", "news"):
        cells += [significant(getattr(row, column)), significant(getattr(row, f"paper_{column}"))]
        cells += [significant(runtime.ratio(row.label, name)) for name in (column, f"paper_{column}")]
    return [*cells, f"{row.growth_T:.2f}", f"{row.growth_d:.2f}"]


def _decimals(summary: ExperimentSummary) -> int:
    """Return 1 if any regret is at least 10, otherwise 3."""
    regrets = [p.regret for protocol in (summary.paper, summary.fresh) if protocol for p in protocol.policies]
    return 1 if max(regrets) >= 10 else 3
