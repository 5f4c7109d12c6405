"""One step of a Gaussian posterior of theta, given by its mean and by R with precision R'R.

One observation moves the mean by the exact proximal step and adds its curvature: recursive ridge regression for the
identity link, an online Laplace approximation for others. O(d^2) a reward, and no history.
"""

import numpy as np

from glbandits.maths.cholesky import solve_factorised, update
from glbandits.maths.links import LinkFunctions
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.maths.vectors import add_scaled, copy_to, dot
from glbandits.numba_support import jittable
from glbandits.records import Floats


@jittable
def observe(theta: Floats, R: Floats, x: Floats, reward: float, link: LinkFunctions) -> None:
    """Learn one observation: theta -= (mu(z) - y) H^-1 x at the proximal score z, then H += mu'(z) xx'."""
    direction = np.empty(x.shape[0])
    copy_to(direction, x)
    solve_factorised(R, direction)
    score, variance = dot(x, theta), dot(x, direction)
    z = proximal_score(score, variance, reward, link)
    add_scaled(theta, proximal_pull(z, score, variance, reward, link), direction)
    update(R, link.slope(z), x)
