"""The page: what was run, charts, tables, and the command that makes it again."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path

from glbandits.errors import InvalidInput
from glbandits.experiments.experiment import THIN
from glbandits.experiments.paper.runtime import TITLE as RUNTIME_TITLE
from glbandits.experiments.protocols import FRESH, ProtocolResult
from glbandits.experiments.report import tables
from glbandits.experiments.report.chart_data import PROTOCOL_TITLES, named, slug, stem
from glbandits.experiments.report.charts import curves_chart, pulls_chart
from glbandits.experiments.report.figures import FORMATS, paper_figure, paper_protocols, save, write_figures
from glbandits.experiments.report.html_elements import listed, paragraph, seeds_in_words
from glbandits.experiments.report.html_page import AGAIN, again, write_page
from glbandits.experiments.report.plotly_helpers import Chart, draw
from glbandits.experiments.report.series_styles import SeriesStyles, styles_for
from glbandits.experiments.results import ExperimentResult, RuntimeTable
from glbandits.version import __version__

PAGE, FIGURES, ALL_PANELS = "report.html", "figures", "paper-figure"
TITLE = "Report of experiments on generalized linear bandits"
ALL_PANELS_TITLE = "All at once, as the paper arranges it"


def write_report(results: Sequence[ExperimentResult], runtime: RuntimeTable | None, folder: Path, command: str) -> Path:
    """Write the page and its figures into a folder; returns the path of the page.

    The page needs no network and no other file. The same results give the same bytes.
    """
    names = [slug(result.experiment.name) for result in results]
    if len(set(names)) < len(names):
        raise InvalidInput(f"each experiment of a report needs a name of its own; got {', '.join(names)}")
    styles = styles_for(one.label for result in results for protocol in result.protocols for one in protocol.outcomes)
    write_figures(results, folder / FIGURES, styles)
    parts = [_opening(results, runtime), _contents(results, runtime), *_all_panels(results, folder / FIGURES, styles)]
    parts += [_experiment(result, styles) for result in results]
    if runtime is not None:
        parts.append(_runtime(runtime))
    parts.append(again(command, "This command makes it. Runs that are still in the store are not computed again."))
    return write_page(folder / PAGE, TITLE, parts)


def _opening(results: Sequence[ExperimentResult], runtime: RuntimeTable | None) -> str:
    alike: dict[str, list[str]] = {}
    for result in results:
        experiment = result.experiment
        name = f"{experiment.name} ({experiment.horizon} rounds)"
        alike.setdefault(_grid_and_seeds(result), []).append(name)
    said = [f"This page was made by glbandits {__version__}."]
    said += [f"{listed(names)} ran {how}." for how, names in alike.items()]
    if runtime is not None:
        said.append(f"The runtime of {len(runtime.rows)} algorithms was measured.")
    if any(result.quick for result in results):
        values = "; ".join(f"{name} {', '.join(f'{value:g}' for value in values)}" for name, values in THIN.items())
        said.append(f"The thin grid has of every grid only these values: {values}.")
    return f"<header><h1>{escape(TITLE)}</h1>\n{paragraph(' '.join(said))}</header>"


def _grid_and_seeds(result: ExperimentResult) -> str:
    grid, tuned = "thin" if result.quick else "full", seeds_in_words(result.experiment.repeats)
    text = f"on the {grid} grid, with seeds {tuned}"
    if any(protocol.protocol == FRESH for protocol in result.protocols):
        text += f" to choose settings and {seeds_in_words(result.experiment.fresh)} to report on"
    return text


def _heading(result: ExperimentResult) -> str:
    title = result.experiment.title
    return title if "simulated" in title.lower() else named(title, result)


def _contents(results: Sequence[ExperimentResult], runtime: RuntimeTable | None) -> str:
    entries = [(slug(result.experiment.name), _heading(result)) for result in results]
    if paper_protocols(results):
        entries.insert(0, (ALL_PANELS, ALL_PANELS_TITLE))
    if runtime is not None:
        entries.append(("runtime-table", RUNTIME_TITLE))
    entries.append(("again", AGAIN))
    lines = "\n".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title in entries)
    return f'<nav aria-label="Contents"><ul>\n{lines}\n</ul></nav>'


def _all_panels(results: Sequence[ExperimentResult], folder: Path, styles: SeriesStyles) -> list[str]:
    """The figure in the paper's arrangement, once for each protocol; it is in the page itself too."""
    protocols = paper_protocols(results)
    if not protocols:
        return []
    parts = [f'<section id="{ALL_PANELS}"><h2>{ALL_PANELS_TITLE}</h2>']
    for protocol in protocols:
        name = f"{ALL_PANELS}-{protocol}"
        png, _ = save(paper_figure(results, protocol, styles), folder, name)
        picture = b64encode(png.read_bytes()).decode()
        image = f'<img alt="{escape(PROTOCOL_TITLES[protocol])}" src="data:image/png;base64,{picture}">'
        parts.append(f'<figure><div class="scroll" tabindex="0">{image}</div>{_static(name)}</figure>')
    return [*parts, "</section>"]


