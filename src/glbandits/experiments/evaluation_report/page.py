"""The page: what each policy would have earned, what that rests on, and how it came about."""

from collections.abc import Iterable
from html import escape
from pathlib import Path

from glbandits.evaluation import ArmSupport, Promotion
from glbandits.experiments.evaluation_report import charts, tables
from glbandits.experiments.evaluation_report.record import write_record
from glbandits.experiments.log_study import LogStudy
from glbandits.experiments.report.html_elements import listed, paragraph
from glbandits.experiments.report.html_page import AGAIN, again, write_page
from glbandits.experiments.report.plotly_helpers import Chart, draw
from glbandits.experiments.report.series_styles import SeriesStyles, styles_in_order
from glbandits.version import __version__

PAGE, RECORD = "evaluation.html", "evaluation.json"
TITLE = "What another policy would have earned"
SECTIONS = {
    "gate": "Promote a policy?",
    "estimates": "Estimates",
    "support": "What they rest on",
    "arms": "Arm by arm",
    "time": "As rows came",
    "learning": "While learning",
}


def write_evaluation(study: LogStudy, folder: Path, command: str) -> tuple[Path, Path]:
    """Write the page and the JSON file into a folder; returns both paths.

    The page needs no network and no other file. The same study gives the same bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    styles = styles_in_order(one.label for one in study.judged)
    bodies = {} if study.promotion is None else {"gate": _gate(study.promotion)}
    bodies |= {
        "estimates": _estimates(study, styles),
        "support": _support(study, styles),
        "arms": _arms(study, styles),
        "time": _time(study, styles),
        "learning": _learning(study, styles),
    }
    parts = [_opening(study), _contents(bodies)]
    parts += [f'<section id="{name}"><h2>{SECTIONS[name]}</h2>\n{body}</section>' for name, body in bodies.items()]
    parts.append(again(command, "This command makes it, from the same log."))
    page = write_page(folder / PAGE, TITLE, parts)
    return page, write_record(folder / RECORD, study, command)


def _opening(study: LogStudy) -> str:
    arms = "arms that differ from row to row" if study.arm_names is None else f"{len(study.arm_names)} arms"
    said = [
        f"This page was made by glbandits {__version__} from {study.source}: {study.rows:,} decisions, {arms}, "
        f"{study.dim} features of an arm."
    ]
    learners = [one for one in study.judged if one.learned is not None]
    if learners:
        rows = f"{learners[0].learned:,} rows"
        learned_from = f"{rows} of some clusters" if study.by_cluster else f"the first {rows}"
        said.append(
            f"Policies that learn ({', '.join(one.label for one in learners)}) learned the logged rewards of "
            f"{learned_from}, and were evaluated on the rest, learning no more."
        )
    said.append("Every number here is an estimate from decisions that another policy made.")
    notes = [paragraph(note, "warning") for note in study.notes]
    return "\n".join([f"<header><h1>{escape(TITLE)}</h1>", paragraph(" ".join(said)), *notes, "</header>"])


def _contents(names: Iterable[str]) -> str:
    entries = {name: SECTIONS[name] for name in names} | {"again": AGAIN}
    lines = "\n".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in entries.items())
    return f'<nav aria-label="Contents"><ul>\n{lines}\n</ul></nav>'


def _gate(promotion: Promotion) -> str:
    said = [promotion.headline]
    if promotion.gains:
        said.append(f"The gains are estimated from row {promotion.first_row + 1:,} on. {promotion.guarantee}")
    return "\n".join([*map(paragraph, said), *([tables.gains_table(promotion)] if promotion.gains else [])])


def _estimates(study: LogStudy, styles: SeriesStyles) -> str:
    about = (
        "The mean reward of a decision, had the policy decided instead of the log's own. An interval tells what "
        "randomness may have done; it does not tell what the notes below tell. The dotted line is what the log itself "
        "earned."
    )
    chart = _figure(charts.forest_chart(study, styles), "estimates", charts.forest_height(study))
    return "\n".join([paragraph(about), chart, *_notes(study), tables.estimates_table(study)])


def _notes(study: LogStudy) -> list[str]:
    """A note that is the same for several policies is told once."""
    alike: dict[str, list[str]] = {}
    for one in study.judged:
        for note in one.evaluation.notes:
            alike.setdefault(note, []).append(one.label)
    return [paragraph(f"{listed(labels)}: {note}.", "warning") for note, labels in alike.items()]


def _support(study: LogStudy, styles: SeriesStyles) -> str:
    about = (
        "A row counts with the weight pi / p: the probability that the policy gives to what was done, over its "
        "propensity, the probability that the log gave to it. A few large weights mean that a few rows decide the "
        "estimate. Rows of weight 0 tell nothing about this policy. Decisions without support are those that the log "
        "never made: no estimate knows what they would have earned. The effective sample size says how many decisions "
        "of the policy's own would tell as much. The expected one counts the weights of all arms, drawn or not; it "
        "needs the probabilities of all arms in the log. The realised one counts the drawn rows alone, and is too "
        "large if large weights are rare."
    )
    chart = _figure(charts.weights_chart(study, styles), "weights")
    return "\n".join([paragraph(about), tables.support_table(study), chart])


def _arms(study: LogStudy, styles: SeriesStyles) -> str:
    latest = max(study.parts)
    supports: dict[str, ArmSupport] = {
        one.label: one.evaluation.support.arms
        for one in study.judged
        if one.first_row == latest and one.evaluation.support.arms is not None
    }
    if not supports or study.arm_names is None:
        return paragraph("Arms differ from row to row here, so there are none to be listed.")
    parts = [paragraph(f"On {study.rows_in_words(latest)}.")] if len(study.parts) > 1 else []
    parts += [_figure(charts.arms_chart(study, supports, styles), "arms", 36), tables.arms_table(study, supports)]
    if len(study.arm_names) > tables.MOST_ROWS:
        parts.append(paragraph(f"The first {tables.MOST_ROWS} arms; {RECORD} has all."))
    return "\n".join(parts)


def _time(study: LogStudy, styles: SeriesStyles) -> str:
    about = (
        "Each estimate from the rows so far alone. An estimate that jumps does so where a row has a large weight; one "
        "that drifts may mean that the world changed while the log was written."
    )
    names = study.questions.estimators
    figures = [_figure(charts.running_chart(study, name, styles), f"running-{name}") for name in names]
    side = f'<div class="side{" both" * (len(figures) > 1)}">'
    return "\n".join([paragraph(about), side, *figures, "</div>"])


def _learning(study: LogStudy, styles: SeriesStyles) -> str:
    curves = {one.label: one.curve for one in study.judged if one.curve is not None}
    if not curves:
        return paragraph("None of these policies learns.")
    ways = {
        "matched": "It learns and counts only the rows where it would have done what was done.",
        "all": "It learns every row, and is judged on each before it learns it.",
    }
    about = (
        "Another question: what the policy would have earned on the way, had it begun with the first row and known "
        f"nothing. {ways[study.questions.learn]} That is less, as a rule, than what it earns once it has learned."
    )
    notes = [(one.label, one.curve_note()) for one in study.judged]
    warnings = [paragraph(f"{label}: {note}.", "warning") for label, note in notes if note is not None]
    chart = _figure(charts.learning_chart(study, curves, styles), "while-learning")
    return "\n".join([paragraph(about), chart, *warnings, tables.learning_table(study)])


def _figure(chart: Chart, name: str, height: float | None = None) -> str:
    style = "" if height is None else f' style="height: {height:g}rem"'
    return f'<figure><div class="chart"{style}>{draw(chart, f"chart-{name}")}</div></figure>'
