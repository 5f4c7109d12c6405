"""The experiments of the SGD-TS paper, its runtime table, its cost and its theory."""
