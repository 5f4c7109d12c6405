"""A Gaussian posterior N(theta, scale^2 (R'R)^-1): updates, draws and bonuses.

The posterior is given by its mean theta and by a Cholesky factor R of its precision. An observation moves the mean by
the exact proximal step and adds its curvature to the precision. This is recursive ridge regression for the identity
link, and an online Laplace approximation for other links. It costs O(d^2) per reward and needs no history.
"""

import numpy as np
from numba import types
from scipy.linalg import solve_triangular

from glbandits.common.arrays import Floats, Generator
from glbandits.compilation.numba_support import READ_MATRIX, READ_VECTOR, VECTOR, jittable
from glbandits.compilation.shared_functions import shared
from glbandits.maths.cholesky import (
    backward,
    drop_overflow,
    forward,
    rank_one_update,
    solve_for_variance,
)
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import add_normals
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.maths.vectors import add_scaled, dot, norm


@jittable
def observe(theta: Floats, R: Floats, x: Floats, reward: float, link: LinkFunctions) -> None:
    """Learn one observation, in place.

    With the proximal score z: theta -= (mu(z) - y) H^-1 x, then H += mu'(z) xx', where H = R'R.
    """
    direction = np.empty(x.shape[0])
    variance, score = solve_for_variance(R, x, direction), dot(x, theta)
    z = proximal_score(score, variance, reward, link)
    add_scaled(theta, proximal_pull(z, score, variance, reward, link), direction)
    rank_one_update(R, link.slope(z), x)


def inverse_norms(R: Floats, arms: Floats) -> Floats:
    """Return x'(R'R)^-1 x for each row of arms. Not for compiled code."""
    return np.asarray(np.square(solve_triangular(R, arms.T, trans="T")).sum(axis=0))


@jittable
def draw_with_precision(theta: Floats, R: Floats, scale: float, rng: Generator) -> Floats:
    """Draw from N(theta, scale^2 (R'R)^-1), without an inverse. O(d^2)."""
    drawn, noise = theta.copy(), np.zeros(theta.shape[0])
    add_normals(noise, 1.0, rng)
    backward(R, noise)
    drop_overflow(noise)
    add_scaled(drawn, scale, noise)
    return drawn


@jittable
def score_and_norm(arms: Floats, a: int, theta: Floats, R: Floats, scratch: Floats) -> tuple[float, float]:
    """The score x'theta of arm a, and the norm of x in the inverse of R'R.

    Overwrites scratch. O(d^2). Reads the row by index, because a slice of arms in a loop takes as long as the sums.
    """
    for i in range(scratch.shape[0]):
        scratch[i] = arms[a, i]
    score = dot(scratch, theta)
    forward(R, scratch)
    return score, norm(scratch)


@shared(types.void(READ_MATRIX, READ_VECTOR, READ_MATRIX, types.float64, VECTOR))
def score_with_bonus(arms: Floats, theta: Floats, R: Floats, scale: float, out: Floats) -> None:
    """Write x'theta + scale ||x|| for each arm, in the norm of the inverse of R'R. O(K d^2)."""
    scratch = np.empty(theta.shape[0])
    for a in range(arms.shape[0]):
        mean, length = score_and_norm(arms, a, theta, R, scratch)
        out[a] = mean + scale * length


@jittable
def score_lines(arms: Floats, theta: Floats, R: Floats, scale: float, levels: Floats, slopes: Floats) -> None:
    """Write the level x'theta and the slope scale ||x|| of each arm. O(K d^2).

    The score of the arm is level + Z slope. The norm is that of the inverse of R'R.
    """
    scratch = np.empty(theta.shape[0])
    for a in range(arms.shape[0]):
        levels[a], length = score_and_norm(arms, a, theta, R, scratch)
        slopes[a] = scale * length
