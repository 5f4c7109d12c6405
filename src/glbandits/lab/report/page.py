"""The HTML page of experiments: conclusions first, then charts and tables.

Static figures are separate files.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from glbandits.common.display.html_page import (
    Section,
    caption,
    image,
    paragraph,
    reproduce_section,
    table_of_contents,
    write_page,
)
from glbandits.common.display.plotly_helpers import Chart, chart_html
from glbandits.common.display.series_styles import SeriesStyles
from glbandits.common.display.text_format import format_seeds, join_words
from glbandits.common.errors import InvalidInput
from glbandits.common.version import __version__
from glbandits.lab.experiments.experiment import THIN_GRID
from glbandits.lab.experiments.outcomes import FRESH, ExperimentResult, ProtocolResult
from glbandits.lab.experiments.protocols import PROTOCOL_DESCRIPTIONS
from glbandits.lab.experiments.summary import ExperimentSummary, summarise
from glbandits.lab.paper.paper_summary import PaperSummary
from glbandits.lab.report import paper_sections, tables
from glbandits.lab.report.chart_data import PROTOCOL_TITLES, figure_stem, mark_simulated, slug
from glbandits.lab.report.charts import curves_chart, pulls_chart
from glbandits.lab.report.conclusions import conclusion
from glbandits.lab.report.figures import FORMATS, paper_figure, paper_protocols, save, write_figures
from glbandits.lab.report.policy_styles import styles_for

PAGE, FIGURES, ALL_PANELS = "report.html", "figures", "paper-figure"
TITLE = "Report of experiments on generalized linear bandits"
ALL_PANELS_TITLE = "All experiments, as the paper arranges them"
CURVES_CAPTION = (
    "Compare the right ends of the lines. Where two bands overlap, the policies may not differ. "
    "All protocols have the same vertical axis."
)
PULLS_CAPTION = "A policy with a low first group of bars rarely found the best arm. All protocols have the same axis."


def write_experiment_report(
    results: Sequence[ExperimentResult], folder: Path, command: str, *, paper: PaperSummary | None = None
) -> Path:
    """Write the page and its figures into a folder; return the path of the page.

    The page needs no network and no other file. Equal results give equal bytes.
    """
    names = [slug(result.experiment.name) for result in results]
    if len(set(names)) < len(names):
        raise InvalidInput(f"experiments of a report must have different names; got {', '.join(names)}")
    folder.mkdir(parents=True, exist_ok=True)
    figures = folder / FIGURES
    styles = styles_for(
        outcome.label for result in results for protocol in result.protocols for outcome in protocol.outcomes
    )
    write_figures(results, figures, styles)
    summaries = list(map(summarise, results))
    sections = [*_all_panels(results, figures, styles), *paper_sections.claims_section(paper)] if paper else []
    sections += [_experiment(*pair, styles) for pair in zip(results, summaries, strict=True)]
    sections += paper_sections.measured_sections(paper, figures, styles) if paper else []
    sections.append(reproduce_section(command, "This command writes the page. It does not repeat runs in the store."))
    parts = [f"<h1>{escape(TITLE)}</h1>", _conclusions(results, summaries, paper), _about(results)]
    parts += [table_of_contents(sections), *(section.to_html() for section in sections)]
    return write_page(folder / PAGE, TITLE, parts)


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
    return paragraph(" ".join([*sentences, f"Written by glbandits {__version__}."]), "soft")


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
        table = tables.conclusion_table(summary, small=True).to_html()
        cards.append(f'<div class="card">{title}\n{paragraph(conclusion(summary))}\n{table}</div>')
    lines = paper_sections.finding_lines(paper) if paper else []
    has_extras = any(
        outcome.is_extra for result in results for protocol in result.protocols for outcome in protocol.outcomes
    )
    note = paragraph(f"Numbers are final regrets: less is better. {tables.EXTRA_NOTE * has_extras}", "soft")
    findings = "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>" if lines else ""
    inside = f'{findings}\n{note}\n<div class="cards">' + "\n".join(cards) + "</div>" if cards else findings
    return f'<section id="conclusions"><h2>Conclusions</h2>\n{inside}</section>'


def _anchor(name: str) -> str:
    return f"experiment-{slug(name)}"


def _all_panels(results: Sequence[ExperimentResult], folder: Path, styles: SeriesStyles) -> list[Section]:
    """Save the figures in the paper's arrangement, and return the section with them."""
    protocols = paper_protocols(results)
    if not protocols:
        return []
    parts = []
    for protocol in protocols:
        name = f"{ALL_PANELS}-{protocol}"
        png, _ = save(paper_figure(results, protocol, styles), folder, name)
        title = PROTOCOL_TITLES[protocol]
        parts.append(f"<figure>{image(png, title)}{_static_caption(name, f'{title}. {CURVES_CAPTION}')}</figure>")
    return [Section(ALL_PANELS, ALL_PANELS_TITLE, "\n".join(parts))]


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
    seeds = format_seeds(protocol.outcomes[0].seeds)
    name = figure_stem(result, protocol.protocol)
    chart = curves_chart(result, protocol, styles)
    parts = [
        f"<h3>{escape(PROTOCOL_TITLES[protocol.protocol])}</h3>",
        paragraph(f"{PROTOCOL_DESCRIPTIONS[protocol.protocol]} Shown here: seeds {seeds}."),
        _figure(chart, name, figure_stem(result), CURVES_CAPTION),
    ]
    if result.experiment.best_arms > 0:
        chart = pulls_chart(result, protocol, styles)
        parts.append(_figure(chart, f"{name}-pulls", figure_stem(result, "pulls"), PULLS_CAPTION))
    return '<div class="protocol">' + "\n".join(parts) + "</div>"


def _figure(chart: Chart, name: str, static: str, text: str) -> str:
    return (
        f'<figure><div class="chart">{chart_html(chart, f"chart-{name}")}</div>{_static_caption(static, text)}</figure>'
    )


def _static_caption(name: str, text: str) -> str:
    links = join_words([f'<a href="{FIGURES}/{name}.{kind}">{kind.upper()}</a>' for kind in FORMATS])
    return caption(text, f"Also as {links}.")
