import json
import math
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from glbandits.cli.evaluation_tables import differences_table, estimates_table
from glbandits.common.display.plotly_helpers import plotly_script
from glbandits.common.display.series_styles import SeriesStyles, styles_in_order
from glbandits.evaluation import DoublyRobustEstimate, Interval, RowArms
from glbandits.evaluation.estimators.support import WEIGHT_EDGES
from glbandits.evaluation.estimators.targets import UniformTarget
from glbandits.evaluation.logs.arm_features import copy_with
from glbandits.evaluation.policy_comparison import ComparisonSettings, compare_policies
from glbandits.evaluation.report import write_evaluation_report
from glbandits.evaluation.report.charts import (
    arms_chart,
    forest_chart,
    learning_chart,
    running_chart,
    weights_chart,
)
from glbandits.evaluation.report.estimate_rows import INTERVAL_LEGEND, difference_rows
from tests.evaluation.small_comparison import ARMS, ROWS, small_comparison, small_log

COMMAND = "glb evaluate 'a & b.parquet'"


def styles() -> SeriesStyles:
    return styles_in_order(policy.label for policy in small_comparison().policies)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_evaluation_report(small_comparison(), tmp_path_factory.mktemp("page") / "new", COMMAND)


def page_text(page: Path) -> str:
    """The page without Plotly's script."""
    return page.read_text(encoding="utf-8").replace(plotly_script(), "")


def test_page_is_self_contained_and_escapes_names(written: tuple[Path, Path]) -> None:
    text = page_text(written[0])
    assert plotly_script() in written[0].read_text(encoding="utf-8")
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", text)
    assert "from tiny &amp; &lt;small&gt;.parquet: 1,024 decisions, 3 arms" in text
    assert "<b>odd" not in text
    assert "glb evaluate &#x27;a &amp; b.parquet&#x27;" in text


def test_every_policy_has_its_support_and_notes(written: tuple[Path, Path]) -> None:
    text = page_text(written[0])
    for policy in small_comparison().policies:
        support, label = policy.evaluation.support, policy.label.replace("<", "&lt;").replace(">", "&gt;")
        assert re.search(
            rf">{label}</th>.*<td>{support.effective_sample_size:,.0f} .realised.</td>.*{support.unused:.1%}", text
        ), label
        assert all(note.replace("'", "&#x27;") in text for note in policy.evaluation.notes)
    assert "intervals do not cover the bias of dm" in text


def test_page_and_terminal_explain_the_intervals(written: tuple[Path, Path]) -> None:
    assert INTERVAL_LEGEND in unescape(page_text(written[0]))
    assert estimates_table(small_comparison()).caption == INTERVAL_LEGEND


def test_page_terminal_and_record_have_the_differences(written: tuple[Path, Path]) -> None:
    text, record = unescape(page_text(written[0])), json.loads(written[1].read_text(encoding="utf-8"))
    difference = small_comparison().differences["uniform"]
    assert isinstance(difference, DoublyRobustEstimate)
    assert isinstance(difference.fixed_n, Interval)
    cells = (f"{difference.value:+.5f}", f"{difference.fixed_n.low:+.5f} to {difference.fixed_n.high:+.5f}")
    assert re.search(r">uniform</th>.*{}.*{}".format(*map(re.escape, cells)), text)
    assert "The mean reward of each policy minus that of optimist." in text
    assert "whichever policy is the reference" in text
    assert record["reference"] == "optimist"
    uniform = next(policy for policy in record["policies"] if policy["policy"] == "uniform")
    assert uniform["headline"]["difference"]["value"] == difference.value
    table = differences_table(small_comparison())
    assert table.row_count == 4
    assert list(table.columns[1].cells) == [row[1] for row in difference_rows(small_comparison())]


def test_equal_comparisons_give_equal_bytes(written: tuple[Path, Path], tmp_path: Path) -> None:
    for before, after in zip(
        written, write_evaluation_report(small_comparison(), tmp_path, "glb evaluate 'a & b.parquet'"), strict=True
    ):
        assert before.read_bytes() == after.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evaluation.html", "evaluation.json"]


def test_forest_chart_has_every_estimate_once() -> None:
    chart = forest_chart(small_comparison(), styles())
    log, *policy_traces = chart["data"]
    assert len(log["x"]) == 2  # the rows that learners are evaluated on, and all rows
    assert [trace["name"] for trace in policy_traces][-1] == "a &lt;model&gt;"
    for trace, policy in zip(policy_traces, small_comparison().policies, strict=True):
        headline, estimates = policy.evaluation.headline, policy.evaluation.estimates
        checks = [(estimate.value, estimate.normal.high) for estimate in estimates if estimate.name != "dr"]
        assert headline is not None
        assert isinstance(headline.value.fixed_n, Interval)
        assert not isinstance(headline.value.interval, str)
        value, intervals = headline.value.value, (headline.value.interval, headline.value.fixed_n)
        known = [(value, interval.high) for interval in intervals] + checks
        assert trace["x"] == pytest.approx([value for value, _ in known], rel=1e-5)
        high = [x + more for x, more in zip(trace["x"], trace["error_x"]["array"], strict=True)]
        assert high == pytest.approx([value if math.isnan(end) else end for value, end in known], rel=1e-4)
    positions = [y for trace in chart["data"] for y in trace["y"]]
    assert len(set(positions)) == len(positions) == len(chart["layout"]["yaxis"]["tickvals"])