def _experiment(result: ExperimentResult, styles: SeriesStyles) -> str:
    experiment = result.experiment
    parts = [f'<section id="{slug(experiment.name)}"><h2>{escape(_heading(result))}</h2>']
    if result.simulated_data:
        parts.append(
            paragraph(
                "Simulated data: they stand in for data that not everyone may have. Nothing here says how an "
                "algorithm does on the real ones.",
                "warning",
            )
        )
    if experiment.note:
        parts.append(paragraph(experiment.note))
    parts.append(f'<div class="side{" both" * (len(result.protocols) > 1)}">')
    parts += [_protocol(result, protocol, styles) for protocol in result.protocols]
    parts += ["</div>", "<h3>What the number of settings does</h3>", tables.settings_sentence(result.protocols)]
    parts.append(tables.both_table(result.protocols))
    for protocol in result.protocols:
        parts.append(f"<h3>{escape(PROTOCOL_TITLES[protocol.protocol])}: all numbers</h3>")
        parts += [tables.outcomes_table(result, protocol), tables.reading_help(protocol)]
    return "\n".join(filter(None, [*parts, "</section>"]))


def _protocol(result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles) -> str:
    """The words and the charts of one protocol: a column on a wide screen."""
    seeds = seeds_in_words(protocol.outcomes[0].seeds)
    parts = [
        f"<h3>{escape(PROTOCOL_TITLES[protocol.protocol])}</h3>",
        paragraph(f"{protocol.words} Shown here: seeds {seeds}."),
        _figure(curves_chart(result, protocol, styles), stem(result, protocol)),
    ]
    if result.experiment.best_arms > 0:
        parts.append(_figure(pulls_chart(result, protocol, styles), stem(result, protocol, "pulls")))
    return '<div class="protocol">' + "\n".join(parts) + "</div>"


def _figure(chart: Chart, name: str) -> str:
    return f'<figure><div class="chart">{draw(chart, f"chart-{name}")}</div>{_static(name)}</figure>'


def _static(name: str) -> str:
    links = listed([f'<a href="{FIGURES}/{name}.{kind}">{kind.upper()}</a>' for kind in FORMATS])
    return f"<figcaption>Beside this page as {links}.</figcaption>"


def _runtime(runtime: RuntimeTable) -> str:
    horizons, dimensions = (listed([str(size) for size in sizes]) for sizes in (runtime.horizons, runtime.dimensions))
    about = (
        "Seconds are the least CPU time that the policy itself took in a run, at its default settings. The paper's "
        "were measured on another machine with other code, so compare the ratios. Its SupCB-GLM is another algorithm "
        "than the one here. Growth is the exponent p of seconds ~ size^p, "
        f"fitted for T = {horizons} and for d = {dimensions}: 1 means that twice the size takes twice as long."
    )
    return (
        f'<section id="runtime-table"><h2>{escape(RUNTIME_TITLE)}</h2>\n'
        f"{paragraph(about)}\n{tables.runtime_table(runtime)}</section>"
    )
