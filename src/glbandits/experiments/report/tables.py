"""The tables of the page, and the sentences that go with them."""

from collections.abc import Sequence

from glbandits.experiments.paper.runtime import HORIZON
from glbandits.experiments.protocols import FRESH, PAPER, Outcome, ProtocolResult
from glbandits.experiments.report.chart_data import curves
from glbandits.experiments.report.html_elements import NONE, listed, paragraph, significant, table, with_width
from glbandits.experiments.results import ExperimentResult, RuntimeRow, RuntimeTable

BEST = "the best"


def outcomes_table(result: ExperimentResult, protocol: ProtocolResult) -> str:
    """What each algorithm did under one protocol."""
    fresh, reward = protocol.protocol == FRESH, result.experiment.measure == "reward"
    decimals = _decimals(protocol.outcomes)
    columns = ["algorithm", "settings tried", "distinct", "chosen setting", "final regret ± 95\u00a0%"]
    if fresh:
        columns.append("behind the best ± 95\u00a0%")
    if reward:
        columns.append("mean expected reward")
    columns += ["seconds a run (mean)", "seconds (fastest)"]
    rows = []
    for outcome, gap, curve in zip(
        protocol.outcomes, protocol.paired(), curves(result.experiment, protocol), strict=True
    ):
        row = [
            outcome.label,
            str(outcome.tried),
            str(outcome.distinct),
            outcome.chosen,
            with_width(float(outcome.mean[-1]), float(outcome.half_width[-1]), decimals),
        ]
        if fresh:
            row.append(BEST if outcome is best_of(protocol) else with_width(*gap[1:], decimals, sign=True))
        if reward:
            row.append(f"{curve.mean[-1]:.4f}")
        rows.append([*row, significant(float(outcome.seconds.mean())), significant(outcome.fastest)])
    return table(columns, rows, words=("chosen setting",))


def reading_help(protocol: ProtocolResult) -> str:
    """How to read the table of the fresh protocol."""
    if protocol.protocol != FRESH or len(protocol.outcomes) == 1:
        return ""
    seeds = len(protocol.outcomes[0].seeds)
    if seeds == 1:
        return paragraph("There is one seed only, so there are no intervals: more seeds are needed to compare.")
    undecided = [
        label
        for outcome, (label, gap, width) in zip(protocol.outcomes, protocol.paired(), strict=True)
        if outcome is not best_of(protocol) and gap <= width
    ]
    best = best_of(protocol).label
    if not undecided:
        return paragraph(f"{best} is first on these {seeds} seeds, and no interval of its lead holds 0.")
    return paragraph(
        f"{best} is first on these {seeds} seeds, but the interval of its lead over {listed(undecided)} holds 0: "
        "the seeds do not tell them apart."
    )


def settings_sentence(protocols: Sequence[ProtocolResult]) -> str:
    """What the number of settings does, in plain words and in numbers."""
    outcomes = protocols[0].outcomes
    most, least = max(outcomes, key=lambda one: one.tried), min(outcomes, key=lambda one: one.tried)
    if most.tried == least.tried:
        counted = f"Every algorithm chose among {most.tried} setting{'s' * (most.tried > 1)}."
        return paragraph(f"{counted} So no grid had more chances than another.")
    text = f"{most.label} chose among {most.tried} settings, {least.label} among {least.tried}."
    names = {protocol.protocol for protocol in protocols}
    if PAPER in names:
        text += (
            f" Under the paper's protocol that counts: the best of {most.distinct} different runs of a repeat is "
            f"taken after the fact, against the best of {least.distinct}, and noise alone makes the longer list look "
            "better."
        )
    if FRESH in names:
        text += " On fresh seeds a larger grid can only help to find a good setting; it earns no luck."
    return paragraph(text)


def both_table(protocols: Sequence[ProtocolResult]) -> str:
    """The two protocols side by side: what remains of a number once the seeds are new."""
    by_name = {protocol.protocol: protocol for protocol in protocols}
    if set(by_name) != {PAPER, FRESH}:
        return ""
    paper, fresh = by_name[PAPER].outcomes, by_name[FRESH].outcomes
    columns = ["algorithm", "settings tried", "regret, paper's protocol", "regret, fresh seeds", "fresh / paper"]
    decimals = _decimals((*paper, *fresh))
    rows = [
        [
            before.label,
            str(before.tried),
            f"{before.mean[-1]:.{decimals}f}",
            f"{after.mean[-1]:.{decimals}f}",
            f"{after.mean[-1] / before.mean[-1]:.1f}" if before.mean[-1] > 0 else NONE,
        ]
        for before, after in zip(paper, fresh, strict=True)
    ]
    return table(columns, rows)


def runtime_table(runtime: RuntimeTable) -> str:
    """Table 1, ours beside the paper's."""
    columns = (
        "algorithm",
        "seconds here",
        "seconds in the paper",
        "times SGD-TS here",
        "times SGD-TS in the paper",
        "microseconds a round",
        "growth in T",
        "growth in d",
    )
    return table(columns, [_runtime_row(runtime, row) for row in runtime.rows])


def best_of(protocol: ProtocolResult) -> Outcome:
    """The outcome of least mean final regret, as `ProtocolResult.paired` takes it."""
    return min(protocol.outcomes, key=lambda outcome: outcome.final.mean())


def _runtime_row(runtime: RuntimeTable, row: RuntimeRow) -> list[str]:
    has_base = any(other.label == "sgd-ts" for other in runtime.rows)
    return [
        row.label,
        significant(row.seconds),
        significant(row.paper_seconds),
        significant(runtime.ratio(row) if has_base else None),
        significant(runtime.paper_ratio(row) if has_base else None),
        significant(row.seconds / HORIZON * 1e6),
        f"{row.growth_T:.2f}",
        f"{row.growth_d:.2f}",
    ]


def _decimals(outcomes: Sequence[Outcome]) -> int:
    """One for regrets of tens, three where all are small."""
    return 1 if max(outcome.mean[-1] for outcome in outcomes) >= 10 else 3
