"""Tuning grids of the SGD-TS paper.

Policies that are not in the paper use its five values of the exploration.
"""

EXPLORATIONS = (0.01, 0.1, 1.0, 5.0, 10.0)
"""Scales of a bonus or posterior draw, and a of epsilon-greedy."""
STEPS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
"""Step sizes."""
FACTORS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
"""C in tau = floor(C max(log T, d))."""
