"""Update of a diagonal Gaussian posterior, N(m_i, 1/q_i) for coefficient i, by one reward."""

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import jittable
from glbandits.maths.links import LinkFunctions
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.maths.vectors import dot


@jittable
def take_diagonal_step(m: Floats, q: Floats, x: Floats, reward: float, link: LinkFunctions) -> None:
    """Update the means m and the precisions q in place.

    m moves to the w that minimises M(x'w) - reward x'w + (1/2) sum_i q_i (w_i - m_i)^2, where M is the antiderivative
    of the link's mean. Then q_i += mu'(x'm) x_i^2 at the new m.
    """
    dim, variance = x.shape[0], 0.0
    for i in range(dim):
        variance += x[i] * x[i] / q[i]
    score = dot(x, m)
    z = proximal_score(score, variance, reward, link)
    pull, curvature = proximal_pull(z, score, variance, reward, link), link.slope(z)
    for i in range(dim):
        m[i] += pull * x[i] / q[i]
        q[i] += curvature * x[i] * x[i]
