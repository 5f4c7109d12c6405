"""Charts of results: they have all values, can be saved, and do not differ from run to run."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glbandits.common.display.charts import (
    MAX_POINTS,
    Curve,
    chart_html,
    curves_chart,
    finish,
    save_chart,
)
from glbandits.evaluation import FixedArms, LoggedData, evaluate
from glbandits.lab import Synthetic, simulate
from tests.common.display.chart_rows import chart_rows

PROBLEM = Synthetic(dim=2, arms=4)


@pytest.fixture
def log() -> LoggedData:
    chosen = np.random.default_rng(1).integers(2, size=600)
    return LoggedData(
        chosen=chosen,
        rewards=chosen.astype(float),
        propensities=np.full(600, 0.5),
        arms=FixedArms(np.eye(2), rows=600),
        arm_names=("a", "b"),
        link="logistic",
    )


def curve_of(points: int) -> Curve:
    rounds = np.arange(1, points + 1)
    return Curve("one </script>", rounds, np.sqrt(rounds), np.full(points, 0.5))


def test_simulation_plots_mean_regret() -> None:
    result = simulate("uniform", PROBLEM, 30, 3, jobs=1)
    rows = chart_rows(result.plot())
    assert [row["x"] for row in rows] == result.rounds.tolist()
    np.testing.assert_allclose([row["mean"] for row in rows], result.mean, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose([row["margin"] for row in rows], result.standard_error, rtol=1e-5, atol=1e-12)


def test_evaluation_plots_every_estimate_and_the_log(log: LoggedData) -> None:
    evaluation = evaluate(log, "b", ["snips", "dr"])
    chart = evaluation.plot()
    rows = chart_rows(chart, "value")
    assert [row["label"] for row in rows] == ["dr, at every n", "dr, at this n only", "snips, a check"]
    values = [evaluation["dr"].value, evaluation["dr"].value, evaluation["snips"].value]
    assert [row["value"] for row in rows] == pytest.approx(values, rel=1e-5)
    assert chart_rows(chart, "at") == [{"at": pytest.approx(evaluation.logged, rel=1e-5)}]


def test_long_curves_are_thinned_and_keep_their_ends() -> None:
    rows = chart_rows(curves_chart([curve_of(12_345)], "round", "regret"))
    assert len(rows) == MAX_POINTS
    assert (rows[0]["x"], rows[-1]["x"]) == (1, 12_345)


def test_equal_charts_give_equal_files(tmp_path: Path) -> None:
    written: list[list[bytes]] = []
    for name in ("first", "second"):
        chart = finish(curves_chart([curve_of(20)], "round", "regret", reference=2.0), "A title", "5 $ <b>")
        paths = save_chart(chart, tmp_path, name)
        png, svg, pdf = (path.read_bytes() for path in paths)
        assert pdf.startswith(b"%PDF")  # its fonts are in any order
        written.append([png, svg, chart_html(chart, "chart").encode()])
    assert written[0] == written[1]
    assert written[0][0].startswith(b"\x89PNG")
    assert b"<svg" in written[0][1]


def test_names_cannot_end_the_script_of_a_page() -> None:
    html = chart_html(finish(curves_chart([curve_of(20)], "round", "regret")), "chart")
    assert html.count("</script") == 1
    specification: Any = json.loads(html.partition('json">')[2].partition("</script")[0])
    assert specification["width"] == "container"
