"""Charts of results. A chart shows itself in notebooks and on HTML pages, and is saved as PNG, SVG and PDF."""

import json
import os
import re
import struct
import textwrap
import zlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.atomic_files import write_atomically
from glbandits.common.display.palette import COLOURS, GREY, MORE_COLOURS
from glbandits.common.extras import needed_for

with needed_for("a chart", "lab"):
    import altair as alt
    import vl_convert

Chart: TypeAlias = alt.TopLevelMixin
"""Any chart of Altair."""

DASHES = ((1, 0), (8, 3), (8, 3, 2, 3), (2, 2), (14, 4), (6, 2, 2, 2, 2, 2), (4, 4))
"""Lengths of dashes and gaps in pixels; the first is a solid line."""
SHAPES = ("circle", "square", "triangle-up", "triangle-down", "diamond", "cross", "triangle-left", "triangle-right")
MAX_POINTS = 100
"""Points of a curve: enough for a wide screen."""
MARKERS = 7
"""Markers of a curve."""
WIDTH, HEIGHT = 480, 320
"""Size of a chart in notebooks and in files, in pixels."""
MAX_LEGEND_WIDTH = 640
TITLE_WIDTH = 44
"""Characters in a line of a title: as many as fit on a phone."""
PIXEL_RATIO = 1.5
"""Pixels of a PNG file for each pixel of the chart."""
TICKS = {"tickCount": {"expr": "max(2, min(10, floor(width / 70)))"}, "labelOverlap": True}
"""Ticks of a horizontal axis: fewer on a phone."""


class SeriesStyle(NamedTuple):
    """How one series is drawn. Dash and shape distinguish series in a greyscale print."""

    colour: str
    dash: tuple[int, ...]
    shape: str


SeriesStyles: TypeAlias = Mapping[str, SeriesStyle]