def test_estimates_without_an_interval_are_marked() -> None:
    comparison = small_comparison()
    policy = comparison.policies[0]
    headline = policy.evaluation.headline
    assert headline is not None
    unknown = replace(headline, value=replace(headline.value, anytime="needs a reward range"))
    evaluation = replace(policy.evaluation, headline=unknown)
    chart = forest_chart(replace(comparison, policies=(replace(policy, evaluation=evaluation),)), styles())
    first, second, *_ = chart["data"][1]["marker"]["color"]
    assert first == "white" != second
    assert "dr, at every n: no interval" in chart["layout"]["yaxis"]["ticktext"]


def test_histogram_bins_contain_their_weights() -> None:
    uniform = next(trace for trace in weights_chart(small_comparison(), styles())["data"] if trace["name"] == "uniform")
    shown = {x: y for x, y in zip(uniform["x"], uniform["y"], strict=True) if y is not None}
    assert sum(shown.values()) == ROWS // 2
    step = WEIGHT_EDGES[1] / WEIGHT_EDGES[0]
    for weight in (1 / 3 / 0.5, 1 / 3 / 0.2, 1 / 3 / 0.3):
        assert sum(x / math.sqrt(step) <= weight < x * math.sqrt(step) for x in shown) == 1, weight


def test_arms_chart_has_shares_and_rewards() -> None:
    supports: Any = {
        policy.label: policy.evaluation.support.arms
        for policy in small_comparison().policies
        if policy.label in ("arm:new", "uniform")
    }
    log, new, uniform, rewards = arms_chart(small_comparison(), supports, styles())["data"]
    assert sum(log["y"]) == pytest.approx(1.0)
    assert new["y"] == [0, 1, 0]
    assert uniform["y"] == pytest.approx([1 / 3] * 3, rel=1e-5)
    rest = small_log()[ROWS // 2 :]
    assert rewards["y"] == pytest.approx([rest.rewards[rest.chosen == arm].mean() for arm in range(3)], rel=1e-5)


def test_running_curves_end_at_the_estimates() -> None:
    running = running_chart(small_comparison(), "dr", styles())["data"]
    assert [trace["y"][-1] for trace in running] == pytest.approx(
        [policy.evaluation["dr"].value for policy in small_comparison().policies], rel=1e-5
    )
    assert {trace["x"][-1] for trace in running} == {ROWS}
    curves = {
        policy.label: policy.learning_curve
        for policy in small_comparison().policies
        if policy.learning_curve is not None
    }
    lines = [trace for trace in learning_chart(small_comparison(), curves, styles())["data"] if "fill" not in trace]
    assert [trace["y"][-1] for trace in lines] == pytest.approx([curve.value for curve in curves.values()], rel=1e-5)


def test_json_record_has_the_numbers_of_the_page(written: tuple[Path, Path]) -> None:
    record = json.loads(written[1].read_text(encoding="utf-8"))
    assert (record["rows"], record["arm_names"], record["questions"]["train"]) == (ROWS, list(ARMS), 0.5)
    for entry, policy in zip(record["policies"], small_comparison().policies, strict=True):
        for estimate, known in zip(entry["estimates"], policy.evaluation.estimates, strict=True):
            assert estimate["value"] == known.value
            assert estimate["normal"] == [None if math.isnan(end) else end for end in known.normal]
        assert policy.evaluation.headline is not None
        assert entry["headline"]["value"]["value"] == policy.evaluation.headline.value.value
        assert entry["headline"]["gain"]["anytime"]["low"] <= entry["headline"]["gain"]["anytime"]["high"]
        assert sum(entry["support"]["weight_counts"]) == round(
            entry["support"]["rows"] * (1 - entry["support"]["unused_share"])
        )
        assert (entry["while_learning"] is None) == (policy.learning_curve is None)


def test_page_without_common_arms_and_learners(tmp_path: Path) -> None:
    log = small_log()
    by_row = copy_with(log, arms=RowArms(log.features(), log.arms.counts), arm_names=None)
    page, record = write_evaluation_report(
        compare_policies(by_row, {"uniform": UniformTarget()}, ComparisonSettings()), tmp_path, "glb"
    )
    text = page_text(page)
    assert "Arms differ from row to row, so they cannot be listed." in text
    assert "None of these policies learns." in text
    assert json.loads(record.read_text(encoding="utf-8"))["policies"][0]["support"]["arms"] is None
