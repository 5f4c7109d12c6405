"""Series styles: each policy has the same colour, dash, marker and hatch in every chart."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from glbandits.experiments.regret_figure import COLOURS, DASHES
from glbandits.policies import POLICIES

THE_SEVEN = ("sgd-ts", "ucb-glm", "glm-tsl", "supcb-glm", "gloc", "laplace-ts", "epsilon-greedy")
"""Those that the paper compares take the first places, so that their colours all differ."""
PLACES = {name: place for place, name in enumerate(dict.fromkeys((*THE_SEVEN, *POLICIES)))}
PLOTLY_DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}


class SeriesStyle(NamedTuple):
    """A colour and a dash, as Matplotlib writes it."""

    colour: str
    dash: str

    @property
    def plotly_dash(self) -> str:
        """The dash as Plotly writes it."""
        return PLOTLY_DASHES[self.dash]

    def faint(self, opacity: float) -> str:
        """The colour of a band, as CSS."""
        red, green, blue = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},{opacity:g})"


SeriesStyles: TypeAlias = Mapping[str, SeriesStyle]


def styles_for(labels: Iterable[str]) -> SeriesStyles:
    """A style for each label: always the same for a policy of the table, the next free one for any other.

    >>> styles_for(["mine", "sgd-ts"])["sgd-ts"]
    SeriesStyle(colour='#0072B2', dash='-')
    """
    places = dict(PLACES)
    for label in labels:
        places.setdefault(label, len(places))
    return {label: _style(place) for label, place in places.items()}


def styles_in_order(labels: Iterable[str]) -> SeriesStyles:
    """A style for each label, by its place: the first seven have seven colours."""
    return {label: _style(place) for place, label in enumerate(labels)}


def _style(place: int) -> SeriesStyle:
    # 7 colours and 4 dashes have no common factor: 28 places differ, and neighbours differ in both.
    return SeriesStyle(COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)])
