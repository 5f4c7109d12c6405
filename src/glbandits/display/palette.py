"""The colours of all charts of the package: static figures, HTML pages and the dashboard."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito, which colour-blind readers can distinguish."""
DARK_COLOURS = ("#7A0019", "#4B0082", "#5D4A00")
"""More colours for thick lines, all darker than `COLOURS`."""
GREY = "#666666"
"""The colour of the logging policy, and of reference lines."""
