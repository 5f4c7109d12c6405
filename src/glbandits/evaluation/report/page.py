"""The HTML page of a policy comparison: estimates, support, arms and learning."""

from html import escape
from pathlib import Path
from typing import Any

from glbandits.common.display.charts import SeriesStyles, chart_html, styles_in_order
from glbandits.common.display.html_page import Section, paragraph, write_page
from glbandits.common.display.spelling import on_command_line
from glbandits.common.display.text_format import join_words
from glbandits.common.version import __version__
from glbandits.evaluation.comparison_result import GroupComparison, PolicyComparison
from glbandits.evaluation.estimators.support import ArmSupport
from glbandits.evaluation.promotion_result import Promotion
from glbandits.evaluation.report import charts, tables
from glbandits.evaluation.report.record import write_record

PAGE, RECORD = "evaluation.html", "evaluation.json"
TITLE, GROUPS_TITLE = "Off-policy evaluation", "Treatment against control"


def write_evaluation_report(comparison: PolicyComparison, folder: Path, command: str) -> tuple[Path, Path]:
    """Write the page and the JSON file into a folder; return both paths.

    The page needs no network and no other file. Equal comparisons give equal bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    styles = styles_in_order(policy.label for policy in comparison.policies)
    sections, has_headline = [], any(policy.evaluation.headline is not None for policy in comparison.policies)
    if comparison.promotion is not None:
        sections.append(Section("gate", "Promote a policy?", _gate(comparison.promotion)))
    sections += [
        Section(
            "estimates",
            f"Estimates, {comparison.reward}" if comparison.reward else "Estimates",
            _estimates(comparison, styles),
        ),
        *([Section("gains", "Gains", _gains(comparison, styles))] if has_headline else []),
        *([Section("differences", "Differences", _differences(comparison))] if comparison.differences else []),
        *(
            Section(f"reward-{index}", f"Reward {other.reward}", _other_reward(comparison, other, styles, index))
            for index, other in enumerate(comparison.other_rewards, 2)
        ),
        *([] if comparison.groups is None else [Section("groups", GROUPS_TITLE, _groups(comparison.groups))]),
        Section("support", "Support of the estimates", _support(comparison, styles)),
        Section("arms", "Arms", _arms(comparison, styles)),
        Section("time", "Estimates over the rows", _estimates_over_rows(comparison, styles)),
        Section("learning", f"{comparison.unit.capitalize()} while learning", _learning(comparison, styles)),
    ]
    page = write_page(folder / PAGE, TITLE, _header(comparison), sections, command)
    return page, write_record(folder / RECORD, comparison, command)


def _header(comparison: PolicyComparison) -> str:
    names = comparison.arm_names
    arms = "arms that differ from row to row" if names is None else f"{len(names)} arms"
    sentences = [
        f"This page was written by glbandits {__version__} from {comparison.source}: {comparison.rows:,} decisions, "
        f"{arms}, {comparison.dim} features of an arm. It estimates the mean {comparison.unit} that "
        "other policies would have earned."
    ]
    if comparison.unit == "payoff":
        sentences.append("The payoff of a decision is value * reward - cost, with the value and the cost of its arm.")
    learners = [policy for policy in comparison.policies if policy.learned_rows is not None]
    if learners:
        rows = f"{learners[0].learned_rows:,} rows"
        learned_from = f"{rows} of some clusters" if comparison.by_cluster else f"the first {rows}"
        sentences.append(
            f"Policies that learn ({', '.join(policy.label for policy in learners)}) learned the logged rewards of "
            f"{learned_from}. They were then frozen and evaluated on the rest."
        )
    sentences.append("Every number on this page is an estimate from decisions of another policy.")
    notes = [paragraph(note, "warning") for note in comparison.notes]
    verdict = "\n".join(f"<li>{escape(sentence)}</li>" for sentence in comparison.verdict)
    return "\n".join(
        [
            "<h2>Verdict</h2>",
            tables.verdict_table(comparison).to_html(),
            f"<ul>\n{verdict}\n</ul>",
            paragraph(" ".join(sentences)),
            *notes,
        ]
    )


def _gate(promotion: Promotion) -> str:
    table = promotion.table()
    if not table.rows:
        return paragraph(promotion.headline)
    return "\n".join([paragraph(promotion.headline), table.to_html(), paragraph(promotion.guarantee)])


def _other_reward(comparison: PolicyComparison, other: PolicyComparison, styles: SeriesStyles, index: int) -> str:
    about = f"The same policies by another reward, {other.reward}. Policies that learn learned {comparison.reward}."
    parts = [paragraph(about), _estimates(other, styles, f"estimates-{index}")]
    return "\n".join([*parts, *([_differences(other)] if other.differences else [])])


def _estimates(comparison: PolicyComparison, styles: SeriesStyles, figure: str = "estimates") -> str:
    about = (
        f"The mean {comparison.unit} per decision if the policy had decided in place of the logging policy. The "
        "intervals cover random error only, not the problems that the notes below name. The dotted line is the mean "
        f"{comparison.unit} in the log."
    )
    chart = _figure(comparison.plot(styles), figure)
    return "\n".join([paragraph(about), chart, *_notes(comparison), tables.estimates_table(comparison).to_html()])


def _gains(comparison: PolicyComparison, styles: SeriesStyles) -> str:
    about = (
        f"The mean {comparison.unit} of each policy minus that of the logging policy on the same rows. If the log "
        "changed, these are the rows since its last change."
    )
    return f"{paragraph(about)}\n{_figure(charts.gains_chart(comparison, styles), 'gains')}"


def _differences(comparison: PolicyComparison) -> str:
    about = (
        f"The mean {comparison.unit} of each policy minus that of {comparison.reference}. Estimates from one log are "
        f"correlated, so two policies may differ although the intervals of their mean {comparison.unit}s overlap."
    )
    return f"{paragraph(about)}\n{tables.differences_table(comparison).to_html()}"


def _groups(groups: GroupComparison) -> str:
    return "\n".join([groups.table.to_html(), *map(paragraph, groups.sentences)])


def _notes(comparison: PolicyComparison) -> list[str]:
    """Return each note once, with all policies that it concerns."""
    notes = tables.policies_by_note(comparison).items()
    return [paragraph(f"{join_words(labels)}: {on_command_line(note)}.", "warning") for note, labels in notes]


def _support(comparison: PolicyComparison, styles: SeriesStyles) -> str:
    about = (
        "The weight of a row is pi / p: the probability of the logged action under the policy, divided by its "
        "propensity, the probability in the log. If a few weights are large, a few rows determine the estimate. Rows "
        "of weight 0 say nothing about this policy. Decisions without support are those that the log never made; no "
        "estimate can know their rewards. The effective sample size is the number of decisions of the policy itself "
        "that would give as much information. The expected one counts the weights of all arms and needs the "
        "probabilities of all arms in the log. The realised one counts the logged actions only, and is too large if "
        "large weights are rare."
    )
    chart = _figure(charts.weights_chart(comparison, styles), "weights")
    return "\n".join([paragraph(about), tables.support_table(comparison).to_html(), chart])


def _arms(comparison: PolicyComparison, styles: SeriesStyles) -> str:
    """Compare arms on the rows that learners were evaluated on: those that leave out most."""
    parts_of_log = comparison.evaluation_by_left_out_rows
    left_out = max(parts_of_log)
    supports: dict[str, ArmSupport] = {
        policy.label: policy.evaluation.support.arms
        for policy in comparison.policies
        if policy.left_out_rows == left_out and policy.evaluation.support.arms is not None
    }
    if not supports or comparison.arm_names is None:
        return paragraph("Arms differ from row to row, so they cannot be listed.")
    parts = [paragraph(f"On {comparison.describe_rows(left_out)}.")] if len(parts_of_log) > 1 else []
    parts.append(_figure(charts.arms_chart(comparison, supports, styles), "arms"))
    parts.append(tables.arms_table(comparison, supports).to_html())
    return "\n".join(parts)


def _estimates_over_rows(comparison: PolicyComparison, styles: SeriesStyles) -> str:
    about = (
        "Each estimate from the rows up to this one. A jump comes from a row with a large weight. A drift may mean "
        "that rewards changed while the log was written."
    )
    names = [
        name
        for name in comparison.settings.estimators
        if not all(policy.evaluation[name].no_evidence for policy in comparison.policies)
    ]
    if not names:
        return paragraph("No estimate has enough evidence.")
    figures = [_figure(charts.running_chart(comparison, name, styles), f"running-{name}") for name in names]
    side = f'<div class="side{" both" * (len(figures) > 1)}">'
    return "\n".join([paragraph(about), side, *figures, "</div>"])


def _learning(comparison: PolicyComparison, styles: SeriesStyles) -> str:
    curves = {
        policy.label: policy.learning_curve for policy in comparison.policies if policy.learning_curve is not None
    }
    if not curves:
        return paragraph("None of these policies learns.")
    learned_rows = {
        "matched": "It learns and counts only the rows where it would have chosen the logged action.",
        "all": "It learns every row, and is evaluated on each row before it learns it.",
    }
    about = (
        f"The mean {comparison.unit} of the policy while it learns, if it had started untrained at the first row. "
        f"{learned_rows[comparison.settings.learn]} This is usually less than the {comparison.unit} after learning, "
        "which the estimates above show."
    )
    notes = [(policy.label, policy.learning_curve_note()) for policy in comparison.policies]
    warnings = [paragraph(f"{label}: {note}.", "warning") for label, note in notes if note is not None]
    chart = _figure(charts.learning_chart(comparison, curves, styles), "while-learning")
    return "\n".join([paragraph(about), chart, *warnings, tables.learning_table(comparison).to_html()])


def _figure(chart: Any, name: str) -> str:
    return f"<figure>{chart_html(chart, f'chart-{name}')}</figure>"
