from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.text import Annotation

from glbandits.common.display.series_styles import styles_in_order
from glbandits.lab.paper.cost import DIMENSIONS, HORIZONS, POLICY_NAMES, CostTable
from glbandits.lab.report.cost_figure import cost_figure, separate
from glbandits.lab.report.figures import save
from tests.lab.paper.sample_cost_table import TABLE

STYLES = styles_in_order(POLICY_NAMES)


def labels_of(axes: Axes) -> list[Annotation]:
    return [text for text in axes.texts if isinstance(text, Annotation)]


def test_figure_labels_each_line_with_its_exponent() -> None:
    figure = cost_figure(TABLE, STYLES)
    panels = figure.axes
    assert len(panels) == 4
    assert {label.get_text() for label in labels_of(panels[0])} == {
        "sgd-ts: $T^{1.00}$",
        "ucb-glm: $T^{1.90}$",
        "glm-tsl: $T^{1.90}$",
        "optimist: $T^{1.00}$",
    }
    assert panels[0].get_ylim() == panels[2].get_ylim()
    assert panels[1].get_ylim() == panels[3].get_ylim()
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words[:4] == list(POLICY_NAMES)
    assert "would exceed 16 s" in words[4]


def test_only_curves_that_ended_early_are_extrapolated() -> None:
    panels = cost_figure(TABLE, STYLES).axes
    thin = [line for line in panels[0].lines if line.get_linewidth() == 1.2]
    assert len(thin) == 2
    assert all(line.get_xdata()[-1] == HORIZONS[-1] for line in thin)  # type: ignore[index]
    whole = CostTable(TABLE.curves[:1], HORIZONS, DIMENSIONS, 16.0, quick=True)
    figure = cost_figure(whole, STYLES)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["sgd-ts"]
    assert len(figure.axes[0].lines) == 1


def test_labels_do_not_overlap_and_stay_inside_the_figure(tmp_path: Path) -> None:
    figure = cost_figure(TABLE, STYLES)
    png, svg = save(figure, tmp_path, "cost")
    assert png.stat().st_size > 10_000
    assert svg.stat().st_size > 10_000
    for axes in figure.axes:
        boxes = [label.get_window_extent() for label in labels_of(axes)]
        assert len(boxes) == 4
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
        assert all(box.x1 <= figure.bbox.x1 for box in boxes)


def test_close_labels_are_moved_apart_and_keep_their_order() -> None:
    assert separate([0.9, 0.2], 0.1) == [0.9, 0.2]
    assert separate([0.50, 0.52, 0.54], 0.1) == pytest.approx([0.42, 0.52, 0.62])
