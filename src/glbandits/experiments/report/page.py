"""The report: one page that needs no network, with conclusions first, and static figures beside it."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from glbandits.errors import InvalidInput
from glbandits.experiments.experiment import THIN
from glbandits.experiments.outcomes import FRESH, ExperimentResult, ProtocolResult
from glbandits.experiments.paper.paper_summary import PaperSummary
from glbandits.experiments.protocols import WORDS
from glbandits.experiments.report import paper_sections, tables
from glbandits.experiments.report.chart_data import PROTOCOL_TITLES, named, slug, stem
from glbandits.experiments.report.charts import curves_chart, pulls_chart
from glbandits.experiments.report.conclusions import conclusion
from glbandits.experiments.report.figures import FORMATS, paper_figure, paper_protocols, save, write_figures
from glbandits.experiments.report.html_elements import caption, image, listed, paragraph, seeds_in_words
from glbandits.experiments.report.html_page import AGAIN, again, write_page
from glbandits.experiments.report.paper_sections import Section
from glbandits.experiments.report.plotly_helpers import Chart, draw
from glbandits.experiments.report.series_styles import SeriesStyles, styles_for
from glbandits.experiments.summary import ExperimentSummary, summarise
from glbandits.version import __version__

PAGE, FIGURES, ALL_PANELS = "report.html", "figures", "paper-figure"
TITLE = "Report of experiments on generalized linear bandits"
ALL_PANELS_TITLE = "All experiments, as the paper arranges them"
CURVES_CAPTION = (
    "Look at the right end, and at the bands: where two bands overlap, the policies may not differ. "
    "All protocols have the same vertical axis."
)
PULLS_CAPTION = "A policy with a low first group of bars rarely found the best arm. All protocols have the same axis."


def write_report(
    results: Sequence[ExperimentResult], folder: Path, command: str, *, paper: PaperSummary | None = None
) -> Path:
    """Write the page and its figures into a folder; returns the path of the page.

    The page needs no network and no other file. The same results give the same bytes.
    """
    names = [slug(result.experiment.name) for result in results]
    if len(set(names)) < len(names):
        raise InvalidInput(f"each experiment of a report needs a name of its own; got {', '.join(names)}")
    folder.mkdir(parents=True, exist_ok=True)
    figures = folder / FIGURES
    styles = styles_for(one.label for result in results for protocol in result.protocols for one in protocol.outcomes)
    write_figures(results, figures, styles)
    summaries = list(map(summarise, results))
    sections = [*_all_panels(results, figures, styles), *paper_sections.claims_section(paper)] if paper else []
    sections += [_experiment(*pair, styles) for pair in zip(results, summaries, strict=True)]
    sections += paper_sections.measured_sections(paper, figures, styles) if paper else []
    parts = [f"<h1>{escape(TITLE)}</h1>", _conclusions(results, summaries, paper), _about(results), _contents(sections)]
    parts += [section.to_html() for section in sections]
    return write_page(
        folder / PAGE,
        TITLE,
        [*parts, again(command, "This command makes it. Runs in the store are not computed again.")],
    )


def _about(results: Sequence[ExperimentResult]) -> str:
    """How the results were made."""
    alike: dict[str, list[str]] = {}
    for result in results:
        alike.setdefault(_grid_and_seeds(result), []).append(result.experiment.name)
    sentences = [f"{listed(names)} ran {how}." for how, names in alike.items()]
    if any(result.quick for result in results):
        values = "; ".join(f"{name} {', '.join(f'{value:g}' for value in values)}" for name, values in THIN.items())
        sentences.append(f"The thin grid has only these values of every grid: {values}.")
    return paragraph(" ".join([*sentences, f"Made by glbandits {__version__}."]), "soft")


def _grid_and_seeds(result: ExperimentResult) -> str:
    grid, tuned = "thin" if result.quick else "full", seeds_in_words(result.experiment.repeats)
    text = f"on the {grid} grid, with seeds {tuned}"
    if result.under(FRESH) is not None:
        text += f" to choose settings and {seeds_in_words(result.experiment.fresh)} to report on"
    return text


def _conclusions(
    results: Sequence[ExperimentResult], summaries: Sequence[ExperimentSummary], paper: PaperSummary | None
) -> str:
    """The first screen: what was found, and a sentence and a small table for each experiment."""
    cards = []
    for result, summary in zip(results, summaries, strict=True):
        short = named(result.experiment.title, result).split(":")[0]
        title = f'<h3><a href="#{_anchor(summary.name)}">{escape(short)}</a></h3>'
        table = tables.conclusion_table(summary, small=True).to_html()
        cards.append(f'<div class="card">{title}\n{paragraph(conclusion(summary))}\n{table}</div>')
    lines = paper_sections.finding_lines(paper) if paper else []
    has_extras = any(outcome.is_extra for result in results for one in result.protocols for outcome in one.outcomes)
    note = paragraph(f"Numbers are final regrets: less is better. {tables.EXTRA_NOTE * has_extras}", "soft")
    found = "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>" if lines else ""
    inside = f'{found}\n{note}\n<div class="cards">' + "\n".join(cards) + "</div>" if cards else found
    return f'<section id="conclusions"><h2>Conclusions</h2>\n{inside}</section>'


def _anchor(name: str) -> str:
    return f"experiment-{slug(name)}"


def _contents(sections: Sequence[Section]) -> str:
    entries = [*((section.name, section.title) for section in sections), ("again", AGAIN)]
    lines = "\n".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title in entries)
    return f'<nav aria-label="Contents"><ul>\n{lines}\n</ul></nav>'


def _all_panels(results: Sequence[ExperimentResult], folder: Path, styles: SeriesStyles) -> list[Section]:
    """The figure in the paper's arrangement, once for each protocol; it is in the page itself too."""
    protocols = paper_protocols(results)
    if not protocols:
        return []
    parts = []
    for protocol in protocols:
        name = f"{ALL_PANELS}-{protocol}"
        png, _ = save(paper_figure(results, protocol, styles), folder, name)
        title = PROTOCOL_TITLES[protocol]
        parts.append(f"<figure>{image(png, title)}{_static(name, f'{title}. {CURVES_CAPTION}')}</figure>")
    return [Section(ALL_PANELS, ALL_PANELS_TITLE, "\n".join(parts))]


