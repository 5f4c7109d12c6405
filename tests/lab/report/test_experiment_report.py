import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glbandits import LinUcb
from glbandits.common.display.charts import chart_script
from glbandits.common.errors import InvalidInput
from glbandits.lab.experiments.experiment import PolicyEntry
from glbandits.lab.experiments.outcomes import FRESH, PAPER, best_pulls, half_width
from glbandits.lab.experiments.paired_differences import paired_differences
from glbandits.lab.experiments.protocols import PROTOCOL_DESCRIPTIONS, ExperimentRunner
from glbandits.lab.experiments.result_store import ResultStore
from glbandits.lab.experiments.summary import summarise
from glbandits.lab.paper.paper_summary import PaperSummary
from glbandits.lab.report import write_experiment_report
from glbandits.lab.report.charts import (
    chart_title,
    experiment_curves,
    legend_styles,
    paper_figure,
    pulls_chart,
    styles_for,
)
from glbandits.lab.report.conclusions import conclusion
from glbandits.lab.report.tables import conclusion_table, numbers_table
from glbandits.policies import OnlineLaplace
from tests.common.display.chart_rows import chart_rows
from tests.lab.report.small_results import ENTRIES, EXTRAS, FIXED_ARMS, HORIZON, NEWS, small_results

COMMAND = "glb paper forest-1 news --out 'a & b'"
STYLES = styles_for(())
MORE = (PolicyEntry(LinUcb, grid={}), PolicyEntry(OnlineLaplace, grid={}))


class Cells(HTMLParser):
    """The texts of all table cells, row by row."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False
        self.feed(markup)

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("th", "td")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data


def paper_summary() -> PaperSummary:
    """The report of the paper, with its claims left out: they need the paper's policies."""
    return PaperSummary("0", COMMAND, False, tuple(replace(summarise(one), paper=None) for one in small_results()))


