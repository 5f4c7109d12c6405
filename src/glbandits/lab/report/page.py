"""The HTML page of experiments: conclusions first, then charts and tables.

Static figures are separate files.
"""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from glbandits.common.display.charts import SeriesStyles, chart_html, finish
from glbandits.common.display.html_page import Section, paragraph, write_page
from glbandits.common.display.text_format import format_seeds, join_words
from glbandits.common.errors import InvalidInput
from glbandits.common.version import __version__
from glbandits.lab.experiments.experiment import THIN_GRID, Experiment
from glbandits.lab.experiments.outcomes import FRESH, ExperimentResult, ProtocolResult
from glbandits.lab.experiments.protocols import PROTOCOL_DESCRIPTIONS
from glbandits.lab.experiments.summary import ExperimentSummary, summarise
from glbandits.lab.paper.paper_summary import PaperSummary
from glbandits.lab.report import charts, paper_sections, tables
from glbandits.lab.report.charts import PROTOCOL_TITLES, mark_simulated, slug
from glbandits.lab.report.conclusions import conclusion
from glbandits.lab.report.cost_chart import cost_figure

PAGE, FIGURES = "report.html", "figures"
TITLE = "Report of experiments on generalized linear bandits"
PAPER_TITLE = "SGD-TS for generalized linear bandits: the paper, run again"
ABOUT_PAPER = (
    "The paper is: Qin Ding, Cho-Jui Hsieh, James Sharpnack, An Efficient Algorithm for Generalized Linear Bandit: "
    "Online Stochastic Gradient Descent and Thompson Sampling, AISTATS 2021. Here its experiments are run again: by "
    "its own protocol, and on fresh seeds."
)
RELOAD_SECONDS = 10
"""Time after which a browser loads a growing page again."""
ALL_PANELS_TITLE = "All experiments, as the paper arranges them"
CURVES_CAPTION = (
    "Compare the right ends of the lines. Where two bands overlap, the policies may not differ. "
    "All protocols have the same vertical axis."
)
PULLS_CAPTION = "A policy with a low first group of bars rarely found the best arm. All protocols have the same axis."


def write_experiment_report(
    results: Sequence[ExperimentResult],
    folder: Path,
    command: str,
    *,
    paper: PaperSummary | None = None,
    missing: Sequence[str] = (),
    jobs: int = 1,
) -> Path:
    """Write the page and its figures into a folder; return the path of the page.

    The page needs no network and no other file. Equal results give equal bytes.

    Args:
        results: of experiments with different names.
        folder: for the page and its figures.
        command: the command line that writes the page.
        paper: all results of the paper, if the page is about it.
        missing: names of parts that are still being run. The page then loads itself again, and has no figure files.
        jobs: number of processes that write the figure files, -1 for one per core.
    """
    check_names([result.experiment for result in results])
    styles = charts.styles_for(
        outcome.label for result in results for protocol in result.protocols for outcome in protocol.outcomes
    )
    summaries = list(map(summarise, results))
    paper_figures = charts.paper_figures(results, styles) if paper else {}
    sections = [*_all_panels(paper_figures), *paper_sections.claims_section(paper)] if paper else []
    sections += [_experiment(*pair, styles) for pair in zip(results, summaries, strict=True)]
    if paper and paper.cost:
        paper_figures[paper_sections.COST_FIGURE] = cost_figure(paper.cost, styles)
    sections += paper_sections.measured_sections(paper, paper_figures) if paper else []
    header = f"{_state(paper, missing)}\n{_conclusions(results, summaries, paper)}\n{_about(results)}"
    if not missing:
        charts.save_figures(charts.experiment_figures(results, styles) | paper_figures, folder / FIGURES, jobs=jobs)
    folder.mkdir(parents=True, exist_ok=True)
    title, reload_seconds = PAPER_TITLE if paper else TITLE, RELOAD_SECONDS if missing else 0
    return write_page(folder / PAGE, title, header, sections, command, reload_seconds=reload_seconds)


def _state(paper: PaperSummary | None, missing: Sequence[str]) -> str:
    """Return which paper the page is about, and which parts are missing."""
    lines = [paragraph(ABOUT_PAPER)] if paper else []
    if missing:
        text = f"This page grows while the experiments run. Still to come: {join_words(list(missing))}."
        lines.append(paragraph(text, "warning"))
    return "\n".join(lines)


def check_names(experiments: Sequence[Experiment]) -> None:
    """Raise InvalidInput if two experiments of a report have the same name in file names."""
    names = [slug(experiment.name) for experiment in experiments]
    if len(set(names)) < len(names):
        raise InvalidInput(f"experiments of a report must have different names; got {', '.join(names)}")


