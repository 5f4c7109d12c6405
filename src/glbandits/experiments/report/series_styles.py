"""Series styles: each policy has the same colour, dash, marker and hatch in every chart."""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from glbandits.experiments.regret_figure import COLOURS
from glbandits.policies import POLICIES

PAPER_POLICIES = ("sgd-ts", "ucb-glm", "glm-tsl", "supcb-glm", "gloc", "laplace-ts", "epsilon-greedy")
"""The policies that the paper compares come first, so that their colours all differ."""
LATER_POLICIES = ("optimist", "online-laplace", "glb-omd")
"""The next three have dark colours of their own, and thick lines."""
LATER_COLOURS = ("#7A0019", "#4B0082", "#5D4A00")
DASHES = ((), (6, 2), (6, 2, 1.5, 2), (1.5, 1.5), (10, 3), (4, 1.5, 1.5, 1.5, 1.5, 1.5), (3, 3))
"""Lengths of dashes and gaps, in units of a thin line; no two of the paper's policies share one."""
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
    """How one series is drawn. Dash, marker and hatch tell series apart when printed in grey."""

    colour: str
    dash: tuple[float, ...]
    """Lengths of dashes and gaps; empty for a solid line."""
    marker: str
    """As Matplotlib names it."""
    hatch: str
    """The pattern of a bar, as Matplotlib names it."""
    width: float = THIN

    @property
    def matplotlib_dash(self) -> Literal["-"] | tuple[float, tuple[float, ...]]:
        """The dash as Matplotlib writes it."""
        return (0.0, self.dash) if self.dash else "-"

    @property
    def plotly_dash(self) -> str:
        """The dash as Plotly writes it."""
        return ",".join(f"{1.6 * length:g}px" for length in self.dash) or "solid"

    @property
    def plotly_marker(self) -> str:
        """The marker as Plotly names it."""
        return PLOTLY_MARKERS[self.marker]

    @property
    def plotly_hatch(self) -> str:
        """The pattern of a bar as Plotly names it."""
        return PLOTLY_HATCHES[HATCHES.index(self.hatch)]

    def faint(self, opacity: float) -> str:
        """The colour of a band, as CSS."""
        red, green, blue = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},{opacity:g})"


SeriesStyles: TypeAlias = Mapping[str, SeriesStyle]


def styles_for(labels: Iterable[str]) -> SeriesStyles:
    """A style for each label: always the same for our own policies, the next free one for any other.

    >>> styles_for(["mine", "sgd-ts"])["sgd-ts"].colour
    '#0072B2'
    """
    ordered = dict.fromkeys((*PAPER_POLICIES, *POLICIES, *labels))
    others = [label for label in ordered if label not in LATER_POLICIES]
    styles = {label: _style(index) for index, label in enumerate(others)}
    for index, (label, colour) in enumerate(zip(LATER_POLICIES, LATER_COLOURS, strict=True)):
        styles[label] = SeriesStyle(colour, DASHES[index], MARKERS[7 + index], HATCHES[7 + index], THICK)
    return styles


def styles_in_order(labels: Iterable[str]) -> SeriesStyles:
    """A style for each label by its position: the first seven have seven colours."""
    return {label: _style(index) for index, label in enumerate(labels)}


def _style(index: int) -> SeriesStyle:
    # 7 dashes and 10 markers have no common factor: 70 styles differ, and the first seven differ in every respect.
    return SeriesStyle(
        COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)], MARKERS[index % 10], HATCHES[index % 10]
    )
