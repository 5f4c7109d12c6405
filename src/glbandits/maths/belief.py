"""A Gaussian belief about theta, kept as a state: the mean, then R with precision R'R.

One observation moves it by the exact proximal step and adds its curvature: recursive ridge regression for the identity
link, an online Laplace approximation for others. O(d^2) a reward, and no history.
"""

import math

import numpy as np

from glbandits.compiled import borrowed, jittable
from glbandits.maths.cholesky import solve_factorised, update
from glbandits.maths.links import LinkFunctions
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.maths.vectors import add_scaled, copy_to, dot
from glbandits.records import Floats


def first_belief(dim: int, precision: float) -> Floats:
    """Mean zero and this precision in every direction."""
    return np.concatenate([np.zeros(dim), (math.sqrt(precision) * np.eye(dim)).ravel()])


def belief_fits(state: Floats, dim: int) -> bool:
    """Whether an array can be a belief: a factor has a positive diagonal."""
    if state.shape != (dim + dim * dim,) or not np.isfinite(state).all():
        return False
    return bool((np.diagonal(factor_of(state, dim)) > 0.0).all())


@jittable
def mean_of(state: Floats, dim: int) -> Floats:
    """The mean of the belief: a slice of the state."""
    return state[:dim]


@jittable
def factor_of(state: Floats, dim: int) -> Floats:
    """R, where R'R is the precision: a slice of the state."""
    return state[dim : dim + dim * dim].reshape(dim, dim)


@jittable
def observe(state: Floats, x: Floats, reward: float, link: LinkFunctions) -> None:
    """Take in one observation: theta -= (mu(z) - y) H^-1 x at the proximal score z, then H += mu'(z) xx'."""
    dim = x.shape[0]
    here = borrowed(state)
    theta, R = mean_of(here, dim), factor_of(here, dim)
    direction = np.empty(dim)
    copy_to(direction, x)
    solve_factorised(R, direction)
    score, variance = dot(x, theta), dot(x, direction)
    z = proximal_score(score, variance, reward, link)
    add_scaled(theta, proximal_pull(z, score, variance, reward, link), direction)
    update(R, link.slope(z), x)
