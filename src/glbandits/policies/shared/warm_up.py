"""The length of the warm-up: random pulls before the first estimate."""

import math


def warm_up_length(factor: float, horizon: int | None, dim: int) -> int:
    """Return tau = floor(C max(log T, d)), or floor(C d) without a horizon; at least 1."""
    log_T = math.log(horizon) if horizon is not None else 0.0
    return max(1, math.floor(factor * max(log_T, dim)))
