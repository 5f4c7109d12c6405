"""The colours of all charts of the package: static figures, HTML pages and the dashboard."""

BLUE, VERMILLION, GREEN, PINK, ORANGE, SKY_BLUE, BLACK, YELLOW = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#F0E442",
)
"""The palette of Okabe and Ito, which colour-blind readers can distinguish."""
COLOURS = (BLUE, VERMILLION, GREEN, PINK, ORANGE, SKY_BLUE, BLACK)
"""Colours of series on a white background, in this order."""
COLOURS_ON_DARK = (SKY_BLUE, VERMILLION, GREEN, PINK, ORANGE, BLUE, YELLOW)
"""Colours of the same series on a dark background."""
DARK_COLOURS = ("#7A0019", "#4B0082", "#5D4A00")
"""More colours for thick lines, all darker than `COLOURS`."""
GREY = "#666666"
"""The colour of the logging policy, and of reference lines."""
LIGHT_GREY = "#C8C8C8"
"""The colour of series in the background."""
GOOD, BAD = ("#007253", "#26AD88"), ("#A64900", "#E08640")
"""Shades of `GREEN` and `VERMILLION` for text on a light and on a dark page, with a contrast of at least 4.5."""
