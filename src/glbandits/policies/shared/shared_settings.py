"""What the settings of several policies share: tuning grids, and the length of the warm-up."""

import math

EXPLORATIONS = (0.01, 0.1, 1.0, 5.0, 10.0)
"""Scales of a bonus or posterior draw, and a of epsilon-greedy: the tuning grid of the SGD-TS paper. Policies that are
not in the paper use it too."""
STEPS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
"""Step sizes, as in the paper."""
FACTORS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
"""C in tau = floor(C max(log T, d))."""


def warm_up_length(factor: float, horizon: int | None, dim: int) -> int:
    """Return tau = floor(C max(log T, d)), or floor(C d) without a horizon; at least 1."""
    log_T = math.log(horizon) if horizon is not None else 0.0
    return max(1, math.floor(factor * max(log_T, dim)))