def _about(results: Sequence[ExperimentResult]) -> str:
    """Return sentences on the grid and the seeds of the experiments.

    Experiments with the same grid and seeds share a sentence.
    """
    names_by_setup: dict[str, list[str]] = {}
    for result in results:
        names_by_setup.setdefault(_grid_and_seeds(result), []).append(result.experiment.name)
    sentences = [f"{join_words(names)} ran {setup}." for setup, names in names_by_setup.items()]
    if any(result.quick for result in results):
        values = "; ".join(
            f"{name} {', '.join(f'{value:g}' for value in values)}" for name, values in THIN_GRID.items()
        )
        sentences.append(f"The thin grid has only these values of every grid: {values}.")
    written = f"The folder {FIGURES} has the charts as PNG, SVG and PDF files. Written by glbandits {__version__}."
    return paragraph(" ".join([*sentences, written]), "soft")


def _grid_and_seeds(result: ExperimentResult) -> str:
    grid, tuned = "thin" if result.quick else "full", format_seeds(result.experiment.repeats)
    text = f"on the {grid} grid, with seeds {tuned}"
    if result.under(FRESH) is not None:
        text += f" to choose settings and {format_seeds(result.experiment.fresh)} to report on"
    return text


def _conclusions(
    results: Sequence[ExperimentResult], summaries: Sequence[ExperimentSummary], paper: PaperSummary | None
) -> str:
    """Return the first screen: findings, and a sentence and a small table per experiment."""
    cards = []
    for result, summary in zip(results, summaries, strict=True):
        short = mark_simulated(result.experiment.title, result).split(":")[0]
        title = f'<h3><a href="#{_anchor(summary.name)}">{escape(short)}</a></h3>'
        table = tables.card_table(summary, leaders_only=paper is not None).to_html()
        cards.append(f'<div class="card">{title}\n{paragraph(conclusion(summary))}\n{table}</div>')
    lines = paper_sections.finding_lines(paper) if paper else []
    has_extras = any(
        outcome.is_extra for result in results for protocol in result.protocols for outcome in protocol.outcomes
    )
    note = paragraph(f"Numbers are final regrets: less is better. {tables.EXTRA_NOTE * has_extras}", "soft")
    findings = "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>" if lines else ""
    if len(summaries) > 1 and paper is None:
        findings = tables.problems_table(summaries).to_html()
    inside = f'{findings}\n{note}\n<div class="cards">' + "\n".join(cards) + "</div>" if cards else findings
    return f'<section id="conclusions"><h2>Conclusions</h2>\n{inside}</section>'


def _anchor(name: str) -> str:
    return f"experiment-{slug(name)}"


def _all_panels(figures: Mapping[str, Any]) -> list[Section]:
    """Return the section with the figures in the paper's arrangement."""
    parts = [_figure(figure, name, CURVES_CAPTION) for name, figure in figures.items()]
    return [Section("paper-figure", ALL_PANELS_TITLE, "\n".join(parts))] if parts else []


def _experiment(result: ExperimentResult, summary: ExperimentSummary, styles: SeriesStyles) -> Section:
    experiment, parts = result.experiment, list[str]()
    if result.simulated_data:
        parts.append(
            paragraph(
                "Simulated data, which replace data that are not public. They do not show how a policy performs on the "
                "real data.",
                "warning",
            )
        )
    parts.append(paragraph(f"{experiment.note} {conclusion(summary)}".strip()))
    parts.append(f'<div class="side{" both" * (len(result.protocols) > 1)}">')
    parts += [_protocol(result, protocol, styles) for protocol in result.protocols]
    parts.append("</div>")
    for protocol in (summary.paper, summary.fresh):
        if protocol is not None:
            parts.append(f"<h3>{escape(PROTOCOL_TITLES[protocol.protocol])}: all numbers</h3>")
            parts.append(tables.numbers_table(summary, protocol).to_html())
    return Section(_anchor(experiment.name), mark_simulated(result.experiment.title, result), "\n".join(parts))


def _protocol(result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles) -> str:
    """Return the description and the charts of one protocol: a column on a wide screen."""
    seeds, best_arms = format_seeds(protocol.outcomes[0].seeds), result.experiment.best_arms
    name, title = slug(result.experiment.name), charts.chart_title(result, protocol)
    legend = charts.legend_styles([protocol], styles)
    chart = finish(charts.regret_chart(result, protocol, legend), title, charts.chart_subtitle(protocol))
    parts = [
        f"<h3>{escape(PROTOCOL_TITLES[protocol.protocol])}</h3>",
        paragraph(f"{PROTOCOL_DESCRIPTIONS[protocol.protocol]} Shown here: seeds {seeds}."),
        _figure(chart, f"{name}-{protocol.protocol}", CURVES_CAPTION),
    ]
    if best_arms > 0:
        pulls = charts.pulls_chart(result, protocol, legend)
        chart = finish(pulls, title, charts.chart_subtitle(protocol, best_arms))
        parts.append(_figure(chart, f"{name}-{protocol.protocol}-pulls", PULLS_CAPTION))
    return '<div class="protocol">' + "\n".join(parts) + "</div>"


def _figure(chart: Any, name: str, text: str) -> str:
    return f"<figure>{chart_html(chart, f'chart-{name}')}<figcaption>{escape(text)}</figcaption></figure>"
