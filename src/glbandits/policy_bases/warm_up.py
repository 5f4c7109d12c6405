"""How long to pull at random before the first estimate."""

import math


def warm_up_length(factor: float, horizon: int | None, dim: int) -> int:
    """Tau = floor(C max(log T, d)), as in the paper's experiments; without a horizon floor(C d). At least 1."""
    log_T = math.log(horizon) if horizon is not None else 0.0
    return max(1, math.floor(factor * max(log_T, dim)))