def style_at(index: int) -> SeriesStyle:
    """Return the style of a position. The first 29 have different colours, and the first seven different dashes."""
    colours = COLOURS + MORE_COLOURS
    dash = DASHES[(index + index // len(COLOURS)) % len(DASHES)]
    return SeriesStyle(colours[index % len(colours)], dash, SHAPES[index % len(SHAPES)])


def styles_in_order(labels: Iterable[str]) -> SeriesStyles:
    """Return a style for each label by its position."""
    return {label: style_at(index) for index, label in enumerate(labels)}


class Curve(NamedTuple):
    """A quantity over rounds or rows, and the half-width of its band. NaN draws nothing."""

    label: str
    x: Ints
    mean: Floats
    half_width: Floats


class IntervalRow(NamedTuple):
    """A value with an interval, which is NaN if there is none."""

    group: str
    name: str
    value: float
    low: float
    high: float


def curves_chart(
    curves: Sequence[Curve],
    x: str,
    y: str,
    *,
    styles: SeriesStyles | None = None,
    y_range: tuple[float, float] | None = None,
    reference: float | None = None,
    panel_columns: int | None = None,
) -> alt.LayerChart:
    """Return lines with bands and a few markers. A click on a name of the legend shows its line alone.

    Args:
        curves: the lines.
        x: title of the horizontal axis.
        y: title of the vertical axis.
        styles: of all series of the legend, by their labels; by default in the order of the curves.
        y_range: range of the vertical axis; by default from 0, or from the least value if that is negative.
        reference: draws a dotted horizontal line at this value.
        panel_columns: for a panel of a figure: the columns of the common legend. Panels do not react to the mouse.
    """
    styles = styles or styles_in_order(curve.label for curve in curves)
    colour, dash, shape = series_encodings(styles, panel_columns)
    rows = [row for curve in curves for row in _curve_rows(curve)]
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("x:Q", title=x, scale=alt.Scale(nice=False), axis=alt.Axis(grid=False, **TICKS)), color=colour
    )
    scale = alt.Scale(domain=[*y_range], nice=False, zero=False) if y_range else alt.Scale()
    mean = alt.Y("mean:Q", title=y, scale=scale)
    bands = base.mark_area(clip=True, opacity=0.15).encode(y=alt.Y("low:Q", title=y, scale=scale), y2="high:Q")
    lines = base.mark_line(clip=True, opacity=1).encode(y=mean, strokeDash=dash)
    markers = base.mark_point(clip=True, filled=True, size=45, opacity=1).encode(y=mean, shape=shape)
    layers = [bands, lines, markers.transform_filter("datum.marker")]
    if panel_columns is None:
        layers = _interactive(layers, f"curves_{zlib.crc32(json.dumps(rows).encode())}")
        texts = [alt.Tooltip("series:N"), alt.Tooltip("x:Q", format=",", title=x)]
        texts += [
            alt.Tooltip("mean:Q", format=",.5~g", title="mean"),
            alt.Tooltip("margin:Q", format=".3~g", title="±"),
        ]
        hovered = base.mark_point(clip=True, size=80, opacity=0, aria=False)  # invisible: targets for the mouse
        layers.append(hovered.encode(y=mean, tooltip=texts))
    if reference is not None:
        layers.insert(0, _rule([reference]).encode(y=alt.Y("at:Q", scale=scale)))
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _interactive(layers: Sequence[alt.Chart], name: str) -> list[alt.Chart]:
    """Return the layers such that a click on a name of the legend dims all other series.

    The name of the view depends on its data only. A name from Altair's counter would differ from run to run.
    """
    shown = alt.selection_point("shown", fields=["series"], bind="legend")
    dimmed = [
        layer.encode(opacity=alt.when(shown).then(alt.value(layer.mark.opacity)).otherwise(alt.value(0.05)))
        for layer in layers
    ]
    dimmed[1] = dimmed[1].properties(name=name).add_params(shown)
    return dimmed


def _curve_rows(curve: Curve) -> list[dict[str, Any]]:
    """Return the known points of a curve, at most `MAX_POINTS` and always the last one."""
    known = np.flatnonzero(np.isfinite(curve.mean))
    if len(known) > MAX_POINTS:
        known = known[np.linspace(0, len(known) - 1, MAX_POINTS).round().astype(int)]
    spacing = max(1, len(known) // MARKERS)
    rows = []
    for number, index in enumerate(known):
        mean, margin = curve.mean[index], curve.half_width[index]
        row = {"series": curve.label, "x": int(curve.x[index]), "mean": rounded(mean)}
        row |= {"low": rounded(mean - margin), "high": rounded(mean + margin), "margin": rounded(margin)}
        rows.append(row | ({"marker": 1} if (number + spacing // 2) % spacing == 0 else {}))
    return rows


def intervals_chart(
    rows: Sequence[IntervalRow], x: str, *, references: Sequence[float], colours: Mapping[str, str] | None = None
) -> alt.LayerChart:
    """Return values with horizontal intervals, one below the other.

    Args:
        rows: the values. If their groups have names, each group has a heading.
        x: title of the axis.
        references: draws dotted vertical lines at these values.
        colours: of the groups; by default each row has its own.
    """
    values: list[dict[str, Any]] = []
    for group, members in groupby(rows, key=lambda row: row.group):
        if group:
            values.append({"label": group, "heading": True, "row": len(values)})
        for row in members:
            colour = colours[group] if colours else COLOURS[len(values) % len(COLOURS)]
            value = {"label": row.name, "value": rounded(row.value), "low": rounded(row.low), "high": rounded(row.high)}
            values.append(value | {"colour": colour, "row": len(values)})
    labels, headings = json.dumps([value["label"] for value in values]), [v["row"] for v in values if "heading" in v]
    is_heading = f"indexof({headings}, datum.value) >= 0"
    y = alt.Y("row:O", title=None, scale=alt.Scale(domain=list(range(len(values))))).axis(
        labelExpr=f"{labels}[datum.value]",
        labelFontWeight={"condition": {"test": is_heading, "value": "bold"}, "value": "normal"},
        labelLimit=260,
        grid=False,
    )
    base = alt.Chart(inline(values)).encode(y=y, color=alt.Color("colour:N", scale=None))
    texts = [alt.Tooltip("label:N", title="estimate"), *(alt.Tooltip(name, format=".5~g") for name in _BOUNDS)]
    scale = alt.Scale(zero=False, nice=False, padding=12)
    layers = [
        _rule(references).encode(x=alt.X("at:Q", scale=scale)),
        base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=x, scale=scale, axis=alt.Axis(**TICKS)), x2="high"),
        base.mark_point(filled=True, size=70, opacity=1).encode(x="value:Q", tooltip=texts),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=24 * len(values))


_BOUNDS = ("value:Q", "low:Q", "high:Q")


def series_encodings(styles: SeriesStyles, columns: int | None = None) -> tuple[alt.Color, alt.StrokeDash, alt.Shape]:
    """Return the colour, dash and shape of the field `series`, with one common legend below the chart.

    The legend has as many columns as fit, or the given number.
    """
    longest = max(map(len, styles), default=0)
    fitting = alt.ExprRef(f"max(1, floor(min(containerSize()[0] || {WIDTH}, {MAX_LEGEND_WIDTH}) / {60 + 7 * longest}))")
    legend = alt.Legend(
        orient="bottom", columns=columns or fitting, symbolOpacity=1, symbolSize=90, symbolStrokeWidth=2, labelLimit=400
    )

    def scale(values: Sequence[Any]) -> alt.Scale:
        return alt.Scale(domain=list(styles), range=list(values))

    return (
        alt.Color("series:N", title=None, scale=scale([style.colour for style in styles.values()]), legend=legend),
        alt.StrokeDash("series:N", title=None, scale=scale([style.dash for style in styles.values()]), legend=legend),
        alt.Shape("series:N", title=None, scale=scale([style.shape for style in styles.values()]), legend=legend),
    )


def _rule(values: Sequence[float]) -> alt.Chart:
    return alt.Chart(inline([{"at": rounded(value)} for value in values])).mark_rule(strokeDash=[2, 3], color=GREY)


def titled(chart: Any, title: str, subtitle: str = "", *, wrap: int = TITLE_WIDTH) -> Any:
    """Return the chart, or panel of a figure, with a title in lines of at most `wrap` characters."""
    lines = textwrap.wrap(subtitle, wrap + 8) or alt.Undefined
    return chart.properties(title=alt.TitleParams(textwrap.wrap(title, wrap), subtitle=lines))


def finish(chart: Any, title: str = "", subtitle: str = "", *, wrap: int = TITLE_WIDTH) -> Any:
    """Return the chart with a title and the look of all charts."""
    return (
        (titled(chart, title, subtitle, wrap=wrap) if title else chart)
        .configure(font="system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", background="white", padding=8)
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal", gridColor="#e4e4e4")
        .configure_legend(labelFontSize=12)
        .configure_title(anchor="start", fontSize=14, subtitleFontSize=12, subtitlePadding=4, offset=12)
    )


def save_chart(chart: Any, folder: Path, name: str) -> tuple[Path, Path, Path]:
    """Write a chart as PNG, SVG and PDF into a folder, which is created if it is missing; return the paths.

    Equal charts give equal bytes, except that fonts in the PDF may have another order.
    """
    return save_specification(chart.to_json(indent=None), folder, name)


def save_specification(specification: str, folder: Path, name: str) -> tuple[Path, Path, Path]:
    """Write a chart, given as JSON, as `save_chart` does."""
    folder.mkdir(parents=True, exist_ok=True)
    png, svg, pdf = (folder / f"{name}.{suffix}" for suffix in ("png", "svg", "pdf"))
    write_atomically(png, chart_png(specification))
    write_atomically(svg, chart_svg(specification).encode())
    write_atomically(pdf, vl_convert.vegalite_to_pdf(specification))
    return png, svg, pdf


def chart_png(specification: str) -> bytes:
    """Return a chart, given as JSON, as a PNG image."""
    png: bytes = vl_convert.vegalite_to_png(specification, scale=PIXEL_RATIO)
    return _compressed(png) if png.count(b"IDAT") == 1 else png


def _compressed(png: bytes) -> bytes:
    """Return the image with its pixels compressed again: that makes it several times smaller."""
    start = png.index(b"IDAT")
    (length,) = struct.unpack(">I", png[start - 4 : start])
    end = start + 4 + length
    pixels = b"IDAT" + zlib.compress(zlib.decompress(png[start + 4 : end]))
    chunk = struct.pack(">I", len(pixels) - 4) + pixels + struct.pack(">I", zlib.crc32(pixels))
    return png[: start - 4] + chunk + png[end + 4 :]


def chart_svg(specification: str) -> str:
    """Return a chart, given as JSON, as SVG."""
    svg: str = vl_convert.vegalite_to_svg(specification)
    numbers: dict[str, int] = {}  # of clip paths, which Vega counts over all charts of the process
    return re.sub(r"\bclip(\d+)", lambda found: f"clip{numbers.setdefault(found[1], len(numbers))}", svg)


def chart_html(chart: Any, element_id: str) -> str:
    """Return a chart as HTML for a page with `chart_script`. A chart of one panel is as wide as its column."""
    specification = chart.to_dict()
    if "width" in specification:
        specification["width"] = "container"
    text = json.dumps(specification, separators=(",", ":"), sort_keys=True).replace("<", "\\u003c")
    return f'<div class="chart" id="{element_id}"><script type="application/json">{text}</script></div>'


def chart_script() -> str:
    """Return the JavaScript that draws charts. A page contains it once.

    Its creation takes 3 seconds, so it is stored in the user's folder of caches, by default ~/.cache/glbandits.
    """
    create: Any = vl_convert.javascript_bundle  # its declared type demands an argument that it does not need
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        stored = caches / "glbandits" / f"vega-{version('vl-convert-python')}.js"
        if not stored.exists():
            stored.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(stored, create().encode())
        return stored.read_text(encoding="utf-8")
    except (OSError, RuntimeError):  # there is no home, or it is not writable
        return str(create())


def inline(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Return rows as data of a chart: as text, because Altair copies and checks every value many times otherwise."""
    return alt.InlineData(values=json.dumps(list(rows), separators=(",", ":")), format=alt.JsonDataFormat(type="json"))


def rounded(value: float) -> float | None:
    """Round to six significant digits: more than a screen shows, and a page stays small. None if not finite."""
    return float(f"{value:.6g}") if np.isfinite(value) else None
