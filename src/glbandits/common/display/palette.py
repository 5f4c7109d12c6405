"""The colours of all charts of the package: static figures, HTML pages and the dashboard."""

BLUE, VERMILLION, GREEN, PINK, ORANGE, SKY_BLUE, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)
"""The palette of Okabe and Ito without yellow. Colour-blind readers can distinguish them."""
COLOURS = (BLUE, VERMILLION, GREEN, PINK, ORANGE, SKY_BLUE, BLACK)
"""Colours of series on a white background, in this order."""
DARK_COLOURS = ("#7A0019", "#4B0082", "#5D4A00")
"""More colours for thick lines, all darker than `COLOURS`."""
MORE_COLOURS = (
    "#00C600", "#0000FF", "#FF1CFF", "#FF0071", "#0071FF", "#8EAA38", "#E38E71", "#001C55", "#FF55C6", "#FF001C",
    "#005500", "#C671FF", "#710055", "#8E1CE3", "#7155AA", "#1C381C", "#AA00AA", "#55AAAA", "#1C8E00", "#AAAA71",
    "#FF718E", "#AA0000",
)  # fmt: skip
"""Colours of series after the first: each is the visible one that is farthest, in CIELAB, from all before it and from
`DARK_COLOURS` and `GREY`. Their least distance is 28, about twelve times what the eye can distinguish."""
GREY = "#666666"
"""The colour of the logging policy, and of reference lines."""
LIGHT_GREY = "#C8C8C8"
"""The colour of series in the background."""
GOOD, BAD = ("#007253", "#26AD88"), ("#A64900", "#E08640")
"""Shades of `GREEN` and `VERMILLION` for text on a light and on a dark page, with a contrast of at least 4.5."""
