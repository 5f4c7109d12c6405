"""Playing from N(theta, scale^2 (R'R)^-1): by a draw of theta, or by a bonus for each arm's own uncertainty."""

import numpy as np

from glbandits.compiled import borrowed, jittable
from glbandits.maths.cholesky import backward, inverse_norm
from glbandits.maths.randomness import add_normals
from glbandits.maths.vectors import add_scaled, dot
from glbandits.records import Floats, Generator


@jittable
def draw_with_precision(theta: Floats, R: Floats, scale: float, rng: Generator) -> Floats:
    """A draw from N(theta, scale^2 (R'R)^-1), without ever forming an inverse. O(d^2)."""
    drawn, noise = theta.copy(), np.zeros(theta.shape[0])
    add_normals(noise, 1.0, rng)
    backward(R, noise)
    add_scaled(drawn, scale, noise)
    return drawn


@jittable
def best_with_bonus(arms: Floats, theta: Floats, R: Floats, scale: float) -> int:
    """The arm with the largest x'theta + scale ||x|| in the inverse of R'R; the first of several. O(K d^2)."""
    arms = borrowed(arms)
    scratch = np.empty(theta.shape[0])
    best, best_score = 0, -np.inf
    for a in range(arms.shape[0]):
        score = dot(arms[a], theta) + scale * inverse_norm(R, arms[a], scratch)
        if score > best_score:
            best, best_score = a, score
    return best
