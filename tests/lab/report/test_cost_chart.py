from glbandits.common.display.charts import styles_in_order
from glbandits.lab.paper.cost import DIMENSIONS, HORIZONS, POLICY_NAMES, CostTable
from glbandits.lab.report.cost_chart import cost_figure
from tests.common.display.chart_rows import chart_rows
from tests.lab.paper.sample_cost_table import TABLE

STYLES = styles_in_order(POLICY_NAMES)


def test_figure_has_every_measured_point() -> None:
    seconds = {point.seconds for curve in TABLE.curves for point in curve.points}
    drawn = {row["value"] for row in chart_rows(cost_figure(TABLE, STYLES))}
    assert {float(f"{each:.6g}") for each in seconds} <= drawn


def test_only_curves_that_ended_early_are_extrapolated() -> None:
    ends = [row for row in chart_rows(cost_figure(TABLE, STYLES)) if row["size"] == HORIZONS[-1]]
    assert {row["series"] for row in ends} == set(POLICY_NAMES)
    text = cost_figure(TABLE, STYLES).to_json()
    assert "would exceed 16 s" in text
    whole = CostTable(TABLE.curves[:1], HORIZONS, DIMENSIONS, 16.0, quick=True)
    assert "would exceed" not in cost_figure(whole, STYLES).to_json()
