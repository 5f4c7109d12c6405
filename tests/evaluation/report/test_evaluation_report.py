import json
import math
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from glbandits.common.display.charts import SeriesStyles, chart_script, styles_in_order
from glbandits.evaluation.estimators.estimator import Interval
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate
from glbandits.evaluation.report import write_evaluation_report
from glbandits.evaluation.report.charts import (
    arms_chart,
    learning_chart,
    running_chart,
)
from glbandits.evaluation.report.tables import differences_table, verdict_table
from tests.common.display.chart_rows import chart_rows, last_values
from tests.evaluation.small_comparison import ARMS, ROWS, small_comparison

COMMAND = "glb evaluate 'a & b.parquet'"


def styles() -> SeriesStyles:
    return styles_in_order(policy.label for policy in small_comparison().policies)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_evaluation_report(small_comparison(), tmp_path_factory.mktemp("page") / "new", COMMAND)


def page_text(page: Path) -> str:
    """The page without the script that draws charts."""
    text = page.read_text(encoding="utf-8")
    assert text.count(chart_script()) == 1
    return text.replace(chart_script(), "")


def test_page_is_self_contained_and_escapes_names(written: tuple[Path, Path]) -> None:
    text = page_text(written[0])
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", text)
    assert "from tiny &amp; &lt;small&gt;.parquet: 1,024 decisions, 3 arms" in text
    assert "<b>odd" not in text
    charts = ("estimates", "gains", "weights", "arms", "running-snips", "running-dr", "running-dm", "while-learning")
    assert re.findall(r'id="chart-([^"]+)"', text) == list(charts)
    assert text.count("<table>") == 6
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
    uniform = next(policy for policy in record["policies"] if policy["label"] == "uniform")
    assert uniform["headline"]["difference"]["value"] == difference.value
    assert len(differences_table(small_comparison()).rows) == 4


def test_forest_chart_has_every_estimate_once() -> None:
    rows = iter(chart_rows(small_comparison().plot(), "row"))
    assert next(rows)["label"] == "the log itself"
    assert len([next(rows), next(rows)]) == 2  # the rows that learners are evaluated on, and all rows
    for policy in small_comparison().policies:
        assert next(rows)["label"] == policy.label
        headline = policy.evaluation.headline
        assert headline is not None
        assert isinstance(headline.value.fixed_n, Interval)
        assert headline.value.interval is not None
        known = [(headline.value.value, end) for end in (headline.value.interval.high, headline.value.fixed_n.high)]
        known += [(check.value, check.normal.high) for check in policy.evaluation.estimates if check.name != "dr"]
        for value, high in known:
            row = next(rows)
            assert row["value"] == pytest.approx(value, rel=1e-5)
            assert row["high"] == (None if math.isnan(high) else pytest.approx(high, rel=1e-5))
    assert list(rows) == []


def test_table_of_verdicts_has_a_row_for_each_candidate(written: tuple[Path, Path]) -> None:
    comparison = small_comparison()
    table = verdict_table(comparison)
    assert [row[0] for row in table.rows] == [policy.label for policy in comparison.policies]
    kinds = {verdict.candidate: str(verdict.kind) for verdict in comparison.verdicts if not verdict.rivals}
    assert all(row[1].partition(" (")[0] == kinds[row[0]] for row in table.rows if row[0] in kinds)
    assert table.to_html() in written[0].read_text(encoding="utf-8")
    named = replace(comparison, reward="clicked", other_rewards=(replace(comparison, reward="sold"),))
    assert verdict_table(named).columns == ("policy", "clicked", "sold")
    assert {len(row) for row in verdict_table(named).rows} == {3}


def test_frame_has_every_estimate_once() -> None:
    comparison = small_comparison()
    frame = comparison.to_frame()
    assert frame.columns == ["policy", "estimate", "value", "standard_error", "low", "high"]
    assert frame.select("policy", "estimate").is_unique().all()
    for policy in comparison.policies:
        own = frame.filter(pl.col("policy") == policy.label).drop("policy")
        assert own.equals(policy.evaluation.to_frame())
        assert own["value"][: len(policy.evaluation.rows())].to_list() == [
            row.value for row in policy.evaluation.rows()
        ]


def test_estimates_without_an_interval_are_marked() -> None:
    comparison = small_comparison()
    policy = comparison.policies[0]
    headline = policy.evaluation.headline
    assert headline is not None
    unknown = replace(headline, value=replace(headline.value, anytime=None, no_anytime="needs a reward range"))
    evaluation = replace(policy.evaluation, headline=unknown)
    chart = replace(comparison, policies=(replace(policy, evaluation=evaluation),)).plot()
    (row,) = [row for row in chart_rows(chart, "row") if row["label"] == "dr, at every n: no interval"]
    assert row["low"] is None


def test_arms_chart_has_shares() -> None:
    supports: Any = {
        policy.label: policy.evaluation.support.arms
        for policy in small_comparison().policies
        if policy.label in ("arm:new", "uniform")
    }
    shares: dict[str, list[float]] = {}
    for row in chart_rows(arms_chart(small_comparison(), supports, styles())):
        shares.setdefault(row["series"], []).append(row["share"])
    assert sum(shares["the log"]) == pytest.approx(1.0)
    assert shares["arm:new"] == [0, 1, 0]
    assert shares["uniform"] == pytest.approx([1 / 3] * 3, rel=1e-5)


def test_running_curves_end_at_the_estimates() -> None:
    running = running_chart(small_comparison(), "dr", styles())
    ends = {policy.label: policy.evaluation["dr"].value for policy in small_comparison().policies}
    ends["the log itself"] = small_comparison().policies[0].evaluation.logged
    assert last_values(running) == pytest.approx(ends, rel=1e-5)
    assert max(row["x"] for row in chart_rows(running)) == ROWS
    curves = {
        policy.label: policy.learning_curve
        for policy in small_comparison().policies
        if policy.learning_curve is not None
    }
    ends = last_values(learning_chart(small_comparison(), curves, styles()))
    assert ends == pytest.approx({label: curve.value for label, curve in curves.items()}, rel=1e-5)


def test_json_record_has_the_numbers_of_the_page(written: tuple[Path, Path]) -> None:
    record = json.loads(written[1].read_text(encoding="utf-8"))
    assert (record["rows"], record["arm_names"], record["settings"]["train"]) == (ROWS, list(ARMS), 0.5)
    for entry, policy in zip(record["policies"], small_comparison().policies, strict=True):
        for estimate, known in zip(entry["estimates"], policy.evaluation.estimates, strict=True):
            assert estimate["value"] == known.value
            assert estimate["normal"] == [None if math.isnan(end) else end for end in known.normal]
        assert policy.evaluation.headline is not None
        assert entry["headline"]["value"]["value"] == policy.evaluation.headline.value.value
        assert entry["headline"]["gain"]["anytime"]["low"] <= entry["headline"]["gain"]["anytime"]["high"]
        assert sum(entry["support"]["weight_counts"]) == round(
            entry["support"]["rows"] * (1 - entry["support"]["unused"])
        )
        assert (entry["learning_curve"] is None) == (policy.learning_curve is None)
