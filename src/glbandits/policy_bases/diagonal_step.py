"""The exact step of one reward under an independent normal posterior N(m_i, 1/q_i) for each coefficient."""

from glbandits.maths.links import LinkFunctions
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.maths.vectors import dot
from glbandits.numba_support import jittable
from glbandits.records import Floats


@jittable
def take_diagonal_step(m: Floats, q: Floats, x: Floats, reward: float, link: LinkFunctions) -> None:
    """Move the means m, and add the curvature of the reward to the precisions q, in place."""
    dim, variance = x.shape[0], 0.0
    for i in range(dim):
        variance += x[i] * x[i] / q[i]
    score = dot(x, m)
    z = proximal_score(score, variance, reward, link)
    pull, curvature = proximal_pull(z, score, variance, reward, link), link.slope(z)
    for i in range(dim):
        m[i] += pull * x[i] / q[i]
        q[i] += curvature * x[i] * x[i]
