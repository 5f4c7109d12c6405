"""The exact step that one observation asks for."""

import numpy as np

from glbandits.compiled import jittable
from glbandits.maths.links import LinkFunctions


@jittable
def proximal_score(score: float, variance: float, reward: float, link: LinkFunctions) -> float:
    """The score z of the theta that minimises (1/2)||theta - theta_t||^2_H + m(x'theta) - reward x'theta.

    With score = x'theta_t and variance = x'H^-1 x, that theta is theta_t - (mu(z) - reward) H^-1 x, and z is the only
    root of z - score + variance (mu(z) - reward). It lies between score and where a full step would lead; Newton finds
    it, and bisection steps in where Newton would leave that interval or crawls.
    """
    end = score - variance * (link.mean(score) - reward)
    low, high = min(score, end), max(score, end)
    z, last_step = score, np.inf
    for _ in range(100):
        value = z - score + variance * (link.mean(z) - reward)
        if value > 0.0:
            high = z
        else:
            low = z
        step = value / (1.0 + variance * link.slope(z))
        next_z = z - step
        if not low <= next_z <= high or abs(step) > 0.5 * last_step:
            next_z = 0.5 * (low + high)
        last_step = abs(next_z - z)
        if abs(next_z - z) <= 1e-14 * (1.0 + abs(z)):
            return next_z
        z = next_z
    return z
