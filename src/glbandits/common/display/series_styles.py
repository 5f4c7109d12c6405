"""Styles of series: a policy has the same colour, dash, marker and hatch everywhere."""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from glbandits.common.display.palette import COLOURS

DASHES = ((), (6, 2), (6, 2, 1.5, 2), (1.5, 1.5), (10, 3), (4, 1.5, 1.5, 1.5, 1.5, 1.5), (3, 3))
"""Lengths of dashes and gaps, in widths of a thin line. No two of the paper's policies share a pattern."""
MARKERS = ("o", "s", "^", "v", "D", "P", "X", "*", "p", "h")
PLOTLY_MARKERS = {
    "o": "circle",
    "s": "square",
    "^": "triangle-up",
    "v": "triangle-down",
    "D": "diamond",
    "P": "cross",
    "X": "x",
    "*": "star",
    "p": "pentagon",
    "h": "hexagon",
}
HATCHES = ("", "///", "\\\\\\", "...", "xxx", "---", "|||", "++", "oo", "**")
PLOTLY_HATCHES = ("", "/", "\\", ".", "x", "-", "|", "+", "/", "\\")
THIN, THICK = 1.6, 2.4


class SeriesStyle(NamedTuple):
    """How one series is drawn. Dash, marker and hatch distinguish series in a greyscale print."""

    colour: str
    dash: tuple[float, ...]
    """Lengths of dashes and gaps; empty for a solid line."""
    marker: str
    """Name in Matplotlib."""
    hatch: str
    """Pattern of a bar; name in Matplotlib."""
    width: float = THIN

    @property
    def matplotlib_dash(self) -> Literal["-"] | tuple[float, tuple[float, ...]]:
        """The dash in Matplotlib's notation."""
        return (0.0, self.dash) if self.dash else "-"

    @property
    def plotly_dash(self) -> str:
        """The dash in Plotly's notation."""
        return ",".join(f"{1.6 * length:g}px" for length in self.dash) or "solid"

    @property
    def plotly_marker(self) -> str:
        """The name of the marker in Plotly."""
        return PLOTLY_MARKERS[self.marker]

    @property
    def plotly_hatch(self) -> str:
        """The name of the bar pattern in Plotly."""
        return PLOTLY_HATCHES[HATCHES.index(self.hatch)]

    def translucent_colour(self, opacity: float) -> str:
        """Return the colour with an opacity, as CSS."""
        red, green, blue = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},{opacity:g})"


SeriesStyles: TypeAlias = Mapping[str, SeriesStyle]


def styles_in_order(labels: Iterable[str]) -> SeriesStyles:
    """Return a style for each label by its position. The first seven have different colours."""
    return {label: style_at(index) for index, label in enumerate(labels)}


def style_at(index: int) -> SeriesStyle:
    """Return the style of a position."""
    # The first seven differ in every respect. Each further seven have the same colours with other dashes and markers.
    dash = DASHES[(index + index // len(COLOURS)) % len(DASHES)]
    return SeriesStyle(COLOURS[index % len(COLOURS)], dash, MARKERS[index % 10], HATCHES[index % 10])
