"""Checks of the rows of a log. `LogDoubtSums` makes all of them in one pass."""