def _experiment(result: ExperimentResult, summary: ExperimentSummary, styles: SeriesStyles) -> Section:
    experiment, parts = result.experiment, list[str]()
    if result.simulated_data:
        parts.append(
            paragraph(
                "Simulated data: they stand in for data that not everyone may have. Nothing here says how a policy "
                "does on the real ones.",
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
    return Section(_anchor(experiment.name), named(result.experiment.title, result), "\n".join(parts))


def _protocol(result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles) -> str:
    """The words and the charts of one protocol: a column on a wide screen."""
    seeds = seeds_in_words(protocol.outcomes[0].seeds)
    name = stem(result, protocol.protocol)
    chart = curves_chart(result, protocol, styles)
    parts = [
        f"<h3>{escape(PROTOCOL_TITLES[protocol.protocol])}</h3>",
        paragraph(f"{WORDS[protocol.protocol]} Shown here: seeds {seeds}."),
        _figure(chart, name, stem(result), CURVES_CAPTION),
    ]
    if result.experiment.best_arms > 0:
        chart = pulls_chart(result, protocol, styles)
        parts.append(_figure(chart, f"{name}-pulls", stem(result, "pulls"), PULLS_CAPTION))
    return '<div class="protocol">' + "\n".join(parts) + "</div>"


def _figure(chart: Chart, name: str, static: str, text: str) -> str:
    return f'<figure><div class="chart">{draw(chart, f"chart-{name}")}</div>{_static(static, text)}</figure>'


def _static(name: str, text: str) -> str:
    links = listed([f'<a href="{FIGURES}/{name}.{kind}">{kind.upper()}</a>' for kind in FORMATS])
    return caption(text, f"Beside this page as {links}.")
