"""Proximal steps: minimise the loss of one observation plus the distance to theta, along one direction."""

import numpy as np
from numba import types

from glbandits.compilation.numba_support import jittable
from glbandits.compilation.shared_functions import shared
from glbandits.maths.links import LinkFunctions

FARTHEST = 1e300
"""The largest absolute score. A longer gradient step would overflow."""


@shared(types.float64(types.float64, types.float64, types.float64))
def proximal_score(score: float, variance: float, reward: float, link: LinkFunctions) -> float:
    """The score z = x'theta after a proximal step.

    The step minimises (1/2)||theta - theta_t||^2_H + m(x'theta) - reward x'theta. With score = x'theta_t and
    variance = x'H^-1 x, z is the only root of z - score + variance (mu(z) - reward). The root is between the score and
    the end of a full gradient step. If that interval is long, doubling steps find a shorter one. Newton's method then
    finds the root. Bisection replaces Newton steps that leave the interval or are slow.
    """
    far = min(max(score - variance * (link.mean(score) - reward), -FARTHEST), FARTHEST)
    reach, end = 1.0, far
    while abs(far - score) > reach:
        end = max(score - reach, far) if far < score else min(score + reach, far)
        value = end - score + variance * (link.mean(end) - reward)
        if (value <= 0.0) == (far < score):
            break
        reach, end = 2.0 * reach, far
    low, high = min(score, end), max(score, end)
    z, last_step = score, np.inf
    for _ in range(200):
        value = z - score + variance * (link.mean(z) - reward)
        if value > 0.0:
            high = z
        else:
            low = z
        step = value / (1.0 + variance * link.slope(z))
        next_z, precise = z - step, 1e-8  # the error after a Newton step is about its square
        if not low <= next_z <= high or abs(step) > 0.5 * last_step:
            next_z, precise = 0.5 * (low + high), 1e-14
        last_step = abs(next_z - z)
        z = next_z
        if last_step <= precise * (1.0 + abs(z)):
            break
    return z


@jittable
def proximal_pull(z: float, score: float, variance: float, reward: float, link: LinkFunctions) -> float:
    """The length of the step of theta along H^-1 x to the score z.

    It is reward - mu(z), or (z - score) / variance. Both are equal at the root. The second form is more precise if the
    reward is nearly fitted, and the first form if the variance is small.
    """
    return (z - score) / variance if variance * link.slope(z) > 1.0 else reward - link.mean(z)
