import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from glbandits.common.display.plotly_helpers import chart_html, plotly_script
from glbandits.common.errors import InvalidInput
from glbandits.lab.experiments.outcomes import FRESH, PAPER, ExperimentResult, best_pulls, half_width
from glbandits.lab.experiments.protocols import PROTOCOL_DESCRIPTIONS
from glbandits.lab.experiments.summary import summarise
from glbandits.lab.paper.paper_summary import PaperSummary
from glbandits.lab.report import write_experiment_report
from glbandits.lab.report.chart_data import curves, value_range
from glbandits.lab.report.charts import curves_chart
from glbandits.lab.report.figures import experiment_figure, paper_figure, pulls_figure, save
from glbandits.lab.report.policy_styles import LATER_POLICIES, PAPER_POLICIES, styles_for
from glbandits.lab.report.tables import conclusion_table, numbers_table, runtime_table
from glbandits.policies import POLICIES
from tests.lab.report.small_results import FIXED_ARMS, HORIZON, NEWS, RUNTIME, small_results

COMMAND = "glb paper forest-1 news --out 'a & b'"
STYLES = styles_for(PAPER_POLICIES)


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
    """The page without Plotly's script, which must be there once."""
    text = page.read_text(encoding="utf-8")
    assert text.count(plotly_script()) == 1
    return text.replace(plotly_script(), "")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of two experiments and the paper."""
    return write_experiment_report(small_results(), tmp_path_factory.mktemp("report"), COMMAND, paper=paper_summary())


def test_report_has_a_page_and_figures(page: Path) -> None:
    stems = ["forest-1", "forest-1-pulls", "news", "paper-figure-paper", "paper-figure-fresh"]
    expected = {Path("figures") / f"{figure_stem}.{kind}" for figure_stem in stems for kind in ("png", "svg")}
    written = {path.relative_to(page.parent) for path in page.parent.rglob("*") if path.is_file()}
    assert written == expected | {Path("report.html")}


def test_equal_results_give_equal_bytes(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        write_experiment_report(small_results()[:1], folder, COMMAND)
    written = [{path.relative_to(f): path.read_bytes() for path in f.rglob("*") if path.is_file()} for f in folders]
    assert written[0] == written[1]


def test_page_needs_no_network_and_has_all_experiments(page: Path) -> None:
    body = body_of(page)
    assert not re.search(r"https?://|<script[^>]+src|<link|@import|url\(|<iframe", body)
    assert "Five fixed arms &lt;&amp; no forest&gt;" in body
    assert "A note with &lt;b&gt;letters&lt;/b&gt; to escape." in body
    assert "<code>glb paper forest-1 news --out &#x27;a &amp; b&#x27;</code>" in body
    assert "seeds 1 to 3 to choose settings and 11 to 14 to report on" in body
    assert "full grid" in body
    for protocol in small_results()[0].protocols:
        assert PROTOCOL_DESCRIPTIONS[protocol.protocol].replace("'", "&#x27;") in body
    ids = re.findall(r'id="([^"]+)"', body)
    assert len(ids) == len(set(ids))
    targets = re.findall(r'href="([^"]+)"', body)
    assert targets
    for target in targets:
        assert f'id="{target[1:]}"' in body if target.startswith("#") else (page.parent / target).is_file()


def test_page_states_the_thin_grid(tmp_path: Path) -> None:
    quick = replace(small_results()[0], quick=True)
    assert "only these values of every grid: exploration 0.1, 1;" in body_of(
        write_experiment_report([quick], tmp_path, COMMAND)
    )


def test_conclusions_come_before_the_figures(page: Path) -> None:
    body = body_of(page)
    conclusions, figure = body.index('id="conclusions"'), body.index("<figure>")
    assert conclusions < body.index('class="card"') < figure
    assert body[:figure].count("On fresh seeds") >= 2


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


def test_table_1_has_two_columns_of_seconds_and_ratios() -> None:
    rows = runtime_table(RUNTIME).rows
    assert rows[0] == [
        "sgd-ts",
        "0.000400",
        "0.0990",
        "1.00",
        "1.00",
        "0.000800",
        "0.127",
        "1.00",
        "1.00",
        "1.01",
        "0.35",
    ]
    assert rows[1] == ["ucb-glm", "0.0500", "2.02", "125", "20.4", "0.0400", "29.6", "50.0", "233", "1.98", "1.21"]
    assert rows[2][:5] == ["uniform", "0.0000100", "-", "0.0250", "-"]


def test_figures_of_simulated_data_are_marked(tmp_path: Path) -> None:
    fixed_arms, news = small_results()
    assert news.simulated_data
    assert not fixed_arms.simulated_data

    def title(result: ExperimentResult) -> str:
        return experiment_figure(result, STYLES).get_suptitle()

    assert "simulated data" in title(news)
    for protocol in news.protocols:
        assert "simulated data" in curves_chart(news, protocol, STYLES)["layout"]["title"]["text"]
    whole = paper_figure([fixed_arms, news], FRESH, STYLES)
    titles = [axes.get_title(loc="left") for axes in whole.axes]
    assert "News (simulated data)" in titles
    assert "simulated" not in title(fixed_arms)
    assert '<p class="warning">Simulated data' in body_of(write_experiment_report([news], tmp_path, COMMAND))


def test_paper_figure_has_only_panels_that_were_run() -> None:
    fixed_arms, news = small_results()
    panels = paper_figure([news, fixed_arms], PAPER, STYLES).axes
    assert [axes.get_title(loc="left") for axes in panels] == [
        "Five fixed arms <& no forest>",
        "Five fixed arms <& no forest>: median pulls of\nthe 4 best arms",
        "News (simulated data)",
    ]
    assert not any("not run" in text.get_text() for axes in panels for text in axes.texts)


def test_protocols_share_their_vertical_axis() -> None:
    fixed_arms, _ = small_results()
    left, right = experiment_figure(fixed_arms, STYLES).axes
    assert left.get_ylim() == right.get_ylim()
    charts = [curves_chart(fixed_arms, protocol, STYLES) for protocol in fixed_arms.protocols]
    assert charts[0]["layout"]["yaxis"]["range"] == charts[1]["layout"]["yaxis"]["range"]
    whole = [paper_figure([fixed_arms], protocol, STYLES).axes[0] for protocol in (PAPER, FRESH)]
    assert whole[0].get_ylim() == whole[1].get_ylim()


def test_paper_figure_is_only_for_the_paper_experiments(tmp_path: Path) -> None:
    fixed_arms, _ = small_results()
    mine = replace(fixed_arms, experiment=replace(FIXED_ARMS, name="Mine, too"), protocols=fixed_arms.protocols[1:])
    assert "as the paper arranges them" not in body_of(write_experiment_report([mine], tmp_path, COMMAND))
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {"mine-too", "mine-too-pulls"}


def test_reward_curve_is_best_reward_minus_regret() -> None:
    _, news = small_results()
    for protocol in news.protocols:
        for curve, outcome in zip(curves(NEWS, protocol), protocol.outcomes, strict=True):
            best = [block.best() for seed in outcome.seeds for block in NEWS.environment.rounds(HORIZON, seed)]
            np.testing.assert_allclose(curve.mean[-1], np.mean(best) - outcome.final.mean() / HORIZON)


def test_axis_range_covers_all_but_the_first_rounds() -> None:
    for result in small_results():
        for protocol in result.protocols:
            low, high = value_range(result)
            assert low == 0.0 or result is small_results()[1]
            for curve in curves(result.experiment, protocol):
                settled = curve.rounds >= HORIZON // 20
                assert high > (curve.mean + curve.half_width)[settled].max()
                assert low <= curve.mean[settled].min()


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
    bars = pulls_figure(small_results()[0], STYLES).axes[1].patches
    assert len(bars) == 4 * len(fresh.outcomes)


def test_arm_that_was_never_pulled_has_zero_pulls() -> None:
    fresh = small_results()[0].protocols[1]
    narrow = replace(fresh, outcomes=tuple(replace(one, pulls=one.pulls[:, :1]) for one in fresh.outcomes))
    assert best_pulls(small_results()[0], narrow).medians.keys() == {"sgd-ts", "epsilon-greedy", "uniform"}


def test_single_seed_has_no_band() -> None:
    result = small_results()[0]
    fresh = result.protocols[1]
    one = tuple(replace(o, seeds=o.seeds[:1], regret=o.regret[:1], pulls=o.pulls[:1]) for o in fresh.outcomes)
    alone = replace(fresh, outcomes=one)
    assert len(curves_chart(result, fresh, STYLES)["data"]) == 2 * len(one)
    assert len(curves_chart(result, alone, STYLES)["data"]) == len(one)
    only = replace(result, protocols=(alone,))
    assert not experiment_figure(only, STYLES).axes[0].collections
    summary = summarise(only)
    assert summary.fresh is not None
    assert not any("±" in cell for row in numbers_table(summary, summary.fresh).rows for cell in row)


def test_styles_differ_and_are_stable() -> None:
    styles = styles_for(["mine", "yours"])
    assert len(set(styles.values())) == len(styles) == len(POLICIES) + 2
    assert len({(style.colour, style.dash) for style in styles.values()}) == len(styles)
    assert styles_for(["yours"])["sgd-ts"] == styles["sgd-ts"]
    chart = curves_chart(small_results()[0], small_results()[0].protocols[0], styles)
    drawn = {trace["name"]: trace["line"]["color"] for trace in chart["data"] if "name" in trace}
    assert drawn == {name: styles[name].colour for name in ("sgd-ts", "epsilon-greedy")}


def test_policies_of_a_paper_figure_differ_in_greyscale() -> None:
    styles = styles_for(PAPER_POLICIES)
    shown = [styles[name] for name in (*PAPER_POLICIES, *LATER_POLICIES)]
    assert len({style.colour for style in shown}) == len({style.marker for style in shown}) == 10
    assert len({style.hatch for style in shown}) == 10
    assert len({style.dash for style in shown[:7]}) == 7
    assert all(late.width > early.width for late in shown[7:] for early in shown[:7])


def test_names_are_escaped() -> None:
    result = small_results()[0]
    evil = replace(result, experiment=replace(FIXED_ARMS, name="</script><script>alert(1)</script>"))
    markup = chart_html(curves_chart(evil, evil.protocols[0], STYLES), "chart")
    assert markup.count("<script") == markup.count("</script") == 1


def test_experiments_with_equal_names_are_rejected(tmp_path: Path) -> None:
    result = small_results()[0]
    with pytest.raises(InvalidInput, match="must have different names; got forest-1, forest-1"):
        write_experiment_report([result, result], tmp_path, COMMAND)


def test_dollar_signs_in_titles_are_not_formulas(tmp_path: Path) -> None:
    title, label = "a $x^{2$ b", "mine $y_{$"
    fixed_arms, _ = small_results()
    experiment = replace(FIXED_ARMS, title=title)
    protocols = [
        replace(protocol, outcomes=tuple(replace(outcome, label=label) for outcome in protocol.outcomes[:1]))
        for protocol in fixed_arms.protocols
    ]
    result = replace(fixed_arms, experiment=experiment, protocols=tuple(protocols))
    styles = styles_for([label])
    for figure in (
        experiment_figure(result, styles),
        pulls_figure(result, styles),
        paper_figure([result], PAPER, styles),
    ):
        svg = save(figure, tmp_path, "dollars")[1].read_text(encoding="utf-8")
        assert f"<!-- {label} -->" in svg
        assert f"<!-- {title}" in svg or "pulls" in svg
