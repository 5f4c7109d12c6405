"""Styles of policies: each has the same colour, dash, marker and hatch in every report."""

from collections.abc import Iterable

from glbandits.common.display.palette import DARK_COLOURS
from glbandits.common.display.series_styles import DASHES, HATCHES, MARKERS, THICK, SeriesStyle, SeriesStyles, style_at
from glbandits.policies import POLICIES

PAPER_POLICIES = ("sgd-ts", "ucb-glm", "glm-tsl", "supcb-glm", "gloc", "laplace-ts", "epsilon-greedy")
"""The policies that the paper compares. They get the first styles, so that their colours all differ."""
LATER_POLICIES = ("optimist", "online-laplace", "glb-omd")
"""Later policies in the report of the paper. They have dark colours that no other policy has, and thick lines."""


def styles_for(labels: Iterable[str]) -> SeriesStyles:
    """Return styles: fixed ones for policies of the package, the next free one for others.

    >>> styles_for(["mine", "sgd-ts"])["sgd-ts"].colour
    '#0072B2'
    """
    ordered = dict.fromkeys((*PAPER_POLICIES, *POLICIES, *labels))
    others = [label for label in ordered if label not in LATER_POLICIES]
    styles = {label: style_at(index) for index, label in enumerate(others)}
    for index, (label, colour) in enumerate(zip(LATER_POLICIES, DARK_COLOURS, strict=True)):
        styles[label] = SeriesStyle(colour, DASHES[index], MARKERS[7 + index], HATCHES[7 + index], THICK)
    return styles