def body_of(page: Path) -> str:
    """The page without the script that draws charts, which must be there once."""
    text = page.read_text(encoding="utf-8")
    assert text.count(chart_script()) == 1
    return text.replace(chart_script(), "")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of two experiments and the paper."""
    return write_experiment_report(small_results(), tmp_path_factory.mktemp("report"), COMMAND, paper=paper_summary())


def test_report_has_a_page_and_figures(page: Path) -> None:
    stems = ["forest-1", "forest-1-pulls", "news", "paper-figure-paper", "paper-figure-fresh"]
    expected = {Path("figures") / f"{figure_stem}.{kind}" for figure_stem in stems for kind in ("png", "svg", "pdf")}
    written = {path.relative_to(page.parent) for path in page.parent.rglob("*") if path.is_file()}
    assert written == expected | {Path("report.html")}


def test_growing_page_names_what_is_missing_and_loads_again(tmp_path: Path) -> None:
    page = write_experiment_report(
        small_results()[:1], tmp_path, COMMAND, paper=paper_summary(), missing=["news", "theory"]
    )
    body = body_of(page)
    assert "Still to come: news and theory." in body
    assert 'http-equiv="refresh"' in body
    assert "Thompson Sampling, AISTATS 2021" in body
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    finished = body_of(write_experiment_report(small_results()[:1], tmp_path, COMMAND))
    assert "Still to come" not in finished
    assert "refresh" not in finished


def test_equal_results_give_equal_bytes(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        write_experiment_report(small_results()[:1], folder, COMMAND)
    written = [
        {path.relative_to(f): path.read_bytes() for path in f.rglob("*") if path.is_file() and path.suffix != ".pdf"}
        for f in folders
    ]
    assert written[0] == written[1]


def test_page_needs_no_network_and_has_all_experiments(page: Path) -> None:
    body = body_of(page)
    assert not re.search(r"https?://(?!vega.github.io/schema)|<script[^>]+src|<link|@import|url\(|<iframe", body)
    assert "Five fixed arms &lt;&amp; no forest&gt;" in body
    assert "A note with &lt;b&gt;letters&lt;/b&gt; to escape." in body
    assert "<code>glb paper forest-1 news --out &#x27;a &amp; b&#x27;</code>" in body
    assert "seeds 1 to 3 to choose settings and 11 to 14 to report on" in body
    assert "full grid" in body
    for protocol in small_results()[0].protocols:
        assert PROTOCOL_DESCRIPTIONS[protocol.protocol].replace("'", "&#x27;") in body
    ids = re.findall(r'id="([^"]+)"', body)
    assert len(ids) == len(set(ids))
    kinds = ("forest-1-{}", "forest-1-{}-pulls", "news-{}", "paper-figure-{}")
    charts = {f"chart-{kind.format(protocol)}" for kind in kinds for protocol in (PAPER, FRESH)}
    assert {each for each in ids if each.startswith("chart-")} == charts
    assert body.count("<table>") == 2 * (1 + 2)  # for each experiment a small table, and one for each protocol
    targets = re.findall(r'href="([^"]+)"', body)
    assert targets
    for target in targets:
        assert f'id="{target[1:]}"' in body if target.startswith("#") else (page.parent / target).is_file()


def test_tables_have_the_numbers_of_the_results() -> None:
    result = small_results()[0]
    paper, fresh = result.protocols
    summary = summarise(result)
    assert summary.fresh is not None
    assert summary.paper is not None
    table = numbers_table(summary, summary.fresh)
    by_label = {outcome.label: outcome for outcome in fresh.outcomes}
    for row in table.rows:
        outcome = by_label[row[0].removesuffix(" \u2020")]
        gap = outcome.final - fresh.best.final
        width = half_width(gap[:, np.newaxis])[0]
        assert row[1:3] == [str(outcome.tried), f"{outcome.final.mean():.3f} ± {outcome.half_width[-1]:.3f}"]
        assert row[3] == ("the best" if outcome is fresh.best else f"{gap.mean():+.3f} ± {width:.3f}")
        assert row[-1] == outcome.chosen
    small = conclusion_table(summary)
    assert small.columns == ["policy", "settings", "paper's protocol", "fresh seeds"]
    assert [row[0] for row in small.rows] == [row[0] for row in table.rows]
    assert {row[0]: row[2] for row in small.rows}["uniform \u2020"] == "-"
    for outcome in paper.outcomes:
        assert any(row[2].startswith(f"{outcome.final.mean():.3f}") for row in small.rows)


def panel_titles(figure: Any) -> list[str]:
    return [" ".join(panel["title"]["text"]) for panel in figure.to_dict()["concat"]]


def test_figures_of_simulated_data_are_marked(tmp_path: Path) -> None:
    fixed_arms, news = small_results()
    assert "simulated data" in chart_title(news, news.protocols[0])
    assert "simulated" not in chart_title(fixed_arms, fixed_arms.protocols[0])
    assert "News (simulated data)" in panel_titles(paper_figure([fixed_arms, news], FRESH, STYLES))
    assert '<p class="warning">Simulated data' in body_of(write_experiment_report([news], tmp_path, COMMAND))


def test_reward_curve_is_best_reward_minus_regret() -> None:
    _, news = small_results()
    for protocol in news.protocols:
        for curve, outcome in zip(experiment_curves(NEWS, protocol), protocol.outcomes, strict=True):
            best = [block.best() for seed in outcome.seeds for block in NEWS.environment.rounds(HORIZON, seed)]
            np.testing.assert_allclose(curve.mean[-1], np.mean(best) - outcome.final.mean() / HORIZON)


def test_best_arms_are_determined_for_each_seed() -> None:
    fresh = small_results()[0].protocols[1]
    pulls = best_pulls(small_results()[0], fresh)
    assert pulls.arms == ("best arm", "2nd best", "3rd best", "4th best")
    problem = FIXED_ARMS.environment
    for outcome in fresh.outcomes:
        of_best = []
        for seed, counts in zip(outcome.seeds, outcome.pulls, strict=True):
            place = int(next(problem.rounds(1, seed)).expected[0].argmax())
            of_best.append(counts[place] if place < len(counts) else 0)
        assert pulls.medians[outcome.label][0] == np.median(of_best)
    legend = legend_styles([fresh], STYLES)
    assert len(chart_rows(pulls_chart(small_results()[0], fresh, legend))) == 4 * len(fresh.outcomes)


def test_experiments_with_equal_names_are_rejected(tmp_path: Path) -> None:
    result = small_results()[0]
    with pytest.raises(InvalidInput, match="must have different names"):
        write_experiment_report([result, result], tmp_path, COMMAND)


def test_own_comparison_shows_every_policy_and_its_differences_to_the_reference(tmp_path: Path) -> None:
    mine = replace(FIXED_ARMS, policies=(*ENTRIES, *EXTRAS, *MORE), extras=(), reference="uniform", best_arms=0)
    (result,) = ExperimentRunner(ResultStore(tmp_path / "store"), jobs=1).run([mine], [FRESH])
    summary = summarise(result)
    assert summary.fresh is not None
    finals = {outcome.label: outcome.final for outcome in result.protocols[0].outcomes}
    body = unescape(body_of(write_experiment_report([result], tmp_path, COMMAND)))
    cards, details = body.split('<div class="side')
    for part in (cards, details):
        assert {*finals} <= {row[0] for row in Cells(part).rows if row}
    assert "minus uniform ± 95" in details
    table = numbers_table(summary, summary.fresh)
    column = [index for index, name in enumerate(table.columns) if name.startswith("minus uniform")]
    cells = {row[0]: row[column[0]] for row in table.rows}
    for label, difference in paired_differences(finals, "uniform").items():
        assert cells[label] == difference.text(3)
        assert re.search(rf"[^.]*{label}[^.]*uniform[^.]*|[^.]*uniform[^.]*{label}", conclusion(summary))
    assert cells["uniform"] == "the reference"
    assert "(95 % for all of them at once)" in cards
    assert "hold at once with 95 %" in details
